"""Page layout: the reading order of lines."""
