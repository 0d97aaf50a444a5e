"""The methods that a simulated node answers."""
