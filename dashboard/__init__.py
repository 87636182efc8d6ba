"""The review app for the people who read what machines could not."""
