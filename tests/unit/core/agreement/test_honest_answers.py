"""Answers of simulated nodes: the spellings of five clients are no difference, and each lie is one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import permutations
from random import Random
from typing import Any

import pytest
from eth_account import Account

from rpcaccel import chains
from rpcaccel.core.agreement.equality import comparable, difference
from rpcaccel.simnode.chain.sim_chain import SimChain
from rpcaccel.simnode.methods.node_methods import VERSIONS
from rpcaccel.simnode.server.factories import ethereum_chain, harmony_chain, knobs
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.client_answers import NamedCall, ethereum_calls, results

ETHEREUM = chains.load("ethereum").differences
HARMONY = chains.load("harmony").differences


@pytest.mark.deep
async def test_none_of_a_hundred_thousand_honest_comparisons_reports_a_difference() -> None:
    chain = ethereum_chain(2_000, density=2)
    nodes = [SimNode(chain, name=client, knobs=knobs(client=client)) for client in VERSIONS]
    calls = ethereum_calls(nodes[0], 5_000, Random(17))
    answers = [await results(node, calls) for node in nodes]
    compared = other_bytes = 0
    for number, (method, params) in enumerate(calls):
        assert comparable(method, ETHEREUM)
        for one, other in permutations([told[number] for told in answers], 2):
            found = difference(one, other, method, ETHEREUM)
            assert not found, (method, params, found)
            compared += 1
            other_bytes += one != other
    assert compared == 100_000
    assert other_bytes > 30_000


async def test_a_typed_transaction_is_the_same_in_every_spelling() -> None:
    chain = ethereum_chain(300)
    nodes = [SimNode(chain, name=client, knobs=knobs(client=client)) for client in VERSIONS]
    fees = {"maxFeePerGas": 10**11, "maxPriorityFeePerGas": 10**9}
    fields = {"to": "0x" + "22" * 20, "gas": 21000, "nonce": 0, "chainId": 1337, "value": 1}
    raw: Any = Account.sign_transaction({**fields, **fees}, "0x" + "11" * 32).raw_transaction
    name = await nodes[0].ask("eth_sendRawTransaction", raw.to_0x_hex())
    chain.advance(1)
    for call in (
        ("eth_getTransactionByHash", [name]),
        ("eth_getTransactionReceipt", [name]),
        ("eth_getBlockByNumber", [hex(chain.head), True]),
    ):
        told = [(await results(node, [call]))[0] for node in nodes]
        assert len(set(told)) > 2
        assert [difference(*pair, call[0], ETHEREUM) for pair in permutations(told, 2)] == [""] * 20


@pytest.mark.parametrize("client", VERSIONS)
@pytest.mark.parametrize(
    ("lie", "methods"),
    [
        ("truncated_logs", {"eth_getLogs"}),
        ("old_state", {"eth_getBalance", "eth_getStorageAt", "eth_call", "eth_getProof", "eth_getTransactionCount"}),
        ("dropped_receipts", {"eth_getTransactionReceipt", "eth_getBlockReceipts"}),
    ],
)
async def test_every_lie_is_a_difference_whatever_the_client(client: str, lie: str, methods: set[str]) -> None:
    chain = ethereum_chain(2_000, density=2)
    true = SimNode(chain, name="true")
    honest = SimNode(chain, name="honest", knobs=knobs(client=client))
    liar = SimNode(chain, name="honest", knobs=knobs(client=client, lies={lie: 1.0}))
    calls = [call for call in ethereum_calls(true, 600, Random(18)) if call[0] in methods]
    right, told, lied = [await results(node, calls) for node in (true, honest, liar)]
    found = 0
    for (method, _), one, other, false in zip(calls, right, told, lied, strict=True):
        if false != other:
            found += 1
            assert difference(one, false, method, ETHEREUM) != ""
    assert found > len(calls) / 2


async def test_another_branch_is_a_difference() -> None:
    chain = ethereum_chain(300, density=2)
    chain.reorg(200)
    new, old = SimNode(chain, name="new"), SimNode(chain, name="old", knobs=knobs(branch=0, client="reth"))
    for method, params in (
        ("eth_getBlockByNumber", ["0xf0", False]),
        ("eth_getBlockReceipts", ["0xf1"]),
        ("eth_getLogs", [{"fromBlock": "0xe0", "toBlock": "0xf0"}]),
        ("eth_getBalance", ["0x" + "11" * 20, "0xf0"]),
    ):
        told = [(await results(node, [(method, params)]))[0] for node in (new, old)]
        assert difference(*told, method, ETHEREUM)


async def test_the_false_hashes_of_a_proposer_are_none() -> None:
    chain = harmony_chain(300, density=4)
    true, proposer = SimNode(chain, name="true"), SimNode(chain, name="other", knobs=knobs(false_hashes=True))
    block = await true.ask("eth_getBlockByNumber", "0x65", False)
    for method, params in (
        *((f"{space}_getBlockReceipts", [block["hash"]]) for space in ("hmy", "hmyv2", "eth")),
        *((f"{space}_getTransactionReceipt", [block["transactions"][0]]) for space in ("hmy", "hmyv2", "eth")),
        *((f"{space}_getLogs", [{"fromBlock": "0x20", "toBlock": "0x70"}]) for space in ("hmy", "eth")),
    ):
        told = [(await results(node, [(method, params)]))[0] for node in (true, proposer)]
        assert told[0] != told[1] or b'"logs":[]' in told[0]
        assert difference(*told, method, HARMONY) == ""


# -- what the tables make the comparison blind to ----------------------------------------------------------------------


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values that are no objects and no filled arrays."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inner = [found for step, item in items for found in leaves(item, (*path, step))]
    yield from inner or [path]


def altered(value: Any, path: tuple[str | int, ...], *, gone: bool = False) -> bytes:
    """The JSON text of `value` with another leaf at `path`, or without it."""
    copy: Any = json.loads(json.dumps(value))
    if not path:
        return json.dumps(other_than(copy)).encode()
    holder = leaf(copy, path[:-1])
    if gone:
        del holder[path[-1]]
    else:
        holder[path[-1]] = other_than(holder[path[-1]])
    return json.dumps(copy).encode()


def leaf(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def other_than(value: Any) -> Any:
    if isinstance(value, str):
        return value[:-1] + ("1" if value[-1:] != "1" else "2") if len(value) > 2 else value + "12"
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else "0x12"


def named(path: tuple[str | int, ...]) -> str:
    return ".".join(step for step in path if isinstance(step, str))


FALSE_AND_NOT_FOUND = {
    ("ethereum", "eth_getBlockByNumber"): {"totalDifficulty"},
    ("ethereum", "eth_getTransactionReceipt"): set(),
    ("ethereum", "eth_getLogs"): set(),
    ("ethereum", "eth_getProof"): set(),
    ("ethereum", "eth_getBalance"): set(),
    ("ethereum", "eth_call"): set(),
    ("harmony", "eth_getBlockByNumber"): set(),
    ("harmony", "hmyv2_getBlockByNumber"): set(),
    ("harmony", "eth_getTransactionReceipt"): {"logs.blockHash"},
    ("harmony", "hmyv2_getTransactionReceipt"): {"logs.blockHash", "logs.transactionHash"},
    ("harmony", "eth_getLogs"): {"blockHash"},
    ("harmony", "hmy_getLogs"): {"blockHash", "transactionHash"},
}
MISSING_AND_NOT_FOUND = {
    "transactions": {"blockTimestamp", "chainId", "data", "yParity", "v", "type", "accessList", "publicKey", "raw"},
    "logs": {"blockTimestamp", "removed", "transactionLogIndex", "logType"},
    "block": {"author", "requestsHash"},
    "receipt": {"status", "type", "blobGasPrice", "blobGasUsed", "error"},
}
"""The members that a node of an Ethereum chain may leave out."""


def sample(chain: str, method: str) -> tuple[SimChain, NamedCall]:
    """A chain, and a call that is answered with transactions and logs where there can be some."""
    made = ethereum_chain(300, density=3) if chain == "ethereum" else harmony_chain(300, density=3)
    logged = next(tx for tx in made.branch.block(0x20).txs if tx.log_data)
    v2 = method.startswith("hmyv2")
    params: dict[str, list[Any]] = {
        "getBlockByNumber": [32, {"fullTx": True, "withSigners": True}] if v2 else ["0x20", True],
        "getTransactionReceipt": ["0x" + (logged.hash if v2 else logged.eth_hash).hex()],
        "getLogs": [{"fromBlock": "0x1f", "toBlock": "0x20"}],
        "getProof": ["0x" + "11" * 20, ["0x1", "0x2"], "0x20"],
        "getBalance": ["0x" + "11" * 20, "0x20"],
        "call": [{"to": "0x" + made.generator.contract.hex(), "data": "0x12345678"}, "0x20"],
    }
    return made, (method, params[method.partition("_")[2]])


@pytest.mark.parametrize(("chain", "method"), FALSE_AND_NOT_FOUND)
async def test_a_false_value_is_found_in_every_member_but_those_named_here(chain: str, method: str) -> None:
    made, call = sample(chain, method)
    for client in VERSIONS if chain == "ethereum" else ["geth"]:
        (text,) = await results(SimNode(made, knobs=knobs(client=client)), [call])
        value = json.loads(text)
        found = {
            named(path)
            for path in leaves(value)
            if not difference(text, altered(value, path), method, chains.load(chain).differences)
        }
        may = FALSE_AND_NOT_FOUND[chain, method]
        # What may be missing may be null as well, and these two are null here.
        assert found - {"transactions.blockTimestamp", "revertReason"} <= may, client
        assert chain == "ethereum" or found == may


@pytest.mark.parametrize(("chain", "method"), FALSE_AND_NOT_FOUND)
async def test_a_missing_value_is_found_but_for_members_that_some_client_lacks(chain: str, method: str) -> None:
    made, call = sample(chain, method)
    for client in VERSIONS if chain == "ethereum" else ["geth"]:
        (text,) = await results(SimNode(made, knobs=knobs(client=client)), [call])
        value = json.loads(text)
        for path in leaves(value):
            if not path or difference(text, altered(value, path, gone=True), method, chains.load(chain).differences):
                continue
            whole = ("transactions", "logs") if method.endswith("_getBlockByNumber") else ("logs",)
            where = next((part for part in whole if part in path), "logs" if method.endswith("Logs") else "")
            where = where or ("block" if method.endswith("_getBlockByNumber") else "receipt")
            known = MISSING_AND_NOT_FOUND[where] if chain == "ethereum" else set()
            assert named(path) in FALSE_AND_NOT_FOUND[chain, method] or path[-1] in known or leaf(value, path) is None
