"""The clients, subscriptions and hosts of a running proxy from the command line."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from rpcaccel.cli.running.views import CLIENTS, SUBSCRIPTIONS
from rpcaccel.cli.terminal import Listing, TableColumn, table
from rpcaccel.controlplane.admin.admin_routes import ROUTES, describe
from rpcaccel.stores.shared_board import HostEntries, HostEntry
from tests.support.described_answers import problems
from tests.support.sample_control import SampleControl
from tests.support.sample_hosts import OTHERS, meet
from tests.support.sample_view import NETWORK, SampleView
from tests.unit.cli.conftest import Ask


def shown(columns: tuple[TableColumn, ...], *rows: dict[str, object]) -> str:
    console = Console(width=160)
    with console.capture() as captured:
        console.print(table(Listing(columns, rows)))
    return captured.get()


SHOP = {
    "name": "shop", "calls_total": 120, "calls_per_second": 2.5, "limited_total": 7, "limited": {"rate": 7},
    "in_flight": 1, "seen": 3.0, "enabled": True,
}  # fmt: skip
"""A client as the admin side tells of it."""


async def test_the_clients_are_listed_as_the_admin_side_tells_of_them(ask: Ask) -> None:
    found = json.loads((await ask("clients", "--json")).out)["clients"]
    said = await ask("clients")
    assert said.code == 0
    assert found or said.out == "nobody is counted: there are no API keys, and callers without one have no limits\n"
    assert all(client["name"] in said.out for client in found)


def test_a_client_is_shown_with_its_calls_and_what_was_refused_to_it() -> None:
    for text in ("shop", "120", "2.5", "7", "3 s ago", "rate: 7"):
        assert text in shown(CLIENTS, SHOP)


def test_a_client_that_is_disabled_or_never_called_is_told() -> None:
    told = shown(CLIENTS, {**SHOP, "enabled": False, "seen": None, "calls_per_second": None})
    assert "shop (disabled)" in told
    assert "never" in told


BEFORE_THE_FIRST_MINUTE = {
    "network": "mainnet", "kinds": {}, "topics": 0, "notifications_per_second": None, "notifications": {},
    "lateness": None, "filled": 0, "abandoned": 0, "resumed": 0, "replayed": 0, "cut": {},
}  # fmt: skip
"""A network as the admin side tells of it right after the start."""


async def test_subscriptions_are_listed_by_network_with_what_was_closed(ask: Ask) -> None:
    said = await ask("subscriptions")
    assert said.code == 0
    for text in ("134 WebSockets open", NETWORK, "newHeads: 120, logs: 40", "412", "slow: 2, drained: 31"):
        assert text in said.out.replace("\n", " "), text
    told = json.loads((await ask("subscriptions", "--json")).out)
    assert told["websockets"] == 134
    assert [one["network"] for one in told["subscriptions"]] == [NETWORK]


@pytest.mark.parametrize("view", [SampleView(subscribers=0)])
async def test_where_nobody_subscribes_it_is_said(ask: Ask) -> None:
    assert (await ask("subscriptions")).out == "nobody subscribes, and nobody did since the start; 0 WebSockets open\n"


def test_lateness_is_told_in_milliseconds_and_nothing_as_such() -> None:
    late = {"count": 10, "p50": 0.0094, "p90": 0.02, "p99": 0.0412}
    _, first, second = shown(
        SUBSCRIPTIONS, BEFORE_THE_FIRST_MINUTE, {**BEFORE_THE_FIRST_MINUTE, "lateness": late}
    ).splitlines()
    assert first.split() == ["mainnet", "–", "0", "–", "–", "–", "0", "0", "0", "0", "–"]
    assert "9.4 ms" in second
    assert "41.2 ms" in second


async def test_each_host_is_a_line_with_what_it_does_and_those_that_are_not_well_have_a_sentence(
    ask: Ask, control: SampleControl
) -> None:
    meet(control, OTHERS)
    said = await ask("hosts")
    lines = said.out.splitlines()
    assert said.code == 0
    assert lines[0].split()[:2] == ["host", "state"]
    assert lines[1].startswith("proxy-a (here)")
    assert "1.82e+03" not in lines[1]
    assert [line.split()[0] for line in lines[2:7]] == ["proxy-b", "proxy-c", "proxy-d", "proxy-e", "proxy-e"]
    assert [word in lines[3] for word in ("behind", "97.2 %", "0.2.0")] == [True] * 3
    assert lines[7].startswith("5 together")
    assert "proxy-c: what other hosts changed is not in force on it: networks.harmony-s0.nodes.d: unknown" in lines
    assert "proxy-d: last heard 60 s ago; it was killed, or is cut off from Redis" in lines


async def test_what_is_told_to_programs_is_as_it_is_described(ask: Ask, control: SampleControl) -> None:
    meet(control, OTHERS)
    found = json.loads((await ask("hosts", "--json")).out)
    assert len(found["hosts"]) == 6
    assert problems(describe(ROUTES, lambda _: None), "GET", "/api/v1/hosts", found) == []


async def test_a_host_by_itself_says_why_it_knows_no_others(ask: Ask) -> None:
    said = await ask("hosts")
    assert "here (here)" in said.out
    assert said.out.endswith("no other hosts are known: the settings name no Redis to share with them\n")


async def test_while_redis_is_away_that_is_said(ask: Ask, control: SampleControl) -> None:
    meet(control, {"aa": OTHERS["aa"]})
    control.book.lose("no answer in time", control.now + 30)
    control.now += 30
    said = await ask("hosts")
    assert "unknown" in said.out
    assert "30 s ago" in said.out
    assert said.out.endswith("Redis is away (no answer in time): the other hosts are not known\n")


async def test_entries_that_are_no_documents_are_counted(ask: Ask, control: SampleControl) -> None:
    meet(control, {})
    control.book.hear(HostEntries([HostEntry("x", 0.0, b"junk")], 2), control.now, {})
    assert "3 entries in Redis are not documents of hosts, and are not shown" in (await ask("hosts")).out
