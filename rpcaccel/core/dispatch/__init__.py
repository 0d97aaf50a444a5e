"""How calls are sent to nodes: attempts, retries, hedges, the retry budget, broadcasts and batches."""
