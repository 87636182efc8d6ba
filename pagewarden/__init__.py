"""Every page read, none lost: documents in, their text out, nothing lost on the way."""
