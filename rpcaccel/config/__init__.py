"""Settings: the frozen model, where values come from, how they change, and what is wrong with them."""
