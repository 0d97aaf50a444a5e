"""To the nodes: choosing one, sending, retrying, hedging and gathering calls into batches."""
