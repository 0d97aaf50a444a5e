"""Keys and their hashes."""

from __future__ import annotations

import re

from rpcaccel.core import client_limits


def test_a_key_is_safe_in_a_path_and_a_header() -> None:
    key = client_limits.make(bytes(range(224, 256)))
    assert re.fullmatch(r"rpcaccel_[A-Za-z0-9_-]{43}", key)
    assert len(key) <= client_limits.MAX_KEY_CHARACTERS


def test_the_hash_is_sha256_of_the_text() -> None:
    assert client_limits.hashed("abc") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
