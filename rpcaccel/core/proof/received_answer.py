"""An answer of a node as it is judged: what is known of its chain, and what becomes of it.

    answer -> fits the call?            what was asked for stands in it: the hash, the number, the index, the filter
           -> is on the served branch?  the hash of its block is the one that is known for that number
           -> hashes come out right?    what it shows, encoded as the chain does it, has the hash that it names

A judgement is made by a generator: it yields the calls whose results it needs (`NeededCall`), and None where others may
have a turn. What shows that an answer is false is told from what only looks so in core.proof.known_chain.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct

from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import Spelling
from rpcaccel.core.proof.encoding import Disproved, NotProvable, OtherForm, member, whole
from rpcaccel.core.proof.forms import ProofForm
from rpcaccel.core.proof.headers import hash_of
from rpcaccel.core.proof.known_chain import KnownBlocks, SeenForms
from rpcaccel.core.stepwise import ITEMS_A_STEP, Steps
from rpcaccel.core.wire import json_text

MAX_OBJECT_BYTES = 1 << 20
"""Bytes of the longest transaction or log that is read."""
LONG_TEXT = 1 << 20
"""Bytes of a text from which it is split in steps, which takes ten times as long as to split it at once."""
_HASH_LETTERS = 2 + 64
_NO_HASH = "0x" + "0" * 64
_HASHES = (Spelling.HEX_TAG_OR_HASH, Spelling.HARMONY_NUMBER_OR_HASH)
"""The forms of block references that may be hashes."""
_T = TypeVar("_T")


class Standing(Enum):
    """What is known of an answer."""

    PROVED = "its hash comes out right"
    CONSISTENT = "it fits the call, the branch and itself; no hash of all that it shows could be made"
    NOT_PROVABLE = "it cannot be proved"
    UNSURE = "what it is proved by cannot be had now"
    DOUBTED = "another node may have a better one; if none has, the client gets it"
    DISPROVED = "it is false"


class Judgement(Struct, frozen=True):
    """How an answer was judged."""

    standing: Standing
    why: str = ""
    form: str = ""
    """What of the answer does not come out right, where another node may show whether it does on this chain."""
    lasting: bool = False
    """Is that form one of the chain's, and not of this answer alone? Of what is not provable: does the chain hash it in
    a way of its own?"""
    false: bool = False
    """Is the doubted answer false, if another node's answer of that form to the same call comes out right?"""
    proved: frozenset[str] = frozenset()
    """The forms of the answer that came out right."""
    perhaps: bool = False
    """Is it doubted only because of what a bloom suggests?"""
    block: str = ""
    """The hash of the block, in lower case, by which all that the answer shows is proved; empty otherwise."""


class NeededCall(Struct, frozen=True):
    """A call whose result is needed; None for the result where it cannot be had."""

    method: str
    params: bytes
    how: Literal["memory", "any", "header", "agreed", "proved"]
    """"memory": what memory has; "any": what a node gives as well; "header": of a block by its number or its hash, of
    which no more than the header is judged, and which is not kept; "agreed": what nodes give that hold most of the
    weight; "proved": only a result that is proved."""


Judging: TypeAlias = Generator[tuple[NeededCall, ...] | None, Sequence[bytes | None] | None, _T]


@dataclass(slots=True, kw_only=True)
class ReceivedAnswer:
    """An answer, and what is known of the chain where it is judged."""

    plan: Plan
    result: bytes
    form: ProofForm
    blocks: KnownBlocks
    seen: SeenForms
    final: int
    """The highest final block."""
    block_method: str
    """The method of a block by number, whose params are the number and `false`; `by_hash_method`: of one by hash."""
    by_hash_method: str
    full: bool = False
    """Is all of it to be proved, by other calls where it takes some? Else it is judged by what it shows itself."""
    proposes: bool | None = False
    """On a chain whose nodes keep false hashes in the logs of the blocks that they proposed: does the node propose
    blocks? None: it does not say so."""
    params: list[Any] = field(default_factory=list)
    """The params of the call."""
    named: int | str | None = None
    """The block that the call names: its number, or its hash; None where it names none, or by a tag."""
    proved: set[str] = field(default_factory=set)
    """The forms that came out right."""
    _forgotten: int = 0

    @property
    def by_roots(self) -> bool:
        """Are transactions and receipts to be proved by the roots that headers have of them?"""
        return self.full and bool(self.form.transactions)

    def learn(self, number: int, hash: str) -> None:
        """Take the hash of a block on the served branch, unless a reorganisation was noticed since `read`."""
        if not self.is_outdated:
            self.blocks.add(number, hash)

    @property
    def is_outdated(self) -> bool:
        """Was a reorganisation noticed since `read`, so that what was compared may be of two branches?"""
        return self._forgotten != self.blocks.forgotten

    def read(self) -> None:
        """Read what the call asks for."""
        self._forgotten = self.blocks.forgotten
        params = msgspec.json.decode(self.plan.params)
        self.params = params if isinstance(params, list) else []
        if self.plan.rule.names_transaction is None:
            self.named = self.block_in(0)

    def argument(self, index: int) -> Any:
        """A param of the call. Raises NotProvable where it has none there."""
        if index >= len(self.params):
            raise NotProvable("the call lacks a param")
        return self.params[index]

    def block_in(self, at: int) -> int | str | None:
        """The block that the param at this index names, as in `named`."""
        named, where = self.params[at] if at < len(self.params) else None, self.plan.rule.block
        by_hash = where is None or where.spelling in _HASHES
        if isinstance(named, Mapping):
            by_hash = "blockHash" in named
            named = (
                named["blockHash"] if by_hash else None if self.plan.rule.shows == "logs" else named.get("blockNumber")
            )
        if by_hash and isinstance(named, str) and len(named) == _HASH_LETTERS:
            return named.lower()
        spelled = isinstance(named, int) or (isinstance(named, str) and named[:1].isdigit())
        return self.plan.block if where is not None and spelled and not self.plan.pending else None


class Doubted(Exception):
    """An answer is doubted; arguments as in Judgement."""

    def __init__(
        self, why: str, form: str = "", *, lasting: bool = False, false: bool = False, perhaps: bool = False
    ) -> None:
        super().__init__(why)
        self.form = form
        self.lasting = lasting
        self.false = false
        self.perhaps = perhaps


class Unsure(Exception):
    """What an answer is proved by cannot be had now."""


# -- the call and the branch -------------------------------------------------------------------------------------------


def check_call(answer: ReceivedAnswer, number: int, hash: str) -> None:
    """Does what a node shows belong to the block that the call names?"""
    if hash == _NO_HASH:
        raise NotProvable("it stands in a block that has no hash yet")
    if isinstance(answer.named, str) and answer.named != hash:
        raise Disproved("it has another block hash than the one that was asked for")
    if isinstance(answer.named, int) and answer.named != number:
        raise Disproved("it has another block number than the one that was asked for")
    if answer.blocks.number_of(hash) not in (-1, number):
        raise Disproved("it has another block number than the block with its hash")


def check_branch(answer: ReceivedAnswer, number: int, hash: str) -> None:
    """Is the block with this number and hash on the branch that is served, as far as that is known?"""
    served = answer.blocks.of(number)
    if not served:
        return
    form = f"branch in {answer.plan.rule.method}"
    if served != hash:
        why = f"it has another hash of block {number} than the branch that is served"
        raise Doubted(why, form, false=number <= answer.final)
    answer.proved.add(form)


def prove_form(
    answer: ReceivedAnswer,
    form: str,
    number: int,
    proof: Steps[_T],
    *,
    telling: bool = False,
    lasting: bool = True,
) -> Judging[_T]:
    """Prove what has this form at a block, and return what the proof comes to.

    Args:
        proof: raises Disproved or NotProvable.
        telling: if this is proved, is the form known? Not if a node could have made it up: then another node is asked
            where it cannot be proved.
        lasting: does all of the chain have the form, so that nothing of it can be proved where nodes agree about one
            answer that cannot?
    """
    form = f"{form} in {answer.plan.rule.method}"  # methods may write the same in ways of their own
    try:
        found = yield from proof
    except (Disproved, NotProvable) as error:
        familiarity = answer.seen.familiarity(form, number)
        false = isinstance(error, Disproved)
        if familiarity == "certain" and false:
            raise
        if familiarity == "unknown":
            raise OtherForm(f"the chain has another {form}") from None
        if familiarity == "new" and not false and not answer.full:
            raise  # it is the first one of its form
        raise Doubted(str(error), form, lasting=lasting and familiarity == "new", false=false) from None
    answer.proved.add(form)
    if telling:
        answer.seen.held(form, number)
    return found


# -- what an answer shows ----------------------------------------------------------------------------------------------


def refuse_false_hash(answer: ReceivedAnswer) -> None:
    """A log names a hash that its block does not have. Some chains' nodes keep such hashes, and all else is right."""
    form = "" if answer.form.false_log_hashes else "block hash in logs"
    raise Doubted("a log names a hash that its block does not have", form)


def place_of(of: Mapping[str, Any]) -> tuple[int, str]:
    """The number and the hash of the block in which something stands."""
    return whole(member(of, "blockNumber"), "blockNumber"), text_of_hash(of, "blockHash")


decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode


def read_members(text: bytes | Raw) -> Judging[Mapping[str, Raw]]:
    """The members of an object, which may be long."""
    return decode_members(text) if _is_short(text) else (yield from json_text.member_steps(text, _size(text)))


def read_items(text: bytes | Raw) -> Judging[list[Raw]]:
    """The items of an array, which may be long."""
    return _decode_items(text) if _is_short(text) else (yield from json_text.item_steps(text, _size(text)))


def _is_short(text: bytes | Raw) -> bool:
    return _size(text) <= LONG_TEXT


def _size(text: bytes | Raw) -> int:
    return len(memoryview(text))


def read_objects(text: bytes | Raw) -> Judging[list[Mapping[str, Any]]]:
    """The objects of an array, which may be long."""
    return (yield from decode_objects((yield from read_items(text))))


def decode_objects(texts: Iterable[Raw]) -> Judging[list[Mapping[str, Any]]]:
    """These objects."""
    shown: list[Mapping[str, Any]] = []
    for one in texts:
        shown.append(read_object(one))
        if len(shown) % ITEMS_A_STEP == 0:
            yield None
    return shown


def read_object(text: bytes | Raw) -> Mapping[str, Any]:
    if _size(text) > MAX_OBJECT_BYTES:
        raise NotProvable("a part of it is longer than those that are judged")
    shown = msgspec.json.decode(text)
    if not isinstance(shown, dict):
        raise NotProvable("it is no object")
    return shown


def text_of_hash(of: Mapping[str, Any], name: str) -> str:
    """A hash in lower case."""
    return f"0x{hash_of(of, name).hex()}"


_SHORT = 4096
"""Bytes of a text whose names are looked at in one step."""


def check_names(text: bytes | Raw) -> Judging[None]:
    """Refuse a text in which an object has two members of one name. Programs take either, and some take names in
    capitals for the same. Raises NotProvable."""
    size = _size(text)
    yield None
    if size <= _SHORT:
        value = msgspec.json.decode(text)
        if len(msgspec.json.encode(value)) != size or not _differ(value if isinstance(value, dict) else ()):
            json.loads(bytes(text), object_pairs_hook=_pairs)
    elif bytes(memoryview(text)[:1]) == b"{":
        members = yield from read_members(text)
        written = sum(_size(value) + len(msgspec.json.encode(name)) + 2 for name, value in members.items())
        if written + 1 != size:
            members = yield from json_text.member_steps(text, size, once=True)
        if not _differ(members):
            raise NotProvable("two members have one name")
        for value in members.values():
            if bytes(memoryview(value)[:1]) in b"[{":
                yield from check_names(value)
    else:
        for item in (yield from read_items(text)):
            yield from check_names(item)


def _differ(names: Iterable[str]) -> bool:
    said = [name.lower() for name in names]
    return len(set(said)) == len(said)


def _pairs(pairs: list[tuple[str, Any]]) -> None:
    if not _differ(name for name, _ in pairs):
        raise NotProvable("two members have one name")
