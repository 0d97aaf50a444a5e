"""A node's state (breaker, limits, quota, latency, lag), which nodes are eligible, and what weight they deserve."""
