"""The same facts as each client of Ethereum writes them."""

from __future__ import annotations

import pytest

from rpcaccel.simnode.methods.node_methods import VERSIONS
from rpcaccel.simnode.server.factories import ethereum_chain, knobs
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.wallet import signed

OTHERS = [client for client in VERSIONS if client != "geth"]


def node(client: str) -> SimNode:
    return SimNode(ethereum_chain(178, density=3), name="alone", knobs=knobs(client=client))


@pytest.mark.parametrize("client", OTHERS)
async def test_each_client_orders_the_members_of_a_block_in_its_own_way(client: str) -> None:
    theirs, geths = [await node(name).ask("eth_getBlockByNumber", "0x20", True) for name in (client, "geth")]
    assert list(theirs) != list(geths)
    assert theirs["hash"] == geths["hash"]
    assert [tx["hash"] for tx in theirs["transactions"]] == [tx["hash"] for tx in geths["transactions"]]


@pytest.mark.parametrize(
    ("client", "of_block", "of_log", "not_of_log"),
    [
        ("erigon", {"totalDifficulty"}, set(), {"blockTimestamp"}),
        ("reth", {"totalDifficulty", "requestsHash"}, set(), set()),
        ("nethermind", {"author"}, {"transactionLogIndex", "logType"}, {"removed"}),
        ("besu", {"totalDifficulty"}, set(), {"blockTimestamp"}),
    ],
)
async def test_blocks_and_logs_have_the_members_of_their_client_also_in_receipts(
    client: str, of_block: set[str], of_log: set[str], not_of_log: set[str]
) -> None:
    ours, geth = node(client), node("geth")
    theirs, geths = [set(await one.ask("eth_getBlockByNumber", "0x20", False)) for one in (ours, geth)]
    assert (theirs - geths, geths - theirs) == (of_block, set())
    span = {"fromBlock": "0x20", "toBlock": "0x20"}
    theirs, geths = [set((await one.ask("eth_getLogs", span))[0]) for one in (ours, geth)]
    assert (theirs - geths, geths - theirs) == (of_log, not_of_log)
    receipts = await ours.ask("eth_getBlockReceipts", "0x20")
    assert set(next(log for receipt in receipts for log in receipt["logs"])) == theirs


@pytest.mark.parametrize("client", OTHERS)
async def test_a_signature_is_spelled_by_the_kind_of_its_transaction(client: str) -> None:
    one = node(client)
    typed = await one.ask(
        "eth_sendRawTransaction", signed(1337, gasPrice=None, maxFeePerGas=10**11, maxPriorityFeePerGas=10**9)
    )
    one.chain.advance(1)
    tx = await one.ask("eth_getTransactionByHash", typed)
    assert int(tx["type"], 16) == 2
    assert ("v" in tx, "yParity" in tx) == (client != "besu", client != "erigon")
    legacy = (await one.ask("eth_getBlockByNumber", "0x20", True))["transactions"][0]
    assert "v" in legacy
    assert "yParity" not in legacy


async def test_proofs_and_fees_have_the_forms_of_their_client() -> None:
    found = {
        client: (
            (await node(client).ask("eth_getProof", "0x" + "11" * 20, ["0x1"], "0x20"))["storageProof"][0],
            await node(client).ask("eth_feeHistory", "0x3", "0x20", [10]),
        )
        for client in VERSIONS
    }
    assert {client: len(proof["key"]) for client, (proof, _) in found.items()} == {
        "geth": 3,
        "erigon": 66,
        "reth": 3,
        "nethermind": 3,
        "besu": 66,
    }
    assert (found["geth"][0]["value"], found["nethermind"][0]["value"]) == ("0x0", "0x00")
    assert "baseFeePerBlobGas" in found["reth"][1]
    assert "baseFeePerBlobGas" not in found["erigon"][1]


@pytest.mark.parametrize("client", VERSIONS)
async def test_a_node_says_which_client_it_is_and_null_stays_null(client: str) -> None:
    assert (await node(client).ask("web3_clientVersion")).lower().startswith(client)
    assert await node(client).ask("eth_getTransactionReceipt", "0x" + "00" * 32) is None
    assert await node(client).ask("eth_getLogs", {"fromBlock": "0x0", "toBlock": "0x0"}) == []
