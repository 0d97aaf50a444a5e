"""Writes the results of a geth-like node as other clients do: the same facts in other members, forms and orders.

Each client's own habits are those that were seen in some version of it. Calls that all clients answer alike are left as
they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rpcaccel.simnode.chain.knobs import NodeClient
from rpcaccel.simnode.methods.json_views import View

_FIRST_OF_RETH = ("type", "status", "cumulativeGasUsed", "hash", "parentHash", "chainId", "nonce")
_MORE: dict[tuple[str, str], View] = {
    ("block", "erigon"): {"totalDifficulty": "0xc70d815d562d3cfa955"},
    ("block", "besu"): {"totalDifficulty": "0xc70d815d562d3cfa955"},
    ("block", "reth"): {"totalDifficulty": "0x0", "requestsHash": ""},
    ("block", "nethermind"): {"nonce": "0x0"},
    ("transaction", "besu"): {"publicKey": "0x" + "ab" * 64, "raw": "0x" + "cd" * 32},
    ("receipt", "nethermind"): {"error": ""},
    ("receipt", "besu"): {"revertReason": None},
    ("receipt", "reth"): {"blobGasPrice": "0x1", "blobGasUsed": "0x0"},
    ("log", "nethermind"): {"transactionLogIndex": "0x0", "logType": "mined"},
}
"""The members that a client adds to a result of geth's, and those that it writes otherwise."""
_LESS = {("log", "erigon"): "blockTimestamp", ("log", "besu"): "blockTimestamp", ("log", "nethermind"): "removed"}
"""The member that a client leaves out."""


def spelled(client: NodeClient, method: str, value: Any) -> Any:
    """A result of geth's as `client` writes it."""
    kind = _KINDS.get(method)
    if kind is None or client == "geth" or value is None or value == b"null":
        return value
    value = json.loads(value) if isinstance(value, bytes) else value
    return [_spelled(client, kind, one) for one in value] if isinstance(value, list) else _spelled(client, kind, value)


def _spelled(client: NodeClient, kind: str, view: View) -> View:
    """A view with the client's members in its order: reth puts some first, the others go by the alphabet."""
    view = view | _MORE.get((kind, client), {})
    view.pop(_LESS.get((kind, client), ""), None)
    _CHANGES[kind](client, view)
    if client == "reth":
        return {name: view[name] for name in (*(n for n in _FIRST_OF_RETH if n in view), *reversed(view))}
    return dict(sorted(view.items()))


def _block(client: NodeClient, block: View) -> None:
    if client == "reth":
        block["requestsHash"] = block["receiptsRoot"]
    elif client == "nethermind":
        block["author"] = block["miner"]
    if block["transactions"] and isinstance(block["transactions"][0], dict):
        block["transactions"] = [_spelled(client, "transaction", tx) for tx in block["transactions"]]


def _transaction(client: NodeClient, tx: View) -> None:
    typed = tx["type"] != "0x0"
    if typed and client != "erigon":
        tx["yParity"] = tx["v"]
    if typed and client == "besu":
        del tx["v"]
    if not typed and (client == "nethermind" or (client == "reth" and int(tx["v"], 16) < 35)):
        del tx["chainId"]
    if not typed and client == "erigon":
        tx["accessList"] = None
    if client == "reth":
        tx["blockTimestamp"] = None
    elif client == "nethermind":
        tx |= {"data": tx["input"], "type": "0x" + tx["type"][2:].rjust(2, "0")}


def _receipt(client: NodeClient, receipt: View) -> None:
    receipt["logs"] = [_spelled(client, "log", log) for log in receipt["logs"]]
    if client == "erigon" and receipt["type"] == "0x0":
        del receipt["type"]


def _proof(client: NodeClient, proof: View) -> None:
    for entry in proof["storageProof"]:
        key, value = (entry[name][2:] for name in ("key", "value"))
        if client == "nethermind":
            entry["value"] = "0x" + value.rjust(len(value) + len(value) % 2, "0")
        else:
            entry["key"] = hex(int(key, 16)) if client == "reth" else "0x" + key.rjust(64, "0")


def _fees(client: NodeClient, fees: View) -> None:
    ratios: list[float] = fees["gasUsedRatio"]
    if client == "erigon":
        fees["gasUsedRatio"] = [int(ratio) if ratio == int(ratio) else ratio for ratio in ratios]
        return
    if client == "nethermind":
        fees["gasUsedRatio"] = [round(ratio, 10) for ratio in ratios]
    fees |= {"baseFeePerBlobGas": ["0x1"] * (len(ratios) + 1), "blobGasUsedRatio": [0.0] * len(ratios)}


_CHANGES: dict[str, Callable[[NodeClient, View], None]] = {
    "block": _block,
    "transaction": _transaction,
    "receipt": _receipt,
    "log": lambda _client, _log: None,
    "proof": _proof,
    "fees": _fees,
}
"""What a client writes otherwise in each kind of result."""
_KINDS = {
    **dict.fromkeys(("eth_getBlockByNumber", "eth_getBlockByHash"), "block"),
    "eth_getTransactionByHash": "transaction",
    "eth_getTransactionByBlockNumberAndIndex": "transaction",
    "eth_getTransactionByBlockHashAndIndex": "transaction",
    **dict.fromkeys(("eth_getTransactionReceipt", "eth_getBlockReceipts"), "receipt"),
    **dict.fromkeys(("eth_getLogs", "eth_getFilterLogs"), "log"),
    "eth_getProof": "proof",
    "eth_feeHistory": "fees",
}
