"""Judges lists of logs: each fits the filter and names the hash of its block; blooms show where logs may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rpcaccel.core.hashing.bloom import BLOOM_BYTES, FILLED_IN, NO_BLOOM, excludes
from rpcaccel.core.proof.encoding import Disproved, data, member, whole
from rpcaccel.core.proof.receipts import searched
from rpcaccel.core.proof.received_answer import (
    ITEMS_A_STEP,
    Doubted,
    Judgement,
    Judging,
    NeededCall,
    ReceivedAnswer,
    Standing,
    Unsure,
    check_call,
    place_of,
    prove_form,
    read_object,
    read_objects,
    refuse_false_hash,
    text_of_hash,
)

MAX_ASKED_BLOCKS = 128
"""Blocks that are asked for to judge one answer: a segment of a range. An answer about more is not proved."""
_CRITERIA = frozenset({"address", "topics", "fromBlock", "toBlock", "blockHash"})
MAX_KNOWN_BLOCKS = 16
"""Blocks that memory is searched for to judge one list of logs: each takes about ten microseconds."""


def judge_logs(answer: ReceivedAnswer) -> Judging[Judgement]:
    """Logs by a filter. Each fits it and names the hash of its block; a bloom shows where logs may be missing."""
    shown = yield from read_objects(answer.result)
    criteria = answer.params[0] if answer.params and isinstance(answer.params[0], Mapping) else {}
    wanted, first, last = _filter(criteria), _bound(criteria, "fromBlock"), _bound(criteria, "toBlock")
    hashes, found = dict[int, str](), dict[int, list[list[bytes]]]()
    for log in shown:
        number, block = place_of(log)
        if hashes.setdefault(number, block) != block or (isinstance(answer.named, str) and answer.named != block):
            refuse_false_hash(answer)
    misfit = False
    for at, log in enumerate(shown):
        number, words = place_of(log)[0], searched(log)
        within = (first or 0) <= number <= (number if last is None else last)
        misfit = misfit or not within or not _is_wanted(words, wanted)
        found.setdefault(number, []).append(words)
        if at % ITEMS_A_STEP == 0:
            yield None
    for number, block in hashes.items():
        check_call(answer, number, block)

    def prove() -> None:
        if misfit:
            raise Disproved("a log does not fit the filter")

    if criteria.keys() <= _CRITERIA:  # a node may read others as it likes
        yield from prove_form(answer, "filter", answer.plan.head, prove, lasting=False)
    blocks = yield from _blocks_of(answer, hashes, first, last)
    for number, header in blocks.items():
        if not answer.form.false_log_hashes and answer.hashes.of(number) != text_of_hash(header, "hash"):
            continue  # nobody knows that the header is of the served branch
        if number in hashes and text_of_hash(header, "hash") != hashes[number]:
            refuse_false_hash(answer)
        yield from _prove_bloom(answer, number, header, found.get(number, []), wanted)
    return Judgement(Standing.CONSISTENT)


def _blocks_of(
    answer: ReceivedAnswer, hashes: Mapping[int, str], first: int | None, last: int | None
) -> Judging[dict[int, Mapping[str, Any]]]:
    """The headers by which logs are judged, by number, as far as they can be had."""
    form, numbers, wait = answer.form, list(hashes), False
    if isinstance(answer.named, str):
        block = NeededCall(answer.by_hash_method, b'["%b",false]' % answer.named.encode(), wait=False)
        headers = _headers((yield (block,)))
        return {whole(member(header, "number"), "number"): header for header in headers if header is not None}
    if form.false_log_hashes:
        wait = bool(answer.proposes)
        if answer.proposes is False or not numbers:
            return {}
        if len(numbers) > MAX_ASKED_BLOCKS:
            if wait:
                raise Unsure("it has logs of too many blocks")
            numbers = numbers[:MAX_ASKED_BLOCKS]
    else:
        if first is not None and last is not None and last - first < MAX_KNOWN_BLOCKS:
            numbers = list(range(first, last + 1))
        numbers = numbers[:MAX_KNOWN_BLOCKS]
    told = (yield tuple(NeededCall(answer.block_method, b'["0x%x",false]' % number, wait) for number in numbers)) or ()
    if wait and any(text is None for text in told):
        raise Unsure("the block of a log could not be had")
    pairs = zip(numbers, _headers(told), strict=True)
    return {number: header for number, header in pairs if header is not None}


def _headers(told: Sequence[bytes | None] | None) -> list[Mapping[str, Any] | None]:
    """The blocks that were asked for; None for each that could not be had."""
    return [None if text is None or text == b"null" else read_object(text) for text in told or ()]


def _prove_bloom(
    answer: ReceivedAnswer, number: int, header: Mapping[str, Any], found: Sequence[Sequence[bytes]], wanted: Wanted
) -> Judging[None]:
    """Prove that a block's bloom has the logs that a node gave. Doubt that there are none where it may have some."""
    bloom = data(member(header, "logsBloom"), "logsBloom", BLOOM_BYTES)
    if bloom in FILLED_IN and (found or bloom != NO_BLOOM):
        return

    def prove() -> None:
        if any(excludes(bloom, ([word] for word in words)) for words in found):
            raise Disproved(f"block {number} has no such log, as its bloom shows")

    yield from prove_form(answer, "bloom of a block", number, prove)
    if not found and any(wanted) and not excludes(bloom, wanted):
        raise Doubted(f"block {number} may have such logs, as its bloom shows", perhaps=True)


Wanted: TypeAlias = list[list[bytes]]
"""The alternatives for the address and for each topic; empty: any."""


def _filter(criteria: Mapping[str, Any]) -> Wanted:
    address, topics = criteria.get("address"), criteria.get("topics") or []
    parts = [
        [data(one, "the filter") for one in ([] if part is None else part if isinstance(part, list) else [part])]
        for part in (address, *topics)
    ]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()  # some clients' logs may have fewer topics than a filter that names none at the end
    return parts


def _is_wanted(words: Sequence[bytes], wanted: Wanted) -> bool:
    """Does a log with these words, its address and its topics, fit the filter?"""
    return len(wanted) <= len(words) and all(
        not part or word in part for word, part in zip(words, wanted, strict=False)
    )


def _bound(criteria: Mapping[str, Any], name: str) -> int | None:
    """A bound of a range; None where it is a tag, or left out."""
    said = criteria.get(name)
    return whole(said, name) if isinstance(said, int) or (isinstance(said, str) and said[:2] == "0x") else None
