"""Blocks of a real node are proved; with any member changed, they are not."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import rlp as reference

from rpcaccel.core.hashing.rlp import sequence
from rpcaccel.core.hashing.trie import list_root
from rpcaccel.core.proof.encoding import HEADER_WRITERS, Disproved, NotProvable, encoded
from rpcaccel.core.proof.forms import HashedHeader
from rpcaccel.core.proof.headers import prove_header, prove_withdrawals
from rpcaccel.core.stepwise import at_once
from tests.support.proof_chain import FACTS
from tests.support.proofs import prove_receipts, prove_transaction, prove_transactions

RECORDED = json.loads(FACTS.read_text())
FORM = HashedHeader(
    members=(
        *("parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom"),
        *("difficulty", "number", "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "nonce"),
    ),
    later=(
        *("baseFeePerGas", "withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot"),
        "requestsHash",
    ),
)
TYPES = ("0x0", "0x1", "0x2", "0x3", "0x4")
UNCOVERED = {
    "block": {"size", "totalDifficulty", "uncles"},
    "transactions": set(),
    "receipts": {"blobGasPrice", "blobGasUsed"},
    "logs": set(),
}
"""Members that no hash covers, by what has them."""


def prove(case: dict[str, Any]) -> None:
    prove_header(case["block"], FORM)
    prove_transactions(case["block"], TYPES)
    prove_receipts(case["receipts"], case["block"])


@pytest.mark.parametrize("fork", RECORDED)
def test_a_block_with_its_transactions_and_receipts_is_proved(fork: str) -> None:
    prove(RECORDED[fork])


def members(of: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values."""
    if isinstance(of, dict | list):
        for key, value in of.items() if isinstance(of, dict) else enumerate(of):
            yield from members(value, (*path, key))
    else:
        yield path


def changed(value: Any) -> Any:
    """Another value of the same form."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str) and value.startswith("0x"):
        return "0x1" if value == "0x" else value[:-1] + ("0" if value[-1] != "0" else "1")
    return "0x" + "ab" * 20 if value is None else f"{value}1"


def is_covered(path: tuple[str | int, ...]) -> bool:
    names = [part for part in path if isinstance(part, str)]
    room = next(name for name in reversed(["block", *names]) if name in UNCOVERED)
    return names[-1] not in UNCOVERED[room]


@pytest.mark.parametrize("fork", RECORDED)
def test_no_member_that_a_hash_covers_can_be_changed(fork: str) -> None:
    case = {name: RECORDED[fork][name] for name in ("block", "receipts")}
    survived = []
    for path in filter(is_covered, members(case)):
        false = copy.deepcopy(case)
        place = false
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = changed(place[path[-1]])
        try:
            prove(false)
            survived.append(path)
        except (Disproved, NotProvable):
            pass
    assert not survived


@pytest.mark.parametrize("room", ["transactions", "receipts"])
def test_nothing_can_be_left_out_or_moved(room: str) -> None:
    case = RECORDED["london"]
    whole = case["block"]["transactions"] if room == "transactions" else case["receipts"]
    for false in (whole[1:], whole[:-1], [*whole[1:], whole[0]], [*whole, whole[-1]]):
        broken = {"block": {**case["block"], "transactions": false}, "receipts": case["receipts"]}
        with pytest.raises(Disproved):
            prove(broken if room == "transactions" else {**case, "receipts": false})


def test_a_transaction_with_a_blob_is_proved_by_its_hash_and_its_signature() -> None:
    blob = RECORDED["prague"]["blob"]
    prove_transaction(blob, TYPES)
    with pytest.raises(Disproved):
        prove_transaction({**blob, "blobVersionedHashes": ["0x01" + "ab" * 31]}, TYPES)


def test_a_created_contract_is_proved_by_who_created_it() -> None:
    creation = RECORDED["london"]["creation"]
    prove(creation)
    false = copy.deepcopy(creation)
    false["receipts"][0]["contractAddress"] = "0x" + "ab" * 20
    with pytest.raises(Disproved, match="contractAddress"):
        prove(false)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"stateRoot": None}, "stateRoot"),
        ({"number": "three"}, "number is no number"),
        ({"mixHash": 0}, "mixHash"),
    ],
)
def test_a_header_of_another_form_is_not_provable(change: dict[str, Any], why: str) -> None:
    with pytest.raises(NotProvable, match=why):
        prove_header({**RECORDED["london"]["block"], **change}, FORM)


def test_a_header_with_a_later_member_and_without_an_earlier_one_is_not_provable() -> None:
    with pytest.raises(NotProvable, match="excessBlobGas"):
        prove_header({**RECORDED["london"]["block"], "excessBlobGas": "0x0"}, FORM)


def test_a_block_is_compared_with_its_encoded_header() -> None:
    block = RECORDED["london"]["block"]
    form = HashedHeader(positions=(*FORM.members, "baseFeePerGas"))
    header = sequence(encoded(block, form.positions, HEADER_WRITERS))
    prove_header(block, form, header)
    for name in ("number", "stateRoot", "logsBloom"):
        with pytest.raises(Disproved, match=name):
            prove_header({**block, name: changed(block[name])}, form, header)
    for false in (header[:-1] + b"\x01", b"", b"\xc0"):
        with pytest.raises(NotProvable, match="it or the block is false"):
            prove_header(block, form, false)
    with pytest.raises(NotProvable, match="do not show all"):
        prove_header(block, form)


def test_withdrawals_are_proved_by_their_root() -> None:
    shown = [
        {"index": hex(one), "validatorIndex": "0x7", "address": "0x" + "ab" * 20, "amount": "0x1"} for one in range(3)
    ]
    root = at_once(list_root([reference.encode([one, 7, b"\xab" * 20, 1]) for one in range(3)]))
    block = {"withdrawals": shown, "withdrawalsRoot": "0x" + root.hex()}
    at_once(prove_withdrawals(block))
    for false in (shown[1:], [*shown[:2], {**shown[2], "amount": "0x2"}]):
        with pytest.raises(Disproved):
            at_once(prove_withdrawals({**block, "withdrawals": false}))


def test_a_chain_without_a_form_is_not_provable() -> None:
    with pytest.raises(NotProvable):
        prove_header(RECORDED["london"]["block"], HashedHeader())
    with pytest.raises(NotProvable):
        prove_transactions(RECORDED["london"]["block"], ())
