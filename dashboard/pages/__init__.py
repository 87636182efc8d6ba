"""The pages: each is one module with a PAGE for the menu and a router, and one template."""
