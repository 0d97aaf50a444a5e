"""A control for the admin side without a proxy: a real ledger and event stream, over settings that nobody serves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from rpcaccel.config.model import NodeSettings, Settings
from rpcaccel.config.secrets import shown_url
from rpcaccel.controlplane.admin.settings_api import line
from rpcaccel.controlplane.alerts.alerting import Alerting
from rpcaccel.controlplane.hosts.host_book import HostBook, HostsNow
from rpcaccel.controlplane.hosts.host_report import HostReport
from rpcaccel.controlplane.settings.ledger import Ledger, Origin
from rpcaccel.controlplane.stats.events import Events
from rpcaccel.controlplane.workers.workers import WorkerStanding
from rpcaccel.core.agreement.cases import Case
from rpcaccel.core.heads.identity import Finding, NodesFound, NodeTrial
from rpcaccel.core.heads.served_head import NodeHead
from tests.support.sample_errors import sample_log
from tests.support.sample_worth import well_examined

NODES = ["https://u:s3cret-token@a.example/key,weight=5,id=a", "https://b.example,id=b", "http://10.0.0.7:9500,id=c"]


def sample_settings(**more: Any) -> Settings:
    """Three nodes of harmony-s0, one with a secret in its URL."""
    return Settings.model_validate({"networks": {"harmony-s0": {"nodes": NODES}}, **more})


class SampleControl:
    """Implements controlplane.admin.handling.Control; `refusal` is what its one worker answers to a revision."""

    def __init__(self, settings: Settings | None = None, origin: Origin | None = None) -> None:
        self.ledger = Ledger(settings or sample_settings(), origin)
        self.ledger.open()
        self.ledger.publish = self._publish
        self.ledger.heard = lambda change: self.events.tell(
            "settings", {"revision": change.revision, "change": line(self.ledger, change)}
        )
        self.events = Events(quiet=0.2)
        self.errors = sample_log(time.monotonic())
        self.alerts = Alerting()
        self.alerts.adopt(self.ledger.settings)
        self.cases: list[Case] = []
        self.refusal = ""
        self.lagging: list[str] = []
        self.published: list[tuple[int, Settings]] = []
        self.replaced = 0
        self.now = 0.0
        self.shares = False
        """Do the settings name a Redis?"""
        self.book = HostBook("0123456789abcdef")
        self.book.tell(HostReport(name="here", version="0.2.0", workers=1, networks=1), self.now)
        self.purges: list[tuple[bytes, bool]] = []
        """The purges to be told to others, and whether each was complete here."""

    async def _publish(self, settings: Settings, revision: int) -> str:
        if not self.refusal:
            self.published.append((revision, settings))
            self.alerts.adopt(settings)
        return self.refusal

    def workers(self) -> Sequence[WorkerStanding]:
        """One worker, and those that lag a revision behind it."""
        revision = self.ledger.revision
        here = WorkerStanding(id="w1", pid=1, revision=revision, uptime=1.0, state="serving", longest_turn=0.004)
        return [here, *(replace(here, id=name, revision=revision - 1) for name in self.lagging)]

    def adopted(self) -> int:
        """It always has the revision."""
        return 1

    def shared(self) -> dict[str, Any] | None:
        """With nobody, until a test says otherwise."""
        about = {"url": "redis://127.0.0.1", "host": "here", "up": True, "revision": 17, "note": ""}
        return about if self.shares else None

    def hosts(self) -> HostsNow:
        """This one alone, until a test says otherwise."""
        return self.book.document(self.now, shared=self.shares)

    async def purged(self, body: bytes, *, complete: bool = True) -> None:
        """Nobody else to tell."""
        self.purges.append((body, complete))

    async def probe(self, network: str, node: str) -> NodeHead | None:
        """Node a answers; no other is there."""
        return (
            NodeHead(id="a", head=7, chain_ok=True, answering=True) if (network, node) == ("harmony-s0", "a") else None
        )

    def examine(self, network: str, node: str) -> NodeHead | None:
        """Node a was examined before; no other is there."""
        return NodeHead(id="a", examination=well_examined()) if (network, node) == ("harmony-s0", "a") else None

    async def try_node(self, network: str, node: NodeSettings) -> NodeTrial | None:
        """Every node has block 7 of the right chain."""
        served = network in self.ledger.settings.networks
        return NodeTrial(answering=True, chain_ok=True, head=7, chain_id=1666600000, lag=0) if served else None

    async def find_nodes(self, texts: Sequence[str]) -> NodesFound:
        """Every node is one of harmony-s0 at block 7, but for those whose URL ends with /down."""
        nodes = [{"url": text, "id": f"node-{place}"} for place, text in enumerate(texts)]
        findings = []
        for node in nodes:
            found = Finding(network="harmony-s0", node=node["id"], url=shown_url(node["url"]), chain="harmony")
            if node["url"].endswith("/down"):
                findings.append(replace(found, trouble="connection refused"))
            else:
                findings.append(replace(found, head=7, behind=0, latency=0.02, chain_id=1_666_600_000, role="explorer"))
        return NodesFound({"harmony-s0": {"chain": "harmony", "shard": 0, "nodes": nodes}}, findings, [])
