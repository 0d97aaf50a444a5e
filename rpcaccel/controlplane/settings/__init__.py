"""Revisions of the settings: changed at run time, persisted and audited."""
