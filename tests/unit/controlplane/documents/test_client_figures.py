"""The document about clients."""

from __future__ import annotations

from typing import Any

from rpcaccel.controlplane.documents.client_figures import clients_document
from rpcaccel.controlplane.stats.history import History
from rpcaccel.core.stats.tally import Tally
from tests.support.described_answers import sent

SETTINGS: dict[str, object] = {
    "clients": {
        "require_key": False,
        "anonymous": {"rate": 5.0},
        "keys": {"dapp": {"rate": 100.0, "hashes": ["sha256:x"]}, "quiet": {"enabled": False}},
    }
}


def seen(tally: Tally) -> dict[str, Any]:
    history = History()
    history.add(tally.snapshot(), 0.0, 0.0)
    cell = tally.client("dapp")
    cell.calls, cell.seen_at = 20, 8.0
    cell.refused("rate")
    tally.client("gone").calls = 1
    tally.client("anonymous").calls = 2
    history.add(tally.snapshot(), 10.0, 10.0)
    return sent(clients_document(tally.snapshot(), history.window(10.0), SETTINGS, now=10.5))


def test_every_holder_of_a_key_is_there_with_its_rates() -> None:
    document = seen(Tally())
    assert [client["name"] for client in document["clients"]] == ["dapp", "quiet", "gone", "anonymous"]
    dapp, quiet, gone, anonymous = document["clients"]
    assert (dapp["calls_per_second"], dapp["limited_total"], dapp["limited"], dapp["seen"]) == (
        2.0,
        1,
        {"rate": 1},
        2.5,
    )
    assert (quiet["calls_total"], quiet["seen"]) == (0, None)
    assert (dapp["limits"]["rate"], gone["limits"], anonymous["limits"]["rate"]) == (100.0, None, 5.0)
    assert [client["enabled"] for client in document["clients"]] == [True, False, True, True]
    assert "sha256" not in str(document)


def test_before_two_snapshots_there_are_no_rates() -> None:
    document = sent(clients_document(Tally().snapshot(), None, {}, 0.0))
    assert document == {"window": None, "require_key": False, "clients": []}
