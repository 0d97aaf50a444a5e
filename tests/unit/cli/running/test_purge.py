"""`rpcaccel purge`, against a stand-in for the admin side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from typer.testing import CliRunner, Result

from rpcaccel.cli.main import app, run
from tests.unit.cli.conftest import Said


class AdminSide:
    """Answers purges as the admin side does, and remembers them."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.complete = True
        self.kept = {"memory": 1, "disk": 2, "store": 3}
        self.address = ""

    async def purge(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.asked.append(asked)
        dry = asked.get("dry_run", False)
        return web.json_response({**self.kept, "complete": self.complete, "dry_run": dry})

    async def settings(self, _request: web.Request) -> web.Response:
        return web.json_response({"document": {"networks": {"harmony-s0": {}, "ethereum": {}}}})


@pytest.fixture
async def side() -> AsyncIterator[AdminSide]:
    made, served = AdminSide(), web.Application()
    served.router.add_post("/api/v1/purge", made.purge)
    served.router.add_get("/api/v1/settings", made.settings)
    async with TestServer(served) as server:
        made.address = f"127.0.0.1:{server.port}"
        yield made


Purge = Callable[..., Awaitable[Said]]


@pytest.fixture
def purge(side: AdminSide, capsys: pytest.CaptureFixture[str]) -> Purge:
    """`await purge("--all")`: the command, asking the stand-in."""

    async def purged(*flags: str) -> Said:
        code = await asyncio.to_thread(run, ["purge", *flags, "--admin", side.address])
        return Said(code, *capsys.readouterr())

    return purged


async def test_a_dry_run_counts_only(side: AdminSide, purge: Purge) -> None:
    said = await purge("--method", "m", "--dry-run")
    assert said == (0, "1 answer in memory, 2 on disk and 3 in Redis would be removed\n", "")
    assert [asked["dry_run"] for asked in side.asked] == [True]


async def test_it_is_removed_once_it_was_agreed_to(side: AdminSide) -> None:
    async def answered(text: str, *flags: str) -> Result:
        arguments = ["purge", "--all", *flags, "--admin", side.address]
        return await asyncio.to_thread(CliRunner().invoke, app, arguments, text)

    assert "Remove 1 answer in memory, 2 on disk and 3 in Redis?" in (await answered("y\n")).output
    assert side.asked[-1] == {"network": "", "method": "", "key": "", "all": True}
    assert "would be removed" in (await answered("n\n")).output
    assert side.asked[-1]["dry_run"] is True
    nobody = await answered("", "--json")
    assert "nothing is removed; --yes does it without asking" in nobody.stderr
    assert (nobody.stdout.strip(), side.asked[-1]["dry_run"]) == ("", True)


async def test_what_could_not_be_reached_is_said(side: AdminSide, purge: Purge) -> None:
    side.complete = False
    told = await purge("--all", "--yes", "--json")
    assert (told.code, json.loads(told.out)["store"]) == (1, 3)
    told = await purge("--all", "--yes")
    assert (told.code, "some may be left" in told.err) == (1, True)


@pytest.mark.parametrize("flags", [[], ["--all", "--method", "m"], ["--key", "k", "--network", "n"]])
async def test_what_is_meant_has_to_be_said(side: AdminSide, purge: Purge, flags: list[str]) -> None:
    told = await purge(*flags)
    assert (told.code, "--all, or --key, or --network and --method" in told.err, side.asked) == (2, True, [])


async def test_a_network_that_is_not_there_is_told_with_those_that_are(side: AdminSide, purge: Purge) -> None:
    assert (await purge("--network", "mars", "--dry-run")).code == 0  # it was there: much is kept
    side.kept = {"memory": 0, "disk": 0, "store": 0}
    assert "0 answers in memory" in (await purge("--network", "ethereum", "--yes")).out
    gone = await purge("--network", "mars", "--yes")
    assert (gone.code, "no network is called mars; there is: harmony-s0, ethereum" in gone.err) == (1, True)
    side.kept = {"memory": 0, "disk": 1, "store": 0}  # of a network that was removed
    assert "0 answers in memory, 1 on disk and 0 in Redis removed" in (await purge("--network", "mars", "--yes")).out
