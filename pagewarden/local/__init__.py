"""The embedded stack: Postgres with Supabase's roles and schemas, on one machine.

Begin with `stack`, which opens the database. Below it are `server` (shared by all programs of a
home), `cluster` (its data folder) and `account` (its system account); `bootstrap` and `migrations`
prepare the database. `scheduler` replaces pg_cron, and `supervisor` runs programs side by side.
"""
