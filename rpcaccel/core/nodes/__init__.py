"""The state of a node: health, heads, limits, latency, and which nodes may be asked for a call."""
