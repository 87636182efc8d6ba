"""HTTP code shared by all functions."""
