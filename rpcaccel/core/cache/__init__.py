"""What is kept: entries, the memory tier with its eviction, and whether and how long an answer is kept."""
