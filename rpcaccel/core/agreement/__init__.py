"""Whether nodes agree: which answers are compared, what counts as equal, and what follows when they differ."""
