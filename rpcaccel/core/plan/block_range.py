"""Calls about a range of blocks: which of them may be cut into pieces, and what each piece is called.

A piece is a call of its own, with the params and the key that a client's call for just that piece would have: whoever
asks for it, in a range or alone, finds the same entry. A call is cut only when every part of it is understood, since
the pieces have to add up to what one node would have said; all others go the ordinary way.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from msgspec import Struct

from rpcaccel.core.plan import cache_key
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.rules import Rule
from rpcaccel.core.wire import json_params

_FIRST, _LAST = "\0", "\1"
"""Where the numbers go in a text: JSON writes neither of them raw."""
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_TOPIC = re.compile(r"0x[0-9a-fA-F]{64}")
_MOST_TOPICS = 4


class Range(Struct, frozen=True, kw_only=True, gc=False):
    """A call that may be cut, at one view. Block numbers are inclusive."""

    way: Literal["blocks", "logs"]
    """How the result is made up: an item for each block, or items that tell their block."""
    method: str
    tag: bytes
    """The network's part of the key."""
    first: int
    last: int
    """Lower than `first` when the caller turned them around, for "blocks" only: nodes differ on such logs."""
    settled: int
    """The last block of the chain about which every machine asked says the same for ever; may be lower than `first`."""
    final: int
    """The last block that no other branch can replace: at least `settled`."""
    depth: int
    """How far ahead of a block a node must be to speak about it."""
    name: bytes
    """The canonical params, with places for the numbers."""
    call: bytes
    """The params as sent, with places for the numbers."""

    def key(self, first: int, last: int) -> bytes:
        """The key of a settled piece."""
        params = self.name.replace(b"\0", b"%d" % first).replace(b"\1", b"%d" % last)
        return cache_key.cache_key(self.tag, self.method, cache_key.SCOPE_NUMBER, params)

    def params(self, first: int, last: int) -> bytes:
        """The params that ask a node for a piece."""
        return self.call.replace(b"\0", b"0x%x" % first).replace(b"\1", b"0x%x" % last)

    @property
    def length(self) -> int:
        """Blocks asked for."""
        return max(0, self.last - self.first + 1)


def read(
    rule: Rule,
    tree: list[Any] | None,
    tag: bytes,
    first: int,
    last: int,
    depth: int,
    view: ChainSnapshot,
    *,
    final_at_once: bool = True,
) -> Range | None:
    """The range that a call of `rule` asks for, references resolved to `first` and `last`; None: not to be cut.

    Args:
        tree: the params, with defaults filled in (core.plan.params).
        depth: blocks by which a node must be ahead of the last one.
    """
    if not rule.split or tree is None or first < 0 or last < 0:
        return None
    if rule.split == "blocks":
        forms = _blocks(rule, tree) if first != last else None  # one block is a piece already
    else:
        forms = _logs(rule, tree) if first <= last else None
    if forms is None:
        return None
    # A list of blocks shows by its length whether the machine that gave it had them all; logs do not
    # (core.cache.retention).
    final = min(view.final, view.head - depth)
    settled = final if final_at_once and rule.split == "blocks" else min(final, view.settled)
    return Range(way=rule.split, method=rule.method, tag=tag, first=first, last=last, settled=settled, final=final,
                 depth=depth, name=forms[0], call=forms[1])  # fmt: skip


def _blocks(rule: Rule, tree: list[Any]) -> tuple[bytes, bytes] | None:
    """Two numbers and an object of switches. Anything else a node may refuse, or crash on (facts: harmony.md 7)."""
    block = rule.block
    if block is None or block.start is None or len(tree) != 3 or not isinstance(tree[2], dict):
        return None
    if not all(isinstance(switch, bool) for switch in tree[2].values()):
        return None
    return _write([_FIRST, _LAST, tree[2]], sort=True), _write([f'"{_FIRST}"', f'"{_LAST}"', tree[2]])


def _logs(rule: Rule, tree: list[Any]) -> tuple[bytes, bytes] | None:
    """One filter object of the specification's form."""
    if len(tree) != 1 or not isinstance(tree[0], dict) or rule.block is None or rule.block.at != 0:
        return None
    members = {name: value for name, value in tree[0].items() if value is not None}
    if members.keys() - {"fromBlock", "toBlock", "address", "topics"}:
        return None
    if not (_is_address(members.get("address")) and _is_topics(members.get("topics"))):
        return None
    name = {**tree[0], "fromBlock": json_params.Number(_FIRST), "toBlock": json_params.Number(_LAST)}
    call = {**tree[0], "fromBlock": json_params.Number(f'"{_FIRST}"'), "toBlock": json_params.Number(f'"{_LAST}"')}
    return json_params.write([name], sort=True), json_params.write([call])


def _write(tree: list[Any], *, sort: bool = False) -> bytes:
    first, last, options = tree
    return json_params.write([json_params.Number(first), json_params.Number(last), options], sort=sort)


def _is_address(value: Any) -> bool:
    if isinstance(value, list):
        return all(_matches(_ADDRESS, item) for item in value)
    return value is None or _matches(_ADDRESS, value)


def _is_topics(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, list) or len(value) > _MOST_TOPICS:
        return False
    choices = [choice for topic in value for choice in (topic if isinstance(topic, list) else [topic])]
    return all(choice is None or _matches(_TOPIC, choice) for choice in choices)


def _matches(form: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, json_params.Number) and form.fullmatch(value) is not None
