"""Authentication: keys of the installation, verified tokens, and sign-in.

`tokens` verifies callers, `keys` has the keys of this installation. Users sign in by `embedded` on
an embedded stack, and by `hosted` with a Supabase project. `embedded/login_limits` limits failed
logins.
"""
