"""Agreement of nodes: whether two answers to one call say the same."""
