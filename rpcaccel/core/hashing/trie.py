"""Merkle-Patricia tries: the root of a list of items, and proofs of single values (yellow paper, appendix D)."""

from __future__ import annotations

from collections.abc import Sequence

from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.hashing.rlp import Item, decode, number, sequence, string
from rpcaccel.core.stepwise import Steps

_EMPTY = b"\x80"
_BRANCH = 17
"""Items of a branch: a child for each nibble, and the value of the key that ends there."""
_HASH_BYTES = 32
_LONG = 4096
"""Bytes of a node whose hash takes a step."""


EMPTY_TRIE_ROOT = keccak256(_EMPTY)
"""The root of a trie without entries."""


def list_root(items: Sequence[bytes]) -> Steps[bytes]:
    """The root of the trie that has each item under its index, as blocks have of transactions, receipts and
    withdrawals."""
    if not items:
        return EMPTY_TRIE_ROOT
    # In the order of the encoded indexes, of which that of 0 is 0x80. Sorting very many would hold up other threads.
    order = (*range(1, min(len(items), 128)), 0, *range(128, len(items)))
    entries = [(number(index).hex(), items[index]) for index in order]
    return keccak256((yield from _node(entries, 0, 0, len(entries))))


_Entry = tuple[str, bytes]
"""A key as hex digits, and its value."""


def _node(entries: Sequence[_Entry], depth: int, first: int, end: int) -> Steps[bytes]:
    """The encoded node over the entries from `first` to before `end`, which share `depth` digits. No key is the
    beginning of another: the encodings of two numbers never are."""
    key, last, shared = entries[first][0], entries[end - 1][0], depth
    if end - first == 1:
        return _leaf(entries[first], depth)
    while key[shared] == last[shared]:
        shared += 1
    if shared > depth:
        below = _reference((yield from _node(entries, shared, first, end)))
        return sequence((string(_packed(key[depth:shared], leaf=False)), below))
    children = [_EMPTY] * _BRANCH
    while first < end:
        digit, after = entries[first][0][depth], first + 1
        while after < end and entries[after][0][depth] == digit:
            after += 1
        alone = after - first == 1  # most are, and a generator for each would cost as much as its hash
        node = _leaf(entries[first], depth + 1) if alone else (yield from _node(entries, depth + 1, first, after))
        children[int(digit, 16)] = _reference(node)
        first = after
        if len(node) > _LONG:
            yield
    yield
    return sequence(children)


def _leaf(entry: _Entry, depth: int) -> bytes:
    return sequence((string(_packed(entry[0][depth:], leaf=True)), string(entry[1])))


def _reference(node: bytes) -> bytes:
    """How a node stands in the one above: short ones themselves, others by their hash."""
    return node if len(node) < _HASH_BYTES else b"\xa0" + keccak256(node)


def _packed(path: str, *, leaf: bool) -> bytes:
    """A path two digits to a byte, behind a digit that says whether their number is odd and whether a value follows."""
    flag = 2 if leaf else 0
    return bytes.fromhex(f"{flag + 1}{path}" if len(path) % 2 else f"{flag}0{path}")


def proved_value(root: bytes, key: bytes, proof: Sequence[bytes]) -> bytes | None:
    """The value of a key in the trie with this root, as the nodes of `proof` on the way from the root show it; None
    when they show that the trie has no such key.

    Args:
        root: 32 bytes.
        key: the key as the trie has it: of accounts and storage, its hash.
        proof: encoded nodes, the root's first, as `eth_getProof` gives them.

    Raises:
        ValueError: the nodes prove neither; the text says why.
    """
    path, wanted, nodes = key.hex(), root, iter(proof)
    if root == EMPTY_TRIE_ROOT:
        return None
    while True:
        encoded = next(nodes, None)
        if encoded is None:
            raise ValueError("the proof ends before the key does")
        if keccak256(encoded) != wanted:
            raise ValueError("a node of the proof has another hash than the node above says")
        node = decode(encoded)
        while isinstance(node, list):  # nodes shorter than a hash stand within the node above
            below, path = _step(node, path)
            if below is None or isinstance(below, _Value):
                return below
            if isinstance(below, bytes):
                if len(below) != _HASH_BYTES:
                    raise ValueError("a node of the proof refers to no other node")
                wanted = below
                break
            node = below


class _Value(bytes):
    """The value at the end of the path."""


def _step(node: list[Item], path: str) -> tuple[_Value | Item | None, str]:
    """What follows in a node along the path, and what is left of the path then: a value, a node, the hash of a node, or
    None where the trie has nothing."""
    if len(node) == _BRANCH:
        below = node[int(path[0], 16)] if path else node[-1]
        if below == b"":
            return None, ""
        return (below, path[1:]) if path else (_value(below), "")
    if len(node) != 2 or not isinstance(node[0], bytes) or not node[0]:
        raise ValueError("a node of the proof is neither a branch nor a path")
    digits = node[0].hex()
    flag = int(digits[0], 16)
    part = digits[1:] if flag & 1 else digits[2:]
    if flag > 3 or (not flag & 1 and digits[1] != "0") or not (part or flag & 2):
        raise ValueError("a path of the proof has an unknown form")
    if flag & 2:
        return (_value(node[1]), "") if path == part else (None, "")
    return (node[1], path[len(part) :]) if path.startswith(part) else (None, "")


def _value(item: Item) -> _Value:
    if isinstance(item, bytes):
        return _Value(item)
    raise ValueError("a value of the proof is a list")
