"""Commands that make calls: measurements, recordings, replays, and filling the cache."""
