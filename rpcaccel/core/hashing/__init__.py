"""What chains hash, and how: Keccak-256, RLP, tries, blooms, signatures, addresses."""
