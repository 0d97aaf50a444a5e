"""The block hashes that logs name: which are false, and which only the block can prove."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass, LogsForm, Rule
from rpcaccel.core.replies.log_hashes import NOTHING, named_hashes

RIGHT, WRONG = "0x" + "A1" * 32, "0x" + "b2" * 32


def plan(form: LogsForm, params: bytes = b"[{}]", block: int | None = 5) -> Plan:
    rule = Rule(method="m", cache=CacheClass.BY_NUMBER, logs=form)
    return Plan(network="n", method="m", rule=rule, params=params, asked=params, cache=rule.cache, block=block)


def log(number: int | str, hash: str) -> dict[str, Any]:
    return {"blockNumber": number, "blockHash": hash, "data": "0x"}


def text(value: Any) -> bytes:
    return msgspec.json.encode(value)


def test_a_receipt_proves_its_logs_itself() -> None:
    receipt = {"blockHash": RIGHT, "logs": [log("0x5", RIGHT.lower())]}
    assert named_hashes(plan("receipt"), text(receipt)) == NOTHING
    assert named_hashes(plan("receipt"), text({**receipt, "logs": [log("0x5", WRONG)]})).false
    assert named_hashes(plan("receipts"), text([receipt, {**receipt, "logs": [log(5, WRONG)]}])).false
    assert named_hashes(plan("receipts"), text([receipt, {"blockHash": WRONG, "logs": None}])) == NOTHING


def test_two_hashes_of_one_block_cannot_both_be_right() -> None:
    assert named_hashes(plan("list"), text([log("0x5", RIGHT), log(5, WRONG)])).false


def test_logs_of_several_blocks_are_to_be_proven_by_these() -> None:
    found = named_hashes(plan("list"), text([log("0x5", RIGHT), log("0x5", RIGHT), log("0x6", WRONG)]))
    assert (found.false, found.unproven) == (False, {5: RIGHT.lower(), 6: WRONG})


def test_logs_that_were_asked_for_by_a_hash_are_of_that_block() -> None:
    asked = plan("list", text([{"blockHash": RIGHT}]), None)
    assert named_hashes(asked, text([log("0x5", RIGHT.lower())])) == NOTHING
    assert named_hashes(asked, text([log("0x5", WRONG)])).false


@pytest.mark.parametrize("form", ["", "list", "receipt", "receipts"])
@given(noise=st.one_of(st.binary(max_size=40), st.sampled_from(
    [b"null", b"[]", b"{}", b"[null]", b'[{"blockNumber":"x","blockHash":"y"}]', b'{"logs":[]}', b"[" * 5000]
)))  # fmt: skip
def test_what_cannot_be_read_names_nothing(form: LogsForm, noise: bytes) -> None:
    assert named_hashes(plan(form), noise) == NOTHING
