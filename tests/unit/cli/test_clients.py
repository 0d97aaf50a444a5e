"""The clients of a running proxy from the command line."""

from __future__ import annotations

import json

from rich.console import Console

from rpcaccel.cli.clients import table
from tests.unit.cli.conftest import Ask

SHOP = {
    "name": "shop", "calls_total": 120, "calls_per_second": 2.5, "limited_total": 7, "limited": {"rate": 7},
    "in_flight": 1, "seen": 3.0, "enabled": True,
}  # fmt: skip
"""A client as the admin side tells of it."""


def shown(*clients: dict[str, object]) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(table(list(clients)))
    return captured.get()


async def test_the_clients_are_listed_as_the_admin_side_tells_of_them(ask: Ask) -> None:
    found = json.loads((await ask("clients", "--json")).out)["clients"]
    said = await ask("clients")
    assert said.code == 0
    assert found or said.out == "nobody is counted: there are no API keys, and callers without one have no limits\n"
    assert all(client["name"] in said.out for client in found)


def test_a_client_is_shown_with_its_calls_and_what_was_refused_to_it() -> None:
    for text in ("shop", "120", "2.5", "7", "3 s ago", "rate: 7"):
        assert text in shown(SHOP)


def test_a_client_that_is_disabled_or_never_called_is_told() -> None:
    told = shown({**SHOP, "enabled": False, "seen": None, "calls_per_second": None})
    assert "shop (disabled)" in told
    assert "never" in told
