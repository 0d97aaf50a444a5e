"""What reads of the state ask a proof for, and what they take from it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rpcaccel.chains import load
from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.proof.encoding import NotProvable
from rpcaccel.core.proof.state import NO_CODE, code_hash_in, is_code, proof_params, result_in
from tests.support.plans import plan_of

RULES = load("ethereum").rules
WHO = "0x" + "aB" * 20


def asking(method: str, *params: Any) -> Plan:
    return plan_of(method, rule=RULES.get(method), params=json.dumps(params).encode())


def test_the_proof_is_asked_for_at_the_block_that_the_caller_names() -> None:
    assert json.loads(proof_params(asking("eth_getBalance", WHO, "latest"))) == [WHO.lower(), [], "latest"]
    assert json.loads(proof_params(asking("eth_getCode", WHO))) == [WHO.lower(), []]


@pytest.mark.parametrize("place", ["0x0", "0x" + "00" * 32, "0x00"])
def test_a_place_is_named_in_its_full_length(place: str) -> None:
    asked = json.loads(proof_params(asking("eth_getStorageAt", WHO, place, "0x3")))
    assert asked == [WHO.lower(), ["0x" + "00" * 32], "0x3"]


@pytest.mark.parametrize(
    "params", [(), (7,), ("0x12", "0x3"), (WHO, "0x" + "11" * 33, "0x3"), (WHO, None, "0x3"), (WHO,)]
)
def test_a_place_that_is_named_wrongly_is_asked_of_nobody(params: tuple[Any, ...]) -> None:
    with pytest.raises(NotProvable):
        proof_params(asking("eth_getStorageAt", *params))


def test_results_have_the_form_of_their_methods() -> None:
    proof = json.dumps({"balance": "0x07", "nonce": "0x0", "storageProof": [{"value": "0x0a"}]}).encode()
    assert result_in("balance", proof) == b'"0x7"'
    assert result_in("nonce", proof) == b'"0x0"'
    assert result_in("place", proof) == b'"0x%064x"' % 10


def test_code_is_known_by_its_hash() -> None:
    shown = json.dumps({"codeHash": "0x" + keccak256(b"\x60\x01").hex()}).encode()
    assert is_code(b'"0x6001"', code_hash_in(shown))
    assert not any(
        is_code(other, code_hash_in(shown)) for other in (b'"0x6002"', b'"0x"', b"null", b"7", b'"0x6"', b"{")
    )
    assert code_hash_in(json.dumps({"codeHash": "0x" + "00" * 32}).encode()) == NO_CODE
