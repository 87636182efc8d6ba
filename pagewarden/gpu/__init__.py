"""The GPU service as its clients see it: what passes over the wire, and how to call it."""
