"""Check rules: pure functions over recognised text, without database, network or files."""
