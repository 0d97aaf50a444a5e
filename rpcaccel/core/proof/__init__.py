"""Proves answers of nodes by arithmetic: hashes, roots and blooms of blocks, and proofs of state."""
