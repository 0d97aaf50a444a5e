"""Answers and failures: what a node replied, and which kind of error it is."""
