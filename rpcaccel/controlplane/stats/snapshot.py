"""What the admin side shows: one moment of everything, put together from settings, heads and the workers' reports."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal, Protocol

from msgspec import Meta, Struct

from rpcaccel import balancers, chains
from rpcaccel.config.model import NetworkSettings, NodeSettings, Settings
from rpcaccel.controlplane.workers.link import Link
from rpcaccel.core.heads.examination import Examination
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.core.messages import NodeReport, WorkerReport
from rpcaccel.core.nodes.limits import QuotaUse
from rpcaccel.core.replies.unknown_errors import UnclassedError, together
from rpcaccel.core.stats.counters import TallySnapshot
from rpcaccel.core.stats.tally import ended, merge

NodeState = Literal[
    "serving", "examining", "behind", "parked", "failing", "wrong-chain", "cordoned", "drained", "unknown"
]
"""One word for the state of a node; `why` says the rest."""


class NodeStanding(Struct, frozen=True, kw_only=True):
    """The state of a node as the control plane knows it."""

    network: str
    id: str
    address: Annotated[str, Meta(description="Host and port alone: a path, query or user may hold a credential.")] = ""
    weight: int = 1
    share_aim: Annotated[
        str,
        Meta(description="What the balancer aims at instead of a share by weight alone; empty where it aims at that."),
    ] = ""
    eligible: Annotated[
        bool, Meta(description="Does it take its share of calls? The newest block may not have reached it yet.")
    ] = True
    state: NodeState = "unknown"
    why: Annotated[str, Meta(description="A sentence: why it is in this state, and what would end it.")] = ""
    since: Annotated[float | None, Meta(description="Seconds it has been in this state.")] = None
    head: int | None = None
    head_age: Annotated[float | None, Meta(description="Seconds since its head moved.")] = None
    lag: Annotated[
        int | None,
        Meta(description="Blocks behind the served head now; a new block takes a moment. null: its head is unknown."),
    ] = None
    pushes: Annotated[
        bool, Meta(description="Whether it tells new heads over a WebSocket; else it is asked for them.")
    ] = False
    roles: Annotated[tuple[str, ...], Meta(description="What the operator says it has.")] = ()
    says: Annotated[
        Mapping[str, bool],
        Meta(description="Which roles it has by its own word, as far as it speaks of them; `roles` come before that."),
    ] = {}
    tier: int = 0
    unit: Annotated[str, Meta(description="What units of its quotas are called: calls, where it has no costs.")] = (
        "calls"
    )
    limit: Annotated[int, Meta(description="Calls it may have at once, all workers together; 0 when not known.")] = 0
    suspect: Annotated[
        bool, Meta(description="Are its answers wrong now: disproved, or contradicted beyond chance?")
    ] = False


class NodeView(NodeStanding, frozen=True, kw_only=True):
    """One node: its state, quotas and examination."""

    quota: tuple[QuotaUse, ...] = ()
    """The use of each quota of the node by all workers together."""
    examination: Examination | None = None
    """What shadow calls showed of the node; None before its first examination has ended."""


class HeadView(Struct, frozen=True, kw_only=True):
    """One network: its served head and how it is balanced."""

    network: str
    chain: str
    shard: Annotated[int | None, Meta(description="null where the chain has no shards.")] = None
    balancer: str = ""
    head: int | None = None
    age: Annotated[float | None, Meta(description="Seconds since the head moved.")] = None
    block_time: Annotated[
        float | None,
        Meta(description="Seconds that a block takes: by the settings, else as measured; null until some have come."),
    ] = None
    """The chain's table is no answer: chains that share a table differ in it."""
    note: Annotated[
        str, Meta(description='Something unusual: "the nodes at the head are gone; following the best left".')
    ] = ""


class WorkerView(Struct, frozen=True, kw_only=True):
    """One worker process; in the supervisor's own process when there is a single one."""

    id: str
    pid: int
    revision: int = 0
    uptime: float = 0.0
    """Seconds."""
    longest_turn: float = 0.0
    """Seconds of the longest turn of its event loop in the last minute."""


class Notice(Struct, frozen=True):
    """A sentence about something that should be looked at."""

    level: Literal["bad", "warn"]
    subject: str
    text: str
    kind: str = ""
    """The matter, in a word or two that stay the same while the sentence changes: "no block". Where it is empty, the
    sentence without its numbers stands for it."""


class AlertFigures(Struct, frozen=True):
    """What webhooks were told since the start, and what they are told of now."""

    sent: Mapping[tuple[str, str], int] = {}
    """Messages by webhook and result: ok, failed."""
    firing: Mapping[str, int] = {}
    """Alerts that last, by level."""


class Frame(Struct, frozen=True, kw_only=True):
    """Everything to be shown, read in one go so that its parts agree."""

    snapshot: TallySnapshot
    nodes: tuple[NodeView, ...]
    heads: tuple[HeadView, ...]
    workers: tuple[WorkerView, ...]
    notices: tuple[Notice, ...] = ()
    replaced: Mapping[str, int] = {}
    alerts: AlertFigures = AlertFigures()


class AdminView(Protocol):
    """The port of the admin side to the figures of the supervisor. Every method is synchronous and quick."""

    def frame(self) -> Frame:
        """Everything that changes by itself, of one moment."""
        ...

    def errors(self) -> Sequence[UnclassedError]:
        """Errors of nodes that no rule knew, of all workers."""
        ...

    def settings(self) -> Mapping[str, object]:
        """The settings as plain JSON values, secrets masked."""
        ...


class SupervisorView:
    """Implements AdminView over what the supervisor holds."""

    def __init__(  # noqa: PLR0913 -- all but the first three have defaults
        self,
        settings: Callable[[], Settings],
        heads: Callable[[str], NetworkHeads | None],
        links: Sequence[Link],
        clock: Callable[[], float] = time.monotonic,
        notices: Callable[[], Sequence[Notice]] = tuple,
        quotas: Callable[[str, NodeSettings, Sequence[NodeReport]], tuple[QuotaUse, ...]] = lambda *_: (),
        *,
        replaced: Callable[[], Mapping[str, int]] = dict,
        listen: Callable[[], str] = str,
        tls_cert: Callable[[], str] = str,
        alerts: Callable[[], AlertFigures] = AlertFigures,
    ) -> None:
        """
        Args:
            heads: what is known of the nodes of a network; None before the first probe.
            listen: the address that calls are taken on, once there is one; `tls_cert` is its certificate.
        """
        self._settings = settings
        self._heads = heads
        self._links = links
        self._clock = clock
        self._notices = notices
        self._quotas = quotas
        self._replaced = replaced
        self._listen = listen
        self._tls_cert = tls_cert
        self._alerts = alerts
        self._gone: list[TallySnapshot] = []
        self._states: dict[tuple[str, str], tuple[NodeState, float]] = {}

    def bury(self, report: WorkerReport) -> None:
        """Keep the last counts of a worker that ended in the sums, so that no counter ever falls."""
        self._gone = [merge((*self._gone, ended(report.tally)))]

    def frame(self) -> Frame:
        reports = self._reports()
        tallies = [*self._gone, *(report.tally for report in reports)]
        warnings = sorted({warning for report in reports for warning in report.warnings})
        return Frame(
            snapshot=tallies[0] if len(tallies) == 1 else merge(tallies),
            nodes=tuple(self._nodes(reports)),
            heads=tuple(self._head(name, network) for name, network in self._settings().networks.items()),
            workers=tuple(WorkerView(id=one.worker, pid=one.pid, revision=one.revision, uptime=one.uptime,
                                     longest_turn=one.longest_turn) for one in reports),
            notices=(*(Notice("warn", tier, sentence) for tier, sentence in warnings), *self._notices()),
            replaced=dict(self._replaced()),
            alerts=self._alerts(),
        )  # fmt: skip

    def compared(self) -> Mapping[tuple[str, str], int]:
        """The answers of each node, by network and id, that were compared with another node's since the start."""
        counts: Counter[tuple[str, str]] = Counter()
        for tally in (*self._gone, *(report.tally for report in self._reports())):
            for cell in tally.nodes:
                counts[cell.network, cell.node] += cell.compared
        return counts

    def errors(self) -> Sequence[UnclassedError]:
        return together(report.unclassed for report in self._reports())

    def settings(self) -> Mapping[str, object]:
        # `listen` is where calls are taken: with the port that was found free, and another one only after a restart, as
        # another certificate.
        shown: dict[str, object] = self._settings().model_dump(mode="json")
        return {**shown, "listen": self._listen() or shown["listen"], "tls_cert": self._tls_cert()}

    def _reports(self) -> list[WorkerReport]:
        return [report for link in self._links if (report := link.report()) is not None]

    def _nodes(self, reports: Sequence[WorkerReport]) -> list[NodeView]:
        """Every node of every network, in the order of the settings."""
        told: dict[tuple[str, str], list[NodeReport]] = {}
        for report in reports:
            for node in report.nodes:
                told.setdefault((node.network, node.id), []).append(node)
        views = [
            self._node(name, node, told.get((name, node.id), []), heads, aim)
            for name, network in self._settings().networks.items()
            for aim, heads in ((balancers.aim(network.balancer), self._heads(name)),)
            for node in network.nodes
        ]
        present = {(view.network, view.id) for view in views}
        self._states = {key: state for key, state in self._states.items() if key in present}
        return views

    def _head(self, name: str, network: NetworkSettings) -> HeadView:
        heads = self._heads(name)
        served = Served() if heads is None else heads.served
        chain = chains.load(network.chain)
        return HeadView(
            network=name,
            chain=chain.name,
            shard=None if chain.identity.shard is None else network.shard,
            balancer=network.balancer,
            head=_known(served.head),
            age=max(0.0, self._clock() - served.since) if served.head >= 0 else None,
            block_time=_block_time(network, heads),
            note=served.note,
        )

    def _node(
        self, name: str, node: NodeSettings, told: Sequence[NodeReport], heads: NetworkHeads | None, aim: str
    ) -> NodeView:
        found = next((known for known in heads.nodes if known.id == node.id), None) if heads is not None else None
        head = -1 if found is None else found.head
        served = -1 if heads is None else heads.served.head
        lag = max(0, served - head) if head >= 0 and served >= 0 else None
        state, why = _state(node, found, lag, told)
        now = self._clock()
        known = self._states.get((name, node.id))
        if known is None or known[0] != state:
            self._states[name, node.id] = (state, now)
        seen_at = None if found is None else found.seen_at
        return NodeView(
            network=name,
            id=node.id,
            address=node.url.shown.partition("://")[2],
            weight=node.weight,
            share_aim=aim,
            eligible=_takes_calls(state, found, told),
            state=state,
            why=why,
            since=now - self._states[name, node.id][1],
            head=_known(head),
            head_age=None if seen_at is None else max(0.0, now - seen_at),
            lag=lag,
            pushes=found is not None and found.pushes,
            roles=tuple(sorted(node.roles)),
            says={} if found is None else found.says,
            tier=node.tier,
            unit=node.quota.unit,
            limit=sum(report.limit for report in told),
            quota=self._quotas(name, node, told),
            suspect=heads is not None and node.id in heads.suspects,
            examination=None if found is None else found.examination,
        )


def _known(head: int) -> int | None:
    return head if head >= 0 else None


def _block_time(network: NetworkSettings, heads: NetworkHeads | None) -> float | None:
    return network.block_time or (None if heads is None else heads.block_time)


def _takes_calls(state: NodeState, found: NodeHead | None, told: Sequence[NodeReport]) -> bool:
    """Whether a node takes its share of the calls: every worker would ask it, its head is known, and it keeps up."""
    well = state not in {"unknown", "examining"} and found is not None and not found.behind
    return well and bool(told) and not any(report.refusal for report in told)


def _state(
    node: NodeSettings, found: NodeHead | None, lag: int | None, told: Sequence[NodeReport]
) -> tuple[NodeState, str]:
    """The state of a node and the sentence about it: the first that holds."""
    refusal = next((report.refusal for report in told if report.refusal), "")
    note = "" if found is None else found.note
    if found is not None and found.chain_ok is False:
        return "wrong-chain", note or refusal
    if node.drain:
        return "drained", "it finishes what it has and takes no new calls until draining is switched off"
    if node.weight == 0:
        return "cordoned", "its weight is 0: it is probed and gets no calls until it has a weight"
    if found is None or (found.head < 0 and not note):
        return "unknown", "it has not told its head yet"
    if not found.answering and (found.barred or note) not in refusal:  # the cause comes before its consequence
        silent = note or found.barred
        gets = (
            "it gets trials only, and calls without a better node" if refusal else "it gets calls until those fail too"
        )
        return "failing", f"{silent}; {gets}"
    if found.examining:
        return (
            "examining",
            "calls in the shadow show what it has and whether it is right: it gets calls once that has ended",
        )
    if any(report.breaker != "closed" for report in told) or not found.answering:
        return "failing", refusal or note or "it failed too often: trials show whether it is well again"
    if any(report.ejected > 0 for report in told):
        return "failing", refusal or "it is much slower than the others, or hangs: it is left alone for a while"
    if any(report.parked > 0 for report in told) or any(
        use.used >= use.limit for report in told for use in report.quota
    ):
        return "parked", refusal
    if found.behind:
        return "behind", _how_far(found, lag or 0)
    if refusal:
        return "unknown", note or refusal
    return "serving", note or next((report.rests for report in told if report.rests), "")


def _how_far(found: NodeHead, lag: int) -> str:
    """The sentence about a node that is behind."""
    if found.late and lag <= 1:
        return f"new blocks reach it {found.late:.1f} s after the others: until then it gets no calls about them"
    if not lag:
        return "it has caught up a moment ago: it counts again once it has kept up for five blocks"
    stands = f" ({found.note})" if found.note else ""
    many = f"{lag} block{'' if lag == 1 else 's'}"
    return f"it is {many} behind{stands}: it gets no calls about newer blocks until it has caught up"
