"""`rpcaccel check`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console

from rpcaccel.cli.check import split
from rpcaccel.cli.findings import FINDINGS, document, examine_network
from rpcaccel.cli.main import run
from rpcaccel.cli.terminal import Listing, table
from rpcaccel.config.model import NetworkSettings
from rpcaccel.controlplane.nodes.discovery import probe_network
from rpcaccel.core.heads.identity import Finding
from rpcaccel.simnode.server.factories import ethereum_chain, ethereum_nodes, harmony_chain, harmony_nodes, running
from rpcaccel.simnode.server.sim_server import SimNode


@pytest.fixture
def in_a_thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


async def checked(pool: ThreadPoolExecutor, *arguments: str) -> int:
    """The command's exit code, while this loop serves the nodes."""
    return await asyncio.get_running_loop().run_in_executor(pool, run, ["check", *arguments])


async def test_right_nodes_are_shown_in_a_table_and_it_ends_well(
    in_a_thread: ThreadPoolExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    async with harmony_nodes(2) as nodes:
        code = await checked(in_a_thread, *(f"{node.url}/hunter2,id={node.name}" for node in nodes))
    out = capsys.readouterr().out
    assert code == 0
    assert out.count("right") == 2
    for text in ("harmony-s0", "node-0", "node-1", "1666700000", "200", " ms", "explorer, archive"):
        assert text in out
    assert "hunter2" not in out


async def test_findings_are_told_to_programs(
    in_a_thread: ThreadPoolExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    async with harmony_nodes(1) as (node,):
        words = ["--chain", "harmony", "--shard", "0", "--json"]
        code = await checked(in_a_thread, f"{node.url}/hunter2,id=a", "http://127.0.0.1:1,id=b", *words)
    out = capsys.readouterr().out
    a, b = json.loads(out)["nodes"]
    assert code == 1
    assert (a["node"], a["right"], a["chain_id"], a["head"], a["behind"]) == ("a", True, 1666700000, 200, 0)
    assert (b["right"], b["chain_id"], b["head"], b["latency"], b["behind"]) == (False, None, None, None, None)
    assert b["trouble"].startswith("no connection to")
    assert "hunter2" not in out


async def test_nodes_of_several_chains_and_shards_are_each_right_in_their_own_network(
    in_a_thread: ThreadPoolExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(harmony_chain(shard=1), 1) as (shard_1,), ethereum_nodes(1) as (geth,):
        assert await checked(in_a_thread, f"{shard_1.url},id=a", f"{geth.url},id=a,weight=2") == 0
        out = capsys.readouterr().out
        assert out.count("right") == 2
        assert ("harmony-s1" in out, "ethereum" in out, "1337" in out) == (True, True, True)
        assert await checked(in_a_thread, f"{shard_1.url},id=one", "--shard", "0") == 1
        assert "serves shard 1, not 0" in capsys.readouterr().out


async def test_a_wrong_node_is_exit_code_1(
    in_a_thread: ThreadPoolExecutor, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with harmony_nodes(3) as nodes:
        nodes[1].knobs.chain_id = 5
        code = await checked(in_a_thread, str(configuration(tmp_path, nodes)))
    assert code == 1
    assert "serves chain id 5, not 1666700000" in capsys.readouterr().out


async def test_a_websocket_that_is_named_is_opened_and_must_be_of_the_same_chain_and_push(
    in_a_thread: ThreadPoolExecutor, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "rpcaccel.toml"
    async with harmony_nodes(3) as nodes, ethereum_nodes(1) as (geth,):
        addresses = [node.url.replace("http", "ws") for node in (nodes[0], geth, nodes[2])]
        nodes[2].knobs.websocket = "refused"
        listed = [
            f'{{id = "{node.name}", url = "{node.url}", ws = "{address}/hunter2"}}'
            for node, address in zip(nodes, addresses, strict=True)
        ]
        file.write_text(f"[networks.harmony-s0]\nnodes = [{', '.join(listed)}]\n")
        code = await checked(in_a_thread, str(file), "--json")
    out = capsys.readouterr().out
    right, strange, refused = json.loads(out)["nodes"]
    assert code == 1
    assert "hunter2" not in out
    assert (right["right"], right["websocket"]) == (True, "right")
    assert strange["trouble"].startswith("its WebSocket ")
    assert strange["websocket"] in strange["trouble"]
    assert refused["trouble"] == "its WebSocket answers HTTP 403 to the upgrade"


async def test_a_websocket_of_a_chain_begun_anew_with_the_same_block_0_is_wrong(
    in_a_thread: ThreadPoolExecutor, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "rpcaccel.toml"
    async with ethereum_nodes(1) as (old,), ethereum_nodes(1) as (anew,):
        anew.chain.reorg(200)
        websocket = anew.url.replace("http", "ws")
        file.write_text(
            f'[networks.eth]\nchain = "ethereum"\nnodes = [{{id = "a", url = "{old.url}", ws = "{websocket}"}}]\n'
        )
        code = await checked(in_a_thread, str(file), "--json")
        its, theirs = ("0x" + node.chain.branch.hash_of(1).hex() for node in (anew, old))
    (found,) = json.loads(capsys.readouterr().out)["nodes"]
    assert code == 1
    assert found["block_one"] == theirs
    wrong = f"its block 1 is {its[:10]}…, that of the network {theirs[:10]}…: another chain, or the same one begun anew"
    assert found["trouble"] == f"its WebSocket is not one of its node: {wrong}"


def configuration(folder: Path, nodes: list[SimNode]) -> Path:
    file = folder / "rpcaccel.toml"
    urls = ", ".join(f'"{node.url}"' for node in nodes)
    file.write_text(f"[networks.harmony-s0]\nnodes = [{urls}]\n")
    return file


async def test_a_named_file_is_checked_whatever_the_environment_says(
    in_a_thread: ThreadPoolExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RPCACCEL_CONFIG", str(tmp_path / "none.toml"))
    async with harmony_nodes(1) as nodes:
        assert await checked(in_a_thread, str(configuration(tmp_path, nodes))) == 0


def test_the_schema_is_printed_without_any_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "rpcaccel configuration"


@pytest.mark.parametrize("arguments", [["a.toml", "b.toml"], ["--config", "a.toml", "b.toml"], ["none.toml"], []])
def test_what_cannot_be_checked_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", *arguments]) == 2
    assert capsys.readouterr().err.startswith("rpcaccel: ")


def test_urls_are_told_from_files_by_their_look() -> None:
    assert split(["a.toml", "http://a", "ftp://b"]) == (["http://a", "ftp://b"], ["a.toml"])
    assert split(["harmony", "harmny", "base.toml", "mine"]) == (["harmony", "harmny"], ["base.toml", "mine"])
    assert split(["10.0.0.5:8545", "./harmony"]) == (["10.0.0.5:8545"], ["./harmony"])


def test_a_file_may_have_the_name_of_a_chain(tmp_path: Path) -> None:
    files = [tmp_path / "harmony", tmp_path / "localhost:1"]
    for file in files:
        file.touch()
    assert split([*map(str, files)]) == ([], [*map(str, files)])


def test_a_node_that_was_not_reached_has_an_empty_row() -> None:
    row = document(Finding(network="net", node="a", url="http://a", trouble="no"), {})
    console = Console(width=160)
    with console.capture() as captured:
        console.print(table(Listing(FINDINGS, [row])))
    assert captured.get().splitlines()[1].split() == ["net", "a", "http://a", *"––––––", "no"]


async def test_a_deep_check_shows_what_each_node_has_and_what_differs(
    in_a_thread: ThreadPoolExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = [{}, {"archive": False, "prune_depth": 64}, {"logs_range": 50}]
    async with running(harmony_chain(2000), 3, each=kinds) as nodes:
        urls = [f"{node.url}/hunter2,id={node.name}" for node in nodes]
        code = await checked(in_a_thread, *urls, "http://127.0.0.1:1,id=down", "--deep", "--json", "--shard", "0")
        told = {one["node"]: one["examination"] for one in json.loads(capsys.readouterr().out)["nodes"]}
        assert code == 1, "one is down"
        assert await checked(in_a_thread, *urls, "--deep") == 0
    shown = capsys.readouterr().out
    assert told["down"] is None
    assert [told[f"node-{i}"]["state_from"] for i in range(3)] == [0, 1936, 0]
    assert [told[f"node-{i}"]["range_most"] for i in range(3)] == [None, None, 50]
    assert all(told[f"node-{i}"]["agreement"]["compared"] == 13 for i in range(3))
    for text in ("What calls in the shadow showed", "from 1936 (64 back)", "no limit to 1025", "51", "13 of 13"):
        assert text in shown
    assert "hunter2" not in shown


async def test_a_deep_check_names_what_it_did_not_find_out_and_what_differs(
    in_a_thread: ThreadPoolExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = ethereum_chain(2000)
    chain.reorg(1500)
    odd = {"branch": 0, "fault_methods": ["eth_getBalance"], "faults": {"error": 1.0}}
    async with running(chain, 2, each=[odd, {"branch": 1}]) as nodes:
        assert await checked(in_a_thread, *(f"{node.url},id={node.name}" for node in nodes), "--deep") == 0
    shown = capsys.readouterr().out
    assert "ethereum/node-0: from which block on it has state was not found out" in shown.replace("\n", " ")
    assert "ethereum/node-0: it differs from other nodes: eth_getBlockByNumber at block " in shown.replace("\n", " ")
    assert "unknown" in shown


async def test_what_all_examinations_of_a_deep_check_ask_of_a_node_is_within_its_quota() -> None:
    """Each node is examined, and asked what to compare the others with."""
    quota = {"day": 8000, "second": 60}
    async with ethereum_nodes(4, head=3000) as nodes:
        listed = [{"id": node.name, "url": node.url, "quota": quota} for node in nodes]
        network = NetworkSettings.model_validate({"chain": "ethereum", "nodes": listed})
        findings = await probe_network("e", network)
        before = [node.counts.calls for node in nodes]
        began = time.monotonic()
        await examine_network(network, findings)
        took = time.monotonic() - began
        calls = [node.counts.calls - probes for node, probes in zip(nodes, before, strict=True)]
    assert 60 < max(calls) <= 80
    assert max(calls) - 16 <= took * 30, "but for its longest batch"
