"""Line-level OCR: find, cut out and recognise single lines."""
