"""Accounts and places of storage are proved by a real node's proofs, and by nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.proof.encoding import Disproved, NotProvable
from rpcaccel.core.proof.state import Account, proved_account, proved_slot
from tests.support.proof_chain import LOGGING
from tests.unit.core.proof.test_block import RECORDED

FULL, EMPTY = bytes(32), b"\x77" * 32


def root(fork: str) -> bytes:
    return bytes.fromhex(RECORDED[fork]["block"]["stateRoot"][2:])


def address(proof: dict[str, Any]) -> bytes:
    return bytes.fromhex(proof["address"][2:])


def account(fork: str, name: str = "full") -> Account:
    proof = RECORDED[fork]["proofs"][name]
    return proved_account(proof, address(proof), root(fork))


@pytest.mark.parametrize("fork", RECORDED)
def test_an_account_and_its_storage_are_proved(fork: str) -> None:
    proofs, found = RECORDED[fork]["proofs"], account(fork)
    assert found.code_hash == keccak256(bytes.fromhex(LOGGING))
    assert (found.nonce, found.balance) == (1, 0)
    assert (
        proved_slot(proofs["full"]["storageProof"][0], FULL, found)
        == int(proofs["full"]["storageProof"][0]["value"], 16)
        > 0
    )
    assert proved_slot(proofs["empty"]["storageProof"][0], EMPTY, found) == 0


@pytest.mark.parametrize("fork", RECORDED)
def test_an_account_that_there_is_not_is_proved_to_be_none(fork: str) -> None:
    assert account(fork, "absent") == Account()


def test_a_proof_of_another_account_proves_nothing() -> None:
    proof = RECORDED["london"]["proofs"]["full"]
    with pytest.raises(Disproved):
        proved_account(proof, b"\x12" * 20, root("london"))


def test_a_proof_of_another_place_proves_nothing() -> None:
    proofs = RECORDED["london"]["proofs"]
    with pytest.raises(Disproved):
        proved_slot({"proof": []}, FULL, account("london"))
    assert proved_slot(proofs["full"]["storageProof"][0], EMPTY, account("london")) == 0  # the nodes show that, too


@pytest.mark.parametrize("name", ["accountProof", "storageProof"])
def test_no_digit_of_a_proof_can_be_changed(name: str) -> None:
    whole = RECORDED["prague"]["proofs"]["full"]
    for level in range(len(whole["accountProof"] if name == "accountProof" else whole["storageProof"][0]["proof"])):
        proof = copy.deepcopy(whole)
        nodes = proof["accountProof"] if name == "accountProof" else proof["storageProof"][0]["proof"]
        for at in range(2, len(nodes[level]), 7):
            kept = nodes[level]
            nodes[level] = kept[:at] + ("0" if kept[at] != "0" else "1") + kept[at + 1 :]
            with pytest.raises(Disproved):
                proved_slot(proof["storageProof"][0], FULL, proved_account(proof, address(proof), root("prague")))
            nodes[level] = kept


@pytest.mark.parametrize("answer", [None, {}, {"accountProof": "0x"}, {"accountProof": [1]}, {"accountProof": ["0xz"]}])
def test_an_answer_that_is_no_proof_is_said_to_be_none(answer: Any) -> None:
    with pytest.raises(NotProvable):
        proved_account(answer, bytes(20), bytes(32))
