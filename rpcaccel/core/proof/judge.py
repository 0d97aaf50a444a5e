"""Judges answers of nodes by arithmetic: blocks, transactions, receipts, proofs of state, and (judge_logs) logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from rpcaccel.core.hashing.bloom import BLOOM_BYTES, FILLED_IN, bloom_bits
from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.hashing.trie import EMPTY_TRIE_ROOT
from rpcaccel.core.proof.encoding import Disproved, NotProvable, data, items, member, whole
from rpcaccel.core.proof.forms import ProofForm
from rpcaccel.core.proof.headers import hash_of, prove_header, prove_withdrawals
from rpcaccel.core.proof.judge_logs import judge_logs
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
    check_branch,
    check_call,
    decode_items,
    decode_members,
    place_of,
    prove_form,
    read_object,
    read_objects,
    refuse_false_hash,
    text_of_hash,
)
from rpcaccel.core.proof.state import proved_account, proved_slot, slot_key, word
from rpcaccel.core.proof.transactions import prove_transaction, type_of
from rpcaccel.core.stepwise import Steps
from rpcaccel.core.wire.json_text import UNREADABLE

MAX_JUDGED_BYTES = 1 << 20
"""Bytes of the longest answer that is judged: decoding a longer one would take a turn of the loop of several
milliseconds."""
_LINKS = ("number", "hash", "parentHash")
_UNREAD = frozenset({*_LINKS, "transactions"})
"""Members of a block that are read before the others, or not at all."""


def judge_answer(answer: ReceivedAnswer) -> Judging[Judgement]:
    """Judge an answer whose rule says what it shows. Raises nothing."""
    try:
        if answer.result == b"null" or answer.plan.pending:
            return Judgement(Standing.NOT_PROVABLE, "there is nothing to prove")
        answer.read()
        if len(answer.result) > MAX_JUDGED_BYTES:
            return Judgement(Standing.NOT_PROVABLE, "it is longer than answers that are judged")
        judgement = yield from _JUDGES[answer.plan.rule.shows](answer)
        return replace(judgement, proved=frozenset(answer.proved))
    except (NotProvable, *UNREADABLE) as error:
        return Judgement(Standing.NOT_PROVABLE, str(error))
    except Doubted as error:
        return Judgement(Standing.DOUBTED, str(error), error.form, error.lasting, error.false, perhaps=error.perhaps)
    except Unsure as error:
        return Judgement(Standing.UNSURE, str(error))
    except Disproved as error:
        return Judgement(Standing.DISPROVED, str(error))


# -- blocks and transactions -------------------------------------------------------------------------------------------


def _block(answer: ReceivedAnswer) -> Judging[Judgement]:
    yield from ()
    members = decode_members(answer.result)
    block = {name: msgspec.json.decode(members[name]) for name in _LINKS if name in members}
    number, hash, form = whole(member(block, "number"), "number"), text_of_hash(block, "hash"), answer.form.header
    check_call(answer, number, hash)
    if number and not isinstance(answer.named, str):
        check_branch(answer, number - 1, text_of_hash(block, "parentHash"))
    if not form.members:
        raise NotProvable("the chain's blocks do not show all that their hash is made of")
    block |= {name: msgspec.json.decode(text) for name, text in members.items() if name not in _UNREAD}
    later, served = sum(name in block for name in form.later), answer.hashes.of(number) == hash
    yield from prove_form(
        answer, f"header with {later} later members", number, lambda: prove_header(block, form), telling=served
    )
    if "withdrawals" in block:
        telling = served and bool(block["withdrawals"])
        yield from prove_form(answer, "root of withdrawals", number, lambda: prove_withdrawals(block), telling=telling)
    if "transactions" in members:
        none = bytes(members["transactions"]) == b"[]"
        yield from prove_form(answer, "root of no transactions", number, lambda: _prove_none(block, none))
    if number and served:
        answer.hashes.add(number - 1, text_of_hash(block, "parentHash"))
    return Judgement(Standing.PROVED if served or isinstance(answer.named, str) else Standing.CONSISTENT)


def _prove_none(block: Mapping[str, Any], none: object) -> None:
    """Prove that a block has transactions, or `none`, by its root of them."""
    if (hash_of(block, "transactionsRoot") == EMPTY_TRIE_ROOT) != bool(none):
        raise Disproved("the block shows transactions, or none, and its root of them says otherwise")


def _transaction(answer: ReceivedAnswer) -> Judging[Judgement]:
    yield from ()
    shown, types = read_object(answer.result), answer.form.transactions
    number, hash = answer.plan.head, text_of_hash(shown, "hash")
    by_hash = answer.plan.rule.names_transaction is not None
    if not by_hash:
        _check_index(answer, shown)
    if shown.get("blockHash") is not None:
        number, block = whole(member(shown, "blockNumber"), "blockNumber"), text_of_hash(shown, "blockHash")
        check_call(answer, number, block)
    if by_hash:
        yield from _prove_name(answer, number, hash)
    form = "harmony" if "harmony" in types else type_of(shown)
    form = form if form in types else "another"

    def prove() -> None:
        prove_transaction(shown, types)

    # Some chains hash transactions of one type in several ways.
    yield from prove_form(
        answer,
        f"transaction of type {form}",
        number,
        prove,
        lasting=form == "another",
    )
    return Judgement(Standing.PROVED)


def _check_index(answer: ReceivedAnswer, shown: Mapping[str, Any]) -> None:
    if whole(member(shown, "transactionIndex"), "transactionIndex") != whole(answer.argument(1), "the index"):
        raise Disproved("it has another index than the one that was asked for")


def _prove_name(answer: ReceivedAnswer, number: int, hash: str) -> Judging[None]:
    """Prove that a transaction is the one that the call names. On some chains it has several hashes."""
    asked = str(answer.argument(answer.plan.rule.names_transaction or 0)).lower()

    def prove() -> None:
        if asked.removeprefix("0x") != hash[2:]:
            raise Disproved("it has another transaction hash than the one that was asked for")

    if answer.form.transactions:
        yield from prove_form(answer, "hash of a transaction", number, prove, lasting=False)


# -- receipts ----------------------------------------------------------------------------------------------------------


def _receipt(answer: ReceivedAnswer) -> Judging[Judgement]:
    shown = yield from _read_receipt(answer.result)
    yield from _check_hashes(answer, shown)
    number, block = place_of(shown)
    check_call(answer, number, block)
    yield from _prove_name(answer, number, text_of_hash(shown, "transactionHash"))
    yield from prove_form(answer, "bloom of logs", number, lambda: _prove_logs(shown, answer.form))
    return Judgement(Standing.CONSISTENT)


def _receipts(answer: ReceivedAnswer) -> Judging[Judgement]:
    """The receipts of a block, in their order: the sums of their gas and the indexes of their logs go up."""
    shown: list[Mapping[str, Any]] = []
    for text in decode_items(answer.result):
        shown.append((yield from _read_receipt(text)))
        yield from _check_hashes(answer, shown[-1])
    if not shown:
        return Judgement(Standing.CONSISTENT)
    number, block = place_of(shown[0])
    check_call(answer, number, block)
    for one in shown:
        yield from prove_form(answer, "bloom of logs", number, partial(_prove_logs, one, answer.form))
    yield from prove_form(answer, "order of receipts", number, lambda: _prove_order(shown))
    return Judgement(Standing.CONSISTENT)


def _read_receipt(text: bytes | Raw) -> Judging[Mapping[str, Any]]:
    members = decode_members(text)
    logs = yield from read_objects(members["logs"]) if "logs" in members else ()
    return {name: msgspec.json.decode(value) for name, value in members.items() if name != "logs"} | {"logs": logs}


def _check_hashes(answer: ReceivedAnswer, receipt: Mapping[str, Any]) -> Judging[None]:
    """Refuse a receipt whose logs name another hash than that of its block."""
    block = text_of_hash(receipt, "blockHash")
    for at, log in enumerate(receipt["logs"]):
        if text_of_hash(log, "blockHash") != block:
            refuse_false_hash(answer)
        if at % ITEMS_A_STEP == 0:
            yield None


def _prove_logs(receipt: Mapping[str, Any], form: ProofForm) -> Steps[None]:
    """Prove that the logs of a receipt stand where it does, and make up its bloom."""
    bits = 0
    for at, log in enumerate(receipt["logs"]):
        if not _stands_with(log, receipt, form.transactions):
            raise Disproved("a log stands in another place than its receipt")
        for value in searched(log):
            bits |= bloom_bits(value)
        if at % ITEMS_A_STEP == 0:
            yield
    shown = data(member(receipt, "logsBloom"), "logsBloom", BLOOM_BYTES)
    if shown not in FILLED_IN and int.from_bytes(shown, "big") != bits:
        raise Disproved("a receipt has another bloom than that of its logs")


def _stands_with(log: Mapping[str, Any], receipt: Mapping[str, Any], named: object) -> bool:
    """Does a log stand where its receipt does? `named`: a transaction has one hash, which both name."""
    if named and text_of_hash(log, "transactionHash") != text_of_hash(receipt, "transactionHash"):
        return False
    return all(
        whole(member(log, name), name) == whole(member(receipt, name), name)
        for name in ("transactionIndex", "blockNumber")
    )


def _prove_order(receipts: Sequence[Mapping[str, Any]]) -> Steps[None]:
    """Prove that receipts stand in one block, one behind the other."""
    used, logs, place = 0, 0, place_of(receipts[0])
    for index, one in enumerate(receipts):
        together = whole(member(one, "cumulativeGasUsed"), "cumulativeGasUsed")
        if place_of(one) != place or whole(member(one, "transactionIndex"), "transactionIndex") != index:
            raise Disproved(f"receipt {index} stands in another place")
        if whole(member(one, "gasUsed"), "gasUsed") != together - used:
            raise Disproved(f"receipt {index} has another gasUsed than the sums say")
        for at, log in enumerate(one["logs"], logs):
            if whole(member(log, "logIndex"), "logIndex") != at:
                raise Disproved(f"receipt {index} has a log with another index than its place")
            if at % ITEMS_A_STEP == 0:
                yield
        used, logs = together, logs + len(one["logs"])


# -- state -------------------------------------------------------------------------------------------------------------


def _state(answer: ReceivedAnswer) -> Judging[Judgement]:
    """An account, and places of its storage, by the state root of the block that was asked about (EIP-1186)."""
    header = yield from _header_of(answer)
    shown, root = read_object(answer.result), hash_of(header, "stateRoot")
    address, keys = (
        data(answer.argument(0), "the address", 20),
        [slot_key(key) for key in items(answer.argument(1), "keys")],
    )
    if data(member(shown, "address"), "address", 20) != address:
        raise Disproved("it has another address than the one that was asked for")
    number = whole(header["number"], "number")
    unsettled = answer.plan.block is not None and number > answer.final

    def prove() -> Steps[None]:
        nodes = items(member(shown, "accountProof"), "accountProof")
        if unsettled and nodes and keccak256(data(nodes[0], "accountProof")) != root:
            why = f"it proves another state than that of block {number} on the branch that is served"
            raise Doubted(why, f"branch in {answer.plan.rule.method}")
        account = proved_account(shown, address, root)
        entries = items(member(shown, "storageProof"), "storageProof")
        if not account.shows_as(shown):
            raise Disproved("it has another account than its proof leads to")
        if [slot_key(member(entry, "key")) for entry in entries] != keys:
            raise Disproved("it has other places than those that were asked for")
        for key, entry in zip(keys, entries, strict=True):
            yield
            if word(member(entry, "value")) != proved_slot(entry, key, account):
                raise Disproved("a place has another value than its proof leads to")

    try:
        yield from prove_form(answer, "state", number, prove, telling=True)
    except NotProvable as error:  # another node may give a proof
        raise Doubted(str(error)) from None
    return Judgement(Standing.PROVED, block=text_of_hash(header, "hash"))


def _header_of(answer: ReceivedAnswer) -> Judging[Mapping[str, Any]]:
    """The proved header of the block that the call is about, which the call may name by its hash."""
    number, known = answer.plan.block, ""
    if number is not None:
        known = answer.hashes.of(number)
        ask = NeededCall(answer.block_method, b'["0x%x",false]' % number, agreed=not known)
    elif isinstance(named := answer.block_in(2), str):
        known, ask = named, NeededCall(answer.by_hash_method, b'["%b",false]' % named.encode())
    else:
        raise NotProvable("the call names its block by neither number nor hash")
    what = f"block {known if number is None else number}"
    forgotten = answer.hashes.forgotten
    told = (yield (ask,)) or (None,)
    if told[0] in (None, b"null") or forgotten != answer.hashes.forgotten:
        raise Unsure(f"{what} could not be had")
    header = read_object(told[0] or b"")
    hash = text_of_hash(header, "hash")
    try:
        prove_header(header, answer.form.header)
    except Disproved as error:
        raise NotProvable(f"{what}: {error}") from None
    if number not in (None, whole(member(header, "number"), "number")) or (known or hash) != hash:
        raise Unsure(f"{what} could not be had")
    if number is not None:
        answer.hashes.add(number, hash)
    return header


_JUDGES: dict[str, Callable[[ReceivedAnswer], Judging[Judgement]]] = {
    "block": _block,
    "transaction": _transaction,
    "receipt": _receipt,
    "receipts": _receipts,
    "logs": judge_logs,
    "state": _state,
}
