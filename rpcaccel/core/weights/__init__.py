"""What a node is worth: its latency compared with that of others, and the weights that follow from it."""
