"""What a shell is offered to complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import typer
import typer.main

from rpcaccel.cli import completion
from rpcaccel.cli.main import app, run
from rpcaccel.controlplane.admin.admin_app import Admin


def context(admin: str) -> typer.Context:
    made = typer.Context(typer.main.get_command(app))
    made.params["admin"] = admin
    return made


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert capsys.readouterr().out.rstrip() == completion.SCRIPTS[shell]


def test_nothing_is_offered_where_no_proxy_answers() -> None:
    nowhere = context("127.0.0.1:9")
    assert completion.nodes(nowhere, "") == []
    assert completion.networks(nowhere, "") == []


def test_chains_are_offered_where_nodes_are_named() -> None:
    assert completion.chain_names("har") == ["harmony"]
    assert {"ethereum", "polygon"} <= set(completion.chain_names(""))


async def test_nodes_and_networks_of_a_running_proxy_are_offered(admin: Admin) -> None:
    def offered(names: Callable[[typer.Context, str], list[str]], begun: str) -> list[str]:
        return names(context(admin.address), begun)

    assert await asyncio.to_thread(offered, completion.nodes, "") == ["a", "b", "c"]
    assert await asyncio.to_thread(offered, completion.nodes, "b") == ["b"]
    assert await asyncio.to_thread(offered, completion.nodes, "harmony-s0/a") == ["harmony-s0/a"]
    assert await asyncio.to_thread(offered, completion.networks, "h") == ["harmony-s0"]
