"""Heads and forks: the served head of a network, its branches and its block time."""
