"""Workers, and what they read."""
