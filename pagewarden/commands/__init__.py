"""Commands of pagewarden, one module each; cli.py has the list of them."""
