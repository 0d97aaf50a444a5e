"""Shipped test doubles: truthful simulated nodes (`simnode`), the chain they share (`chain`), a clock moved by hand."""
