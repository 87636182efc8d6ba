"""Webhooks to callback URLs, and alerts by e-mail, webhook and Slack.

`webhooks` checks callback URLs, signs and delivers; `alerts` also measures what the database cannot
see. Which alert fires, and that each is sent once, is decided in the database (evaluate_alerts).
"""
