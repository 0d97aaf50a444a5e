"""API keys: long random texts, of which only the hash is kept.

A key has 256 random bits, so that its hash cannot be searched for and a fast one is right (a slow one would only be a
way to keep the proxy busy). Keys are looked up by their hash: what a lookup's time tells about hashes tells nothing
about keys.
"""

from __future__ import annotations

import base64
import hashlib

BEGINNING = "rpcaccel_"
"""So that a key found in a log or a repository is recognised for what it is."""
RANDOM_BYTES = 32
LONGEST = 256
"""Characters: longer texts are no keys and not hashed."""


def make(chance: bytes) -> str:
    """A key of RANDOM_BYTES random bytes, in letters that are safe in a path and a header."""
    return BEGINNING + base64.urlsafe_b64encode(chance).decode().rstrip("=")


def hashed(key: str) -> str:
    """What the settings hold of a key."""
    return f"sha256:{hashlib.sha256(key.encode(errors='backslashreplace')).hexdigest()}"
