"""Alerts: what only processes can measure, and telling people by e-mail, webhook and Slack.

When something fires, and that it is told once, is decided by the database: evaluate_alerts().
"""
