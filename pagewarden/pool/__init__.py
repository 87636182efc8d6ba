"""One pool of workers that serve any lane, and follow the work from lane to lane."""
