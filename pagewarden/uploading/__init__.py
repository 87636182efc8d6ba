"""What `pagewarden upload` does: files out, their text back."""
