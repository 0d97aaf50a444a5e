"""Subscriptions: what clients subscribe to, the branch that is followed for them, and what they are sent."""
