"""The account methods: balances, nonces, code, storage, calls, proofs and gas.

Above the head Harmony answers with nothing, and geth refuses the call (docs/harmony.md sections 6 and 11).
"""

from __future__ import annotations

import binascii
from typing import Any

from rpcaccel.simnode.chain import accounts
from rpcaccel.simnode.chain.addresses import to_hex
from rpcaccel.simnode.chain.knobs import OLD_STATE
from rpcaccel.simnode.chain.raw_tx import keccak256
from rpcaccel.simnode.methods.block_args import (
    LATEST,
    PENDING,
    Reference,
    geth_address,
    geth_number_or_hash,
    number,
    number_or_hash,
    optional_number_or_hash,
)
from rpcaccel.simnode.methods.block_methods import CRASHED, account, at_height, height_of, known
from rpcaccel.simnode.methods.json_views import hex0
from rpcaccel.simnode.methods.registry import (
    CHAIN,
    HARMONY,
    MethodCall,
    RpcError,
    anything,
    call_object,
    failed,
    geth,
    string,
    text,
)


def pruned(asked: MethodCall, height: int) -> None:
    """Raise `missing trie node` for state that this node has thrown away."""
    knobs = asked.local.knobs
    if not knobs.archive and height < asked.head - knobs.prune_depth:
        root = asked.branch.generator.digest(b"state", asked.branch.fork_of(height), height).hex()
        why = f"state 0x{root} is not available, not found" if asked.version == "geth" else "<nil>"
        raise failed(f"missing trie node {root} (path ) {why}")


def state_height(asked: MethodCall, reference: Reference) -> int | None:
    """`height_of` where state is read; geth refuses a call above its head."""
    height = height_of(asked, reference)
    if height is not None:
        pruned(asked, height)
        return shown_at(asked, height)
    if asked.version == "geth":
        raise failed("header not found")
    return None


def shown_at(asked: MethodCall, height: int) -> int:
    """The block whose state the node shows for that of `height`: an older one if it lies."""
    return max(0, height - OLD_STATE) if asked.lies("old_state") else height


def call_data(asked: MethodCall, value: dict[str, Any]) -> tuple[bytes | None, bytes]:
    """The called address and the data of a call object; Harmony ignores `input` (docs/harmony.md section 4)."""
    data = value.get("data")
    if asked.version == "geth":
        data = value.get("input") or data
    to = value.get("to")
    try:
        payload = bytes.fromhex((data or "0x").removeprefix("0x"))
    except (ValueError, binascii.Error):
        raise RpcError(-32602, "invalid argument 0: json: cannot unmarshal invalid hex string") from None
    return (account(to) if to else None), payload


@HARMONY.add("getBalanceByBlockNumber", string, number, spaces=CHAIN)
def get_balance_by_block_number(asked: MethodCall, who: str, reference: int) -> bytes:
    height = at_height(asked, reference).number
    pruned(asked, height)
    return _balance(asked, account(who), shown_at(asked, height))


def _balance(asked: MethodCall, address: bytes, height: int) -> bytes:
    return text(asked.number(accounts.balance(asked.chain, asked.branch, address, height)))


@HARMONY.add("getBalance", string, spaces={"hmyv2": "v2"})
def get_balance_now(asked: MethodCall, who: str) -> bytes:
    return _balance(asked, account(who), shown_at(asked, asked.head))


@HARMONY.add("getBalance", string, number_or_hash, spaces={"eth": "eth", "hmy": "v1"})
@geth("getBalance", geth_address, geth_number_or_hash, optional=1)
def get_balance(asked: MethodCall, who: str | bytes, reference: Reference = LATEST) -> bytes:
    height = state_height(asked, reference)
    address = account(who)
    return b"null" if height is None else _balance(asked, address, height)


@HARMONY.add("getAccountNonce", string, number, spaces=CHAIN)
def get_account_nonce(asked: MethodCall, who: str, reference: int) -> bytes:
    address, height = account(who), known(asked, reference)
    if height is None:
        return b"0"
    pruned(asked, height)
    return text(accounts.nonce(asked.chain, asked.branch, address, shown_at(asked, height)))


@HARMONY.add("getTransactionCount", string, number_or_hash, spaces=CHAIN)
@geth("getTransactionCount", geth_address, geth_number_or_hash, optional=1)
def get_transaction_count(asked: MethodCall, who: str | bytes, reference: Reference = LATEST) -> bytes:
    address = account(who)
    if reference == PENDING:
        return text(asked.number(accounts.nonce(asked.chain, asked.branch, address, asked.head + 1)))
    height = state_height(asked, reference)
    if height is None:
        raise failed("state not found")
    return text(asked.number(accounts.nonce(asked.chain, asked.branch, address, height)))


@HARMONY.add("getCode", string, number_or_hash, spaces=CHAIN)
@geth("getCode", geth_address, geth_number_or_hash, optional=1)
def get_code(asked: MethodCall, who: str | bytes, reference: Reference = LATEST) -> bytes:
    address, height = account(who), state_height(asked, reference)
    return text("0x" if height is None else hex0(accounts.code(asked.chain, asked.branch, address, height)))


@HARMONY.add("getStorageAt", string, string, number_or_hash, spaces=CHAIN)
@geth("getStorageAt", geth_address, string, geth_number_or_hash, optional=1)
def get_storage_at(asked: MethodCall, who: str | bytes, slot: str, reference: Reference = LATEST) -> bytes:
    address, height = account(who), state_height(asked, reference)
    if height is None:
        return b'"0x"'
    return text(hex0(accounts.storage(asked.chain, asked.branch, address, int(slot, 16), height)))


def reverted(asked: MethodCall) -> RpcError:
    """The error of a call that reverts; geth adds the reason's data."""
    data = accounts.Reverted.data if asked.version == "geth" else None
    return RpcError(3, f"execution reverted: {accounts.REASON}", data)


@HARMONY.add("call", call_object, number_or_hash, spaces=CHAIN, limiter="call")
@geth("call", call_object, geth_number_or_hash, anything, anything, optional=3)
def call(asked: MethodCall, value: dict[str, Any], reference: Reference = LATEST, *overrides: Any) -> bytes:  # noqa: ARG001
    height = state_height(asked, reference)
    to, data = call_data(asked, value)
    if height is None:
        return b'"0x"'
    try:
        return text(hex0(accounts.call(asked.chain, asked.branch, to, data, height)))
    except accounts.Reverted:
        raise reverted(asked) from None


@HARMONY.add("estimateGas", call_object, optional_number_or_hash, spaces=CHAIN, optional=1)
@geth("estimateGas", call_object, geth_number_or_hash, anything, optional=2)
def estimate_gas(asked: MethodCall, value: dict[str, Any], reference: Reference = LATEST, *overrides: Any) -> bytes:  # noqa: ARG001
    height = state_height(asked, reference)
    if height is None:
        raise failed(CRASHED)
    to, data = call_data(asked, value)
    if data.startswith(accounts.REVERT):
        raise reverted(asked)
    is_geth = asked.version == "geth"
    if not is_geth and to is not None and not data and accounts.code(asked.chain, asked.branch, to, height):
        raise failed("evm: execution reverted")
    sent = int(value.get("value") or "0x0", 16)
    sender = value.get("from")
    if sent and sender and sent > accounts.balance(asked.chain, asked.branch, account(sender), height):
        raise failed("insufficient funds for transfer")
    if is_geth:
        creates = 32_000 if to is None else 0
        logs = 30_000 if to == asked.branch.generator.contract and data else 0
        return text(hex(21_000 + creates + logs + 16 * len(data)))
    return text(hex(21_000 + 16 * len(data) + (53 if data else 0)))


@HARMONY.add("getProof", string, anything, number_or_hash, spaces=CHAIN, limiter="chain")
@geth("getProof", geth_address, anything, geth_number_or_hash, optional=1)
def get_proof(asked: MethodCall, who: str | bytes, slots: list[str], reference: Reference = LATEST) -> bytes:
    address, height = account(who), state_height(asked, reference)
    if height is None:
        return b"null"
    make = asked.branch.generator
    nodes = [hex0(make.digest(b"proof", address, height, i, size=64)) for i in range(3)]
    view = {
        "address": to_hex(address),
        "accountProof": nodes,
        "balance": hex(accounts.balance(asked.chain, asked.branch, address, height)),
        "codeHash": hex0(keccak256(accounts.code(asked.chain, asked.branch, address, height))),
        "nonce": hex(accounts.nonce(asked.chain, asked.branch, address, height)),
        "storageHash": hex0(make.digest(b"storage root", address, height)),
        "storageProof": [{"key": slot, "value": _slot(asked, address, slot, height), "proof": nodes} for slot in slots],
    }
    return text(view)


def _slot(asked: MethodCall, address: bytes, slot: str, height: int) -> str:
    return hex(int.from_bytes(accounts.storage(asked.chain, asked.branch, address, int(slot, 16), height), "big"))


@HARMONY.add("gasPrice", spaces=CHAIN)
@geth("gasPrice")
def gas_price(asked: MethodCall) -> bytes:
    return text(asked.number(accounts.gas_price(asked.head)))
