"""Simulated nodes, and the demo with them."""
