"""The state of a node (breaker, limits, quota, latency, lag), and which nodes are eligible for a call."""
