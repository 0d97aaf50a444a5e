"""The HTTP API of the admin side, and the page."""
