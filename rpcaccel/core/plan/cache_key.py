"""Cache keys: equal for calls that every node answers alike, different for all others (rule of truth 6).

The form is `network@chain-id.block-0.block-1:method:scope:params`, with some digits of the hash of each block. It is
readable, so that an operator can look at keys in Redis, and a purge by network or method is a purge by prefix.
"""

from __future__ import annotations

from hashlib import blake2b

LONGEST_PARAMS = 160
"""Bytes of the longest params in a key; longer ones are replaced by their BLAKE2b-160 digest."""

_GENESIS = 12
"""Hex digits of the hash of block 0 in a key."""
_BLOCK_ONE = 8
"""Hex digits of the hash of block 1 in a key: beside those of block 0, they need only separate the chains that were
begun with the same block 0."""
SCOPE_STATIC = b"s"
SCOPE_HASH = b"i"
SCOPE_NUMBER = b"n"
SCOPE_NODE = b"l"
"""An answer that differs by node, kept for as long as the operator allows and never shared."""
SCOPE_SEND = b"w"
"""A write. Its key names a flight only: the answer is never kept."""
SCOPE_SENT = b"t"
"""A mark for a recently sent transaction. No answer is kept under such a key."""


def network_tag(network: str, eth_chain_id: int, genesis: str = "", block_one: str = "") -> bytes:
    """The first part of every key of a network.

    The chain id separates chains in one Redis even when two operators gave them the same name. The hash of block 0
    separates a chain from one that was begun anew under the same ids, and the hash of block 1 from one that was begun
    anew with the same block 0. Each hash is empty when no node tells it.
    """
    begins = b"." + genesis[2 : 2 + _GENESIS].encode() if genesis or block_one else b""
    follows = b"." + block_one[2 : 2 + _BLOCK_ONE].encode() if block_one else b""
    return b"%b@%d%b%b" % (network.encode(), eth_chain_id, begins, follows)


def scope_head(head: int, fork_epoch: int) -> bytes:
    """The scope of an answer that is true at one head only."""
    return b"h%d.%d" % (head, fork_epoch)


def cache_key(tag: bytes, method: str, scope: bytes, params: bytes) -> bytes:
    """The key of a call with these canonical params."""
    return method_prefix(tag, method) + scope + b":" + short(params)


def short(params: bytes) -> bytes:
    """Canonical params in the form that they have in a key."""
    if len(params) > LONGEST_PARAMS:
        return b"#" + blake2b(params, digest_size=20).hexdigest().encode()
    return params


def method_prefix(tag: bytes, method: str) -> bytes:
    """The prefix of all keys of one method of a network."""
    return b"%b:%b:" % (tag, method.encode())
