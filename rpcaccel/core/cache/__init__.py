"""What is kept: entries, the memory tier, its eviction, and what may be kept for how long."""
