"""The simulated chain: its blocks, accounts and transactions, its clock, and the knobs of a node."""
