"""The subscriptions of a running proxy from the command line."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from rpcaccel.cli.subscriptions import table
from tests.support.sample_view import NETWORK, SampleView
from tests.unit.cli.conftest import Ask

BEFORE_THE_FIRST_MINUTE = {
    "network": "mainnet", "kinds": {}, "topics": 0, "notifications_per_second": None, "notifications": {},
    "lateness": None, "filled": 0, "abandoned": 0, "resumed": 0, "replayed": 0, "cut": {},
}  # fmt: skip
"""A network as the admin side tells of it right after the start."""


def shown(*listed: dict[str, object]) -> list[str]:
    console = Console(width=160)
    with console.capture() as captured:
        console.print(table(list(listed)))
    return captured.get().splitlines()


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
    _, first, second = shown(BEFORE_THE_FIRST_MINUTE, {**BEFORE_THE_FIRST_MINUTE, "lateness": late})
    assert first.split() == ["mainnet", "–", "0", "–", "–", "–", "0", "0", "0", "0", "–"]
    assert "9.4 ms" in second
    assert "41.2 ms" in second
