"""Answers and failures: what a node said, and what kind of error it is."""
