"""Proves accounts and their storage by the root of the state that a block's header has (EIP-1186), and answers reads of
the state from such a proof."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.core.hashing.rlp import decode
from rpcaccel.core.hashing.trie import EMPTY_TRIE_ROOT, proved_value
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import StatePart
from rpcaccel.core.proof.encoding import Disproved, NotProvable, data, items, member, whole
from rpcaccel.core.wire.json_text import UNREADABLE

_HASH_LETTERS = 2 + 64
NO_CODE = keccak256(b"")
"""The hash of the code of an account that has none."""
NO_CODE_SHOWN = b'"0x"'
"""The result of a read of the code of an account that has none."""


class Account(Struct, frozen=True):
    """What the state has of an address."""

    nonce: int = 0
    balance: int = 0
    storage_root: bytes = EMPTY_TRIE_ROOT
    code_hash: bytes = NO_CODE

    def shows_as(self, proof: Any) -> bool:
        """Does the answer of `eth_getProof` show this account? Of one that does not exist some clients show hashes of
        zeros."""
        nothing = (bytes(32),) if self == Account() else ()
        return (
            whole(member(proof, "nonce"), "nonce") == self.nonce
            and whole(member(proof, "balance"), "balance") == self.balance
            and data(member(proof, "codeHash"), "codeHash", 32) in (self.code_hash, *nothing)
            and data(member(proof, "storageHash"), "storageHash", 32) in (self.storage_root, *nothing)
        )


def slot_key(value: Any) -> bytes:
    """The 32 bytes of a place in storage, which callers and clients may write shorter."""
    return word(value).to_bytes(32, "big")


def word(value: Any) -> int:
    """A word of 32 bytes, which clients write as a quantity or as bytes."""
    found = whole(value, "a word")
    if found >> 256:
        raise NotProvable("a word is longer than 32 bytes")
    return found


def proved_account(proof: Any, address: bytes, state_root: bytes) -> Account:
    """The account at an address, as the answer of `eth_getProof` proves it; one without anything where the state has
    no such account.

    Args:
        proof: the answer, as JSON was read.
        address: 20 bytes.
        state_root: 32 bytes, of the header of the block that was asked about.

    Raises:
        Disproved: the nodes of the proof do not lead from the root to the account.
        NotProvable: the answer is no proof.
    """
    found = _proved(state_root, address, member(proof, "accountProof"), "accountProof")
    if found is None:
        return Account()
    account = _decoded(found, "accountProof")
    if not isinstance(account, list) or len(account) != 4 or not all(isinstance(part, bytes) for part in account):
        raise Disproved("accountProof leads to no account")
    nonce, balance, storage_root, code_hash = account
    return Account(int.from_bytes(nonce, "big"), int.from_bytes(balance, "big"), storage_root, code_hash)


def proved_slot(entry: Any, key: bytes, account: Account) -> int:
    """The number at a place of an account's storage, as an entry of `storageProof` proves it.

    Args:
        key: 32 bytes.
        account: the account, proved.

    Raises:
        Disproved: the nodes of the proof do not lead from the root to the place.
        NotProvable: the entry is no proof.
    """
    found = _proved(account.storage_root, key, member(entry, "proof"), "storageProof")
    value = b"" if found is None else _decoded(found, "storageProof")
    if not isinstance(value, bytes):
        raise Disproved("storageProof leads to no number")
    return int.from_bytes(value, "big")


def _proved(root: bytes, key: bytes, nodes: Any, name: str) -> bytes | None:
    try:
        return proved_value(root, keccak256(key), [data(node, name) for node in items(nodes, name)])
    except ValueError as error:
        raise Disproved(f"{name}: {error}") from None


def _decoded(value: bytes, name: str) -> Any:
    try:
        return decode(value)
    except ValueError as error:
        raise Disproved(f"{name}: {error}") from None


# -- reads of the state -----------------------------------------------------------------------------------------------


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
