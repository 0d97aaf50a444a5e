"""What follows from a call's method and params alone: parsed references, rewrites, and the text for the cache key."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from rpcaccel.core.plan import block_ref
from rpcaccel.core.plan.block_ref import BlockRef, RefKind
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.rules import BlockArgument, CacheClass, Rule, Spelling
from rpcaccel.core.wire import json_params

_CALL_ARGUMENT = 0
_NUMBER, _LATEST = RefKind.NUMBER, RefKind.LATEST  # looked up once: access to an enum's member is slow in Python 3.11
ITEM_OF_TREE = 60
"""Bytes of a params tree for each comma, colon and opening bracket in its text."""
COPIES_OF_TREE = 8
"""How many texts of the params' length a remembered plan holds beside the params tree."""
UNNAMED = frozenset({None, "latest", "pending", "earliest", "safe", "finalized"})
"""Values that name nothing in particular where a hash or the like is expected."""
TIP = frozenset({RefKind.LATEST, RefKind.FINALIZED, RefKind.SAFE})


class Resolved(Struct, frozen=True, gc=False):
    """The params of a shape at one chain snapshot."""

    params: bytes
    """The params to forward."""
    key_params: bytes
    """The canonical text for the key: equal for params of equal meaning."""
    first: int = -1
    last: int = -1
    """The block that the call is about, the last one of a range; -1 when the call names none."""
    tip: bool = False
    """Does a reference follow the head?"""


class _Place(Struct, frozen=True, gc=False):
    """The place of a reference: an index in the params, and a member if it is inside an object."""

    at: int
    member: str
    ref: BlockRef


class Around(Struct, frozen=True, gc=False):
    """A reference that follows the head, with the texts around it in the key and in the forwarded params."""

    ref: BlockRef
    before: bytes
    after: bytes
    forward_before: bytes
    forward_after: bytes


class Shape(Struct, frozen=True, kw_only=True, gc=False):
    """One method with one params text: everything about it that is the same in every plan."""

    method: str
    rule: Rule
    params: bytes
    forward: bytes = b""
    """The params to forward when no reference has to be replaced."""
    tree: list[Any] | None = None
    """The params after rewrites that do not depend on the head."""
    texts: tuple[bytes, ...] = ()
    """The canonical text of each item of `tree`."""
    places: tuple[_Place, ...] = ()
    """The places of the references, first to last."""
    fixed: Resolved | None = None
    """The params at every snapshot; set by core.plan.fast_params when no reference follows the head."""
    around: Around | None = None
    """The reference that follows the head; set by core.plan.fast_params when there is exactly one."""
    opaque: bool = False
    """Some part could not be read with certainty: the params are forwarded as they came, and the answer is not
    shared."""
    depth: int = 0
    epoch: int = -1
    first_param: bytes = b""
    route_params: bytes = b""
    """Canonical params with the references as the caller wrote them, so that they do not change with the head."""
    note: str = ""
    by_hash: bool = False
    canonical_only: bool = False
    pending: bool = False
    tip: bool = False
    """Does a reference follow the head?"""
    weight: int = 0
    """Bytes that a remembered plan holds of the params, in all forms that shape and plan have of them."""
    resolvable: bool = False
    """May a tag be replaced by the number that it stands for? Not where the answer depends on more than the block, and
    not where nodes answer a tag differently (docs/harmony.md section 1, fact 4)."""

    def resolve(self, view: ChainSnapshot) -> Resolved:
        """Replace tags by block numbers, as far as the snapshot knows them."""
        if self.fixed is not None:
            return self.fixed
        if self.around is not None:
            return self._resolve_around(self.around, view)
        if self.tree is None:
            return Resolved(self.params, self.params)
        if not self.places:
            return Resolved(self.forward, b"[" + b",".join(self.texts) + b"]")
        numbers = [_number(place.ref, view) for place in self.places]
        complete = min(numbers) >= 0
        first = numbers[0] if complete and len(numbers) > 1 else -1
        key = self._key_params(numbers)
        return Resolved(self._forwarded(numbers), key, first, numbers[-1] if complete else -1, self.tip)

    def _resolve_around(self, text: Around, view: ChainSnapshot) -> Resolved:
        number = _number(text.ref, view)
        key = text.before + key_text(text.ref, number, resolve=self.resolvable) + text.after
        forward = self.params
        if number >= 0 and self.resolvable:
            forward = b'%b"0x%x"%b' % (text.forward_before, number, text.forward_after)
        return Resolved(forward, key, last=max(number, -1), tip=True)

    def _key_params(self, numbers: list[int]) -> bytes:
        texts = list(self.texts)
        objects: dict[int, dict[str, Any]] = {}
        for place, number in zip(self.places, numbers, strict=True):
            form = _key_form(place.ref, number, resolve=self.resolvable)
            if place.member:
                objects[place.at] = {**objects.get(place.at, self._tree[place.at]), place.member: form}
            else:
                texts[place.at] = json_params.write(form)
        for at, members in objects.items():
            texts[at] = json_params.write(members, sort=True)
        return b"[" + b",".join(texts) + b"]"

    def _forwarded(self, numbers: list[int]) -> bytes:
        if not (self.tip and self.resolvable):
            return self.forward
        forward = list(self._tree)
        known = False
        for place, number in zip(self.places, numbers, strict=True):
            if number >= 0 and place.ref.kind in TIP:
                _put(forward, place, block_ref.as_hex(number))
                known = True
        return json_params.write(forward) if known else self.forward

    @property
    def _tree(self) -> list[Any]:
        return self.tree or []


def read_shape(method: str, params: bytes, rule: Rule, tags: frozenset[str]) -> Shape:
    """Parse the params of a call by its rule."""
    if not rule.known or rule.cache is CacheClass.NEVER:
        return Shape(
            method=method, rule=rule, params=params, first_param=params, route_params=params, weight=len(params)
        )
    try:
        tree = json_params.read(params)
    except json_params.Unreadable as error:
        return unread(method, params, rule, f"params not read: {error}")
    if not isinstance(tree, list):
        return unread(method, params, rule, "params are named, not positional")
    if rule.cache is CacheClass.FOREVER and _names_nothing(tree):
        return unread(method, params, rule, "it does not name what it asks for")
    texts = [json_params.write(item, sort=True) for item in tree]
    route_params = b"[" + b",".join(texts) + b"]"
    copied = rule.copy_input_to_data and _copy_input(tree)
    places, defaulted, fault = _places(tree, rule.block, tags)
    if fault:
        return unread(method, params, rule, fault)
    if copied or defaulted:
        texts = [json_params.write(item, sort=True) for item in tree]
    kinds = [place.ref.kind for place in places]
    depth = rule.depth or _option_depth(tree, rule)
    tip = not TIP.isdisjoint(kinds)
    return Shape(
        method=method,
        rule=rule,
        params=params,
        forward=json_params.write(tree) if copied or defaulted else params,
        tree=tree,
        texts=tuple(texts),
        places=places,
        depth=depth,
        epoch=_epoch(tree, rule),
        first_param=texts[0] if texts else b"",
        route_params=route_params,
        note="`input` was copied to `data`" if copied else "",
        by_hash=RefKind.HASH in kinds,
        canonical_only=RefKind.HASH in kinds and any(place.ref.canonical_only for place in places),
        pending=RefKind.PENDING in kinds,
        tip=tip,
        weight=COPIES_OF_TREE * len(params) + ITEM_OF_TREE * sum(map(params.count, (b",", b":", b"[", b"{"))),
        resolvable=rule.cache is CacheClass.BY_NUMBER and not (depth and tip),
    )


def unread(method: str, params: bytes, rule: Rule, note: str) -> Shape:
    """The shape of params that cannot be read with certainty."""
    return Shape(
        method=method,
        rule=rule,
        params=params,
        opaque=True,
        first_param=params,
        route_params=params,
        note=note,
        weight=len(params),
    )


def _names_nothing(tree: list[Any]) -> bool:
    """Is the required hash missing, or a tag? Nodes refuse that today, but one may come that reads the newest block."""
    return not tree or ((tree[0] is None or isinstance(tree[0], str)) and tree[0] in UNNAMED)


def _places(tree: list[Any], block: BlockArgument | None, tags: frozenset[str]) -> tuple[tuple[_Place, ...], bool, str]:
    """The references among the params, whether a default was inserted, and a note on what could not be read."""
    if block is None:
        return (), False, ""
    if block.path:
        return _member_places(tree, block, tags)
    defaulted = False
    if block.default is not None and (len(tree) == block.at or (len(tree) > block.at and tree[block.at] is None)):
        tree[block.at : block.at + 1] = [block.default]
        defaulted = True
    if len(tree) <= block.at:
        return (), False, "the block argument is missing"
    positions = (block.at,) if block.start is None else (block.start, block.at)
    places = tuple(_Place(at, "", block_ref.read(tree[at], block.spelling, tags)) for at in positions)
    if any(place.ref.kind is RefKind.OPAQUE for place in places):
        return places, defaulted, "the block reference is not one this chain's nodes are known to read alike"
    if len(places) > 1 and places[0].ref.kind is not RefKind.NUMBER:
        return places, defaulted, "a range that begins at a tag is read differently by different nodes"
    return places, defaulted, ""


def _member_places(tree: list[Any], block: BlockArgument, tags: frozenset[str]) -> tuple[tuple[_Place, ...], bool, str]:
    """The references inside the object at `block.at`."""
    members = tree[block.at] if len(tree) > block.at else None
    if not isinstance(members, dict):
        return (), False, "the argument that names the blocks is not an object"
    known = {name.lower() for name in block.path}
    if any(name.lower() in known and name not in block.path for name in members):
        return (), False, "a member is spelled in another case than the specification has it"
    if members.get("blockHash") is not None:
        if any(members.get(name) is not None for name in block.path if name != "blockHash"):
            return (), False, "both a block hash and block numbers are given"
        names: tuple[str, ...] = ("blockHash",)
    else:
        names = tuple(name for name in block.path if name != "blockHash")
    defaulted = False
    members = dict(members)
    for name in names:
        if members.get(name) is None and block.default is not None:
            members[name] = block.default
            defaulted = True
    tree[block.at] = members
    places = tuple(_Place(block.at, name, _member_ref(name, members.get(name), block, tags)) for name in names)
    if any(place.ref.kind is RefKind.OPAQUE for place in places):
        return places, defaulted, "a block reference is not one this chain's nodes are known to read alike"
    return places, defaulted, ""


def _member_ref(name: str, value: Any, block: BlockArgument, tags: frozenset[str]) -> BlockRef:
    if name != "blockHash":
        return block_ref.read(value, block.spelling, tags)
    ref = block_ref.read({"blockHash": value}, Spelling.HEX_TAG_OR_HASH, tags)
    return ref if ref.kind is RefKind.HASH else block_ref.OPAQUE


def _number(ref: BlockRef, view: ChainSnapshot) -> int:
    if ref.kind is _NUMBER:
        return ref.number
    if ref.kind is _LATEST:
        return view.head
    if ref.kind is RefKind.FINALIZED:
        return view.finalized
    return view.safe if ref.kind is RefKind.SAFE else -1


def key_text(ref: BlockRef, number: int, *, resolve: bool) -> bytes:
    """The spelling of a reference in a key, as JSON text."""
    if number >= 0 and (resolve or ref.kind is _NUMBER):
        return b"%d" % number
    return json_params.write(_key_form(ref, number, resolve=resolve))


def _key_form(ref: BlockRef, number: int, *, resolve: bool) -> Any:
    """The spelling of a reference in a key."""
    if ref.kind is RefKind.HASH:
        return ref.hash + ("!" if ref.canonical_only else "")
    if number >= 0 and (resolve or ref.kind is RefKind.NUMBER):
        return json_params.Number(str(number))
    return ref.kind.value


def _put(tree: list[Any], place: _Place, value: Any) -> None:
    if place.member:
        tree[place.at] = {**tree[place.at], place.member: value}
    else:
        tree[place.at] = value


def _option_depth(tree: list[Any], rule: Rule) -> int:
    """1 when an option that needs the next block is on, in any spelling that a node may accept, else 0."""
    wanted = {name.lower() for name in rule.depth_if}
    if not wanted:
        return 0
    options = (item for item in tree if isinstance(item, dict))
    return int(any(name.lower() in wanted and value for item in options for name, value in item.items()))


def _epoch(tree: list[Any], rule: Rule) -> int:
    at = rule.epoch_at
    if at is None or at >= len(tree) or not isinstance(tree[at], json_params.Number):
        return -1
    text = str(tree[at])
    return int(text) if text.isdecimal() else -1


def _copy_input(tree: list[Any]) -> bool:
    """Copy `input` to `data` in a call object: a node that reads only `data` would run an empty call."""
    call = tree[_CALL_ARGUMENT] if tree else None
    if not isinstance(call, dict) or call.get("input") is None or call.get("data") is not None:
        return False
    if any(name.lower() in ("input", "data") and name not in ("input", "data") for name in call):
        return False
    tree[_CALL_ARGUMENT] = {name: value for name, value in call.items() if name not in ("input", "data")} | {
        "data": call["input"]
    }
    return True
