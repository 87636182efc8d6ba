"""Logs, metrics and traces of every process.

Begin with `logs.configure`, `metrics.current` and `tracing.span`. `redaction` removes secrets from
logs and traces. Nothing here knows the main settings or the database.
"""
