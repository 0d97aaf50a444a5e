"""Reads of the state that are answered from the proof of an account: what is asked for, and what is taken from it."""

from __future__ import annotations

from typing import Any

import msgspec

from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import StatePart
from rpcaccel.core.proof.encoding import NotProvable, data, items, member, whole
from rpcaccel.core.proof.state import NO_CODE, slot_key, word
from rpcaccel.core.wire.json_text import UNREADABLE

_HASH_LETTERS = 2 + 64
NO_CODE_SHOWN = b'"0x"'
"""The result of a read of the code of an account that has none."""


def proof_params(plan: Plan) -> bytes:
    """The params of the proof (`ProofForm.state_method`) that answers a read: the account, the places of its storage
    in their full length, and the block as the caller named it. Raises NotProvable where the read names them wrongly."""
    at = 1 if plan.rule.block is None else plan.rule.block.at
    try:
        said: Any = msgspec.json.decode(plan.asked)
    except UNREADABLE as error:
        raise NotProvable(f"the params cannot be read: {error}") from None
    if not isinstance(said, list) or len(said) < at:
        raise NotProvable("a param is missing")
    address, places = data(said[0], "the address", 20), [f"0x{slot_key(place).hex()}" for place in said[1:at]]
    return msgspec.json.encode([f"0x{address.hex()}", places, *said[at:]])


def names_hash(proof: Plan) -> bool:
    """Does the call for a proof name its block by a hash?"""
    named: Any = msgspec.json.decode(proof.params)[2:]
    return bool(named) and (isinstance(named[0], dict) or len(str(named[0])) == _HASH_LETTERS)


def result_in(part: StatePart, proof: bytes) -> bytes:
    """The result of a read of a balance, a nonce or a place, as raw JSON text, from an answer that was proved."""
    shown = msgspec.json.decode(proof)
    if part == "place":
        (entry,) = items(member(shown, "storageProof"), "storageProof")
        return b'"0x%064x"' % word(member(entry, "value"))
    return b'"0x%x"' % whole(member(shown, part), part)


def code_hash_in(proof: bytes) -> bytes:
    """The hash of an account's code, from an answer that was proved. Some clients give zeros where there is none."""
    found = data(member(msgspec.json.decode(proof), "codeHash"), "codeHash", 32)
    return found if any(found) else NO_CODE


def is_code(result: bytes, code_hash: bytes) -> bool:
    """Is the result of a read of code, as raw JSON text, the code with this hash?"""
    try:
        return keccak256(data(msgspec.json.decode(result), "the code")) == code_hash
    except (NotProvable, *UNREADABLE):
        return False
