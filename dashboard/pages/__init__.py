"""Pages: one module per menu entry, with a PAGE, a router and a template."""
