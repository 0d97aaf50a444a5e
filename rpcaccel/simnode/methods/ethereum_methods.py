"""The methods that a geth-like node alone has, or answers in a way of its own.

Such a node has optional block arguments, finalized and safe tags, error data on reverts, and geth's error texts.
Source: go-ethereum's eth API (docs/harmony.md section 11).
"""

from __future__ import annotations

from typing import Any

from rpcaccel.simnode.chain.raw_tx import keccak256
from rpcaccel.simnode.methods import lookup
from rpcaccel.simnode.methods.block_args import geth_number
from rpcaccel.simnode.methods.block_methods import known
from rpcaccel.simnode.methods.json_views import hex0
from rpcaccel.simnode.methods.registry import ETHEREUM, MethodCall, anything, failed, geth, string, text

ETHEREUM.fixed("accounts", b"[]", spaces={"eth": "geth"})
ETHEREUM.fixed("maxPriorityFeePerGas", text(hex(10**9)), spaces={"eth": "geth"})


@ETHEREUM.add("sha3", string, spaces={"web3": "geth"})
def sha3(asked: MethodCall, data: str) -> bytes:  # noqa: ARG001
    return text(hex0(keccak256(bytes.fromhex(data.removeprefix("0x")))))


@ETHEREUM.add("status", spaces={"txpool": "geth"})
def pool_status(asked: MethodCall) -> bytes:
    return text({"pending": hex(len(lookup.pending(asked))), "queued": "0x0"})


@geth("syncing")
def syncing(asked: MethodCall) -> bytes:
    behind = asked.chain.head - asked.head
    if behind < 10:
        return b"false"
    return text({"startingBlock": "0x0", "currentBlock": hex(asked.head), "highestBlock": hex(asked.chain.head)})


@geth("getUncleCountByBlockNumber", geth_number)
def uncles(asked: MethodCall, reference: int) -> bytes:
    return text(None if known(asked, reference) is None else "0x0")


@geth("feeHistory", anything, geth_number, anything, optional=1)
def fee_history(asked: MethodCall, count: Any, newest: int, percentiles: Any = None) -> bytes:
    last = known(asked, newest)
    if last is None:
        raise failed(f"request beyond head block: requested {newest}, head {asked.head}")
    wanted = min(int(str(count), 0), last + 1, 1024)
    oldest = last - wanted + 1
    view: dict[str, Any] = {
        "oldestBlock": hex(oldest),
        "baseFeePerGas": [hex(1_000_000_000 + height % 1000) for height in range(oldest, last + 2)],
        "gasUsedRatio": [round(asked.block_at(h).gas_used / 30_000_000, 6) for h in range(oldest, last + 1)],
    }
    if percentiles:
        view["reward"] = [[hex(10**9)] * len(percentiles) for _ in range(wanted)]
    return text(view)
