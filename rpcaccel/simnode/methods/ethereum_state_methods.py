"""The account methods of a geth-like node, which unlike Harmony refuses calls about blocks above its head.

Source: go-ethereum's eth API (docs/harmony.md section 11).
"""

from __future__ import annotations

from typing import Any

from rpcaccel.simnode.chain import accounts
from rpcaccel.simnode.chain.addresses import to_hex
from rpcaccel.simnode.chain.raw_tx import keccak256
from rpcaccel.simnode.methods.block_args import LATEST, PENDING, Reference, geth_number_or_hash
from rpcaccel.simnode.methods.ethereum_methods import address, height_of, serve
from rpcaccel.simnode.methods.json_views import hex0
from rpcaccel.simnode.methods.registry import MethodCall, RpcError, anything, call_object, failed, string, text
from rpcaccel.simnode.methods.state_methods import call_data


def state_height(asked: MethodCall, reference: Reference) -> int:
    """`height_of` where state is read. Raises RpcError above the head and where state is gone."""
    height = height_of(asked, reference)
    if height is None:
        raise failed("header not found")
    knobs = asked.local.knobs
    if not knobs.archive and height < asked.head - knobs.prune_depth:
        root = asked.branch.generator.digest(b"state", asked.branch.fork_of(height), height).hex()
        raise failed(f"missing trie node {root} (path ) state 0x{root} is not available, not found")
    return height


@serve("getBalance", address, geth_number_or_hash, optional=1)
def get_balance(asked: MethodCall, who: bytes, reference: Reference = LATEST) -> bytes:
    return text(hex(accounts.balance(asked.chain, asked.branch, who, state_height(asked, reference))))


@serve("getTransactionCount", address, geth_number_or_hash, optional=1)
def get_transaction_count(asked: MethodCall, who: bytes, reference: Reference = LATEST) -> bytes:
    height = asked.head + 1 if reference == PENDING else state_height(asked, reference)
    return text(hex(accounts.nonce(asked.chain, asked.branch, who, height)))


@serve("getCode", address, geth_number_or_hash, optional=1)
def get_code(asked: MethodCall, who: bytes, reference: Reference = LATEST) -> bytes:
    return text(hex0(accounts.code(asked.chain, asked.branch, who, state_height(asked, reference))))


@serve("getStorageAt", address, string, geth_number_or_hash, optional=1)
def get_storage_at(asked: MethodCall, who: bytes, slot: str, reference: Reference = LATEST) -> bytes:
    height = state_height(asked, reference)
    return text(hex0(accounts.storage(asked.chain, asked.branch, who, int(slot, 16), height)))


@serve("getProof", address, anything, geth_number_or_hash, optional=1)
def get_proof(asked: MethodCall, who: bytes, slots: list[str], reference: Reference = LATEST) -> bytes:
    height, make = state_height(asked, reference), asked.branch.generator
    nodes = [hex0(make.digest(b"proof", who, height, i, size=64)) for i in range(3)]
    return text({
        "address": to_hex(who),
        "accountProof": nodes,
        "balance": hex(accounts.balance(asked.chain, asked.branch, who, height)),
        "codeHash": hex0(keccak256(accounts.code(asked.chain, asked.branch, who, height))),
        "nonce": hex(accounts.nonce(asked.chain, asked.branch, who, height)),
        "storageHash": hex0(make.digest(b"storage root", who, height)),
        "storageProof": [{"key": slot, "value": "0x0", "proof": nodes} for slot in slots],
    })  # fmt: skip


def _reverted() -> RpcError:
    return RpcError(3, f"execution reverted: {accounts.REASON}", accounts.Reverted.data)


@serve("call", call_object, geth_number_or_hash, anything, anything, optional=3)
def call(asked: MethodCall, value: dict[str, Any], reference: Reference = LATEST, *overrides: Any) -> bytes:  # noqa: ARG001
    height = state_height(asked, reference)
    to, data = call_data(asked, value)
    try:
        return text(hex0(accounts.call(asked.chain, asked.branch, to, data, height)))
    except accounts.Reverted:
        raise _reverted() from None


@serve("estimateGas", call_object, geth_number_or_hash, anything, optional=2)
def estimate_gas(asked: MethodCall, value: dict[str, Any], reference: Reference = LATEST, *overrides: Any) -> bytes:  # noqa: ARG001
    height = state_height(asked, reference)
    to, data = call_data(asked, value)
    if data.startswith(accounts.REVERT):
        raise _reverted()
    sent, sender = int(value.get("value") or "0x0", 16), value.get("from")
    held = accounts.balance(asked.chain, asked.branch, bytes.fromhex(sender[2:]), height) if sender else sent
    if sent > held:
        raise failed("insufficient funds for transfer")
    creates = 32_000 if to is None else 0
    logs = 30_000 if to == asked.branch.generator.contract and data else 0
    return text(hex(21_000 + creates + logs + 16 * len(data)))
