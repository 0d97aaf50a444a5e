"""What is taken out of kept answers about blocks is what a node would answer, and only where that is certain."""

from __future__ import annotations

import json
import time
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel import chains
from rpcaccel.core.cache.block_contents import (
    ALL_FROM,
    MAX_NAMES,
    MAX_OPENED,
    MAX_SPLIT_BYTES,
    BlockContents,
    HolderCall,
)
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.planner import Planner
from rpcaccel.core.stepwise import at_once

CHAIN = chains.load("ethereum")
PLANNER = Planner("net", CHAIN.rules, CHAIN.tags, final_at_once=False)
VIEW = ChainSnapshot(serial=1, head=500, best=500, final=400, finalized=400, eth_chain_id=1, network_id=1)


def plan(method: str, *params: Any) -> Plan:
    return PLANNER.plan(method, json.dumps(params).encode(), VIEW)


def text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def hash_of(kind: int, *numbers: int) -> str:
    return f"0x{sha256(repr((kind, numbers)).encode()).hexdigest()}"


def block(number: int, count: int, fork: int = 0) -> dict[str, Any]:
    own = hash_of(1, number, fork)
    said = [{"blockHash": own, "blockNumber": hex(number), "hash": hash_of(2, number, fork, at), "input": '"hash":"0x'}
            for at in range(count)]  # fmt: skip
    return {"hash": own, "number": hex(number), "transactions": said, "uncles": []}


def receipts(of: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"blockHash": of["hash"], "blockNumber": of["number"], "logs": [{"transactionHash": hash_of(3, 0)}],
             "transactionHash": one["hash"]} for one in of["transactions"]]  # fmt: skip


def take(contents: BlockContents, result: bytes, method: str, *params: Any) -> Plan:
    asked = plan(method, *params)
    at_once(contents.read(asked, result))
    return asked


def named(asked: Plan) -> HolderCall:
    return HolderCall(asked.method, asked.params)


def part(contents: BlockContents, call: Plan, result: bytes, method: str, *params: Any) -> Any:
    """What is found of a call in `call`, which holds it as far as is known."""
    asked = plan(method, *params)
    if contents.holder(asked) != named(call):
        return None
    found = contents.part(asked, call, result)
    return None if found is None else json.loads(found)


@given(number=st.integers(0, 450), count=st.integers(0, 40), by_hash=st.booleans(), at=st.integers(0, 45))
def test_a_block_holds_its_transactions_and_itself_by_both_names_unless_only_its_hash_names_it(
    number: int, count: int, by_hash: bool, at: int
) -> None:
    """A block that was asked for by its hash may not be the chain's any more."""
    contents, shown = BlockContents(), block(number, count)
    result = text(shown)
    call = (
        take(contents, result, "eth_getBlockByHash", shown["hash"], True)
        if by_hash
        else take(contents, result, "eth_getBlockByNumber", hex(number), True)
    )
    hashes = {**shown, "transactions": [one["hash"] for one in shown["transactions"]]}
    refs = [("Hash", shown["hash"]), *([] if by_hash else [("Number", hex(number))])]
    for name, ref in refs:
        alone = part(contents, call, result, f"eth_getTransactionByBlock{name}AndIndex", ref, hex(at))
        assert alone == (shown["transactions"][at] if at < count else None)
        assert part(contents, call, result, f"eth_getBlockBy{name}", ref, False) == hashes
        asked_itself = by_hash or name == "Number"
        assert part(contents, call, result, f"eth_getBlockBy{name}", ref, True) == (None if asked_itself else shown)
    for one in shown["transactions"]:
        upper = one["hash"].upper().replace("X", "x")
        assert part(contents, call, result, "eth_getTransactionByHash", upper) == (None if by_hash else one)
        assert part(contents, call, result, "eth_getTransactionReceipt", one["hash"]) is None
    assert part(contents, call, result, "eth_getTransactionByHash", hash_of(2, number, 9, 0)) is None


@given(number=st.integers(0, 450), count=st.integers(1, 40))
def test_the_receipts_of_a_block_hold_each_of_them_and_themselves_by_the_blocks_hash(number: int, count: int) -> None:
    contents, shown = BlockContents(), block(number, count)
    all_of_them = receipts(shown)
    result = text(all_of_them)
    call = take(contents, result, "eth_getBlockReceipts", hex(number))
    for one in all_of_them:
        assert part(contents, call, result, "eth_getTransactionReceipt", one["transactionHash"]) == one
        assert part(contents, call, result, "eth_getTransactionByHash", one["transactionHash"]) is None
    assert part(contents, call, result, "eth_getTransactionReceipt", hash_of(3, 0)) is None
    assert part(contents, call, result, "eth_getBlockReceipts", shown["hash"]) == all_of_them


FULL = block(7, 3)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("eth_getTransactionByBlockNumberAndIndex", ("0x7", "0x3")),
        ("eth_getTransactionByBlockNumberAndIndex", ("0x7", "0x01")),
        ("eth_getTransactionByBlockNumberAndIndex", ("0x7", 1)),
        ("eth_getTransactionByBlockNumberAndIndex", ("0x7", "1")),
        ("eth_getTransactionByBlockNumberAndIndex", ("0x7",)),
        ("eth_getTransactionByBlockNumberAndIndex", ("0x8", "0x0")),
        ("eth_getTransactionByHash", (FULL["transactions"][0]["hash"], True)),
        ("eth_getTransactionByHash", (FULL["transactions"][0]["hash"] + "00",)),
        ("eth_getTransactionByHash", ()),
        ("eth_getBlockByNumber", ("0x7",)),
        ("eth_getBlockByNumber", ("0x7", "true")),
        ("eth_getBlockByNumber", ("0x7", False, 1)),
        ("eth_getBlockByNumber", ("pending", False)),
        ("eth_getBlockByHash", (hash_of(1, 8, 0), False)),
    ],
)
def test_what_a_node_may_refuse_or_what_is_not_there_is_left_to_a_node(method: str, params: tuple[Any, ...]) -> None:
    contents, result = BlockContents(), text(FULL)
    call = take(contents, result, "eth_getBlockByNumber", "0x7", True)
    assert part(contents, call, result, method, *params) is None


def test_a_block_of_another_branch_takes_the_number_from_the_one_that_had_it() -> None:
    contents, left, come = BlockContents(), block(450, 2), block(450, 2, fork=1)
    take(contents, text(left), "eth_getBlockByNumber", "0x1c2", True)
    take(contents, text(come), "eth_getBlockByNumber", "0x1c2", True)
    new = contents.block_of(plan("eth_getTransactionByBlockNumberAndIndex", "0x1c2", "0x0"))
    assert new is contents.block_of(plan("eth_getBlockByHash", come["hash"], True))
    assert new is not contents.block_of(plan("eth_getBlockByHash", left["hash"], True))


def test_a_block_that_was_left_and_is_asked_for_by_its_hash_takes_nothing_from_the_one_of_now() -> None:
    contents, left, come = BlockContents(), block(450, 2), block(450, 2, fork=1)
    come["transactions"][1] = {**left["transactions"][0], "blockHash": come["hash"]}
    new = take(contents, text(come), "eth_getBlockByNumber", "0x1c2", True)
    take(contents, text(left), "eth_getBlockByHash", left["hash"], True)
    take(contents, text(receipts(left)), "eth_getBlockReceipts", left["hash"])
    of_both = come["transactions"][1]["hash"]
    for method, *params in (("eth_getTransactionByHash", of_both), ("eth_getBlockByNumber", "0x1c2", False)):
        assert contents.holder(plan(method, *params)) == named(new)
    assert contents.holder(plan("eth_getTransactionReceipt", of_both)) is None
    assert contents.holder(plan("eth_getBlockReceipts", "0x1c2")) is None


def test_a_hash_that_only_begins_like_a_known_one_names_something_else() -> None:
    contents, result, full = BlockContents(), text(FULL), receipts(FULL)
    block_call = take(contents, result, "eth_getBlockByNumber", "0x7", True)
    receipts_call = take(contents, text(full), "eth_getBlockReceipts", "0x7")
    other, transaction = (name[:18] + "5" * 48 for name in (FULL["hash"], FULL["transactions"][0]["hash"]))
    for call, method, params in (
        (block_call, "eth_getBlockByHash", (other, True)),
        (block_call, "eth_getTransactionByBlockHashAndIndex", (other, "0x0")),
        (block_call, "eth_getTransactionByHash", (transaction,)),
        (receipts_call, "eth_getBlockReceipts", (other,)),
        (receipts_call, "eth_getTransactionReceipt", (transaction,)),
    ):
        assert contents.holder(plan(method, *params)) == named(call)
        assert part(contents, call, result if call == block_call else text(full), method, *params) is None


def test_an_answer_that_was_fetched_anew_is_not_taken_for_the_one_at_hand() -> None:
    contents, first = BlockContents(), text(FULL)
    call = take(contents, first, "eth_getBlockByNumber", "0x7", True)
    again = text(block(7, 3, fork=1))
    asked = plan("eth_getTransactionByBlockNumberAndIndex", "0x7", "0x0")
    assert contents.part(asked, call, again) is None
    take(contents, again, "eth_getBlockByNumber", "0x7", True)
    assert contents.part(asked, call, again) is not None
    assert contents.part(asked, call, first) is None


def test_a_block_with_hashes_alone_says_how_many_receipts_it_has_and_holds_nothing() -> None:
    contents, hashes = BlockContents(), [one["hash"] for one in block(7, 9)["transactions"]]
    call = take(contents, text({**FULL, "transactions": hashes}), "eth_getBlockByNumber", "0x7", False)
    known = contents.block_of(plan("eth_getTransactionReceipt", hashes[8]))
    assert known is not None
    assert (known.transactions, known.whole, known.receipts) == (9, None, None)
    assert contents.part(plan("eth_getTransactionByHash", hashes[0]), call, b"") is None


@pytest.mark.parametrize(("count", "number", "wanted"), [(9, 7, True), (ALL_FROM, 7, False), (9, 401, False)])
def test_all_receipts_of_a_final_block_are_worth_one_call_from_the_third_on(
    count: int, number: int, wanted: bool
) -> None:
    contents, shown = BlockContents(), block(number, count)
    take(contents, text(shown), "eth_getBlockByNumber", hex(number), True)
    found = [
        contents.wants_all(plan("eth_getTransactionReceipt", one["hash"]), VIEW.final, 0.0) is not None
        for one in shown["transactions"]
    ]
    assert found == [wanted and at + 1 >= ALL_FROM for at in range(count)]
    assert (
        contents.wants_all(plan("eth_getTransactionByHash", shown["transactions"][0]["hash"]), VIEW.final, 0.0) is None
    )


@pytest.mark.parametrize(
    "odd",
    [b"null", b"[]", b'"0x1"', b'{"number":"0x7"}', b'{"number":null,"hash":null,"transactions":[]}',
     b'{"transactions":[1]}',
     b'{"transactions":[{"hash":1}],"number":"0x7","hash":"0x1"}', b'[{"transactionHash":null}]', b"[1]", b"\xff"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["eth_getBlockByNumber", "eth_getBlockReceipts"])
def test_an_answer_of_an_odd_form_holds_nothing(odd: bytes, method: str) -> None:
    contents = BlockContents()
    take(contents, odd, method, "0x7", *([True] if "By" in method else []))
    assert not contents


def test_an_answer_too_long_to_be_split_within_a_turn_of_the_loop_holds_nothing() -> None:
    contents, shown = BlockContents(), block(7, 3)
    shown["transactions"][0]["input"] = "0x" + "00" * (MAX_SPLIT_BYTES // 2)
    take(contents, text(shown), "eth_getBlockByNumber", "0x7", True)
    assert not contents


def test_what_is_remembered_is_bounded_and_the_newest_of_it_stays() -> None:
    contents, calls = BlockContents(), []
    for number in range(450):
        result = text(block(number, 200))
        calls.append((take(contents, result, "eth_getBlockByNumber", hex(number), True), result))
    assert len(contents._known) <= MAX_NAMES
    assert contents.block_of(plan("eth_getTransactionByHash", hash_of(2, 0, 0, 0))) is None
    at_hand = [contents.part(plan("eth_getTransactionByBlockNumberAndIndex", hex(number), "0x0"), *calls[number])
               for number in range(450)]  # fmt: skip
    assert [found is not None for found in at_hand] == [False] * (450 - MAX_OPENED) + [True] * MAX_OPENED


def test_names_past_the_bound_take_no_longer_to_drop_than_to_note() -> None:
    contents, took = BlockContents(), list[float]()
    for number in range(3 * MAX_NAMES // 2000):
        hashes = [hash_of(2, number, at) for at in range(2000)]
        shown = text({"hash": hash_of(1, number), "number": hex(number), "transactions": hashes})
        began = time.perf_counter()
        take(contents, shown, "eth_getBlockByNumber", hex(number), False)
        took.append(time.perf_counter() - began)
    before, past = sorted(took[: MAX_NAMES // 2000]), sorted(took[MAX_NAMES // 2000 + 1 :])
    assert past[len(past) // 2] < 10 * before[len(before) // 2]


@pytest.mark.parametrize("by_hash", [False, True])
def test_an_answer_about_another_block_than_was_asked_for_is_left_out(by_hash: bool) -> None:
    contents, other = BlockContents(), block(450, 2)
    if by_hash:
        take(contents, text(other), "eth_getBlockByHash", hash_of(1, 7, 0), True)
    else:
        take(contents, text(other), "eth_getBlockByNumber", "0x7", True)
        take(contents, text(receipts(other)), "eth_getBlockReceipts", "0x7")
    assert not contents


@pytest.mark.parametrize("said", ["", "0xzz", "0x12"])
def test_what_is_no_hash_is_left_out(said: str) -> None:
    contents, one, other = BlockContents(), block(7, 2), block(7, 2)
    one["hash"] = other["transactions"][1]["hash"] = said
    for shown in (one, other):
        take(contents, text(shown), "eth_getBlockByNumber", "0x7", True)
    take(contents, text(receipts(other)), "eth_getBlockReceipts", "0x7")
    assert not contents


@pytest.mark.parametrize("said", [None, hash_of(1, 8, 0)])
def test_what_does_not_name_its_block_is_left_out(said: str | None) -> None:
    """Erigon 2.40 showed the transactions of a block with `"blockHash":null`."""
    contents, one, of_it = BlockContents(), block(7, 3), receipts(block(7, 3))
    one["transactions"][1]["blockHash"] = of_it[1]["blockHash"] = said
    take(contents, text(one), "eth_getBlockByNumber", "0x7", True)
    take(contents, text(of_it), "eth_getBlockReceipts", "0x7")
    assert not contents
