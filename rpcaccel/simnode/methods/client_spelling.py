"""Writes the results of a geth-like node as other clients do: the same facts in other members, forms and orders.

Each client's own habits are those that were seen in some version of it. Calls that all clients answer alike are left as
they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rpcaccel.simnode.chain.knobs import NodeClient
from rpcaccel.simnode.methods.registry import GETH_VERSION, text

VERSIONS: dict[NodeClient, str] = {
    "geth": GETH_VERSION,
    "erigon": "erigon/3.0.2-simulated/linux-amd64/go1.24",
    "reth": "reth/v1.5.0-simulated/x86_64-unknown-linux-gnu",
    "nethermind": "Nethermind/v1.31.9-simulated/linux-x64/dotnet9.0",
    "besu": "besu/v25.4.1-simulated/linux-x86_64/openjdk-java-21",
}
"""The answer to web3_clientVersion."""
Members = dict[str, Any]
_BLOCKS = ("eth_getBlockByNumber", "eth_getBlockByHash")
_FIRST_OF_RETH = ("type", "status", "cumulativeGasUsed", "hash", "parentHash", "chainId", "nonce")


def spelled(client: NodeClient, method: str, result: bytes) -> bytes:
    """A result of geth's as `client` writes it."""
    write = _WRITERS.get(method)
    if write is None or client == "geth" or result == b"null":
        return result
    value = json.loads(result)
    if isinstance(value, list):
        return text([_ordered(client, write(client, item)) for item in value])
    return text(_ordered(client, write(client, value)))


def _ordered(client: NodeClient, value: Members) -> Members:
    """The members in the client's order: reth puts some first, the others write them in alphabetical order."""
    if client == "reth":
        return {name: value[name] for name in (*(n for n in _FIRST_OF_RETH if n in value), *reversed(value))}
    return dict(sorted(value.items()))


def _block(client: NodeClient, block: Members) -> Members:
    if client in ("erigon", "besu"):
        block["totalDifficulty"] = "0xc70d815d562d3cfa955"
    elif client == "reth":
        block |= {"totalDifficulty": "0x0", "requestsHash": block["receiptsRoot"]}
    elif client == "nethermind":
        block |= {"author": block["miner"], "nonce": "0x0"}
    if block["transactions"] and isinstance(block["transactions"][0], dict):
        block["transactions"] = [_ordered(client, _transaction(client, tx)) for tx in block["transactions"]]
    return block


def _transaction(client: NodeClient, tx: Members) -> Members:
    typed = tx["type"] != "0x0"
    if typed and client != "erigon":
        tx["yParity"] = tx["v"]
    if client == "reth":
        tx["blockTimestamp"] = None
        if not typed and int(tx["v"], 16) < 35:
            del tx["chainId"]
    elif client == "nethermind":
        tx |= {"data": tx["input"], "type": "0x" + tx["type"][2:].rjust(2, "0")}
        if not typed:
            del tx["chainId"]
    elif client == "besu":
        tx |= {"publicKey": "0x" + "ab" * 64, "raw": "0x" + "cd" * 32}
        if typed:
            del tx["v"]
    elif client == "erigon":
        tx |= {} if typed else {"accessList": None}
    return tx


def _receipt(client: NodeClient, receipt: Members) -> Members:
    receipt["logs"] = [_ordered(client, _log(client, log)) for log in receipt["logs"]]
    if client == "nethermind":
        receipt["error"] = ""
    elif client == "besu":
        receipt["revertReason"] = None
    elif client == "reth":
        receipt |= {"blobGasPrice": "0x1", "blobGasUsed": "0x0"}
    elif client == "erigon" and receipt["type"] == "0x0":
        del receipt["type"]
    return receipt


def _log(client: NodeClient, log: Members) -> Members:
    if client in ("erigon", "besu"):
        del log["blockTimestamp"]
    elif client == "nethermind":
        log |= {"transactionLogIndex": "0x0", "logType": "mined"}
        del log["removed"]
    return log


def _proof(client: NodeClient, proof: Members) -> Members:
    for entry in proof["storageProof"]:
        key, value = (entry[name][2:] for name in ("key", "value"))
        if client == "nethermind":
            entry["value"] = "0x" + value.rjust(len(value) + len(value) % 2, "0")
        elif client in ("erigon", "besu"):
            entry["key"] = "0x" + key.rjust(64, "0")
        elif client == "reth":
            entry["key"] = hex(int(key, 16))
    return proof


def _fees(client: NodeClient, fees: Members) -> Members:
    blocks = len(fees["gasUsedRatio"])
    if client == "erigon":
        fees["gasUsedRatio"] = [int(ratio) if ratio == int(ratio) else ratio for ratio in fees["gasUsedRatio"]]
        return fees
    if client == "nethermind":
        fees["gasUsedRatio"] = [round(ratio, 10) for ratio in fees["gasUsedRatio"]]
    return fees | {"baseFeePerBlobGas": ["0x1"] * (blocks + 1), "blobGasUsedRatio": [0.0] * blocks}


_WRITERS: dict[str, Callable[[NodeClient, Members], Members]] = {
    **dict.fromkeys(_BLOCKS, _block),
    "eth_getTransactionByHash": _transaction,
    "eth_getTransactionByBlockNumberAndIndex": _transaction,
    "eth_getTransactionByBlockHashAndIndex": _transaction,
    "eth_getTransactionReceipt": _receipt,
    "eth_getBlockReceipts": _receipt,
    "eth_getLogs": _log,
    "eth_getFilterLogs": _log,
    "eth_getProof": _proof,
    "eth_feeHistory": _fees,
}
