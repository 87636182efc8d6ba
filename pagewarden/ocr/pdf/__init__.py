"""PDF files as documents."""
