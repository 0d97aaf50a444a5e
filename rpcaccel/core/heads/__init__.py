"""Heads and forks: the served head, fork choice, block times, node identity, and recently sent transactions."""
