"""The GPU service: PDFs in, one line of JSON for each page out; see docs/gpu-service.md."""
