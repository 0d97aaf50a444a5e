"""What a call means: its rule, its block, its cache keys and how it may be forwarded, derived once."""
