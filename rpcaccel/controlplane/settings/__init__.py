"""Revisions of the settings: changed at run time, persisted, shared between hosts and audited."""
