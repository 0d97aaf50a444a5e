"""A chain is one new file: once the example of docs/chains.md is in the folder of chains, its nodes are known by their
chain id and served."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from rpcaccel.simnode.server.envelope import Parsed
from rpcaccel.simnode.server.factories import ethereum_chain
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.running import LOCAL, found
from tests.support.services import ROOT, Program


class ExampleNode(SimNode):
    """A node of the chain `example`: it knows a reward beside what a node of Ethereum knows."""

    rewards: int = 0
    """How often it was asked for one."""

    async def answer(self, parsed: Parsed) -> bytes:
        (call, *more) = parsed.calls
        if call.method != "example_getReward" or more:
            return await super().answer(parsed)
        self.rewards += 1
        return b'{"jsonrpc":"2.0","id":%b,"result":"0x5"}' % (call.id or b"null")


async def test_a_chain_is_served_once_its_file_is_there(
    tmp_path: Path, new_program: Callable[..., Program], http: aiohttp.ClientSession
) -> None:
    shutil.copytree(ROOT / "rpcaccel", tmp_path / "rpcaccel", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "dashboard", tmp_path / "dashboard")
    shown = re.findall(r"^```toml example\.toml\n(.*?)^```", (ROOT / "docs" / "chains.md").read_text(), re.M | re.S)
    (tmp_path / "rpcaccel" / "chains" / "example.toml").write_text("".join(shown))
    async with ExampleNode(ethereum_chain(200), name="own") as node:
        url = f"{node.url},id=own"
        program = new_program("serve", url, *LOCAL, env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path)
        proxy = await found(program, http)
        await proxy.ready()
        replies = [await proxy.call("example_getReward", "0xaa", "0x64") for _ in range(2)]
        assert [(reply.result, reply.cache) for reply in replies] == [("0x5", "miss"), ("0x5", "memory")]
        assert node.rewards == 1
        refused = await proxy.call("example_adminStop")
        assert (refused.error["code"], refused.cache) == (-32601, "refused")
        assert (await proxy.call("eth_chainId")).cache == "local"


@pytest.mark.parametrize(
    ("bases", "told"),
    [
        ({"old": 'rules_from = "ethereum"'}, "old.toml: [chain]: Object contains unknown field `rules_from`"),
        ({"a": 'base = "b"', "b": 'base = "a"'}, "a.toml: [chain], key base: b is of the kind of a: name that one"),
    ],
)
def test_a_wrong_file_of_a_chain_is_told_as_one(tmp_path: Path, bases: dict[str, str], told: str) -> None:
    shutil.copytree(ROOT / "rpcaccel", tmp_path / "rpcaccel", ignore=shutil.ignore_patterns("__pycache__"))
    for name, base in bases.items():
        (tmp_path / "rpcaccel" / "chains" / f"{name}.toml").write_text(f"[chain]\nblock_time = 1.0\n{base}\n")
    command = [sys.executable, "-m", "rpcaccel", "serve", "http://127.0.0.1:1", *LOCAL]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"rpcaccel: {told}")
