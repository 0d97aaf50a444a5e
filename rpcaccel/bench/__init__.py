"""Measuring endpoints: truthful load generators, statistics, reports. Knows nothing of the proxy's inside."""
