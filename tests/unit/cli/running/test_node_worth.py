"""`rpcaccel nodes --report`: what it prints, and what --apply changes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rpcaccel.cli.main import run
from rpcaccel.cli.running.node_worth import columns, differed, said
from rpcaccel.cli.terminal import Listing, table
from rpcaccel.controlplane.admin.admin_app import Admin
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK, SampleView
from tests.support.watched_nodes import WatchedNodes
from tests.unit.cli.conftest import Answer, Ask
from tests.unit.controlplane.documents.test_worth import reported


async def lives(admin: Admin, view: SampleView) -> None:
    for _ in range(5):
        view.advance(1.0, load=20.0)
        admin.sample()


def weights(control: SampleControl) -> list[int]:
    return [node.weight for node in control.ledger.settings.networks[NETWORK].nodes]


async def test_the_report_is_printed_with_the_suggestion_below_it(ask: Ask, admin: Admin, view: SampleView) -> None:
    await lives(admin, view)
    told = await ask("nodes", "--report", "--over", "day")
    assert told.code == 0
    assert f"{NETWORK}: the mean would have been " in told.out
    assert "  a: weight 5 -> " in told.out
    assert " of a for the same " in told.out


async def test_the_report_as_json_is_what_the_admin_side_answers(ask: Ask, admin: Admin, view: SampleView) -> None:
    await lives(admin, view)
    told = json.loads((await ask("nodes", "--report", "--json")).out)
    a = told["nodes"][0]
    assert a.keys() >= {"network", "id", "agreement", "latency", "examination", "suggested_weight"}
    assert not any(a["agreement"].values())
    assert a["suggested_weight"].keys() == {"value", "why"}


async def test_with_yes_nobody_is_asked_and_without_a_suggestion_nothing_is_done(
    ask: Ask, admin: Admin, view: SampleView, control: SampleControl
) -> None:
    nothing = await ask("nodes", "--report", "--apply", "--yes")
    assert (nothing.code, nothing.out.startswith(f"{NETWORK}: too early to compare")) == (0, True)
    told = json.loads((await ask("nodes", "--report", "--apply", "--yes", "--json")).out)
    assert (told["applied"], "too early" in told["unchanged"][NETWORK]) == ([], True)
    await lives(admin, view)
    done = json.loads((await ask("nodes", "--report", "--apply", "--yes", "--json")).out)
    assert done["applied"][0]["network"] == NETWORK
    assert "(suggested by the last hour: the mean would have been " in (await ask("settings", "history")).out
    assert weights(control)[0] > 5


async def test_suggested_weights_are_applied_after_a_yes_and_after_nothing_else(
    answer: Answer, admin: Admin, view: SampleView, control: SampleControl
) -> None:
    await lives(admin, view)
    refused = await answer("n\n", "nodes", "--report", "--apply")
    assert (refused.exit_code, refused.stdout, control.ledger.revision) == (0, "", 1)
    assert "  a: weight 5 -> " in refused.stderr
    assert f"Apply these weights to {NETWORK}? [y/N]" in refused.stderr
    nobody = await answer("", "nodes", "--report", "--apply")
    assert (nobody.exit_code, control.ledger.revision) == (1, 1)  # of typer; `run` makes 130 of it
    assert "nothing is changed; --yes does it without asking" in nobody.stderr
    agreed = await answer("y\n", "nodes", "--report", "--apply")
    assert (agreed.exit_code, control.ledger.revision) == (0, 2)
    assert agreed.stdout.startswith(f"revision 2: networks.{NETWORK}.nodes.a.weight: 5 -> ")


@pytest.mark.parametrize("options", [["--apply"], ["--over", "day"], ["--report", "--yes"]])
async def test_options_of_the_report_need_it(ask: Ask, options: list[str]) -> None:
    told = await ask("nodes", *options)
    assert (told.code, "expected --report beside" in told.err) == (2, True)


async def test_weights_are_applied_by_the_last_hour_alone(ask: Ask) -> None:
    told = await ask("nodes", "--report", "--apply", "--over", "day")
    assert (told.code, "--over: expected hour beside --apply" in told.err) == (2, True)


def test_the_newest_cases_of_disagreement_are_told_in_a_line_each() -> None:
    cases = [
        {
            "at": 1e9 + number,
            "method": "eth_getLogs",
            "block": 9,
            "minority": ["b"],
            "disproved": False,
            "difference": "result[3]: 1 against 2",
        }
        for number in range(12, 0, -1)
    ]
    cases[1] |= {"block": None, "minority": []}
    cases[2] |= {"disproved": True, "difference": "another hash"}
    first, second, third, fourth, *rest = differed(cases)
    assert first == "  12 cases of answers that differ or are false, the last of them:"
    assert second.endswith(" eth_getLogs, block 9: others contradict b: result[3]: 1 against 2")
    assert third.endswith(" eth_getLogs: nobody could decide: result[3]: 1 against 2")
    assert fourth.endswith(" eth_getLogs, block 9: b gave a false answer: another hash")
    assert len(rest) == 7
    assert not list(differed([]))


def test_a_row_tells_all_of_a_node() -> None:
    watched = WatchedNodes({"a": 0.02, "b": 0.06}, price=25.0)
    watched.live(60)
    found: Any = reported(watched)
    one = found["nodes"][1]
    told = {"compared": 512, "minority": 2, "undecided": 1, "false_hashes": 3, "disproved": 4, "suspect": True}
    one["agreement"], found["nodes"][0]["agreement"]["disproved"] = told, 1
    one["errors"], one["overtaken"] = {"timeout": 4, "connect": 1}, 7
    one["quota"] = [{"window": "day", "used": 10, "limit": 100, "projected": 55.0, "renews": ""}]
    made = table(Listing(columns(found["currency"]), found["nodes"]))
    first, row = ({str(column.header): str(list(column.cells)[at]) for column in made.columns} for at in (0, 1))
    assert first["agreement"] == "1 disproved", "a node of which nothing was compared"
    assert row["agreement"] == "4 disproved, 2 of 512 wrong, 1 undecided, 3 false hashes, suspected"
    assert row["errors"] == "5 (timeout 4, connect 1)"
    assert row["quota"] == "day 10 %, 55 % at its end"
    assert row["behind"] == "0 % (p99 0)"
    assert row["cost"].endswith(" USD")
    assert row["others x"].startswith("3.")
    assert row["lost hedges"] == "7"
    assert len(list(said(found["networks"][0], found["nodes"]))) == 3


async def test_weights_changed_after_the_report_was_made_are_not_overwritten() -> None:
    revisions = [7]

    async def settings(_request: web.Request) -> web.Response:
        return web.json_response({"revision": revisions[-1]})

    async def told(_request: web.Request) -> web.Response:
        revisions.append(8)  # somebody changes weights while the operator reads the report
        network = {"network": "n", "why": "", "gain": 0.1}
        node = {"network": "n", "id": "a", "weight": 1, "suggested_weight": {"value": 2, "why": ""}}
        return web.json_response({"networks": [network], "nodes": [node]})

    async def applied(request: web.Request) -> web.Response:
        expected.append(request.headers["If-Match"])
        return web.json_response({"title": "changed meanwhile"}, status=412)

    expected: list[str] = []
    app = web.Application()
    app.router.add_get("/api/v1/settings", settings)
    app.router.add_get("/api/v1/nodes/report", told)
    app.router.add_post("/api/v1/networks/n/weights", applied)
    async with TestServer(app) as server:
        arguments = ["nodes", "--report", "--apply", "--yes", "--admin", f"127.0.0.1:{server.port}"]
        assert await asyncio.to_thread(run, arguments) != 0
    assert expected == ['"7"']
