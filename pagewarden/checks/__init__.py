"""Localization checks: whether pictures have the expected text in the expected language.

`rules` checks one page without I/O; the other modules receive, store and report check jobs.
"""
