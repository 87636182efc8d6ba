"""Embedded sign-in: the routes of Supabase Auth on an auth schema of our own.

Begin with `service.AuthService`; `routes.make_router` serves it below /auth/v1. `login_limits` has
the limits of failed logins, `store` the SQL.
"""
