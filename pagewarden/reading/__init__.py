"""Images and PDFs in, text with boxes and confidence out. Knows nothing of the database."""
