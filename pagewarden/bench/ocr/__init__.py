"""pagewarden bench ocr: our engines, RapidOCR, Tesseract and OCRmyPDF on the same pages."""
