"""How a call is asked of nodes: attempts, retries, hedges, broadcasts and batches."""
