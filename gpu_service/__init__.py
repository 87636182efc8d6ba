"""The container service that reads PDFs on a GPU."""
