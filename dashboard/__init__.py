"""The dashboard: pages for people, rendered here, seen through row level security."""
