"""The blocks that an answer is proved by, as they are needed: headers, transactions and receipts.

    number -> hash of the served branch: known, or of a header that nodes with most of the weight give
    hash   -> header, proved by it -> transactions, proved by their root
                                   -> receipts, proved by theirs

What nodes give of them is judged as any answer is, by functions that need less themselves: receipts need the block with
its transactions, and that needs nothing but its hash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from rpcaccel.core.hashing.bloom import BLOOM_BYTES
from rpcaccel.core.proof.encoding import NotProvable, OtherForm, data, member, whole
from rpcaccel.core.proof.headers import hash_of, prove_header
from rpcaccel.core.proof.known_chain import ProvedHeader
from rpcaccel.core.proof.received_answer import (
    Doubted,
    Judging,
    NeededCall,
    ReceivedAnswer,
    Unsure,
    check_branch,
    check_call,
    decode_members,
    prove_form,
    read_items,
    read_members,
    text_of_hash,
)
from rpcaccel.core.stepwise import in_one_step

HEADERS_AT_ONCE = 32
"""Headers that are asked for at the same time to judge one answer."""


def check_place(answer: ReceivedAnswer, number: int, hash: str) -> Judging[None]:
    """Does what a node shows belong to the block that the call names, and is that the block of the served branch? If
    the answer is to be proved fully, nodes are asked where that is not known. A block that the call names by its hash
    may be one that a reorganisation abandoned."""
    check_call(answer, number, hash)
    if isinstance(answer.named, str):
        return
    if answer.full and not answer.blocks.of(number):
        yield from _learn_hash(answer, number)
    check_branch(answer, number, hash)


def _learn_hash(answer: ReceivedAnswer, number: int) -> Judging[None]:
    """Learn the hash of a block from what nodes say that hold most of the weight."""
    (text,) = (yield (_header_call(answer, number, "agreed"),)) or (None,)
    header = _read(None if answer.is_outdated else text, number, ("hash", "number"))
    answer.learn(number, text_of_hash(header, "hash"))
    if answer.form.header.members:
        with suppress(NotProvable, Doubted):  # the nodes agree about the hash, whatever it is made of
            yield from _proved(answer, text, None, number)


def header_of(answer: ReceivedAnswer, block: int | str) -> Judging[ProvedHeader]:
    """The proved header of a block of the served branch, by its number, or of any branch, by its hash."""
    if isinstance(block, int) and not answer.blocks.of(block):
        yield from _learn_hash(answer, block)
    hash = answer.blocks.of(block) if isinstance(block, int) else block
    if (header := answer.blocks.header(hash)) is not None:
        return header
    if isinstance(block, int):
        told = (yield _header_calls(answer, block)) or (None,)
    else:
        told = (yield (NeededCall(answer.by_hash_method, b'["%b",false]' % block.encode(), "header"),)) or (None,)
    header = yield from _proved(answer, told[0], told[-1], block)
    if header.hash != hash:
        raise Unsure(f"block {block} could not be had")
    return header


def _header_calls(answer: ReceivedAnswer, number: int) -> tuple[NeededCall, ...]:
    """The calls that give a header: as a block, and as it is hashed where the block does not show all of it."""
    form = answer.form.header
    if form.members:
        return (_header_call(answer, number),)
    return (_header_call(answer, number), NeededCall(form.encoded_by, b'["0x%x"]' % number, "any"))


def _header_call(answer: ReceivedAnswer, number: int, how: Literal["header", "agreed"] = "header") -> NeededCall:
    return NeededCall(answer.block_method, b'["0x%x",false]' % number, how)


def encoded_header(answer: ReceivedAnswer, number: int) -> Judging[bytes]:
    """A header as it is hashed, from the method that the chain has for that."""
    form = answer.form.header
    if not (answer.full and form.encoded_by):
        raise OtherForm("the chain's blocks do not show all that their hash is made of")
    (text,) = (yield _header_calls(answer, number)[-1:]) or (None,)
    return _read_encoded(text)


def _read_encoded(text: bytes | None) -> bytes:
    shown = msgspec.json.decode(text or b'""')
    if not isinstance(shown, str) or not shown:
        raise OtherForm("no node gives the header as it is hashed")
    return data(f"0x{shown.removeprefix('0x')}", "the encoded header")


def _proved(
    answer: ReceivedAnswer, text: bytes | None, encoded: bytes | None, block: int | str
) -> Judging[ProvedHeader]:
    """The header in an answer, proved by the hash that it names. `encoded`: the answer that gives it as it is hashed,
    if one is needed."""
    form = answer.form.header
    header = _read(text, block, ("hash", *form.members, *form.later, *form.positions))
    proof = in_one_step(prove_header, header, form, None if form.members else _read_encoded(encoded))
    try:
        yield from prove_form(answer, "header of a block", whole(member(header, "number"), "number"), proof)
    except Doubted as doubt:
        if known := answer.seen.unknown_of(answer.block_method):
            raise OtherForm(f"the chain has another {known}") from None
        raise Doubted(f"block {block}: {doubt}", doubt.form, lasting=doubt.lasting) from None
    return kept_header(answer, header)


def _read(text: bytes | None, block: int | str, names: Sequence[str]) -> dict[str, Any]:
    """These members of a block."""
    if text in (None, b"null"):
        raise Unsure(f"block {block} could not be had")
    header = _decoded(decode_members(text or b""), names)
    if isinstance(block, int) and whole(member(header, "number"), "number") != block:
        raise Unsure(f"block {block} could not be had")
    return header


def _decoded(members: Mapping[str, Raw], names: Sequence[str]) -> dict[str, Any]:
    return {name: msgspec.json.decode(members[name]) for name in names if name in members}


def kept_header(answer: ReceivedAnswer, header: Mapping[str, Any]) -> ProvedHeader:
    """Keep a header that was proved."""
    found = ProvedHeader(
        number=whole(member(header, "number"), "number"),
        hash=text_of_hash(header, "hash"),
        parent=text_of_hash(header, "parentHash"),
        time=whole(member(header, "timestamp"), "timestamp"),
        state_root=hash_of(header, "stateRoot"),
        bloom=data(member(header, "logsBloom"), "logsBloom", BLOOM_BYTES),
    )
    answer.blocks.add_header(found)
    return found


def headers_between(answer: ReceivedAnswer, first: int, last: int) -> Judging[list[ProvedHeader]]:
    """The proved headers of consecutive blocks of the served branch, the first one first: each has the hash that the
    next one names as its parent's."""
    found = [(yield from header_of(answer, last))]
    while (number := last - len(found)) >= first:
        header = answer.blocks.header(found[-1].parent)
        if header is None:
            lowest = max(first, number - HEADERS_AT_ONCE + 1)
            asked = [number, *(one for one in range(lowest, number) if answer.blocks.header_at(one) is None)]
            told = (yield tuple(call for one in asked for call in _header_calls(answer, one))) or ()
            width = len(told) // len(asked)
            for at, one in enumerate(asked):
                if told[at * width] is not None:
                    yield from _proved(answer, told[at * width], told[(at + 1) * width - 1], one)
            header = answer.blocks.header(found[-1].parent)
        if header is None or header.number != number:
            raise Unsure(f"block {number} could not be had")
        answer.learn(number, header.hash)
        found.append(header)
    return found[::-1]


class WholeBlock(Struct, frozen=True, gc=False):
    """A block whose header and transactions are proved."""

    header: Mapping[str, Any]
    """What the other members of the block are compared with."""
    transactions: list[Raw]


def whole_block(answer: ReceivedAnswer, number: int, hash: str) -> Judging[WholeBlock]:
    """The block with this number and hash, as the call names it."""
    if isinstance(answer.named, str):
        ask = NeededCall(answer.by_hash_method, b'["%b",true]' % hash.encode(), "proved")
    else:
        ask = NeededCall(answer.block_method, b'["0x%x",true]' % number, "proved")
    (text,) = yield from _proved_results(answer, (ask,))
    members = yield from read_members(text)
    header = _decoded(members, _COMPARED)
    if text_of_hash(header, "hash") != hash:
        raise Unsure(f"block {hash} could not be had")
    return WholeBlock(header, (yield from read_items(members.get("transactions", Raw(b"[]")))))


_COMPARED = ("hash", "number", "timestamp", "difficulty", "baseFeePerGas", "transactionsRoot", "receiptsRoot")


def receipts_of(answer: ReceivedAnswer, numbers: Sequence[int]) -> Judging[list[list[Raw]]]:
    """The proved receipts of each of these blocks of the served branch, or of the one that the call names by its
    hash."""
    method = answer.form.receipts_method
    if not method:
        raise OtherForm("the chain has no method that gives the receipts of a block")
    named = answer.named
    params = [f'["{named}"]' if isinstance(named, str) else f'["0x{number:x}"]' for number in numbers]
    texts = yield from _proved_results(answer, [NeededCall(method, one.encode(), "proved") for one in params])
    found = list[list[Raw]]()
    for text in texts:
        found.append((yield from read_items(text)))
    return found


def _proved_results(answer: ReceivedAnswer, asks: Sequence[NeededCall]) -> Judging[list[bytes]]:
    """The results of calls, each of which is proved itself."""
    told, found = (yield tuple(asks)) or [None] * len(asks), list[bytes]()
    for ask, text in zip(asks, told, strict=True):
        if text is None:
            methods = (ask.method, answer.block_method, answer.by_hash_method)
            if unknown := next(filter(None, map(answer.seen.unknown_of, methods)), ""):
                raise OtherForm(f"the chain has another {unknown}")
            raise Unsure(f"what {ask.method} {ask.params.decode()} gives could not be proved")
        found.append(text)
    return found
