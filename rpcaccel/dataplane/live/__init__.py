"""Subscriptions of clients: sessions, topics, and the follower that takes new blocks and logs to them."""
