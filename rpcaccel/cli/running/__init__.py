"""Commands that ask a running proxy, and change it."""
