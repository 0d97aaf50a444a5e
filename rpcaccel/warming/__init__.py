"""The batch job that fills the cache of a running proxy: which calls it makes, in which order, and how fast."""
