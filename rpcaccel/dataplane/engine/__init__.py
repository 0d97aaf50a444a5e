"""Hit or fetch: answers calls from the cache, and fetches, judges and keeps what is not there."""
