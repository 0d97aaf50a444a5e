"""A fast parser for params of the usual form: one array of scalars and of objects that hold scalars.

Nearly all calls have this form. The result equals that of core.plan.params, which a test holds for every method of
every chain, but no tree is built: one regular expression recognises the text, which is then cut at its commas. Whatever
is not certain is left to core.plan.params.
"""

from __future__ import annotations

import re

from rpcaccel.core.memo import Memos
from rpcaccel.core.plan import block_ref
from rpcaccel.core.plan.block_ref import BlockRef, RefKind
from rpcaccel.core.plan.params import TIP, UNNAMED, Around, Resolved, Shape, key_text, unread
from rpcaccel.core.plan.rules import CacheClass, Rule, Spelling
from rpcaccel.core.wire import json_params
from rpcaccel.core.wire.json_params import Number

_OPAQUE, _HASH, _PENDING = RefKind.OPAQUE, RefKind.HASH, RefKind.PENDING
LONGEST = 4096
"""Bytes of the longest params that are parsed here. Longer ones are rare."""
_LONGEST_REF = 80
"""Bytes of the longest reference that is remembered; a hash in quotes has 68."""
_REF_BYTES = 300
_STRING = rb'"[ !#-+\--Z^-z|~]*"'
"""A JSON string of ASCII characters without comma, bracket and escape."""
_OTHER = rb"-?(?:0|[1-9][0-9]{0,18})|true|false|null"
_NAME = rb'"[A-Za-z0-9_]+"'


def _array(string: bytes, comma: bytes, colon: bytes) -> bytes:
    value = rb"(?:%b|%b)" % (string, _OTHER)
    member = rb"%b%b%b" % (_NAME, colon, value)
    item = rb"(?:%b|\{(?:%b(?:%b%b)*)?\})" % (value, member, comma, member)
    return rb"\[(?:%b(?:%b%b)*)?\]" % (item, comma, item)


_fits = re.compile(_array(_STRING, b",", b":")).fullmatch
_spaced = re.compile(_array(_STRING.replace(b" ", b""), b", ?", b": ?")).fullmatch
_items = re.compile(rb"\{[^}]*\}|[^,\[\]]+").findall
_UNNAMED = frozenset({b"", *(json_params.write(value) for value in UNNAMED)})
_FALSE = (b"false", b"null", b'""')


class ParamsReader:
    """Parses the params of one method. What follows from the method's rule alone is computed once."""

    __slots__ = ("_at", "_by_number", "_copies", "_epoch_at", "_forever", "_memos", "_method", "_off", "_options",
                 "_refs", "_spelling", "_tags", "rule")  # fmt: skip

    def __init__(self, method: str, rule: Rule, tags: frozenset[str], memos: Memos) -> None:
        block = rule.block
        self._memos = memos
        self._method = method
        self.rule = rule
        self._tags = tags
        self._off = rule.cache is CacheClass.NEVER or bool(rule.split)
        if block is not None and (block.path or block.start is not None):
            self._off = True  # references inside objects, and ranges, are left to core.plan.params
        self._at = -1 if block is None else block.at
        self._spelling = Spelling.HEX_OR_TAG if block is None else block.spelling
        self._by_number = rule.cache is CacheClass.BY_NUMBER
        self._forever = rule.cache is CacheClass.FOREVER
        self._copies = rule.copy_input_to_data
        self._epoch_at = -1 if rule.epoch_at is None else rule.epoch_at
        self._options = frozenset(b'"%b"' % name.lower().encode() for name in rule.depth_if)
        self._refs: dict[bytes, BlockRef] = {}
        """References that were parsed before, by text: calls name the same few blocks repeatedly."""

    def __repr__(self) -> str:
        return f"<reader of {self._method}>"

    def read(self, params: bytes) -> Shape | None:
        """The shape of a call, equal to that of core.plan.params; None when the params must be parsed there."""
        cut = None if self._off else _cut(params)
        if cut is None:
            return None
        raws, texts, members = cut
        depth = self.rule.depth
        if members:
            if self._copies and any(member.startswith(b'"input":') for member in members):
                return None
            if self._options and not depth:
                depth = self._depth(members)
        text = b"[" + b",".join(texts) + b"]"
        first, epoch = texts[0] if texts else b"", -1
        if self._forever and first in _UNNAMED:
            return None
        if 0 <= self._epoch_at < len(texts) and texts[self._epoch_at].isdigit():
            epoch = int(texts[self._epoch_at])
        if self._at >= 0:
            return self._with_reference(params, raws, texts, text, depth, epoch)
        return Shape(
            method=self._method,
            rule=self.rule,
            params=params,
            fixed=Resolved(params, text),
            depth=depth,
            epoch=epoch,
            first_param=first,
            route_params=text,
            resolvable=self._by_number,
        )

    def _with_reference(
        self, params: bytes, raws: list[bytes], texts: list[bytes], text: bytes, depth: int, epoch: int
    ) -> Shape | None:
        at = self._at
        if len(texts) <= at or texts[at] == b"null" or texts[at].startswith(b"{"):
            return None  # the default, a missing argument, or a reference that is an object
        ref = self._refs.get(texts[at]) or self._ref(texts[at])
        kind = ref.kind
        if kind is _OPAQUE:
            note = "the block reference is not one this chain's nodes are known to read alike"
            return unread(self._method, params, self.rule, note)
        tip = kind in TIP
        resolvable = self._by_number and not (depth and tip)
        around: Around | None = None
        fixed: Resolved | None = None
        before, after = _around(texts, at)
        if tip:
            around = Around(ref, before, after, *((before, after) if raws is texts else _around(raws, at)))
        else:
            fixed = Resolved(params, before + key_text(ref, ref.number, resolve=resolvable) + after, last=ref.number)
        return Shape(
            method=self._method,
            rule=self.rule,
            params=params,
            around=around,
            fixed=fixed,
            depth=depth,
            epoch=epoch,
            first_param=texts[0],
            route_params=text,
            by_hash=kind is _HASH,
            canonical_only=ref.canonical_only,
            pending=kind is _PENDING,
            tip=tip,
            resolvable=resolvable,
        )

    def _ref(self, text: bytes) -> BlockRef:
        ref = block_ref.read(_value(text), self._spelling, self._tags)
        if len(text) <= _LONGEST_REF:
            self._memos.put(self._refs, text, ref, _REF_BYTES)
        return ref

    def _depth(self, members: list[bytes]) -> int:
        """1 when an option of the call needs the next block, else 0 (core.plan.params)."""
        parts = (member.partition(b":") for member in members)
        return int(any(name in self._options and value not in _FALSE for name, _, value in parts))


def _cut(params: bytes) -> tuple[list[bytes], list[bytes], list[bytes]] | None:
    """Cut an array at its commas; None when a member of an object is repeated.

    Returns the items without spaces, the items with the members of objects sorted, and all members in lower case.
    """
    if len(params) > LONGEST:
        return None
    text = params
    if b" " in params:
        if _spaced(params) is None:
            return None
        text = params.replace(b" ", b"")
    if _fits(text) is None:
        return None
    if b"{" not in text:
        items = text[1:-1].split(b",") if len(text) > 2 else []
        return items, items, []
    raws: list[bytes] = _items(text)
    texts, members = raws, []
    for place, item in enumerate(raws):
        if item.startswith(b"{") and len(item) > 2:
            told = item.lower()[1:-1].split(b",")
            if len(told) > 1:
                if len({member.partition(b":")[0] for member in told}) != len(told):
                    return None  # a repeated member, maybe with another case
                texts = texts if texts is not raws else list(raws)
                texts[place] = b"{" + b",".join(sorted(item[1:-1].split(b","))) + b"}"
            members += told
    return raws, texts, members


def _around(items: list[bytes], at: int) -> tuple[bytes, bytes]:
    """The text of an array before and after one of its items."""
    if at == len(items) - 1:
        return (b"[" + b",".join(items[:at]) + b"," if at else b"["), b"]"
    before = b"[" + b"".join([item + b"," for item in items[:at]])
    return before, b"".join([b"," + item for item in items[at + 1 :]]) + b"]"


def _value(text: bytes) -> object:
    if text.startswith(b'"'):
        return text[1:-1].decode()
    return True if text == b"true" else False if text == b"false" else Number(text.decode())
