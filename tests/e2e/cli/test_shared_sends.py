"""Simulated nodes in processes of their own, which share what clients send: behind the proxy they never disagree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import aiohttp

from tests.e2e.cli.test_disagreement import ask, compared_all
from tests.support.running import Serve, until
from tests.support.services import Program
from tests.support.wallet import SENDER, signed

NODES = 3
SENDS = 6


async def test_nodes_of_one_seed_have_the_same_transactions_in_the_same_blocks(
    new_program: Callable[..., Program], serve: Serve, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    shared = {"env": {"TMPDIR": str(tmp_path)}}
    programs = [new_program("simnode", "--seed", "38", "--block-time", "1s", **shared) for _ in range(NODES)]
    nodes = [(await asyncio.to_thread(program.wait_for, r"at (http://[^,\s]+)"))[1] for program in programs]
    proxy = await serve(nodes, env=compared_all("HARMONY_S0", **{"RPCACCEL_NETWORKS__{}__AGREEMENT__BUDGET": "1e5"}))
    sent = [(await proxy.call("eth_sendRawTransaction", signed(nonce=nonce))).result for nonce in range(SENDS)]

    async def mined() -> bool:
        return int((await proxy.call("eth_getTransactionCount", SENDER, "latest")).result, 16) == SENDS

    await until("every transaction mined", mined)
    receipts = [(await proxy.call("eth_getTransactionReceipt", name)).result for name in sent]
    for number in sorted({receipt["blockNumber"] for receipt in receipts}):
        await proxy.call("eth_getBlockByNumber", number, True)
        await proxy.call("eth_getBalance", SENDER, number)
        assert len({str([await ask(http, node, "eth_getBlockByNumber", number, True)]) for node in nodes}) == 1

    async def agreement(figure: str) -> list[int]:
        return [node["agreement"][figure] for node in (await proxy.api("nodes/report"))["nodes"]]

    async def compared() -> bool:
        return sum(await agreement("compared")) >= SENDS

    await until("answers of the nodes compared", compared)
    assert (sum(await agreement("minority")), any(await agreement("suspect"))) == (0, False)
    assert "nodes differ" not in proxy.program.output


def test_a_folder_of_sends_that_is_not_the_users_own_is_named(
    new_program: Callable[..., Program], tmp_path: Path
) -> None:
    shared = {"env": {"TMPDIR": str(tmp_path)}}
    with new_program("simnode", **shared) as program:
        program.wait_for(r"at http://")
    (folder,) = tmp_path.glob("rpcaccel-simnode-*")
    folder.chmod(0o777)
    refused = new_program("simnode", **shared)
    assert refused.wait() == 2
    assert f"TMPDIR: sent transactions cannot be shared in {folder}: it belongs to another user" in refused.output
