"""The embedded stack: Postgres, its Supabase look and its migrations, on one machine."""
