"""What clients write in ways of their own ([[chain.differences.members]]) never makes an honest answer a lie."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rlp as reference
from hypothesis import example, given
from hypothesis import strategies as st

from rpcaccel.core.hashing import bech32
from rpcaccel.core.hashing.bloom import bloom_of
from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.hashing.trie import list_root
from rpcaccel.core.proof.encoding import Disproved, NotProvable, data, items, member
from rpcaccel.core.proof.forms import HashedHeader
from rpcaccel.core.proof.headers import prove_header, prove_withdrawals
from rpcaccel.core.proof.state import Account, proved_account, proved_slot, slot_key
from rpcaccel.core.proof.state import word as read_word
from rpcaccel.core.stepwise import at_once
from tests.support.proof_chain import FACTS
from tests.support.proofs import prove_receipts, prove_transaction, prove_transactions
from tests.support.wallet import SENDER, signed
from tests.unit.core.proof.test_block import FORM, RECORDED, TYPES

Case = dict[str, Any]
Change = Callable[[dict[str, Any]], None]


def prove(case: Case, form: HashedHeader = FORM) -> None:
    prove_header(case["block"], form)
    prove_transactions(case["block"], TYPES)
    prove_receipts(case["receipts"], case["block"])


def rooms(case: Case, name: str) -> list[dict[str, Any]]:
    """The objects of a kind."""
    return {
        "block": [case["block"]],
        "transactions": case["block"]["transactions"],
        "receipts": case["receipts"],
        "logs": [log for receipt in case["receipts"] for log in receipt["logs"]],
    }[name]


def without(*names: str) -> Change:
    return lambda of: [of.pop(name, None) for name in names] and None


def beside(**values: Any) -> Change:
    return lambda of: of.update(values)


def respelled(spell: Callable[[int], str], *names: str) -> Change:
    return lambda of: of.update({name: spell(int(of[name], 16)) for name in names if name in of})


def where(test: Callable[[dict[str, Any]], bool], change: Change) -> Change:
    return lambda of: change(of) if test(of) else None


def is_typed(of: dict[str, Any]) -> bool:
    return of["type"] != "0x0"


def is_untyped(of: dict[str, Any]) -> bool:
    return not is_typed(of)


def data_as_input(of: dict[str, Any]) -> None:
    of["data"] = of.pop("input")


def word(value: int) -> str:
    return f"0x{value:064x}"


PROVED = [
    ("block", without("totalDifficulty")),
    ("block", beside(totalDifficulty="0x0", l1BatchNumber=None, l1BatchTimestamp=None)),
    ("transactions", beside(l1BatchNumber="0x1", l1BatchTxIndex=None)),
    ("block", beside(author="0x" + "ab" * 20, sealFields=["0x"])),
    ("block", respelled(hex, "nonce")),
    ("block", lambda of: of.setdefault("baseFeePerGas", None)),
    ("transactions", without("blockTimestamp")),
    ("receipts", without("blockTimestamp")),
    ("logs", beside(blockTimestamp=None)),
    ("transactions", where(is_typed, without("v"))),
    ("transactions", without("yParity")),
    ("transactions", beside(yParity=None)),
    ("transactions", where(is_untyped, without("chainId"))),
    ("transactions", where(is_untyped, beside(chainId=None, maxFeePerGas=None, accessList=None))),
    ("transactions", respelled(word, "r", "s", "v", "yParity")),
    ("transactions", respelled("0x{:02x}".format, "type")),
    ("receipts", respelled("0x{:02x}".format, "type")),
    ("transactions", where(is_untyped, without("type"))),
    ("transactions", where(lambda of: of.get("accessList") == [], without("accessList"))),
    ("transactions", beside(publicKey="0x1", raw="0x", creates=None, condition=None, standardV="0x0")),
    ("transactions", lambda of: of.update(data=of["input"])),
    ("transactions", data_as_input),
    ("receipts", without("blobGasPrice", "blobGasUsed")),
    ("receipts", beside(blobGasPrice="0x1", blobGasUsed="0x0")),
    ("receipts", beside(root=None)),
    ("receipts", beside(root="0x")),
    ("receipts", without("type")),
    ("receipts", beside(revertReason="0x", error=None)),
    ("receipts", beside(l1FeeScalar="0", l1BaseFeeScalar="0x1", operatorFeeConstant="0x0")),
    ("receipts", without("contractAddress")),
    ("receipts", beside(contractAddress="0x" + "00" * 20)),
    ("receipts", without("effectiveGasPrice", "from", "to")),
    ("logs", beside(transactionLogIndex="0x0", logType="mined")),
    ("logs", without("removed")),
]
NOT_PROVABLE = [
    ("receipts", beside(blockTimestamp="1795905608"), "blockTimestamp is no number"),
    ("transactions", where(is_typed, without("chainId")), "chainId is missing"),
    ("transactions", where(is_typed, without("type")), "type is missing"),
    ("transactions", beside(r="0x0", s="0x0", v="0x0", yParity="0x0"), "nobody signed"),
    ("transactions", beside(type="0x64"), "the type 0x64"),
    ("receipts", beside(**{"from": "0x" + "00" * 20}), "nobody signed"),
]


@pytest.mark.parametrize(("room", "change"), PROVED)
@pytest.mark.parametrize("fork", RECORDED)
def test_other_spellings_of_an_honest_answer_are_proved(fork: str, room: str, change: Change) -> None:
    case = copy.deepcopy({name: RECORDED[fork][name] for name in ("block", "receipts")})
    for of in rooms(case, room):
        change(of)
    prove(case)


@pytest.mark.parametrize(("room", "change", "why"), NOT_PROVABLE)
def test_an_honest_answer_that_shows_too_little_is_not_provable(room: str, change: Change, why: str) -> None:
    case = copy.deepcopy({name: RECORDED["prague"][name] for name in ("block", "receipts")})
    for of in rooms(case, room):
        change(of)
    with pytest.raises(NotProvable, match=why):
        prove(case)


def test_data_beside_input_is_proved_too() -> None:
    one = RECORDED["london"]["block"]["transactions"][0]
    with pytest.raises(Disproved, match="another data than input"):
        prove_transaction({**one, "data": "0x1234"}, TYPES)


def test_long_data_is_read_as_short_data_is() -> None:
    digits = "ab" * 200_000
    assert data(f"0x{digits}", "input") == b"\xab" * 200_000
    for false in (digits[1:], digits[2:] + "  ", digits + "zz"):
        with pytest.raises(NotProvable):
            data(f"0x{false}", "input")


# -- deposits, and receipts from before EIP-658: made with another implementation of RLP -------------------------------

HASH, TARGET = "0x" + "5a" * 32, "0x" + "7b" * 20


def small_block(transaction: dict[str, Any], encoded_receipt: bytes, **header: str) -> dict[str, Any]:
    """A block of one transaction, with what prove_transactions and prove_receipts look at."""
    block = {"hash": HASH, "number": "0x1", "timestamp": "0x2", "difficulty": "0x0", **header}
    return {**block, "transactions": [transaction], "receiptsRoot": "0x" + at_once(list_root([encoded_receipt])).hex()}


def deposit(**members: Any) -> dict[str, Any]:
    body = [b"\x5a" * 32, b"\x6c" * 20, b"\x7b" * 20, 0, 9, 21_000, False, b"\x01\x02"]
    shown = {"type": "0x7e", "sourceHash": HASH, "from": "0x" + "6c" * 20, "to": TARGET, "value": "0x9", "nonce": "0x5"}
    named = "0x" + keccak256(b"\x7e" + reference.encode(body)).hex()
    return {**shown, "gas": "0x5208", "input": "0x0102", "hash": named, **members}


def receipt_of(transaction: dict[str, Any], **members: Any) -> dict[str, Any]:
    place = {"blockHash": HASH, "blockNumber": "0x1", "transactionIndex": "0x0", "transactionHash": transaction["hash"]}
    gas = {"gasUsed": "0x5208", "cumulativeGasUsed": "0x5208"}
    return {**place, **gas, "logs": [], "logsBloom": "0x" + "00" * 256, "type": transaction["type"], **members}


@pytest.mark.parametrize("members", [{}, {"mint": "0x0"}, {"mint": None, "isSystemTx": False}, {"isSystemTx": None}])
def test_what_is_not_set_in_a_deposit_may_be_left_out(members: dict[str, Any]) -> None:
    prove_transaction(deposit(**members), ("0x7e",))


def test_a_deposit_with_another_value_is_disproved() -> None:
    with pytest.raises(Disproved):
        prove_transaction(deposit(mint="0x1"), ("0x7e",))


def test_the_nonce_of_a_deposit_is_hashed_where_its_receipt_has_a_version() -> None:
    body = [1, 21_000, bloom_of([]), []]
    versioned = b"\x7e" + reference.encode([*body, 5, 1])
    members = {"status": "0x1", "depositNonce": "0x5"}
    prove_receipts([receipt_of(deposit(), **members)], small_block(deposit(), b"\x7e" + reference.encode(body)))
    shown = receipt_of(deposit(), **members, depositReceiptVersion="0x1")
    prove_receipts([shown], small_block(deposit(), versioned))
    with pytest.raises(NotProvable, match="depositReceiptVersion may be a part"):
        prove_receipts([receipt_of(deposit(), **members)], small_block(deposit(), versioned))


@pytest.mark.parametrize(("number", "unsure"), [("0x1", True), ("0x8fffff", False)])
def test_a_receipt_from_before_eip_658_needs_its_root(number: str, unsure: bool) -> None:
    block = small_block(deposit(type="0x0"), b"", number=number, difficulty="0x20000")
    block["receiptsRoot"] = (
        "0x" + at_once(list_root([reference.encode([b"\x11" * 32, 21_000, bloom_of([]), []])])).hex()
    )
    place = {"blockNumber": number, "root": "0x" + "11" * 32}
    prove_receipts([receipt_of(deposit(type="0x0"), **place)], block)
    prove_receipts([receipt_of(deposit(type="0x0"), **place, status="0x1")], block)
    with pytest.raises(NotProvable if unsure else Disproved, match="another root"):
        prove_receipts([receipt_of(deposit(type="0x0"), blockNumber=number, status="0x1")], block)


# -- Harmony -----------------------------------------------------------------------------------------------------------

SEEN = {
    row["method"]: row["shard0_explorer"]["result"]
    for row in json.loads((FACTS.parent / "recorded.json").read_text())
    if row["method"].endswith("getTransactionByHash") and row["params"]
}


@pytest.mark.parametrize("method", ["hmy_getTransactionByHash", "hmyv2_getTransactionByHash"])
def test_a_transaction_of_a_harmony_node_is_proved(method: str) -> None:
    one = SEEN[method]
    prove_transaction(one, ("harmony",))
    for name, false in (("value", 1), ("from", one["to"]), ("toShardID", 1)):
        with pytest.raises(Disproved):
            prove_transaction({**one, name: false}, ("harmony",))


def test_a_harmony_transaction_by_its_other_hash_is_not_provable() -> None:
    with pytest.raises(NotProvable, match="shardID is missing"):
        prove_transaction(SEEN["eth_getTransactionByHash"], ("harmony",))


def test_a_transaction_that_an_ethereum_wallet_sent_to_harmony_is_signed_without_shards() -> None:
    raw = signed(1_666_600_000)
    nonce, price, gas, to, value, data, v, r, s = reference.decode(bytes.fromhex(raw[2:]))
    kept = reference.encode([nonce, price, gas, b"", b"", to, value, data, v, r, s])
    numbers = {"nonce": nonce, "gasPrice": price, "gas": gas, "value": value, "v": v, "r": r, "s": s}
    one = {name: hex(int.from_bytes(number, "big")) for name, number in numbers.items()}
    one |= {"to": bech32.write(to), "input": "0x", "shardID": 0, "toShardID": 0, "hash": "0x" + keccak256(kept).hex()}
    assert prove_transaction({**one, "from": SENDER}, ("harmony",)) == kept
    with pytest.raises(Disproved, match="signed by another"):
        prove_transaction({**one, "from": TARGET}, ("harmony",))


# -- eth_getProof ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zeros", [False, True])
def test_hashes_of_an_account_that_there_is_not_may_be_zeros(zeros: bool) -> None:
    case = RECORDED["prague"]
    proof = {**case["proofs"]["absent"], **({"codeHash": word(0), "storageHash": word(0)} if zeros else {})}
    root = bytes.fromhex(case["block"]["stateRoot"][2:])
    account = proved_account(proof, bytes.fromhex(proof["address"][2:]), root)
    assert account == Account()
    assert account.shows_as(proof)
    assert not account.shows_as({**proof, "nonce": "0x1"})


@pytest.mark.parametrize("spell", [hex, word])
def test_keys_and_values_of_storage_may_be_quantities_or_words(spell: Callable[[int], str]) -> None:
    case = copy.deepcopy(RECORDED["prague"])
    proof = case["proofs"]["full"]
    account = proved_account(proof, bytes.fromhex(proof["address"][2:]), bytes.fromhex(case["block"]["stateRoot"][2:]))
    entry = proof["storageProof"][0]
    value = int(entry["value"], 16)
    entry.update(key=spell(0), value=spell(value))
    assert proved_slot(entry, slot_key(entry["key"]), account) == read_word(entry["value"]) == value


# -- garbage -----------------------------------------------------------------------------------------------------------


def places(of: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values, of objects and arrays too."""
    yield path
    if isinstance(of, dict | list):
        for key, value in of.items() if isinstance(of, dict) else enumerate(of):
            yield from places(value, (*path, key))


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


ODD = [
    *(None, True, False, 0, -1, 1.5, float("inf"), 10**30, 1 << 9_000, "", "0x", "0x0", "0x1", "1", "0x-1", "0x_1"),
    *("0x1 ", "0x 1234", "0x\u0661", "\ud800", "0xzz", "0X1", "0x" + "f" * 70_001, "0x" + "f" * 70_000),
    *(
        "0x" + "00" * 20,
        "0x" + "00" * 32,
        [],
        {},
        [None],
        [[]],
        [{}],
        ["0x"],
        {"address": None},
        nested(400),
        "one1" + "q" * 38,
    ),
    ["0x" + "00" * 32] * 3_000,
]
SIMPLE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
GARBAGE = st.sampled_from(ODD) | st.recursive(
    SIMPLE | st.binary(max_size=33).map(lambda data: "0x" + data.hex()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
HOSTILE = {
    "prague": {name: RECORDED["prague"][name] for name in ("block", "receipts", "blob")}
    | {"proof": RECORDED["prague"]["proofs"]["full"]},
    "deposit": {"block": {}, "receipts": [], "proof": {}, "blob": deposit()},
}
PATHS = [(name, path) for name, case in HOSTILE.items() for path in places(case) if path]


@given(st.sampled_from(PATHS), GARBAGE)
@example(("prague", ("receipts", 0, "type")), "0x100")
@example(("prague", ("block", "transactions", 0)), "0x" + "00" * 32)
@example(("deposit", ("blob",)), None)
def test_garbage_in_any_place_is_refused_in_one_way(where: tuple[str, tuple[str | int, ...]], garbage: Any) -> None:
    case = place = copy.deepcopy(HOSTILE[where[0]])
    for part in where[1][:-1]:
        place = place[part]
    place[where[1][-1]] = garbage
    block, blob = case["block"], case["blob"]
    for attempt in (
        lambda: prove_header(block, FORM),
        lambda: prove_header(block, HashedHeader(positions=FORM.members), b"\xc3\x01\x02\x03"),
        lambda: at_once(prove_withdrawals(block)),
        lambda: prove_transactions(block, TYPES),
        lambda: prove_receipts(case["receipts"], block),
        lambda: prove_transaction(blob, (*TYPES, "0x7e")),
        lambda: prove_transaction(blob, ("harmony",)),
        lambda: proved_account(case["proof"], bytes(20), b"\x01" * 32),
        lambda: prove_slots(case["proof"]),
        lambda: Account(nonce=1).shows_as(case["proof"]),
    ):
        assert len(said(attempt)) < 200


def prove_slots(proof: Any) -> None:
    for entry in items(member(proof, "storageProof"), "storageProof"):
        proved_slot(entry, slot_key(member(entry, "key")), Account(storage_root=b"\x01" * 32))


def said(attempt: Callable[[], object]) -> str:
    """The error of an attempt to prove something; empty where it is proved."""
    try:
        attempt()
    except (Disproved, NotProvable) as error:
        return str(error)
    return ""
