"""HTTP building blocks of functions, dashboard and auth."""
