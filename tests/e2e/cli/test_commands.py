"""Commands that ask a running proxy: nodes come and go, everything is told to programs, and shells complete."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rpcaccel.cli import completion
from rpcaccel.cli.main import run
from rpcaccel.simnode.server.factories import ethereum_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.e2e.cli.command_process import CommandProcess, Told
from tests.support.fleet import NETWORK, Fleet
from tests.support.running import HARMONY, LOCAL, until
from tests.support.services import SUPPORT, Program

Tell = Callable[..., Awaitable[Told]]


@pytest.fixture
def tell(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> Tell:
    """`await tell("nodes", "--json")`: a command, asking the fleet's proxy."""

    async def told(*arguments: str) -> Told:
        capsys.readouterr()
        code = await asyncio.to_thread(run, [*arguments, "--admin", fleet.proxy.admin])
        return Told(code, *capsys.readouterr())

    return told


@pytest.mark.smoke
async def test_a_node_is_asked_added_and_removed(fleet: Fleet, tell: Tell) -> None:
    async with SimNode(fleet.nodes[0].chain, name="fourth") as fourth:
        fourth.knobs.lag = 2
        said = await tell("node", "add", f"{fourth.url},weight=2,id=d")
        assert (said.code, said.err) == (0, "")
        first, second, *_ = said.out.splitlines()
        assert first.startswith(f"{NETWORK}/d: chain id 1666700000, head {fleet.head - 2}, 2 blocks behind, ")
        assert second.startswith("revision ")
        there = (await fleet.proxy.api("settings"))["document"]["networks"][NETWORK]["nodes"]["d"]
        assert (there["url"], there["weight"]) == (fourth.url, 2)
        assert (await tell("node", "add", f"{fourth.url},id=d")).err == (
            f"rpcaccel: {NETWORK} has a node d already; --id gives this one another name\n"
        )
        removed = await tell("node", "remove", f"{NETWORK}/d", "--yes", "--json")
        assert removed.json["change"]["text"].startswith(f"networks.{NETWORK}.nodes.d: ")
        assert set(await fleet.proxy.nodes()) == {node.name for node in fleet.nodes}
        told = await tell("node", "add", fourth.url, "--json", "--header", "X-Key: s3cret")
        assert (told.json["id"], told.json["test"]["chain_ok"], told.json["test"]["lag"]) == (fourth.url[7:], True, 2)
        assert "s3cret" not in told.out


async def test_a_node_of_another_chain_or_a_silent_one_is_refused_unless_forced(fleet: Fleet, tell: Tell) -> None:
    before = (await fleet.proxy.api("settings"))["revision"]
    async with ethereum_nodes(1) as (foreign,):
        wrong = await tell("node", "add", foreign.url, "--network", NETWORK)
        assert (wrong.code, wrong.out) == (1, "")
        assert "is not added: it serves chain id 1337, not 1666700000; --force adds it all the same" in wrong.err
        silent = await tell("node", "add", "http://joe:hunter2@127.0.0.1:1/hunter2")
        assert (silent.code, "no connection to http://127.0.0.1:1" in silent.err) == (1, True)
        assert "hunter2" not in silent.err
        assert (await fleet.proxy.api("settings"))["revision"] == before
        forced = await tell("node", "add", foreign.url, "--id", "foreign", "--force")
        assert forced.code == 0
        assert (await fleet.proxy.node_in("wrong-chain", "foreign"))["id"] == "foreign"


async def test_measurements_and_recordings_are_told_to_programs_in_json_alone(
    fleet: Fleet, commands: CommandProcess, tmp_path: Path
) -> None:
    async def told(*words: str) -> Any:
        return (await commands.run(*words, "--json", folder=tmp_path)).json

    assert (await told("bench", "steps", "-d", "0s", "--admin", fleet.proxy.admin))["title"]
    call = ("--call", '{"method": "hmyv2_blockNumber", "params": []}')
    held = (await told("bench", "rate", fleet.proxy.url, "-r", "20", "-d", "200ms", *call))["held"]
    assert held["wanted"] == 20
    file = tmp_path / "calls.jsonl"
    size = {"file": str(file), "calls": 0, "transactions": 0, "missed": 0, "full": False}
    recorded = await told("record", "--to", str(file), "-d", "100ms", "--admin", fleet.proxy.admin)
    assert recorded == {**size, "bytes": file.stat().st_size}


async def test_an_admin_side_with_a_certificate_of_its_own_is_trusted_by_name_alone(
    fleet: Fleet, new_program: Callable[..., Program], capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    pem = SUPPORT / "loopback.pem"
    config = tmp_path / "rpcaccel.toml"
    config.write_text(f'[admin]\ntls_cert = "{pem}"\ntls_key = "{pem}"\n')
    program = new_program("serve", f"{fleet.nodes[0].url},id=a", *LOCAL, *HARMONY, "--config", config)
    found = await asyncio.to_thread(program.wait_for, r"page +https://([^/\s]+)/")
    side = ["--admin", f"https://{found[1]}"]

    def asked(*arguments: str) -> Told:
        capsys.readouterr()
        return Told(run([*arguments, *side]), *capsys.readouterr())

    stranger = await asyncio.to_thread(asked, "nodes")
    assert stranger.code == 1
    assert "its certificate is not trusted: self-signed certificate" in stranger.err
    assert "(--cacert or RPCACCEL_CACERT names the file to trust)" in stranger.err
    trusted = await asyncio.to_thread(asked, "nodes", "--json", "--cacert", str(pem))
    assert [node["id"] for node in trusted.json["nodes"]] == ["a"]
    other = await asyncio.to_thread(asked, "clients", "--cacert", str(SUPPORT / "other_key.pem"))
    assert (other.code, "expected certificates in PEM" in other.err) == (1, True)
    monkeypatch.setenv("RPCACCEL_CACERT", str(pem))
    assert (await asyncio.to_thread(asked, "settings", "get", "listen")).code == 0
    assert "cannot be read: No such file" in (await asyncio.to_thread(asked, "nodes", "--cacert", "nowhere.pem")).err


async def test_bash_completes_commands_options_and_nodes(fleet: Fleet, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = tmp_path / "completion.bash"
    script.write_text(completion.SCRIPTS["bash"])
    asking = (
        'source "$1"; COMP_LINE=$2 COMP_POINT=${#2}; _rpcaccel_completion rpcaccel; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    async def completed(line: str, **env: str) -> list[str]:
        done = await asyncio.to_thread(
            subprocess.run, [bash, "--norc", "-c", asking, "bash", script, line],
            capture_output=True, text=True, timeout=60, check=True, env={"PATH": path, **env},
        )  # fmt: skip
        assert done.stderr == ""
        return [word for word in done.stdout.splitlines() if word]

    names = [node.name for node in fleet.nodes]
    here = {"RPCACCEL_ADMIN": fleet.proxy.admin.removeprefix("http://")}
    assert await completed("rpcaccel wei") == ["weight"]
    assert await completed("rpcaccel clients --") == ["--admin", "--cacert", "--json", "--help"]
    assert await completed(f"rpcaccel drain --admin {here['RPCACCEL_ADMIN']} node-1") == ["node-1"]
    assert await completed(f"rpcaccel node remove {NETWORK}/", **here) == [f"{NETWORK}/{name}" for name in names]
    await fleet.set(nodes={"127.0.0.1:1": {"url": "http://127.0.0.1:1"}})

    async def listed() -> bool:  # the list is a second old at the most
        return "127.0.0.1:1" in await fleet.proxy.nodes()

    await until("the node whose name has a colon", listed)
    assert await completed("rpcaccel weight 127.0.0.1:", **here) == ["1"]
