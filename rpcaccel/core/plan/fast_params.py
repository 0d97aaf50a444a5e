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

_NO_REF = BlockRef(RefKind.NUMBER)
"""Stands for the reference of a method that takes none."""
_OPAQUE, _HASH, _PENDING = RefKind.OPAQUE, RefKind.HASH, RefKind.PENDING
MAX_FAST_BYTES = 4096
"""Bytes of the longest params that are parsed here. Longer ones are rare."""
_LONGEST_REF = 80
"""Bytes of the longest reference that is remembered; a hash in quotes has 68."""
_REF_BYTES = 400
"""Bytes of a remembered reference and of its text in a key."""
COPIES_FIXED, COPIES_AROUND = 4, 7
"""How many texts of the params' length a remembered plan holds: for params without a reference that follows the head,
and for params with one such reference."""
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
        self._refs: dict[bytes, tuple[BlockRef, bytes]] = {}
        """References that were parsed before, by text: calls name the same few blocks repeatedly. Beside each stands
        its text in a key."""

    def __repr__(self) -> str:
        return f"<reader of {self._method}>"

    def read(self, params: bytes) -> Shape | None:
        """The shape of a call, equal to that of core.plan.params; None when the params must be parsed there."""
        if self._off or len(params) > MAX_FAST_BYTES:
            return None
        text = _without_spaces(params) if b" " in params else params
        if _fits(text) is None:
            return None
        depth = self.rule.depth
        if b"{" not in text:
            raws = texts = text[1:-1].split(b",") if len(text) > 2 else []
        else:
            cut = self._cut_objects(text)
            if cut is None:
                return None
            raws, texts, option = cut
            depth = depth or option
            text = b"[" + b",".join(texts) + b"]"
        first, at, ref, around, fixed = texts[0] if texts else b"", self._at, _NO_REF, None, None
        if self._forever and first in _UNNAMED:
            return None
        if at < 0:
            fixed = Resolved(params, text)
        elif len(texts) <= at or texts[at] == b"null" or texts[at].startswith(b"{"):
            return None  # the default, a missing argument, or a reference that is an object
        else:
            ref, named = self._refs.get(texts[at]) or self._ref(texts[at])
            if ref.kind is _OPAQUE:
                note = "the block reference is not one this chain's nodes are known to read alike"
                return unread(self._method, params, self.rule, note)
            if ref.kind in TIP:
                around = _around(ref, raws, texts, at)
            else:
                key_params = b"[" + b",".join([*texts[:at], named, *texts[at + 1 :]]) + b"]"
                fixed = Resolved(params, key_params, last=ref.number)
        tip = around is not None
        named_epoch = texts[self._epoch_at] if 0 <= self._epoch_at < len(texts) else b""
        return Shape(
            method=self._method,
            rule=self.rule,
            params=params,
            around=around,
            fixed=fixed,
            depth=depth,
            epoch=int(named_epoch) if named_epoch.isdigit() else -1,
            first_param=first,
            route_params=text,
            by_hash=ref.kind is _HASH,
            canonical_only=ref.canonical_only,
            pending=ref.kind is _PENDING,
            tip=tip,
            weight=len(params) * (COPIES_AROUND if tip else COPIES_FIXED),
            resolvable=self._by_number and not (depth and tip),
        )

    def _cut_objects(self, text: bytes) -> tuple[list[bytes], list[bytes], int] | None:
        """Cut an array that holds objects, without spaces, at its commas; None when core.plan.params must parse it.

        Returns the items, the items with the members of objects sorted, and 1 when an option of the call needs the
        next block, else 0.
        """
        raws: list[bytes] = _items(text)
        texts, option = raws, 0
        for place, item in enumerate(raws):
            if not item.startswith(b"{") or len(item) == 2:
                continue
            members = item.lower()[1:-1].split(b",")
            if len(members) > 1:
                if len({member.partition(b":")[0] for member in members}) != len(members):
                    return None  # a repeated member, maybe with another case
                texts = texts if texts is not raws else list(raws)
                texts[place] = b"{" + b",".join(sorted(item[1:-1].split(b","))) + b"}"
            for member in members if self._copies or self._options else ():
                name, _, value = member.partition(b":")
                if self._copies and name == b'"input"':
                    return None
                option |= name in self._options and value not in _FALSE
        return raws, texts, int(option)

    def _ref(self, text: bytes) -> tuple[BlockRef, bytes]:
        """A reference, and its text in a key where it does not follow the head."""
        ref = block_ref.read(_value(text), self._spelling, self._tags)
        found = ref, key_text(ref, ref.number, resolve=self._by_number)
        if len(text) <= _LONGEST_REF:
            self._memos.put(self._refs, text, found, _REF_BYTES)
        return found


def _without_spaces(params: bytes) -> bytes:
    """Params with a space after some commas and colons, without these; empty when there are spaces elsewhere."""
    return params.replace(b" ", b"") if _spaced(params) is not None else b""


def _around(ref: BlockRef, raws: list[bytes], texts: list[bytes], at: int) -> Around:
    """A reference that follows the head, with the texts before and after it in the key and in the forwarded params."""
    edges: list[bytes] = []
    for items in (texts, raws) if raws is not texts else (texts,):
        edges += (
            b"[" + b"".join([item + b"," for item in items[:at]]),
            b"".join([b"," + item for item in items[at + 1 :]]) + b"]",
        )
    return Around(ref, *edges[:2], *edges[-2:])


def _value(text: bytes) -> object:
    if text.startswith(b'"'):
        return text[1:-1].decode()
    return True if text == b"true" else False if text == b"false" else Number(text.decode())
