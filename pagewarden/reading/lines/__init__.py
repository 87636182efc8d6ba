"""Lines of a page: found, cut out, and read one by one."""
