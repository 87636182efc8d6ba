"""Sample documents, drawn when they are needed: what `pagewarden demo` uploads."""
