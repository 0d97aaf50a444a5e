"""Alerts: what needs attention on the page, told to webhooks; which news is due, and how it gets there."""
