"""Judges answers of nodes by arithmetic: blocks, transactions, receipts, proofs of state, and (judge_logs) logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.hashing.trie import EMPTY_TRIE_ROOT
from rpcaccel.core.proof import receipts as receipts_proof
from rpcaccel.core.proof import transactions as transactions_proof
from rpcaccel.core.proof.encoding import (
    Disproved,
    NotProvable,
    OtherForm,
    data,
    data32,
    items,
    member,
    whole,
)
from rpcaccel.core.proof.headers import hash_of, prove_header, prove_same, prove_withdrawals
from rpcaccel.core.proof.judge_logs import judge_logs
from rpcaccel.core.proof.needed_blocks import (
    check_place,
    encoded_header,
    header_of,
    kept_header,
    receipts_of,
    whole_block,
)
from rpcaccel.core.proof.received_answer import (
    Doubted,
    Judgement,
    Judging,
    ReceivedAnswer,
    Standing,
    Unsure,
    check_branch,
    check_names,
    decode_objects,
    place_of,
    prove_form,
    read_items,
    read_members,
    read_object,
    read_objects,
    refuse_false_hash,
    text_of_hash,
)
from rpcaccel.core.proof.state import proved_account, proved_slot, slot_key, word
from rpcaccel.core.proof.transactions import type_of
from rpcaccel.core.stepwise import ITEMS_A_STEP, Steps, in_one_step
from rpcaccel.core.wire.json_text import UNREADABLE, NotJson, TooDeep

MAX_JUDGED_BYTES = 1 << 20
"""Bytes of the longest answer that is judged by what it shows itself."""
MAX_PROVED_BYTES = 8 << 20
"""Bytes of the longest answer that is proved fully."""
MAX_MEMBER_BYTES = 1 << 16
"""Bytes of the longest member of a header that is read."""
_LINKS = ("number", "hash", "parentHash")
_UNREAD = frozenset({*_LINKS, "transactions"})
"""Members of a block that are read before the others, or not at all."""


def judge_answer(answer: ReceivedAnswer) -> Judging[Judgement]:
    """Judge an answer whose rule says what it shows. Raises nothing."""
    judgement = yield from _judged(answer)
    if answer.is_outdated and judgement.standing is not Standing.NOT_PROVABLE and not isinstance(answer.named, str):
        return Judgement(Standing.UNSURE, "a reorganisation was noticed meanwhile")
    return judgement


def _judged(answer: ReceivedAnswer) -> Judging[Judgement]:
    try:
        if answer.result == b"null" or answer.plan.pending:
            return Judgement(Standing.NOT_PROVABLE, "there is nothing to prove")
        answer.read()
        if len(answer.result) > (MAX_PROVED_BYTES if answer.full else MAX_JUDGED_BYTES):
            return _unproved(answer, "it is longer than answers that are judged")
        judgement = yield from _JUDGES[answer.plan.rule.shows](answer)
        if answer.full and judgement.block:
            yield from check_names(answer.result)
        return replace(judgement, proved=frozenset(answer.proved))
    except OtherForm as error:
        return Judgement(Standing.NOT_PROVABLE, str(error), lasting=True)
    except (NotProvable, NotJson, TooDeep, *UNREADABLE) as error:
        return _unproved(answer, str(error))
    except Doubted as error:
        return Judgement(Standing.DOUBTED, str(error), error.form, error.lasting, error.false, perhaps=error.perhaps)
    except Unsure as error:
        return Judgement(Standing.UNSURE, str(error))
    except Disproved as error:
        return Judgement(Standing.DISPROVED, str(error))


def _unproved(answer: ReceivedAnswer, why: str) -> Judgement:
    """The judgement of an answer that lacks what it is proved by. If all is to be proved, another node is asked: a node
    could write something strange so that nothing of it be proved."""
    if answer.full:
        return Judgement(Standing.DOUBTED, why, f"form of {answer.plan.rule.method}")
    return Judgement(Standing.NOT_PROVABLE, why)


# -- blocks and transactions -------------------------------------------------------------------------------------------


def _block(answer: ReceivedAnswer) -> Judging[Judgement]:
    members = yield from read_members(answer.result)
    block = {name: msgspec.json.decode(members[name]) for name in _LINKS if name in members}
    number, hash, form = whole(member(block, "number"), "number"), text_of_hash(block, "hash"), answer.form.header
    yield from check_place(answer, number, hash)
    if number and not isinstance(answer.named, str):
        check_branch(answer, number - 1, text_of_hash(block, "parentHash"))
    as_hashed = None if form.members else (yield from encoded_header(answer, number))
    for name in members.keys() - _UNREAD:
        if len(memoryview(members[name])) > MAX_MEMBER_BYTES and name != "withdrawals":
            raise NotProvable(f"{name[:40]} is longer than a header has it")
        block[name] = msgspec.json.decode(members[name])
    later, served = sum(name in block for name in form.later), answer.blocks.of(number) == hash
    header = f"header with {later} later members"
    yield from prove_form(answer, header, number, in_one_step(prove_header, block, form, as_hashed), telling=served)
    kept_header(answer, block)
    if answer.by_roots and len(answer.params) > 1:  # methods for headers have one
        yield from prove_form(answer, "contents", number, in_one_step(_prove_contents, block, members))
    if "withdrawals" in block:
        telling = served and bool(block["withdrawals"])
        proof = prove_withdrawals(block)
        yield from prove_form(answer, "root of withdrawals", number, proof, telling=telling)
    if "transactions" in members and answer.form.transactions:
        none = bytes(members["transactions"]) == b"[]"
        yield from prove_form(answer, "root of no transactions", number, in_one_step(_prove_none, block, none))
        if answer.full and not none:
            yield from _prove_transactions(answer, block, members["transactions"], telling=served)
    if number and served:
        answer.learn(number - 1, text_of_hash(block, "parentHash"))
    proved = served or isinstance(answer.named, str)
    return Judgement(
        Standing.PROVED if proved else Standing.CONSISTENT, block=hash if proved and answer.by_roots else ""
    )


def _prove_contents(block: Mapping[str, Any], shown: Mapping[str, Raw]) -> None:
    """Prove that a block shows what its header has roots of."""
    for name, root in (("transactions", "transactionsRoot"), ("withdrawals", "withdrawalsRoot")):
        if block.get(root) is not None and name not in shown:
            raise Disproved(f"{name} are missing")


def _prove_none(block: Mapping[str, Any], none: bool) -> None:
    """Prove that a block has transactions, or `none`, by its root of them."""
    if (hash_of(block, "transactionsRoot") == EMPTY_TRIE_ROOT) != none:
        raise Disproved("the block shows transactions, or none, and its root of them says otherwise")


def _prove_transactions(
    answer: ReceivedAnswer, block: Mapping[str, Any], shown: Raw, *, telling: bool
) -> Judging[None]:
    """Prove the transactions of a block that shows them whole, or by their hashes."""
    number, texts = whole(block["number"], "number"), (yield from read_items(shown))
    if bytes(texts[0])[:1] != b"{":
        transactions = (yield from whole_block(answer, number, text_of_hash(block, "hash"))).transactions
        proof = _prove_hashes(texts, transactions)
        yield from prove_form(answer, "hashes of transactions", number, proof, telling=telling)
        return
    whole_ones = yield from decode_objects(texts)
    for one in whole_ones:
        if why := transactions_proof.odd(one, answer.form.transactions):
            yield from prove_form(answer, why, number, in_one_step(_not_provable, why))
    proof_of_root = transactions_proof.prove_root(whole_ones, block, answer.form.transactions)
    encodings = yield from prove_form(answer, "root of transactions", number, proof_of_root, telling=telling)
    proof = transactions_proof.prove_repeated(whole_ones, encodings, block)
    yield from prove_form(answer, "what transactions repeat", number, proof)


def _not_provable(why: str) -> None:
    raise NotProvable(why)


def _prove_hashes(shown: Sequence[Raw], transactions: Sequence[Raw]) -> Steps[None]:
    if len(shown) != len(transactions):
        raise Disproved(f"{len(shown)} hashes of transactions where there are {len(transactions)}")
    for index, (text, transaction) in enumerate(zip(shown, transactions, strict=True)):
        prove_same(msgspec.json.decode(text), read_object(transaction)["hash"], data32, f"hash of transaction {index}")
        if index % ITEMS_A_STEP == 0:
            yield


def _transaction(answer: ReceivedAnswer) -> Judging[Judgement]:
    shown, types = read_object(answer.result), answer.form.transactions
    number, hash, block = answer.plan.head, text_of_hash(shown, "hash"), ""
    by_hash = answer.plan.rule.names_transaction is not None
    if not by_hash:
        _check_index(answer, shown)
    pending = by_hash and shown.get("blockNumber") is None
    if shown.get("blockHash") is not None or (answer.by_roots and not pending):
        number, block = place_of(shown)
        yield from check_place(answer, number, block)
    if answer.by_roots and block:
        with suppress(OtherForm):
            return (yield from _transaction_within(answer, shown, number, block))
    if by_hash:
        yield from _prove_name(answer, number, hash)
    form = "harmony" if "harmony" in types else type_of(shown)
    form = form if form in types else "another"
    # Some chains hash transactions of one type in several ways.
    proof = in_one_step(_prove_transaction, shown, types)
    yield from prove_form(answer, f"transaction of type {form}", number, proof, lasting=form == "another")
    return Judgement(Standing.PROVED)


def _prove_transaction(shown: Mapping[str, Any], types: Sequence[str]) -> None:
    transactions_proof.prove_named(shown, transactions_proof.encode_transaction(shown, types))


def _transaction_within(
    answer: ReceivedAnswer, shown: Mapping[str, Any], number: int, block: str
) -> Judging[Judgement]:
    """Judge a transaction by the one at its index in its block."""
    _check_name(answer, text_of_hash(shown, "hash"))
    within = yield from whole_block(answer, number, block)
    index, types = whole(member(shown, "transactionIndex"), "transactionIndex"), answer.form.transactions
    if index >= len(within.transactions):
        raise Disproved(f"its block has {len(within.transactions)} transactions")
    encoded = transactions_proof.encode_transaction(shown, types)
    proved = transactions_proof.encode_transaction(read_object(within.transactions[index]), types)
    if encoded.envelope != proved.envelope:
        raise Disproved("its block has another transaction at its index")
    transactions_proof.prove_named(shown, encoded)
    proof = in_one_step(transactions_proof.prove_stands, shown, within.header, index)
    yield from prove_form(answer, "what transactions repeat", number, proof)
    return Judgement(Standing.PROVED, block=block)


def _check_index(answer: ReceivedAnswer, shown: Mapping[str, Any]) -> None:
    if whole(member(shown, "transactionIndex"), "transactionIndex") != whole(answer.argument(1), "the index"):
        raise Disproved("it has another index than the one that was asked for")


def _prove_name(answer: ReceivedAnswer, number: int, hash: str) -> Judging[None]:
    """Prove that a transaction is the one that the call names. On some chains it has several hashes."""
    if answer.form.transactions:
        proof = in_one_step(_check_name, answer, hash)
        yield from prove_form(answer, "hash of a transaction", number, proof, lasting=False)


def _check_name(answer: ReceivedAnswer, hash: str) -> None:
    """Check that a transaction is the one that the call names, if it names one."""
    at = answer.plan.rule.names_transaction
    if at is not None and str(answer.argument(at)).lower().removeprefix("0x") != hash[2:]:
        raise Disproved("it has another transaction hash than the one that was asked for")


# -- receipts ----------------------------------------------------------------------------------------------------------


def _receipt(answer: ReceivedAnswer) -> Judging[Judgement]:
    shown = yield from _read_receipt(answer.result)
    yield from _check_hashes(answer, shown)
    number, block = place_of(shown)
    yield from check_place(answer, number, block)
    if answer.by_roots:
        with suppress(OtherForm):
            return (yield from _receipt_within(answer, shown, number, block))
    yield from _prove_name(answer, number, text_of_hash(shown, "transactionHash"))
    yield from prove_form(answer, "bloom of logs", number, _prove_logs(answer, shown))
    return Judgement(Standing.CONSISTENT)


def _receipt_within(answer: ReceivedAnswer, shown: Mapping[str, Any], number: int, block: str) -> Judging[Judgement]:
    """Judge a receipt by the one at its index in its block."""
    _check_name(answer, text_of_hash(shown, "transactionHash"))
    (proved,) = yield from receipts_of(answer, [number])
    within = yield from whole_block(answer, number, block)
    index = whole(member(shown, "transactionIndex"), "transactionIndex")
    if index >= min(len(proved), len(within.transactions)):
        raise Disproved(f"its block has {len(proved)} receipts")
    among = yield from _read_receipt(proved[index])
    yield from receipts_proof.prove_among(shown, among)
    bloom, transaction = (yield from receipts_proof.bloom_of_logs(among)), read_object(within.transactions[index])
    proof = receipts_proof.prove_repeated(shown, bloom, transaction, within.header, index)
    yield from prove_form(answer, "what receipts repeat", number, proof)
    return Judgement(Standing.PROVED, block=block)


def _receipts(answer: ReceivedAnswer) -> Judging[Judgement]:
    """The receipts of a block, in their order: the sums of their gas and the indexes of their logs go up."""
    shown = list[Mapping[str, Any]]()
    for text in (yield from read_items(answer.result)):
        shown.append((yield from _read_receipt(text)))
        yield from _check_hashes(answer, shown[-1])
    if shown:
        number, block = place_of(shown[0])
        yield from check_place(answer, number, block)
    elif not answer.by_roots:
        return Judgement(Standing.CONSISTENT)
    elif answer.named is None:
        raise NotProvable("the call names its block by neither number nor hash")
    else:
        header = yield from header_of(answer, answer.named)
        number, block = header.number, header.hash
    judgement = Judgement(Standing.CONSISTENT)
    if answer.by_roots:
        with suppress(OtherForm):
            judgement = yield from _receipts_within(answer, shown, number, block)
    for one in () if judgement.block else shown:
        yield from prove_form(answer, "bloom of logs", number, _prove_logs(answer, one))
    if shown:
        yield from prove_form(answer, "order of receipts", number, receipts_proof.prove_order(shown))
    return judgement


def _receipts_within(
    answer: ReceivedAnswer, shown: Sequence[Mapping[str, Any]], number: int, block: str
) -> Judging[Judgement]:
    """Judge all receipts of a block by its root of them."""
    within, blooms = (yield from whole_block(answer, number, block)), list[bytes]()
    transactions = yield from decode_objects(within.transactions)
    for one in shown:
        blooms.append((yield from receipts_proof.bloom_of_logs(one)))
    proof = receipts_proof.prove_root(shown, blooms, transactions, within.header)
    yield from prove_form(answer, "root of receipts", number, proof, telling=bool(shown))
    for index, (one, bloom, transaction) in enumerate(zip(shown, blooms, transactions, strict=True)):
        proof = receipts_proof.prove_repeated(one, bloom, transaction, within.header, index)
        yield from prove_form(answer, "what receipts repeat", number, proof)
    return Judgement(Standing.PROVED, block=block)


def _read_receipt(text: bytes | Raw) -> Judging[Mapping[str, Any]]:
    members = yield from read_members(text)
    logs = yield from read_objects(member(members, "logs"))
    return {name: msgspec.json.decode(value) for name, value in members.items() if name != "logs"} | {"logs": logs}


def _check_hashes(answer: ReceivedAnswer, receipt: Mapping[str, Any]) -> Judging[None]:
    """Refuse a receipt whose logs name another hash than that of its block."""
    block = text_of_hash(receipt, "blockHash")
    for at, log in enumerate(receipt["logs"]):
        if text_of_hash(log, "blockHash") != block:
            refuse_false_hash(answer)
        if at % ITEMS_A_STEP == 0:
            yield None


def _prove_logs(answer: ReceivedAnswer, receipt: Mapping[str, Any]) -> Steps[None]:
    return receipts_proof.prove_bloom(receipt, one_hash=bool(answer.form.transactions))


# -- state -------------------------------------------------------------------------------------------------------------


def _state(answer: ReceivedAnswer) -> Judging[Judgement]:
    """An account, and places of its storage, by the state root of the block that was asked about (EIP-1186)."""
    header = yield from header_of(answer, _block_named(answer))
    shown, root, number = read_object(answer.result), header.state_root, header.number
    address, keys = (
        data(answer.argument(0), "the address", 20),
        [slot_key(key) for key in items(answer.argument(1), "keys")],
    )
    if data(member(shown, "address"), "address", 20) != address:
        raise Disproved("it has another address than the one that was asked for")
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
        yield from prove_form(answer, "state", number, prove(), telling=True)
    except NotProvable as error:  # another node may give a proof
        raise Doubted(str(error)) from None
    return Judgement(Standing.PROVED, block=header.hash)


def _block_named(answer: ReceivedAnswer) -> int | str:
    """The block that a call for a proof is about, by its number, or by the hash that it names."""
    named = answer.plan.block if answer.plan.block is not None else answer.block_in(2)
    if named is None:
        raise NotProvable("the call names its block by neither number nor hash")
    return named


_JUDGES: dict[str, Callable[[ReceivedAnswer], Judging[Judgement]]] = {
    "block": _block,
    "transaction": _transaction,
    "receipt": _receipt,
    "receipts": _receipts,
    "logs": judge_logs,
    "state": _state,
}
