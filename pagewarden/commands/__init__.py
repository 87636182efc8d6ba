"""Commands of pagewarden, one module each; cli.py mounts them."""
