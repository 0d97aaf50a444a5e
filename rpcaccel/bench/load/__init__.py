"""The load generator: its HTTP client, the calls it makes, when it makes them, and how it judges the answers."""
