"""What a call means: its rule, block, cache keys and whether it may be repeated, derived once from method and
params."""
