"""Measurements: what is run against which endpoint, and compared with what."""
