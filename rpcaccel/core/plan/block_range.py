"""Calls about a range of blocks: which of them may be split into segments, and the params and key of each segment.

A segment is a call of its own, with the params and the key that a client's call for just that segment would have, so
that both find the same entry. A call is split only when every part of it is understood, because the segments must add
up to what one node would answer. All other calls are forwarded whole.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from rpcaccel.core.plan import cache_key
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.rules import RangeForm, Rule
from rpcaccel.core.wire import json_params

_FIRST, _LAST = "\0", "\1"
"""Placeholders for the block numbers in a text: valid JSON contains neither of these characters raw."""
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_TOPIC = re.compile(r"0x[0-9a-fA-F]{64}")
_MOST_TOPICS = 4
MOST_TRACES = 100_000
"""Traces that a node is asked for at once. The number is always said: where a call says none, Erigon leaves out all but
the first 200 without a word, so that nothing shows which blocks have more."""


class Range(Struct, frozen=True, kw_only=True, gc=False):
    """A call that may be split, at one chain snapshot. Block numbers are inclusive."""

    way: RangeForm
    method: str
    tag: bytes
    """The network's part of the cache key."""
    first: int
    last: int
    """The last block. Lower than `first` if the caller swapped them, for "blocks" only: nodes differ on such logs."""
    settled: int
    """The last settled block of the chain (architecture section 5); may be lower than `first`."""
    final: int
    """The last final block of the chain: at least `settled`."""
    depth: int
    """Blocks by which a node must be ahead of a block to answer about it."""
    name: bytes
    """The canonical params, with placeholders for the block numbers."""
    call: bytes
    """The params to forward, with placeholders for the block numbers."""
    scope: bytes = cache_key.SCOPE_NUMBER
    """The scope of the keys of settled segments."""
    by_block: bool = False
    """Is each block a segment of its own? Otherwise segments have as many blocks as the settings say."""

    def key(self, first: int, last: int) -> bytes:
        """The cache key of a settled segment."""
        params = self.name.replace(b"\0", b"%d" % first).replace(b"\1", b"%d" % last)
        return cache_key.cache_key(self.tag, self.method, self.scope, params)

    def params(self, first: int, last: int) -> bytes:
        """The params with which a node is asked for a segment."""
        return self.call.replace(b"\0", b"0x%x" % first).replace(b"\1", b"0x%x" % last)

    @property
    def length(self) -> int:
        """Number of blocks in the range."""
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
    """The range that a call asks for, its references resolved to `first` and `last`; None when it must not be split.

    Args:
        tree: the params, with defaults filled in (core.plan.params).
        depth: blocks by which a node must be ahead of the last one.
    """
    if not rule.split or tree is None or first < 0 or last < 0:
        return None
    if rule.split == "blocks":
        forms = _blocks(rule, tree) if first != last else None  # a single block needs no split
    else:
        forms = _filtered(rule, tree) if first <= last else None
    if forms is None:
        return None
    # The length of a list of blocks shows whether the answering machine had all of them. Logs do not show it
    # (core.cache.retention).
    final = min(view.final, view.head - depth)
    settled = final if final_at_once and rule.split == "blocks" else min(final, view.settled)
    return Range(way=rule.split, method=rule.method, tag=tag, first=first, last=last, settled=settled, final=final,
                 depth=depth, name=forms[0], call=forms[1],
                 scope=rule.sure_scope + cache_key.SCOPE_NUMBER,
                 by_block=rule.split == "blocks" or (rule.split == "traces" and not _has_addresses(tree)))  # fmt: skip


def _blocks(rule: Rule, tree: list[Any]) -> tuple[bytes, bytes] | None:
    """Key and forwarded params for two numbers and an object of switches. Nodes may crash on anything else."""
    block = rule.block
    if block is None or block.start is None or len(tree) != 3 or not isinstance(tree[2], dict):
        return None
    if not all(isinstance(switch, bool) for switch in tree[2].values()):
        return None
    return _write([_FIRST, _LAST, tree[2]], sort=True), _write([f'"{_FIRST}"', f'"{_LAST}"', tree[2]])


def _filtered(rule: Rule, tree: list[Any]) -> tuple[bytes, bytes] | None:
    """Key and forwarded params for one filter object: of logs as the execution API has it, of traces as OpenEthereum
    had it, without a page."""
    if len(tree) != 1 or not isinstance(tree[0], dict) or rule.block is None or rule.block.at != 0:
        return None
    filters = _LOG_FILTERS if rule.split == "logs" else _TRACE_FILTERS
    members = {name: value for name, value in tree[0].items() if value is not None}
    if members.keys() - {"fromBlock", "toBlock"} - filters.keys():
        return None
    if not all(understood(members.get(name)) for name, understood in filters.items()):
        return None
    said = tree[0] if rule.split == "logs" else {**tree[0], "count": json_params.Number(MOST_TRACES)}
    name = {**said, "fromBlock": json_params.Number(_FIRST), "toBlock": json_params.Number(_LAST)}
    call = {**said, "fromBlock": json_params.Number(f'"{_FIRST}"'), "toBlock": json_params.Number(f'"{_LAST}"')}
    return json_params.write([name], sort=True), json_params.write([call])


def _has_addresses(tree: list[Any]) -> bool:
    return bool(tree[0].get("fromAddress") or tree[0].get("toAddress"))


def _write(tree: list[Any], *, sort: bool = False) -> bytes:
    first, last, options = tree
    return json_params.write([json_params.Number(first), json_params.Number(last), options], sort=sort)


def _is_address(value: Any) -> bool:
    if isinstance(value, list):
        return all(_matches(_ADDRESS, item) for item in value)
    return value is None or _matches(_ADDRESS, value)


def _is_addresses(value: Any) -> bool:
    return value is None or (isinstance(value, list) and _is_address(value))


def _is_topics(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, list) or len(value) > _MOST_TOPICS:
        return False
    choices = [choice for topic in value for choice in (topic if isinstance(topic, list) else [topic])]
    return all(choice is None or _matches(_TOPIC, choice) for choice in choices)


def _matches(form: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, json_params.Number) and form.fullmatch(value) is not None


_LOG_FILTERS = {"address": _is_address, "topics": _is_topics}
_TRACE_FILTERS = {"fromAddress": _is_addresses, "toAddress": _is_addresses}
"""The members of filters that nodes read alike, each with what it may be."""
