"""The HTTP side of a simulated node, with its faults and limits."""
