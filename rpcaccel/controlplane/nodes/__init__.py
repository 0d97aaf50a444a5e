"""Probes of the nodes, their quotas, and weights that change by themselves."""
