"""Serverless functions, one module each; app.py mounts them all."""
