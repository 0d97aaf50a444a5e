"""The HTTP side of a simulated node: connections, envelopes, faults, rate limits and counters."""
