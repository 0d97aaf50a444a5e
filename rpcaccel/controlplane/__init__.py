"""The supervisor: settings, probes, statistics, the admin API and the worker processes."""
