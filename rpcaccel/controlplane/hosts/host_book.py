"""What this host knows of all hosts that share its Redis, and who of them is behind.

Pure: times are arguments, in monotonic seconds of this host. What a host tells is compared with what half of all hosts
had reached before it told so, so that neither the seconds between two documents nor the false word of a single host
makes others look late. A host that stops cleanly takes its entry away; one whose entry stays and ages was killed, or is
cut off from Redis.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from rpcaccel.controlplane.hosts.host_report import HostReport, decoded
from rpcaccel.controlplane.stats.buckets import ratio
from rpcaccel.controlplane.stats.snapshot import Notice
from rpcaccel.controlplane.stats.summaries import PerSecond, Seconds, Share, extended
from rpcaccel.core.wire.printable import printable
from rpcaccel.stores.shared_board import HostEntries, HostEntry

ROUND = 2.0
"""Seconds between two documents of a host."""
HOSTS_AT_FULL_PACE = 50
"""Number of hosts up to which ROUND holds. Each of n hosts reads n documents a round: with more hosts rounds are
longer in proportion, so that the bytes that Redis sends grow with the number of hosts and not with its square."""
SILENT, SILENT_ROUNDS = 10.0, 4
"""A host is not heard once its document is this many seconds and this many rounds old."""
SETTLING = 5.0
"""Seconds in which a host has to follow the others in settings and purges."""
LATE, LATE_BLOCKS = 10.0, 4.0
"""A head is behind once half of the hosts have been further for this many seconds and this many block times."""
TROUBLE_SECONDS = 30.0
"""Seconds that something is as it should not be before it calls for attention."""
UPGRADING = 3600.0
"""Seconds in which hosts may run different versions before that calls for attention."""
MAX_NAMED_HOSTS = 3
"""Hosts in one trouble that have a sentence each, and hosts or versions that a sentence names."""
SUBJECT = "hosts"
"""The subject of notices about hosts."""
MAX_COMPARED_NETWORKS = 1000
"""Networks whose heads are compared, those of this host first: documents of 200 hosts may name 80,000."""
_REMEMBERED = 256
"""Numbers that a front remembers, the newest."""

HostState = Literal["well", "behind", "other-version", "draining", "silent", "unknown"]
"""The state of a host: `silent` was not heard, `unknown` cannot be judged while Redis is away, or right after."""


class HostHead(Struct, frozen=True):
    """The served head of a network on one host."""

    network: str
    head: int
    lag: Annotated[int, Meta(description="Blocks that half of the hosts had more when it told its head.")]


class HostNow(Struct, frozen=True, kw_only=True):
    """One host, by its own word."""

    run: Annotated[str, Meta(description="The id of its run: several hosts may have one name.")]
    name: str
    here: Annotated[bool, Meta(description="Is it the host that answers?")]
    state: HostState
    why: Annotated[str, Meta(description="A sentence about the state; empty where there is nothing to say.")]
    heard: Annotated[float, Meta(description="Seconds since it told this.")]
    page: Annotated[str, Meta(description="URL of its own page; empty where other machines cannot reach it.")]
    version: str
    uptime: Seconds
    workers: int
    calls_per_second: PerSecond | None
    hit_ratio: Share | None
    error_ratio: Share | None
    miss_p99: Seconds | None
    heads: list[HostHead]
    networks: Annotated[int, Meta(description="Of which `heads` has those that fit and whose head is known.")]
    revision: Annotated[int, Meta(description="Number of the shared settings that it saw last; 0 without any.")]


class HostsTogether(Struct, frozen=True, kw_only=True):
    """The calls of all hosts that are heard."""

    hosts: int
    workers: int
    calls_per_second: PerSecond | None
    hit_ratio: Share | None
    error_ratio: Share | None


class HostsNow(Struct, frozen=True, kw_only=True):
    """The hosts that share one Redis; without Redis this host alone."""

    shared: Annotated[bool, Meta(description="Do the settings name a Redis?")]
    note: Annotated[str, Meta(description="A sentence when the other hosts, or some of them, are not known.")]
    every: Annotated[float, Meta(description="Seconds between two documents of a host.")]
    unreadable: Annotated[int, Meta(description="Entries that are not documents of hosts; they are not shown.")]
    together: HostsTogether
    hosts: list[HostNow]


class Front:
    """The highest number that half of the hosts have reached, and since when."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        """Those that were reached, ascending; in step with `_times`."""
        self._times: list[float] = []

    def __repr__(self) -> str:
        return f"<Front {self._numbers[-1] if self._numbers else 'nowhere'}>"

    def move(self, now: float, number: int) -> None:
        """Note what half of the hosts have reached by now. A lower number than before begins anew."""
        if self._numbers and number < self._numbers[-1]:
            self._numbers, self._times = [], []
        if not self._numbers or number > self._numbers[-1]:
            self._numbers, self._times = self._numbers[-_REMEMBERED:], self._times[-_REMEMBERED:]
            self._numbers.append(number)
            self._times.append(now)

    def beyond(self, number: int, at: float) -> tuple[int, float]:
        """How far the front was beyond a number at a time, and for how long it had been beyond it; 0 when not."""
        first, end = bisect_right(self._numbers, number), bisect_right(self._times, at)
        return (self._numbers[end - 1] - number, at - self._times[first]) if first < end else (0, 0.0)


class _Known(Struct):
    """One host."""

    report: HostReport
    at: float
    """When it told this."""
    state: HostState = "unknown"
    why: str = ""
    since: float = 0.0
    """When it came into this state."""

    def enter(self, judged: tuple[HostState, str], now: float) -> None:
        """Take on a state, with the sentence about it."""
        if judged[0] != self.state:
            self.since = now
        self.state, self.why = judged


class HostBook:
    """What is known of all hosts. `run` is the id of this host's run."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._known: dict[str, _Known] = {}
        self._unreadable = 0
        self._fronts: dict[str, Front] = {}
        """By network."""
        self._settings = Front()
        self._hearing_since: float | None = None
        """Since when rounds are answered, but for single ones; None while they are not."""
        self._heard_at = -math.inf
        """When a round was answered last."""
        self._lost = ""
        self._several_since: float | None = None
        """Since when more than one version is heard."""

    def __repr__(self) -> str:
        return f"<HostBook {self.run}: {len(self._known)} hosts, {len(self._fronts)} networks>"

    @property
    def every(self) -> float:
        """Seconds until the next round."""
        return ROUND * max(1.0, len(self._known) / HOSTS_AT_FULL_PACE)

    def tell(self, report: HostReport, now: float) -> None:
        """Take in what this host is like now."""
        mine = self._known.setdefault(self.run, _Known(report, now, *_alone(report), now))
        mine.report, mine.at = report, now

    def hear(self, met: HostEntries, now: float, block_times: Mapping[str, float | None]) -> None:
        """Take in what all hosts told, and judge them. `block_times`: seconds that a block of each network takes."""
        if self._hearing_since is None:
            self._hearing_since = now
        self._heard_at = now
        self._lost, self._unreadable = "", met.dropped
        self._take(met.entries, now)
        heard = [one for one in self._known.values() if not one.report.draining and not self._is_old(one, now)]
        heads: dict[str, list[int]] = {}
        for one in heard:
            for network, head in one.report.heads.items():
                if network in heads or len(heads) < MAX_COMPARED_NETWORKS:
                    heads.setdefault(network, []).append(head)
        self._fronts = {network: self._fronts.get(network) or Front() for network in heads}
        for network, reached in heads.items():
            self._fronts[network].move(now, reached_by_half(reached))
        mine = self._known[self.run].report.revision if self.run in self._known else 0
        self._settings.move(now, max(mine, reached_by_half([one.report.revision for one in heard])))
        versions = Counter(one.report.version for one in heard)
        self._several_since = None if len(versions) < 2 else self._several_since or now
        for run, one in self._known.items():
            one.enter(self._judged(run, one, now, block_times, versions), now)

    def lose(self, reason: str, now: float) -> None:
        """Note that Redis did not answer. After a second time nothing is known of the other hosts."""
        if now - self._heard_at < 1.5 * self.every:
            return
        self._hearing_since, self._several_since = None, None
        self._lost = f"Redis is away{f' ({reason})' if reason else ''}: the other hosts are not known"
        for run, one in self._known.items():
            one.enter(_alone(one.report) if run == self.run else ("unknown", ""), now)

    def _take(self, entries: Iterable[HostEntry], now: float) -> None:
        present = {self.run}
        for entry in entries:
            report = decoded(entry.document)
            if report is None:
                self._unreadable += 1
            elif entry.run != self.run:
                run = printable(entry.run)
                present.add(run)
                found = self._known.setdefault(run, _Known(report, now, since=now))
                found.report, found.at = report, now - entry.age
        self._known = {run: one for run, one in self._known.items() if run in present}

    def _is_old(self, one: _Known, now: float) -> bool:
        return now - one.at > max(SILENT, SILENT_ROUNDS * self.every)

    def _judged(
        self,
        run: str,
        one: _Known,
        now: float,
        block_times: Mapping[str, float | None],
        versions: Counter[str],
    ) -> tuple[HostState, str]:
        """The state of a host and the sentence about it: the first that holds."""
        if self._is_old(one, now) and run != self.run:
            if now - (self._hearing_since or now) <= max(SILENT, SILENT_ROUNDS * self.every):
                return "unknown", "this host has only begun to listen"
            return "silent", f"last heard {now - one.at:.0f} s ago; it was killed, or is cut off from Redis"
        if one.report.draining:
            return _alone(one.report)
        if behind := [*self._settings_behind(one), *_purges_behind(one), *self._heads_behind(one, block_times)]:
            return "behind", "; ".join(behind)
        usual = usual_version(versions)
        if one.report.version != usual:
            many = f"{versions[usual]} of {versions.total()} hosts run"
            return "other-version", f"it runs {one.report.version or 'an unknown version'}; {many} {usual}"
        return "well", ""

    def _settings_behind(self, one: _Known) -> Iterable[str]:
        if one.report.refusal:
            yield f"what other hosts changed is not in force on it: {one.report.refusal}"
            return
        steps, seconds = self._settings.beyond(one.report.revision, one.at)
        if steps and seconds > SETTLING:
            yield f"it has settings {one.report.revision} while {one.report.revision + steps} are posted"

    def _heads_behind(self, one: _Known, block_times: Mapping[str, float | None]) -> Iterable[str]:
        for name, head in one.report.heads.items():
            blocks, seconds = self._fronts[name].beyond(head, one.at) if name in self._fronts else (0, 0.0)
            if blocks and seconds > max(LATE, LATE_BLOCKS * (block_times.get(name) or 0.0)):
                yield f"its head of {name} is {blocks} block{'' if blocks == 1 else 's'} behind that of the others"

    # -- what is shown -------------------------------------------------------------------------------------------

    def document(self, now: float, *, shared: bool) -> HostsNow:
        """All hosts, this one first, then by name. `shared`: do the settings name a Redis?"""
        known = sorted(self._known.items(), key=lambda item: (item[0] != self.run, item[1].report.name, item[0]))
        heard = [one.report for _, one in known if one.state not in {"silent", "unknown"}]
        rates = [report.calls / report.window for report in heard if report.window]
        return HostsNow(
            shared=shared,
            note=self._lost,
            every=self.every,
            unreadable=self._unreadable,
            together=HostsTogether(
                hosts=len(heard),
                workers=sum(report.workers for report in heard),
                calls_per_second=sum(rates) if rates else None,
                hit_ratio=ratio(sum(one.hits for one in heard), sum(one.accepted for one in heard)),
                error_ratio=ratio(sum(one.errors for one in heard), sum(one.accepted for one in heard)),
            ),
            hosts=[self._document(run, one, now) for run, one in known],
        )

    def _document(self, run: str, one: _Known, now: float) -> HostNow:
        report = one.report
        return extended(
            HostNow,
            report,
            run=run,
            here=run == self.run,
            state=one.state,
            why=one.why,
            heard=max(0.0, now - one.at),
            calls_per_second=ratio(report.calls, report.window),
            hit_ratio=ratio(report.hits, report.accepted),
            error_ratio=ratio(report.errors, report.accepted),
            heads=[HostHead(name, head, self._lag(name, head, one.at)) for name, head in report.heads.items()],
        )

    def _lag(self, network: str, head: int, at: float) -> int:
        return self._fronts[network].beyond(head, at)[0] if network in self._fronts else 0

    def notices(self, now: float) -> list[Notice]:
        """What lasts and should be looked at. Hosts that drain, or that run another version for a while, are none."""
        told: list[Notice] = []
        for state, what in (("silent", "are not heard"), ("behind", "are behind")):
            # Who came into the state first stays first, so that the sentence about a host stays when others follow.
            these = sorted((one.since, one.report.name, run) for run, one in self._known.items()
                           if one.state == state and self._calls_for_attention(run, one, now))  # fmt: skip
            for _, name, run in these[:MAX_NAMED_HOSTS]:
                who = "this host" if run == self.run else f"host {name}"
                told.append(Notice("warn", SUBJECT, f"{who}: {self._known[run].why}", f"{state} {name}"))
            if more := [name for _, name, _ in these[MAX_NAMED_HOSTS:]]:
                text = f"{len(more)} more {'host' if len(more) == 1 else 'hosts'} {what}: {_listed(more)}"
                told.append(Notice("warn", SUBJECT, text, f"more {state}"))
        if self._several_since is not None and now - self._several_since > UPGRADING:
            versions = sorted({one.report.version for one in self._known.values() if one.state != "silent"})
            hours = (now - self._several_since) / 3600
            text = f"hosts run different versions for {hours:.0f} h: {_listed(versions)}"
            told.append(Notice("warn", SUBJECT, text, "versions"))
        return told

    def _calls_for_attention(self, run: str, one: _Known, now: float) -> bool:
        """Has its state lasted? What this host refuses is said elsewhere."""
        if one.state == "silent":
            return now - one.at > TROUBLE_SECONDS
        return now - one.since > TROUBLE_SECONDS and not (run == self.run and one.report.refusal)


def reached_by_half(numbers: Sequence[int]) -> int:
    """The highest number that at least half of the hosts have reached; 0 without any."""
    return sorted(numbers, reverse=True)[(len(numbers) - 1) // 2] if numbers else 0


def usual_version(versions: Counter[str]) -> str:
    """The version that most hosts run; of equally many, the newest."""
    return max(versions, key=lambda version: (versions[version], _parts(version)), default="")


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isascii() and part.isdigit() and len(part) < 10)


def _purges_behind(one: _Known) -> Iterable[str]:
    if one.report.purges_late > SETTLING + TROUBLE_SECONDS:
        yield f"it has heard no purges of other hosts for {one.report.purges_late:.0f} s"


def _alone(report: HostReport) -> tuple[HostState, str]:
    """The state of a host by itself, whatever others are like."""
    return ("draining", "it finishes what it has and takes no new calls") if report.draining else ("well", "")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED_HOSTS} more" if len(names) > MAX_NAMED_HOSTS else ""
    return f"{', '.join(names[:MAX_NAMED_HOSTS])}{more}"
