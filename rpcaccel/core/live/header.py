"""The result of a newHeads notification: of a header that a node pushed, or of a block that was fetched.

A chain's table says what a header leaves out of a block, and not what it holds, so that members of chains that no table
knows are sent, too. What a node pushes is brought to the same members: some nodes push the whole block, and some have
null where a block has nothing. So the heads of a stream have the same members, whichever node told of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from rpcaccel.core.live.block import LONGEST_HEADER, LiveBlock
from rpcaccel.core.wire.json_params import number_at
from rpcaccel.core.wire.json_text import UNREADABLE

_NULL = b"null"
_decode = msgspec.json.Decoder(dict[str, Raw]).decode


class NotABlock(ValueError):
    """The text is no block: null, malformed, or without number, hash and parentHash. The message says which."""


class HeaderForm(Struct, frozen=True):
    """Which members the headers of a chain have, and where those come from that a block lacks or has otherwise."""

    left_out: re.Pattern[str] | None = None
    """Names of members that a block has and a header has not."""
    constant: Mapping[str, Raw] = {}
    """Members that are the same in all headers of the chain, whatever a block has."""
    extra: Sequence[str] = ()
    """Members that another call tells."""


def read_block(text: bytes, form: HeaderForm, *, extra: bytes = b"", pushed: frozenset[str] = frozenset()) -> LiveBlock:
    """A block as subscribers are told of it.

    Args:
        text: the block as the node sent it, without whole transactions.
        extra: the object that has the members `form.extra`; empty where it could not be had.
        pushed: the members of the headers that nodes push; empty when none does. No other members are sent then.

    Raises:
        NotABlock: the text, or the extra one, cannot be read.
    """
    members = _members(text, "the block")
    place = _number(members), _hash(members, "hash"), _hash(members, "parentHash")
    members |= form.constant
    if extra:
        more = _members(extra, "the further members of the block")
        members |= {name: more[name] for name in form.extra if name in more}
    kept = _kept(members, form)
    if pushed:
        kept = {name: value for name, value in kept.items() if name in pushed}
    return LiveBlock(*place, header=msgspec.json.encode(kept))


def read_pushed(text: bytes, form: HeaderForm) -> tuple[LiveBlock, frozenset[str]]:
    """A header that a node pushed, as subscribers are told of it, and the names of its members.

    Raises:
        NotABlock: the text cannot be read, or is too long.
    """
    if len(text) > LONGEST_HEADER:
        raise NotABlock(f"the header: more than {LONGEST_HEADER} bytes")
    members = _members(text, "the header")
    kept = _kept(members, form)
    header = msgspec.json.encode(kept) if len(kept) < len(members) else text
    block = LiveBlock(_number(members), _hash(members, "hash"), _hash(members, "parentHash"), header)
    return block, frozenset(kept)


def _kept(members: dict[str, Raw], form: HeaderForm) -> dict[str, Raw]:
    out = form.left_out
    return {
        name: value
        for name, value in members.items()
        if bytes(value) != _NULL and not (out is not None and out.match(name))
    }


def _members(text: bytes, what: str) -> dict[str, Raw]:
    try:
        return _decode(text)
    except UNREADABLE as error:
        raise NotABlock(f"{what}: expected a JSON object, found {text[:20]!r}") from error


def _number(members: dict[str, Raw]) -> int:
    number = number_at(bytes(members.get("number", b"")), ".")
    if number is None:
        raise NotABlock("the block: expected a number")
    return number


def _hash(members: dict[str, Raw], name: str) -> str:
    try:
        return msgspec.json.decode(members[name], type=str).lower()
    except (KeyError, *UNREADABLE) as error:
        raise NotABlock(f"the block: expected a {name}") from error
