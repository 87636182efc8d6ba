"""Pages that were read, in the formats other programs understand."""
