"""The simulated chain: blocks, accounts, transactions and time."""
