"""The dashboard: server-rendered pages; row level security limits what users see."""
