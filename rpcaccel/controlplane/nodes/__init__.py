"""Probes, examinations and quotas of the nodes, and the cases in which they disagree."""
