"""Hosts for looking at the page without them: made-up documents, as they would stand in Redis, over a minute."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from rpcaccel.controlplane.hosts.host_book import ROUND
from rpcaccel.controlplane.hosts.host_report import HostReport, encoded
from rpcaccel.stores.shared_board import HostEntries, HostEntry
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK

HEAD = 61_204_811
ROUNDS = 30
WELL = HostReport(
    name="proxy-a",
    version="0.2.0",
    uptime=86_400.0,
    workers=4,
    window=10.0,
    calls=18_240,
    accepted=18_200,
    hits=17_690,
    errors=4,
    miss_p99=0.182,
    heads={NETWORK: HEAD},
    networks=1,
    revision=17,
)
OTHERS = {
    "aa": replace(WELL, name="proxy-b", page="http://10.0.0.8:8889/", calls=17_120, uptime=3700.0),
    "bb": replace(WELL, name="proxy-c", page="http://10.0.0.9:8889/", refusal="networks.harmony-s0.nodes.d: unknown"),
    "cc": replace(WELL, name="proxy-d", calls=9_000),
    "dd": replace(WELL, name="proxy-e", version="0.1.0", calls=12_000, errors=700),
    "ee": replace(WELL, name="proxy-e", draining=True, calls=300, version="0.1.0"),
}
"""By run: well, behind in settings, killed a while ago, of another version, and draining; two have one name."""


def meet(control: SampleControl, others: dict[str, HostReport], *, silent: Iterable[str] = ("cc",)) -> None:
    """Let a minute pass in which all hosts but the `silent` ones post; the heads of those named "late" stand."""
    control.shares = True
    quiet, began = set(silent), control.now
    for number in range(ROUNDS):
        control.now += ROUND
        heads = {NETWORK: HEAD + number}
        control.book.tell(replace(WELL, heads=heads), control.now)
        entries = []
        for run, report in others.items():
            told = report if "late" in report.name else replace(report, heads=heads)
            entries.append(HostEntry(run, control.now - began if run in quiet else 0.1, encoded(told)))
        control.book.hear(HostEntries(entries), control.now, {NETWORK: 2.0})
