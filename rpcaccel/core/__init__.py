"""Pure values and decisions: no clock, no chance, no input or output of their own."""
