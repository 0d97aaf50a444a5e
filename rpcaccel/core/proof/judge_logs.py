"""Judges lists of logs: each fits the filter and names the hash of its block; blooms show where logs may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from rpcaccel.core.hashing.bloom import BLOOM_BYTES, FILLED_IN, FULL_BLOOM, NO_BLOOM, bloom_bits, excludes
from rpcaccel.core.proof.encoding import Disproved, OtherForm, data, member, whole
from rpcaccel.core.proof.known_chain import ProvedHeader
from rpcaccel.core.proof.needed_blocks import header_of, headers_between, receipts_of
from rpcaccel.core.proof.receipts import same_log, searched
from rpcaccel.core.proof.received_answer import (
    Doubted,
    Judgement,
    Judging,
    NeededCall,
    ReceivedAnswer,
    Standing,
    Unsure,
    check_branch,
    check_call,
    place_of,
    prove_form,
    read_members,
    read_object,
    read_objects,
    refuse_false_hash,
    text_of_hash,
)
from rpcaccel.core.stepwise import ITEMS_A_STEP, in_one_step

MAX_ASKED_BLOCKS = 128
"""Blocks that are asked for to judge hashes that logs name: a segment of a range."""
MAX_PROVED_BLOCKS = 1024
"""Blocks of the longest range whose logs are proved: their headers are asked for one by one."""
RECEIPTS_AT_ONCE = 16
"""Blocks whose receipts are asked for at the same time to judge one list of logs."""
_CRITERIA = frozenset({"address", "topics", "fromBlock", "toBlock", "blockHash"})
MASKS_A_STEP = 256
"""Bits of addresses and topics that blooms are held against in one step, which takes some 50 microseconds."""
MASKS_AT_ALL = 2048
"""Bits that blooms are held against for one list of logs that is judged by what it shows itself: fewer blocks are
looked at for a filter of many addresses."""


Wanted: TypeAlias = list[list[bytes]]
"""The alternatives for the address and for each topic; empty: any."""


def judge_logs(answer: ReceivedAnswer) -> Judging[Judgement]:
    """Logs by a filter. Each fits it and names the hash of its block; a bloom shows where logs may be missing."""
    shown = yield from read_objects(answer.result)
    criteria = answer.params[0] if answer.params and isinstance(answer.params[0], Mapping) else {}
    wanted, known_criteria = _filter(criteria), criteria.keys() <= _CRITERIA  # a node may read others as it likes
    hashes = yield from _hashes_in(answer, shown)
    found, misfit = yield from _found(shown, criteria, wanted)
    headers = list[ProvedHeader]()
    if answer.full and known_criteria:
        with suppress(OtherForm):
            headers = yield from _headers_of(answer)
    for number, block in hashes.items():
        check_call(answer, number, block)
        if answer.form.false_log_hashes and answer.blocks.of(number) not in ("", block):
            refuse_false_hash(answer)
        if not isinstance(answer.named, str):
            check_branch(answer, number, block)
    if known_criteria:
        yield from prove_form(answer, "filter", answer.plan.head, in_one_step(_prove_fit, misfit), lasting=False)
    if headers and answer.by_roots:
        with suppress(OtherForm):
            yield from _prove_complete(answer, headers, shown, found, wanted)
            return Judgement(Standing.PROVED, block=headers[-1].hash)
    yield from _judge_by_blooms(answer, headers, hashes, found, wanted)
    if headers and not shown and all(header.bloom != FULL_BLOOM for header in headers):
        return Judgement(Standing.PROVED, block=headers[-1].hash)  # else one would have been doubted
    return Judgement(Standing.CONSISTENT)


def _hashes_in(answer: ReceivedAnswer, shown: Sequence[Mapping[str, Any]]) -> Judging[dict[int, str]]:
    """The hashes of blocks that logs name, by number. Logs of one block name one hash."""
    hashes = dict[int, str]()
    for at, log in enumerate(shown):
        number, block = place_of(log)
        if hashes.setdefault(number, block) != block or (isinstance(answer.named, str) and answer.named != block):
            refuse_false_hash(answer)
        if at % ITEMS_A_STEP == 0:
            yield None
    return hashes


Found: TypeAlias = dict[int, list[list[bytes]]]
"""By number of block, of each log what it can be found by."""


def _found(
    shown: Sequence[Mapping[str, Any]], criteria: Mapping[str, Any], wanted: Wanted
) -> Judging[tuple[Found, bool]]:
    """What there is in logs; and does one of them not fit the filter?"""
    found, misfit, first, last = Found(), False, _bound(criteria, "fromBlock"), _bound(criteria, "toBlock")
    for at, log in enumerate(shown):
        number, words = place_of(log)[0], searched(log)
        within = (first or 0) <= number <= (number if last is None else last)
        misfit = misfit or not within or not _is_wanted(words, wanted)
        found.setdefault(number, []).append(words)
        if at % ITEMS_A_STEP == 0:
            yield None
    return found, misfit


def _prove_fit(misfit: bool) -> None:
    if misfit:
        raise Disproved("a log does not fit the filter")


# -- complete by proof -------------------------------------------------------------------------------------------------


def _headers_of(answer: ReceivedAnswer) -> Judging[list[ProvedHeader]]:
    """The proved headers of the blocks that a call for logs is about; none where it cannot be proved."""
    first, last = answer.plan.oldest, answer.plan.block
    if isinstance(answer.named, str):
        return [(yield from header_of(answer, answer.named))]
    if first is None or last is None or not 0 <= last - first < MAX_PROVED_BLOCKS:
        return []
    return (yield from headers_between(answer, first, last))


def _prove_complete(
    answer: ReceivedAnswer,
    headers: Sequence[ProvedHeader],
    shown: Sequence[Mapping[str, Any]],
    found: Found,
    wanted: Wanted,
) -> Judging[None]:
    """Prove that a list of logs has all that the receipts of these blocks have, and no others."""
    searching, given = list[int](), iter(shown)
    times = {header.number: header.time for header in headers}
    masks, many = (yield from _masks(wanted)), 0
    for header in headers:
        if header.number in found or (header.bloom != NO_BLOOM and not excludes(header.bloom, masks)):
            searching.append(header.number)
        many += 1 + sum(map(len, masks))
        if many > MASKS_A_STEP:
            yield None
            many = 0
    for begin in range(0, len(searching), RECEIPTS_AT_ONCE):
        numbers = searching[begin : begin + RECEIPTS_AT_ONCE]
        for number, receipts in zip(numbers, (yield from receipts_of(answer, numbers)), strict=True):
            for text in receipts:
                yield None
                members = yield from read_members(text)
                for log in (yield from read_objects(members["logs"])):
                    if _is_wanted(searched(log), wanted):
                        one = next(given, None)
                        if one is None or not same_log(one, log) or not _is_of_time(one, times[number]):
                            raise Disproved(f"a log of block {number} is missing or another one, as its receipts show")
    if next(given, None) is not None:
        raise Disproved("it has a log that no receipt has")


def _is_of_time(log: Mapping[str, Any], time: int) -> bool:
    """Has the log this timestamp, if it shows one?"""
    shown = [log[name] for name in ("blockTimestamp", "timestamp") if log.get(name) is not None]
    return all(whole(one, "the timestamp") == time for one in shown)


# -- blooms and hashes of blocks that are known ------------------------------------------------------------------------


def _judge_by_blooms(
    answer: ReceivedAnswer,
    headers: Sequence[ProvedHeader],
    hashes: Mapping[int, str],
    found: Found,
    wanted: Wanted,
) -> Judging[None]:
    blooms = [(header.number, header.bloom) for header in headers]
    if answer.form.false_log_hashes and not headers:
        blooms = yield from _blooms_by_blocks(answer, hashes)
    elif not headers:
        blooms = _blooms_known(answer, sum(map(len, wanted)))
    masks = (yield from _masks(wanted)) if blooms else []
    for number, bloom in blooms:
        yield from _prove_bloom(answer, number, bloom, found.get(number, []), masks)


def _masks(wanted: Wanted) -> Judging[list[list[int]]]:
    """The bits that the alternatives of a filter set in blooms."""
    masks = list[list[int]]()
    for part in wanted:
        masks.append([])
        for value in part:
            masks[-1].append(bloom_bits(value))
            if len(masks[-1]) % ITEMS_A_STEP == 0:
                yield None
    return masks


def _blooms_known(answer: ReceivedAnswer, alternatives: int) -> list[tuple[int, bytes]]:
    """The blooms of the blocks that a call for logs is about, by number, as far as they are known, and no more than a
    short time allows."""
    numbers = range(answer.plan.oldest or 0, (-1 if answer.plan.block is None else answer.plan.block) + 1)
    if isinstance(answer.named, str):
        numbers = range(number := answer.blocks.number_of(answer.named), number + 1)
    known = map(answer.blocks.header_at, numbers[: MASKS_AT_ALL // (alternatives + 64)])
    return [(header.number, header.bloom) for header in known if header is not None]


def _blooms_by_blocks(answer: ReceivedAnswer, hashes: Mapping[int, str]) -> Judging[list[tuple[int, bytes]]]:
    """The blooms of blocks of which a list has logs, by number, on a chain whose nodes keep false hashes in logs. The
    hashes that the logs name must be those of the blocks."""
    if isinstance(answer.named, str):
        asks = [NeededCall(answer.by_hash_method, b'["%b",false]' % answer.named.encode(), "memory")]
    else:
        if answer.proposes is False:
            return []
        if answer.proposes and len(hashes) > MAX_ASKED_BLOCKS:
            raise Unsure("it has logs of too many blocks")
        how: Literal["any", "memory"] = "any" if answer.proposes else "memory"
        numbers = list(hashes)[:MAX_ASKED_BLOCKS]
        asks = [NeededCall(answer.block_method, b'["0x%x",false]' % number, how) for number in numbers]
    told = (yield tuple(asks)) or () if asks else ()
    if answer.proposes and not isinstance(answer.named, str) and any(text is None for text in told):
        raise Unsure("the block of a log could not be had")
    blooms = list[tuple[int, bytes]]()
    for text in told:
        if text not in (None, b"null"):
            header = read_object(text)
            number = whole(member(header, "number"), "number")
            if hashes.get(number, text_of_hash(header, "hash")) != text_of_hash(header, "hash"):
                refuse_false_hash(answer)
            bloom = data(member(header, "logsBloom"), "logsBloom", BLOOM_BYTES)
            if bloom not in FILLED_IN or (bloom == NO_BLOOM and number not in hashes):
                blooms.append((number, bloom))
    return blooms


def _prove_bloom(
    answer: ReceivedAnswer, number: int, bloom: bytes, found: Sequence[Sequence[bytes]], masks: Sequence[list[int]]
) -> Judging[None]:
    """Prove that a block's bloom has the logs that a node gave. Doubt that there are none where it may have some."""
    if bloom == FULL_BLOOM:
        return

    def prove() -> None:
        if any(excludes(bloom, ([bloom_bits(word)] for word in words)) for words in found):
            raise Disproved(f"block {number} has no such log, as its bloom shows")

    yield from prove_form(answer, "bloom of a block", number, in_one_step(prove))
    if not found and bloom != NO_BLOOM and not excludes(bloom, masks):
        raise Doubted(f"block {number} may have such logs, as its bloom shows", perhaps=True)


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
