"""Pure values and decisions: no clock, no chance, no I/O; `now` and `rng` are arguments."""
