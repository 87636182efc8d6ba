"""Sign-in for the embedded stack: the routes of Supabase Auth, over auth.users of our own.

doing = service.Service(stack.url, keys.load(settings), site_url=settings.site_url)
app.include_router(routes.router(doing))
"""
