"""Counters and histograms of a worker."""
