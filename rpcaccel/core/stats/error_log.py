"""The log of the errors that clients got: groups of one cause with their counts and a few samples, bounded in number
and in bytes.

A worker keeps what it saw since its last report (dataplane.rpc.error_notes) and sends it as ErrorNews; the supervisor
owns the one log, so that errors outlive the worker that answered them. What a client chooses (method names, params,
request ids) reaches this log shortened and printable.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from rpcaccel.core.stats.counters import MAX_REASONS, OTHER

ErrorFault = Literal["service", "client", "refused"]
"""Whose doing an error is: the proxy or its nodes failed, the client's own call is the cause, or the proxy did not
accept the call."""
FAULTS: tuple[ErrorFault, ...] = ("service", "client", "refused")
NOWHERE = ""
"""The name under which the errors of no node are counted among those of nodes lately."""
SAMPLES = 5
"""Samples kept of a group, the newest ones."""
FINE, COARSE, SLOTS = 5.0, 60.0, 60
"""Seconds of a narrow and of a wide time slot, and how many of each are kept: five minutes and an hour."""
SLOT_SECONDS = 10.0
"""Seconds of a slot in which errors are counted by node and by client."""
_LATELY_SLOTS = int(COARSE / SLOT_SECONDS) + 1
"""Those slots of a minute, the one under way included."""
MAX_ERROR_SERIES = 120
"""Codes, by network and fault, whose counts over time are kept; the one not seen for longest is dropped first."""
MAX_UNKNOWN_METHODS = 400
"""Methods without a rule that are counted by name; a new one takes the place of the least called one."""
PARAMS_OFF = "the setting errors.params keeps params out"
"""The params_note of a sample whose params the settings do not let be shown."""
_GROUP, _SAMPLE, _ATTEMPT = 2400, 500, 300
"""About the bytes that a group, a sample and an attempt take beside their texts."""
_DICT, _NAME = 250, 50
"""About the bytes that a dict of counts takes, and a name in it."""


class ErrorAttempt(Struct, frozen=True):
    """One attempt of a call that ended in an error."""

    node: str
    start: float
    """Seconds from the start of the first attempt to the start of this one."""
    seconds: float
    end: str
    """"answered", "overtaken", "cancelled" or a FailureKind."""
    said: str
    """The words of the node, or of the failure on the way to it; empty when the attempt did not fail."""


class ErrorSample(Struct, frozen=True, kw_only=True):
    """One call that ended in an error. Texts are printable and hold no secret of a node's address."""

    at: float
    """Seconds since 1970."""
    client: str
    """The holder of the client's API key, or "anonymous"."""
    address: str
    request: str
    """The client's own X-Request-ID, or the name of the request in the access log; empty when there is neither."""
    params: str
    """The beginning of the params as JSON; empty when they are left out."""
    params_note: str = ""
    """Why the params are left out, or replaced by a hash; empty when they are shown."""
    message: str
    """The message as the client got it."""
    node: str
    seconds: float
    attempts: tuple[ErrorAttempt, ...] = ()
    stopped: str = ""
    """Why no further node was asked; empty where no attempt failed."""


class ErrorKey(NamedTuple):
    """What tells groups of errors apart."""

    network: str
    method: str
    code: int
    text: str
    """The folded message: numbers, hashes and addresses are replaced by placeholders."""
    fault: ErrorFault

    @property
    def id(self) -> str:
        """A short name of the group, the same in every worker and after a restart."""
        return blake2b("\0".join(map(str, self)).encode("utf-8", "replace"), digest_size=6).hexdigest()


class ErrorsSeen(Struct):
    """What one worker saw of one group since its last report."""

    key: ErrorKey
    kind: str = ""
    """The FailureKind of the latest error; empty for what the proxy refused."""
    count: int = 0
    last_seen: float = 0.0
    """Seconds since 1970."""
    clients: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    samples: list[ErrorSample] = field(default_factory=list)


class UnknownMethod(Struct):
    """A method that no rule describes, by the name that clients gave it."""

    network: str
    method: str
    calls: int = 0
    errors: int = 0
    last_seen: float = 0.0
    """Seconds since 1970."""
    over: int = 0
    """Calls of names that had this place in the log before, of which some may have been this one's. The order by calls
    counts them."""


class ErrorNews(Struct, frozen=True, tag=True):
    """The errors that one worker saw since its last report."""

    groups: tuple[ErrorsSeen, ...]
    methods: tuple[UnknownMethod, ...] = ()
    unnamed: int = 0
    """Calls of further methods without a rule, for whose names the worker had no room."""


class Slots:
    """CountsOverTime by time slot: a ring of SLOTS slots of one width."""

    __slots__ = ("_counts", "_newest", "width")

    def __init__(self, width: float) -> None:
        self.width = width
        self._counts = array("Q", bytes(8 * SLOTS))
        self._newest = 0

    def add(self, number: int, now: float) -> None:
        """Count in the slot of `now`, or in the newest one when the clock was put back."""
        self._turn(now)
        self._counts[self._newest % SLOTS] += number

    def last(self, seconds: float, now: float) -> int:
        """The sum over the slots that lie within the last `seconds`, the one under way included."""
        self._turn(now)
        slots = min(SLOTS, int(seconds / self.width) + 1)
        return sum(self._counts[(self._newest - back) % SLOTS] for back in range(slots))

    def series(self, now: float) -> list[int]:
        """The counts of all slots, oldest first."""
        self._turn(now)
        return [self._counts[(self._newest + 1 + ahead) % SLOTS] for ahead in range(SLOTS)]

    def _turn(self, now: float) -> None:
        slot = int(now // self.width)
        for ahead in range(1, min(slot - self._newest, SLOTS) + 1):
            self._counts[(self._newest + ahead) % SLOTS] = 0
        self._newest = max(slot, self._newest)


class CountsOverTime:
    """A count over time: the last five minutes in narrow slots, the last hour in wide ones."""

    __slots__ = ("coarse", "fine")

    def __init__(self) -> None:
        self.fine = Slots(FINE)
        self.coarse = Slots(COARSE)

    def add(self, number: int, now: float) -> None:
        """Count `number` more."""
        self.fine.add(number, now)
        self.coarse.add(number, now)

    def last(self, seconds: float, now: float) -> int:
        """The count of the last `seconds`, an hour at the most."""
        return (self.fine if seconds <= FINE * SLOTS else self.coarse).last(seconds, now)


class Lately:
    """CountsOverTime by name over the last minute, in a few slots of which each has a bounded number of names."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: list[tuple[int, dict[str, int]]] = []
        """Numbers of slots, rising, and the counts in them; slots without a count are left out."""

    def add(self, counts: Mapping[str, int], now: float) -> None:
        """Count by name in the slot of `now`, or in the newest one when the clock was put back."""
        slot = int(now // SLOT_SECONDS)
        if not self._slots or slot > self._slots[-1][0]:
            self._slots = [*self._slots[1 - _LATELY_SLOTS :], (slot, {})]
        _add(self._slots[-1][1], counts)

    def counts(self, now: float = 0.0) -> dict[str, int]:
        """The counts of the minute before `now`, or before the latest count where that is later."""
        found: dict[str, int] = {}
        if self._slots:
            newest = max(int(now // SLOT_SECONDS), self._slots[-1][0])
            for slot, counts in self._slots:
                if newest - slot < _LATELY_SLOTS:
                    _add(found, counts)
        return found

    @property
    def size(self) -> int:
        """About the bytes that the counts take."""
        return sum(_DICT + _NAME * len(counts) for _, counts in self._slots)


class ErrorGroup:
    """The errors of one cause since the log has known them."""

    __slots__ = ("clients", "count", "first_seen", "id", "key", "kind", "last_seen", "lately_clients", "lately_nodes",
                 "nodes", "over_time", "samples", "size")  # fmt: skip

    def __init__(self, key: ErrorKey, at: float) -> None:
        self.key = key
        self.id = key.id
        self.kind = ""
        self.count = 0
        self.first_seen = self.last_seen = at
        """Seconds since 1970."""
        self.clients: dict[str, int] = {}
        self.nodes: dict[str, int] = {}
        self.lately_clients, self.lately_nodes = Lately(), Lately()
        self.over_time = CountsOverTime()
        self.samples: deque[ErrorSample] = deque(maxlen=SAMPLES)
        self.size = 0
        """About the bytes that the group takes."""

    def __repr__(self) -> str:
        return f"<{self.count} errors {self.key.code} of {self.key.method}>"

    def take(self, seen: ErrorsSeen, now: float) -> None:
        """Add what a worker saw; `now` in monotonic seconds."""
        self.count += seen.count
        self.kind = seen.kind
        self.first_seen = min(self.first_seen, seen.last_seen)
        self.last_seen = max(self.last_seen, seen.last_seen)
        _add(self.clients, seen.clients)
        _add(self.nodes, seen.nodes)
        self.lately_clients.add(seen.clients, now)
        self.lately_nodes.add({**seen.nodes, NOWHERE: seen.count - sum(seen.nodes.values())}, now)
        self.over_time.add(seen.count, now)
        self.samples.extend(seen.samples)
        self._measure()

    def hide_params(self, fold: Callable[[str], str]) -> None:
        """Leave the params out of the samples, and fold messages, which may quote them."""
        for _ in range(len(self.samples)):
            self.samples.append(_without_params(self.samples.popleft(), fold))
        self._measure()

    def _measure(self) -> None:
        self.size = _GROUP + _bytes((*self.key[:2], self.key.text, *self.clients, *self.nodes))
        self.size += sum(map(_size, self.samples)) + self.lately_clients.size + self.lately_nodes.size


class _Shelf:
    """The groups of one fault, the one seen last at the end."""

    __slots__ = ("groups", "size")

    def __init__(self) -> None:
        self.groups: OrderedDict[ErrorKey, ErrorGroup] = OrderedDict()
        self.size = 0

    def take(self, seen: ErrorsSeen, now: float) -> None:
        found = self.groups.get(seen.key)
        if found is None:
            found = self.groups[seen.key] = ErrorGroup(seen.key, seen.last_seen)
        self.groups.move_to_end(seen.key)
        before = found.size
        found.take(seen, now)
        self.size += found.size - before

    def hide_params(self, fold: Callable[[str], str]) -> None:
        for group in self.groups.values():
            group.hide_params(fold)
        self.size = sum(group.size for group in self.groups.values())

    def forget(self) -> ErrorGroup:
        _, oldest = self.groups.popitem(last=False)
        self.size -= oldest.size
        return oldest


class ErrorLog:
    """The errors of all workers. Each fault has a third of the room, so that a client who makes errors without end
    cannot push out what nodes failed at."""

    def __init__(self, most_groups: int = 300, most_bytes: int = 2_000_000, began: float = 0.0) -> None:
        self.began = began
        """When counting began (seconds since 1970): errors are not kept over a restart."""
        self._most = most_groups // len(FAULTS), most_bytes // len(FAULTS)
        self._shelves: dict[ErrorFault, _Shelf] = {fault: _Shelf() for fault in FAULTS}
        self._series: OrderedDict[tuple[str, ErrorFault, int], CountsOverTime] = OrderedDict()
        self._methods: dict[tuple[str, str], UnknownMethod] = {}
        self._fold: Callable[[str], str] | None = None
        """Given while samples may not hold params."""
        self.forgotten = 0
        """Groups dropped because there was no room."""
        self.forgotten_errors = 0
        """The errors of those groups together."""
        self.unnamed = 0
        """Calls of methods without a rule that are no longer known by name."""

    def __repr__(self) -> str:
        return f"<ErrorLog {len(self)} groups, {self.size} bytes, {self.forgotten} forgotten>"

    def __len__(self) -> int:
        return sum(len(shelf.groups) for shelf in self._shelves.values())

    @property
    def size(self) -> int:
        """About the bytes that the groups take."""
        return sum(shelf.size for shelf in self._shelves.values())

    def take(self, news: ErrorNews, now: float) -> None:
        """Take what a worker saw; `now` in monotonic seconds."""
        groups, size = self._most
        for seen in news.groups:
            shelf = self._shelves[seen.key.fault]
            if self._fold is not None:  # the worker may not have known of the setting yet
                seen.samples = [_without_params(sample, self._fold) for sample in seen.samples]
            shelf.take(seen, now)
            self._count(seen, now)
            while len(shelf.groups) > groups or (shelf.size > size and shelf.groups):
                gone = shelf.forget()
                self.forgotten += 1
                self.forgotten_errors += gone.count
        self._name(news)

    def hide_params(self, fold: Callable[[str], str] | None) -> None:
        """Leave params out of all samples, of those that are here and of those that come, and fold the messages that
        may quote them. None: further samples are kept as they come."""
        self._fold = fold
        if fold is not None:
            for shelf in self._shelves.values():
                shelf.hide_params(fold)

    def groups(self) -> Iterator[ErrorGroup]:
        for shelf in self._shelves.values():
            yield from shelf.groups.values()

    def group(self, id: str) -> ErrorGroup | None:
        """The group of this id; None when there is none, or none any more."""
        return next((one for one in self.groups() if one.id == id), None)

    def series(self) -> Iterator[tuple[str, ErrorFault, int, CountsOverTime]]:
        """Network, fault, code, and the counts of these errors over time."""
        for (network, fault, code), counts in self._series.items():
            yield network, fault, code, counts

    def methods(self) -> list[UnknownMethod]:
        """Methods without a rule, the one called most first."""
        return sorted(self._methods.values(), key=_standing, reverse=True)

    def _count(self, seen: ErrorsSeen, now: float) -> None:
        key = seen.key.network, seen.key.fault, seen.key.code
        if key not in self._series:
            self._series[key] = CountsOverTime()
        self._series[key].add(seen.count, now)
        self._series.move_to_end(key)
        if len(self._series) > MAX_ERROR_SERIES:
            self._series.popitem(last=False)

    def _name(self, news: ErrorNews) -> None:
        """Count methods by name. Where there is no room, a new name takes the place of the one that stands lowest, and
        its standing (Metwally et al., space saving): names called once in a while lose to one that is called now."""
        self.unnamed += news.unnamed
        fresh = []
        for one in news.methods:
            found = self._methods.get((one.network, one.method))
            if found is None:
                fresh.append(one)
                continue
            found.calls += one.calls
            found.errors += one.errors
            found.last_seen = max(found.last_seen, one.last_seen)
        here = self.methods() if len(self._methods) + len(fresh) > MAX_UNKNOWN_METHODS else []
        for one in sorted(fresh, key=_standing, reverse=True):
            over = 0
            if len(self._methods) >= MAX_UNKNOWN_METHODS:
                if not here or not one.calls:
                    self.unnamed += one.calls
                    continue
                least = here.pop()
                del self._methods[least.network, least.method]
                self.unnamed += least.calls
                over = least.calls + least.over
            self._methods[one.network, one.method] = replace(one, over=over)


def _standing(method: UnknownMethod) -> tuple[int, float]:
    return method.calls + method.over, method.last_seen


def _add(counts: dict[str, int], more: Mapping[str, int]) -> None:
    """Add counts by name; names beyond MAX_REASONS are counted as OTHER."""
    for name, number in more.items():
        place = name if name in counts or len(counts) < MAX_REASONS else OTHER
        counts[place] = counts.get(place, 0) + number


def _without_params(sample: ErrorSample, fold: Callable[[str], str]) -> ErrorSample:
    """The sample as a worker makes it under errors.params = false."""
    if sample.params_note == PARAMS_OFF:
        return sample
    attempts = tuple(replace(attempt, said=fold(attempt.said)) for attempt in sample.attempts)
    return replace(sample, params="", params_note=PARAMS_OFF, message=fold(sample.message), attempts=attempts)


def _size(sample: ErrorSample) -> int:
    texts = (
        sample.client,
        sample.address,
        sample.request,
        sample.params,
        sample.params_note,
        sample.message,
        sample.node,
    )
    said = [text for one in sample.attempts for text in (one.node, one.end, one.said)]
    return _SAMPLE + _ATTEMPT * len(sample.attempts) + _bytes((*texts, sample.node, *said))


def _bytes(texts: Iterable[str]) -> int:
    return sum(len(text.encode("utf-8", "replace")) for text in texts)
