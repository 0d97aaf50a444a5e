"""Counters and histograms of a worker, and their sums over workers."""
