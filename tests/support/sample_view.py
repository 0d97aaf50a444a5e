"""A made-up view for the admin side: three nodes, one of them behind, and traffic that can be moved on by hand.

For tests of the admin side and for looking at the page without a proxy. The same seed tells the same story.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random

from rpcaccel.controlplane.stats.snapshot import AlertFigures, Frame, HeadView, NodeView, Notice, WorkerView
from rpcaccel.core.nodes.limits import QuotaUse
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.replies.unknown_errors import UnclassedError, UnclassedLog
from rpcaccel.core.stats.counters import AnswerSource, Step, TallySnapshot, bump
from rpcaccel.core.stats.tally import Tally, merge

NETWORK = "harmony-s0"

TRAFFIC: tuple[tuple[str, CacheClass, int, float, int], ...] = (
    ("hmyv2_blockNumber", CacheClass.HEAD, 240, 1.0, 60),
    ("hmyv2_getBlocks", CacheClass.BY_NUMBER, 160, 0.92, 18_400),
    ("hmyv2_getBlockSigners", CacheClass.BY_NUMBER, 90, 0.97, 9_100),
    ("hmyv2_getBalanceByBlockNumber", CacheClass.BY_NUMBER, 70, 0.81, 90),
    ("hmyv2_getValidatorInformation", CacheClass.HEAD, 45, 0.64, 6_300),
    ("hmyv2_call", CacheClass.HEAD, 60, 0.48, 130),
    ("hmyv2_getCurrentUtilityMetrics", CacheClass.HEAD, 6, 0.7, 420),
    ("hmyv2_getNodeMetadata", CacheClass.NODE, 4, 0.0, 1_900),
    ("hmyv2_getCurrentTransactionErrorSink", CacheClass.NEVER, 3, 0.0, 44),
    ("net_peerCount", CacheClass.NODE, 5, 0.0, 50),
    ("hmyv2_sendRawTransaction", CacheClass.NEVER, 2, 0.0, 110),
    ("debug_storeHeaps", CacheClass.NEVER, 1, 0.0, 0),
)
"""Method, class, calls a second, share answered by the proxy itself, bytes of a result."""


class SampleView:
    """A view of made-up figures; `advance` makes a while of traffic."""

    def __init__(self, seed: int = 7, subscribers: int = 120, *, disk: bool = False) -> None:
        """`subscribers`: WebSockets with subscriptions; 0: nobody subscribes and nobody did. `disk`: is there a tier on
        disk?"""
        self.subscribers = subscribers
        self.disk = disk
        self.random = Random(seed)
        self.tally = Tally(method for method, *_ in TRAFFIC)
        self.tally.client("dapp")
        self.head = 61_204_811
        self.elapsed = 0.0
        self.networks = [NETWORK]
        self.chain = "harmony"
        self.shard: int | None = 0
        self.lags = {"c": 14}
        self.node_list = [
            NodeView(
                network=NETWORK, id="a", address="a.example:443", weight=5, state="serving", since=0.0, pushes=True
            ),
            NodeView(network=NETWORK, id="b", address="b.example:443", weight=2, state="serving", since=0.0),
            NodeView(
                network=NETWORK,
                id="c",
                address="10.0.0.7:9500",
                weight=2,
                eligible=False,
                state="behind",
                why="14 blocks behind; it gets no calls about newer blocks until it has caught up",
                since=31.0,
                roles=("archive",),
                says={"explorer": True, "archive": False},
                tier=1,
                limit=512,
                quota=(
                    QuotaUse(
                        window="month",
                        used=812_000,
                        limit=1_000_000,
                        since=1_790_000_000,
                        renews=1_792_000_000,
                        runs_out=1_791_800_000,
                    ),
                ),
            ),
        ]
        self.notices: list[Notice] = []
        self.listen = "127.0.0.1:8888"
        self.secret = "s3cret-token"

    def crowd(self, nodes: int, methods: int) -> None:
        """As many nodes and methods as a page must bear; each was called once."""
        self.node_list = [NodeView(network=NETWORK, id=f"n{number}", state="serving") for number in range(nodes)]
        names = [f"hmyv2_method{number}" for number in range(methods)]
        self.tally.know(names)
        self.stir(nodes, methods)

    def stir(self, nodes: int, methods: int) -> None:
        """One more call of each of the crowd."""
        for number in range(methods):
            cell = self.tally.cell(NETWORK, f"hmyv2_method{number}", CacheClass.HEAD)
            cell.done(
                self.random.choice((AnswerSource.MEMORY, AnswerSource.NODE)), self.random.lognormvariate(-4, 1), 100
            )
        for number in range(nodes):
            self.tally.node(NETWORK, f"n{number}").answered(self.random.lognormvariate(-4, 1), 100)

    def fail(self, calls: int, *, network: str = NETWORK, by_client: bool = False, code: str = "-32603") -> None:
        """Let some calls fail: at the nodes, or by the client's own doing."""
        cell = self.tally.cell(network, "hmyv2_call", CacheClass.HEAD)
        for _ in range(calls):
            cell.done(AnswerSource.NODE, self.random.lognormvariate(-4, 0.5), 0, failed=True, by_client=by_client)
            if not by_client:
                bump(self.tally.network(network).failed, code)

    def advance(self, seconds: float, load: float = 1.0) -> None:
        """Let `seconds` pass with `load` times the usual traffic."""
        self.elapsed += seconds
        self.head += int(self.elapsed / 2) - int((self.elapsed - seconds) / 2)
        self.tally.connections, self.tally.in_flight = 38, self.random.randrange(4)
        for method, cache, rate, hit_share, size in TRAFFIC:
            for _ in range(int(rate * seconds * load * self.random.uniform(0.85, 1.15) + self.random.random())):
                self._call(method, cache, hit_share, size)
        dapp = self.tally.client("dapp")
        dapp.calls += int(90 * seconds * load)
        dapp.refused("rate")
        for method, _, rate, hit_share, _ in TRAFFIC[:3]:
            for _ in range(int(rate * seconds * load * 0.1)):
                source = AnswerSource.MEMORY if self.random.random() < hit_share else AnswerSource.NODE
                dapp.answered(method, source, self.random.lognormvariate(-8, 1))
        network = self.tally.network(NETWORK)
        network.broadcasts["accepted"] = network.broadcasts.get("accepted", 0) + 1
        network.told["known"] = network.told.get("known", 0) + 2
        if self.subscribers:
            self._subscribed(seconds)
        memory, redis = self.tally.tier("memory"), self.tally.tier("redis", shared=True)
        memory.entries, memory.bytes, memory.limit = 41_800, 187_000_000, 256_000_000
        redis.entries, redis.bytes = 902_000, 3_100_000_000
        if self.disk:
            self._on_disk()

    def _on_disk(self) -> None:
        disk = self.tally.tier("disk", shared=True)
        disk.entries, disk.bytes, disk.limit = 8_410_000, 31_400_000_000, 50_000_000_000
        disk.stored, disk.evicted, disk.purged = 8_730_000, 319_000, 812

    def _subscribed(self, seconds: float) -> None:
        """What subscribers are sent: a head each two seconds to most of them, and the logs that some asked for."""
        self.tally.websockets, cell = self.subscribers + 14, self.tally.network(NETWORK)
        cell.subscriptions = {"newHeads": self.subscribers, "logs": self.subscribers // 3, "newPendingTransactions": 2}
        cell.topics = 9
        sent = max(1, int(self.subscribers * seconds / 2))
        for kind, count in (("newHeads", sent), ("logs", sent * 2), ("newPendingTransactions", 12)):
            cell.delivered[kind] = cell.delivered.get(kind, 0) + count
        for _ in range(min(sent, 40)):
            cell.lateness.observe(self.random.lognormvariate(-4.6, 0.6))
        cell.filled, cell.resumed, cell.replayed = 3, 17, 412
        cell.cut = {"slow": 2, "drained": 31}

    def _call(self, method: str, cache: CacheClass, hit_share: float, size: int) -> None:
        rng, cell = self.random, self.tally.cell(NETWORK, method, cache)
        self.tally.requests += 1
        self.tally.bytes_in += 120
        if method.startswith("debug_"):
            cell.done(AnswerSource.REFUSED, 15e-6)
        elif method == "hmyv2_blockNumber":
            cell.done(AnswerSource.LOCAL, rng.lognormvariate(-10.6, 0.3), size)
        elif rng.random() < hit_share:
            self._hit(method, cache, size)
        else:
            bump(cell.misses, "new head" if cache is CacheClass.HEAD else "not there yet")
            self.tally.tier("memory").misses += 1
            if rng.random() < 0.12:
                cell.done(AnswerSource.FLIGHT, rng.lognormvariate(-4.6, 0.5), size)
            else:
                self._node_call(method, cache, size)

    def _hit(self, method: str, cache: CacheClass, size: int) -> None:
        rng, cell = self.random, self.tally.cell(NETWORK, method, cache)
        if rng.random() < 0.9:
            cell.done(AnswerSource.MEMORY, rng.lognormvariate(-10.3, 0.35), size)
            self.tally.tier("memory").hits += 1
        elif (on_disk := self.disk and cache is CacheClass.BY_NUMBER) and rng.random() < 0.7:
            cell.done(AnswerSource.DISK, rng.lognormvariate(-7.6, 0.5), size)
            self.tally.tier("memory").misses += 1
            self.tally.tier("disk", shared=True).hits += 1
            self.tally.step(Step.DISK, rng.lognormvariate(-7.8, 0.5))
        else:
            if on_disk:
                self.tally.tier("disk", shared=True).misses += 1
                self.tally.step(Step.DISK, rng.lognormvariate(-8.6, 0.4))
            cell.done(AnswerSource.SHARED, rng.lognormvariate(-7.2, 0.3), size)
            self.tally.tier("memory").misses += 1
            self.tally.tier("redis", shared=True).hits += 1
            self.tally.step(Step.SHARED, rng.lognormvariate(-7.3, 0.3))

    def _node_call(self, method: str, cache: CacheClass, size: int) -> None:
        rng, cell = self.random, self.tally.cell(NETWORK, method, cache)
        serving = [node for node in self.node_list if node.eligible]
        chosen = rng.choices(serving, [node.weight for node in serving])[0]
        node = self.tally.node(NETWORK, chosen.id)
        node.reused += 1
        node.connections_open, node.connections_idle = 24, 19
        seconds = rng.lognormvariate(-4.4 if chosen.id == "a" else -3.6, 0.5)
        node.calls += 1
        self.tally.step(Step.FORWARD, seconds)
        steps = ((Step.FORWARD, seconds * 0.97),)
        if rng.random() < 0.012:
            node.failed(rng.choice(["timeout", "connect", "rate-limited"]))
            failed = rng.random() < 0.3
            if failed:
                bump(self.tally.network(NETWORK).failed, "-32603")
            cell.done(AnswerSource.NODE, seconds + 0.2, 0, failed=failed, steps=steps)
            return
        node.answered(seconds, size, methods=[method])
        cell.done(AnswerSource.NODE, seconds, size, steps=steps)
        if method == "hmyv2_getBlocks":
            cell.judged(rng.choices(["proved", "not_provable", "unsure", "doubted"], [90, 8, 1, 1])[0])
            cell.proof_seconds += 0.00021
        if cache is CacheClass.NEVER:
            cell.skipped("never kept")

    def frame(self) -> Frame:
        """All of it in one go."""
        return Frame(
            snapshot=self.snapshot(),
            nodes=tuple(self.nodes()),
            heads=tuple(self.heads()),
            workers=(WorkerView(id="0", pid=os.getpid(), revision=17, uptime=self.elapsed),),
            notices=tuple(self.notices),
            replaced={"died": 2},
            alerts=AlertFigures({("ops", "ok"): 3}, {"warn": 1, "bad": 0}),
        )

    def snapshot(self) -> TallySnapshot:
        """What was counted so far."""
        return merge((self.tally.snapshot(),))

    def nodes(self) -> Sequence[NodeView]:
        """The three nodes at this moment."""
        heads = defaultdict(int, self.lags)
        views = []
        for node in self.node_list:
            fields = {name: getattr(node, name) for name in node.__struct_fields__}
            fields.update(lag=heads[node.id], head=self.head - heads[node.id], head_age=self.elapsed % 2)
            fields.update(since=(node.since or 0.0) + self.elapsed)
            views.append(NodeView(**fields))
        return views

    def heads(self) -> Sequence[HeadView]:
        """One network, or more of the same look."""
        return [
            HeadView(
                network=network,
                chain=self.chain,
                shard=self.shard,
                balancer="smooth_weighted",
                head=self.head,
                age=self.elapsed % 2,
                block_time=2.0,
            )
            for network in self.networks
        ]

    def errors(self) -> Sequence[UnclassedError]:
        """One error that somebody should class."""
        found = UnclassedLog()
        found.note(NETWORK, "c", "hmyv2_call", -32000, "shard 7 is on holiday", 200, at=1000.0)
        return found.all()

    def settings(self) -> Mapping[str, object]:
        """Settings that, against the rule, hold a secret: what is shown must be picked, not passed on."""
        return {
            "listen": self.listen,
            "admin": {"listen": "127.0.0.1:8889", "password": self.secret},
            "workers": 1,
            "memory": {"size": 256_000_000},
            "redis": {"url": f"redis://:{self.secret}@127.0.0.1:6379", "prefix": "rpcaccel"},
            "networks": {NETWORK: {"nodes": [{"id": "a", "url": f"https://a.example/{self.secret}"}]}},
        }
