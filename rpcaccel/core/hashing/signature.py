"""Recovers who signed a transaction from the signature (SEC 1 section 4.1.6, on the curve secp256k1)."""

from __future__ import annotations

from functools import lru_cache

from rpcaccel.core.hashing.keccak import keccak256

_RECOVERABLE = 27 + 4
"""The first byte of a signature whose public key can be recovered, for a key of 33 bytes and parity 0."""


def signer_of(digest: bytes, parity: int, r: int, s: int) -> bytes:
    """The address (20 bytes) whose key signed `digest`.

    Raises:
        ValueError: no key makes this signature.
    """
    import wallycore  # noqa: PLC0415 -- 6 MB and 60 ms, for those that meet a signed transaction

    if parity not in (0, 1):
        raise ValueError("a signature of unknown parity")
    try:
        signature = bytes((_RECOVERABLE + parity,)) + r.to_bytes(32, "big") + s.to_bytes(32, "big")
        key = wallycore.ec_sig_to_public_key(digest, signature)
    except (ValueError, OverflowError):
        raise ValueError("a signature that no key makes") from None
    return _address_of(bytes(key))


@lru_cache(maxsize=4096)
def _address_of(key: bytes) -> bytes:
    """The address of a public key of 33 bytes. Most that sign have signed before."""
    import wallycore  # noqa: PLC0415

    return keccak256(bytes(wallycore.ec_public_key_decompress(key)[1:]))[12:]
