"""OCR: images and PDFs in, text with boxes and confidence out. Independent of the database."""
