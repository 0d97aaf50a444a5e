"""Answers of simulated nodes to many kinds of calls, as the raw text of their results."""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec
from msgspec import Raw

from rpcaccel.simnode.server.envelope import RequestItem
from rpcaccel.simnode.server.sim_server import SimNode

NamedCall = tuple[str, list[Any]]


def ethereum_calls(node: SimNode, count: int, rng: Random) -> list[NamedCall]:
    """`count` calls about final blocks of the chain of `node`, heavy ones less often than light ones."""
    branch, make = node.chain.branch, node.chain.generator
    who = ["0x" + account.hex() for account in (*make.accounts, make.contract)]

    def called(kind: str) -> NamedCall:
        number = rng.randrange(6, node.head - 64)
        block = branch.block(number)
        at, account = hex(number), rng.choice(who)
        txs = ["0x" + tx.eth_hash.hex() for tx in block.txs] or ["0x" + "ab" * 32]
        params: dict[str, list[Any]] = {
            "eth_getBlockByNumber": [at, rng.random() < 0.3],
            "eth_getBlockByHash": ["0x" + block.hash.hex(), rng.random() < 0.3],
            "eth_getBlockReceipts": [at],
            "eth_getTransactionByHash": [rng.choice(txs)],
            "eth_getTransactionByBlockNumberAndIndex": [at, "0x0"],
            "eth_getTransactionReceipt": [rng.choice(txs)],
            "eth_getBlockTransactionCountByNumber": [at],
            "eth_getLogs": [{"fromBlock": hex(number - rng.randrange(6)), "toBlock": at}],
            "eth_getBalance": [account, at],
            "eth_getTransactionCount": [account, at],
            "eth_getCode": [account, at],
            "eth_getStorageAt": [who[-1], hex(rng.randrange(50)), at],
            "eth_call": [{"to": who[-1], "data": f"0x{rng.getrandbits(64):016x}"}, at],
            "eth_getProof": [account, [hex(rng.randrange(50))], at],
            "eth_feeHistory": [hex(rng.randrange(1, 6)), at, [10, 50]],
        }
        return kind, params[kind]

    shares = {
        **dict.fromkeys(("eth_getBlockByNumber", "eth_getBlockByHash", "eth_getBlockReceipts"), 1),
        **dict.fromkeys(("eth_getLogs", "eth_getProof", "eth_feeHistory"), 2),
        **dict.fromkeys(("eth_getTransactionByHash", "eth_getTransactionReceipt"), 3),
        **dict.fromkeys(("eth_getTransactionByBlockNumberAndIndex", "eth_getBlockTransactionCountByNumber"), 1),
        **dict.fromkeys(("eth_getBalance", "eth_getTransactionCount", "eth_getStorageAt", "eth_call"), 4),
        "eth_getCode": 1,
    }
    return [called(kind) for kind in rng.choices(list(shares), list(shares.values()), k=count)]


class _Answer(msgspec.Struct):
    """A reply with a result."""

    result: Raw


_READ = msgspec.json.Decoder(_Answer)


async def results(node: SimNode, calls: Iterable[NamedCall]) -> list[bytes]:
    """The raw text of the result of each call. Raises msgspec.ValidationError for an error."""
    found = []
    for method, params in calls:
        reply = await node.brain.reply(RequestItem(method, json.dumps(params).encode(), b"1"))
        found.append(bytes(_READ.decode(reply or b"").result))
    return found
