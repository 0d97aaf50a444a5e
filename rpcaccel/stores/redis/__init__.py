"""Redis: the second cache tier, the board on which hosts share settings, leases, and shared counters."""
