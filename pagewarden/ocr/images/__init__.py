"""Image files, pixels, orientation and skew."""
