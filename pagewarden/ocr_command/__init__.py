"""What `pagewarden ocr` does: files in, text out; no server, no database."""
