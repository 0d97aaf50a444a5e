"""Probes of the nodes, and their quotas."""
