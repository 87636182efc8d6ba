"""Volumes: books of page images that go through four stages; see docs/how-to/volumes.md."""
