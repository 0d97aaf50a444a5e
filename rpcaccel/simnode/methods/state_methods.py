"""The account methods: balances, nonces, code, storage, calls, proofs and gas.

Above the head Harmony answers with nothing, and geth refuses the call (docs/harmony.md sections 6 and 11).
"""

from __future__ import annotations

from typing import Any

from rpcaccel.core.hashing.keccak import keccak256
from rpcaccel.simnode.chain import accounts
from rpcaccel.simnode.chain.addresses import to_hex
from rpcaccel.simnode.methods import arguments as args
from rpcaccel.simnode.methods.arguments import LATEST, PENDING, Reference
from rpcaccel.simnode.methods.block_methods import account, at_height, height_of, known
from rpcaccel.simnode.methods.json_views import View
from rpcaccel.simnode.methods.registry import CRASHED, MethodCall, RpcError, both, chain, geth, harmony


def state_height(call: MethodCall, reference: Reference) -> int | None:
    """`height_of` where state is read; geth refuses a call above its head."""
    height = height_of(call, reference)
    if height is None and call.geth:
        raise RpcError("header not found")
    return None if height is None else call.shown_height(height)


def _called(call: MethodCall, value: View) -> tuple[bytes | None, bytes]:
    """The called address and the data of a call object; Harmony ignores `input` (docs/harmony.md section 4)."""
    data = (call.geth and value.get("input")) or value.get("data") or "0x"
    try:
        payload = bytes.fromhex(data.removeprefix("0x"))
    except ValueError:
        raise RpcError("invalid argument 0: json: cannot unmarshal invalid hex string", -32602) from None
    to = value.get("to")
    return (account(to) if to else None), payload


@chain("getBalanceByBlockNumber", args.address, args.number)
def get_balance_by_block_number(call: MethodCall, who: str, reference: int) -> int | str:
    height = call.shown_height(at_height(call, reference).number)
    return call.number(accounts.balance(call.branch, account(who), height))


@harmony("getBalance", args.address, spaces={"hmyv2": "v2"})
def get_balance_now(call: MethodCall, who: str) -> int | str:
    return call.number(accounts.balance(call.branch, account(who), call.shown_height(call.head)))


@both("getBalance", args.address, args.number_or_hash, spaces={"eth": "eth", "hmy": "v1"}, optional=1)
def get_balance(call: MethodCall, who: str | bytes, reference: Reference = LATEST) -> int | str | None:
    height, address = state_height(call, reference), account(who)
    return None if height is None else call.number(accounts.balance(call.branch, address, height))


@chain("getAccountNonce", args.address, args.number)
def get_account_nonce(call: MethodCall, who: str, reference: int) -> int:
    address, height = account(who), known(call, reference)
    return 0 if height is None else accounts.nonce(call.branch, address, call.shown_height(height))


@both("getTransactionCount", args.address, args.number_or_hash, optional=1)
def get_transaction_count(call: MethodCall, who: str | bytes, reference: Reference = LATEST) -> int | str:
    address = account(who)
    height = call.chain.next_block if reference == PENDING else state_height(call, reference)
    if height is None:
        raise RpcError("state not found")
    return call.number(accounts.nonce(call.branch, address, height))


@both("getCode", args.address, args.number_or_hash, optional=1)
def get_code(call: MethodCall, who: str | bytes, reference: Reference = LATEST) -> str:
    address, height = account(who), state_height(call, reference)
    return "0x" if height is None else to_hex(accounts.code(call.branch, address, height))


@both("getStorageAt", args.address, args.string, args.number_or_hash, optional=1)
def get_storage_at(call: MethodCall, who: str | bytes, slot: str, reference: Reference = LATEST) -> str:
    address, height = account(who), state_height(call, reference)
    return "0x" if height is None else to_hex(accounts.storage(call.branch, address, int(slot, 16), height))


@chain("call", args.call_object, args.number_or_hash, limiter="call")
@geth("call", args.call_object, args.number_or_hash, args.anything, args.anything, optional=3)
def eth_call(call: MethodCall, value: View, reference: Reference = LATEST, *_overrides: Any) -> str:
    height = state_height(call, reference)
    to, data = _called(call, value)
    if height is None:
        return "0x"
    try:
        return to_hex(accounts.call(call.branch, to, data, height))
    except accounts.Reverted:
        raise _reverted(call) from None


def _reverted(call: MethodCall) -> RpcError:
    """The error of a call that reverts; geth adds the reason's data."""
    return RpcError(f"execution reverted: {accounts.REASON}", 3, accounts.Reverted.data if call.geth else None)


@chain("estimateGas", args.call_object, args.optional_number_or_hash, optional=1)
@geth("estimateGas", args.call_object, args.number_or_hash, args.anything, optional=2)
def estimate_gas(call: MethodCall, value: View, reference: Reference = LATEST, *_overrides: Any) -> str:
    height = state_height(call, reference)
    if height is None:
        raise RpcError(CRASHED)
    to, data = _called(call, value)
    if data.startswith(accounts.REVERT):
        raise _reverted(call)
    if not call.geth and to is not None and not data and accounts.code(call.branch, to, height):
        raise RpcError("evm: execution reverted")
    sent, sender = int(value.get("value") or "0x0", 16), value.get("from")
    if sent and sender and sent > accounts.balance(call.branch, account(sender), height):
        raise RpcError("insufficient funds for transfer")
    if call.geth:
        extra = (32_000 if to is None else 0) + (30_000 if to == call.make.contract and data else 0)
    else:
        extra = 53 if data else 0
    return hex(21_000 + extra + 16 * len(data))


@both("getProof", args.address, args.anything, args.number_or_hash, optional=1, limiter="chain")
def get_proof(call: MethodCall, who: str | bytes, slots: list[str], reference: Reference = LATEST) -> View | None:
    address, height = account(who), state_height(call, reference)
    if height is None:
        return None
    branch, make = call.branch, call.make
    nodes = [to_hex(make.digest(b"proof", address, height, i, size=64)) for i in range(3)]
    held = {slot: int.from_bytes(accounts.storage(branch, address, int(slot, 16), height), "big") for slot in slots}
    return {
        "address": to_hex(address),
        "accountProof": nodes,
        "balance": hex(accounts.balance(branch, address, height)),
        "codeHash": to_hex(keccak256(accounts.code(branch, address, height))),
        "nonce": hex(accounts.nonce(branch, address, height)),
        "storageHash": to_hex(make.digest(b"storage root", address, height)),
        "storageProof": [{"key": slot, "value": hex(held[slot]), "proof": nodes} for slot in slots],
    }


both("gasPrice")(lambda call: call.number(accounts.gas_price(call.head)))
geth("maxPriorityFeePerGas")(lambda _: hex(10**9))
