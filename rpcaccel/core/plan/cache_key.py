"""The key of an answer: equal for calls that every node answers alike, different for all others.

Form: `network@chain-id:method:scope:params`. It stays readable, so that an operator can look at it in Redis and
purge by network or method is a prefix. Rule of truth 6.
"""

from __future__ import annotations

from hashlib import blake2b

LONGEST_PARAMS = 160
"""Bytes. Longer canonical params stand in the key as their BLAKE2b-160 digest."""

_GENESIS = 12
"""Hexadecimal digits of the hash of block 0 in a key."""
SCOPE_STATIC = b"s"
SCOPE_HASH = b"i"
SCOPE_NUMBER = b"n"
SCOPE_NODE = b"l"
"""What one node said, for as long as the operator allows; never shared."""
SCOPE_SEND = b"w"
"""Flights only: a write is never kept."""
SCOPE_SENT = b"t"
"""Marks of transactions sent lately; no answer is kept under one."""


def network_tag(network: str, eth_chain_id: int, genesis: str = "") -> bytes:
    """The first part of every key of a network. The chain id keeps two chains on one Redis apart even when two
    operators gave them one name; the hash of block 0 a chain and one begun anew under the same ids (empty: no node
    tells it, and the keys are none of a chain of which it is known)."""
    return b"%b@%d%b" % (network.encode(), eth_chain_id, b"." + genesis[2 : 2 + _GENESIS].encode() if genesis else b"")


def scope_head(head: int, fork_epoch: int) -> bytes:
    """True at one head only."""
    return b"h%d.%d" % (head, fork_epoch)


def cache_key(tag: bytes, method: str, scope: bytes, params: bytes) -> bytes:
    """The key of canonical `params`."""
    return method_prefix(tag, method) + scope + b":" + short(params)


def short(params: bytes) -> bytes:
    """Canonical params as they stand in a key."""
    if len(params) > LONGEST_PARAMS:
        return b"#" + blake2b(params, digest_size=20).hexdigest().encode()
    return params


def method_prefix(tag: bytes, method: str) -> bytes:
    """What all keys of one method of a network begin with."""
    return b"%b:%b:" % (tag, method.encode())
