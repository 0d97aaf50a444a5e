"""A node's state (breaker, limits, quota, latency, lag), and which nodes are eligible."""
