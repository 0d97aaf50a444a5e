"""What is called for every call where it is wanted: the access log, traces, and the recorder for `rpcaccel record`.

The recorder keeps real calls in a bounded list, which the control plane takes again and again. While somebody records,
the recorder stands in front of the access log and of traces; otherwise calls do not pass it. It keeps what a call asked
for and nothing about the client: no address, no header, no key. A signed transaction is kept as a hash; methods without
a rule, or for a node's operator, are left out, because their params may hold anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from hashlib import sha256
from typing import Protocol

from rpcaccel.config.model import Settings
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.messages import RecordedCall
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.dataplane.rpc.access_log import AccessLog, access_log
from rpcaccel.dataplane.rpc.admission import Caller
from rpcaccel.dataplane.rpc.tracing import Tracing

MAX_RECORDED_BYTES = 8 * 1024 * 1024
"""Bytes of calls that may wait to be taken; a call beyond them is counted as missed."""
UNASKED_SECONDS = 10.0
"""Seconds after which a recording ends that nobody has asked for."""
_CALL_BYTES = 200
"""About the bytes that a call takes beside its params."""
_MAX_CHARACTER_BYTES = 4
"""Bytes that a character of a text with any that is not ASCII takes at the most."""
_KEPT = frozenset({"read", "send"})


class Observer(Protocol):
    """Is called for the events of calls."""

    def arrived(self, caller: Caller) -> Caller:
        """A request came. Returns its caller, with the name of the request in the log and its trace."""
        ...

    def another(self, caller: Caller) -> Caller:
        """A further call of the same request begins to be fetched. Returns the caller, with a trace of its own."""
        ...

    def answered(self, caller: Caller, plan: Plan, outcome: Outcome, seconds: float) -> None:
        """A call of that request was answered."""
        ...


class Both:
    """Implements Observer for traces and log together."""

    def __init__(self, tracing: Tracing, log: AccessLog) -> None:
        self._tracing = tracing
        self._log = log

    def arrived(self, caller: Caller) -> Caller:
        return self._log.arrived(self._tracing.arrived(caller))

    def another(self, caller: Caller) -> Caller:
        return self._tracing.another(caller)

    def answered(self, caller: Caller, plan: Plan, outcome: Outcome, seconds: float) -> None:
        self._log.answered(caller, plan, outcome, seconds)
        self._tracing.answered(caller, plan, outcome, seconds)


class Observers:
    """Keeps the observer that the settings want. One per worker."""

    def __init__(self) -> None:
        self._tracing: Tracing | None = None

    def adopt(self, settings: Settings) -> tuple[Observer | None, Tracing | None]:
        """The observer under these settings (None: none is wanted), and the old traces if these must be closed."""
        wanted, old = settings.tracing, self._tracing
        log = access_log(settings.log)
        if old is not None and old.settings == wanted:
            old = None
        else:
            self._tracing = Tracing(wanted) if wanted.endpoint else None
        if self._tracing is None or log is None:
            return self._tracing or log, old
        return Both(self._tracing, log), old

    async def close(self) -> None:
        """Send the last spans."""
        if self._tracing is not None:
            await self._tracing.close()


class Recorder:
    """Keeps a sample of the calls of one worker. Implements Observer."""

    def __init__(self, clock: Callable[[], float], rng: random.Random, over: Callable[[], None]) -> None:
        """`over` is called when a recording has ended because nobody asked for it any more."""
        self.on = False
        self._clock = clock
        self._rng = rng
        self._over = over
        self._next: Observer | None = None
        self._sample = 1.0
        self._until = 0.0
        self._seen: list[RecordedCall] = []
        self._size = 0
        self._missed = 0

    def __repr__(self) -> str:
        return f"<recorder {'on' if self.on else 'off'}, {len(self._seen)} calls>"

    def before(self, others: Observer | None) -> Observer | None:
        """The observer of every call: this recorder, which calls `others` in turn; `others` while nothing is kept."""
        self._next = others
        return self if self.on else others

    def take(self, sample: float) -> tuple[tuple[RecordedCall, ...], int]:
        """Take the calls kept since the last time, and how many found no room; go on with this share (0..1) of all."""
        seen, missed = tuple(self._seen), self._missed
        self._seen, self._size, self._missed = [], 0, 0
        self._sample, self._until, self.on = sample, self._clock() + UNASKED_SECONDS, True
        return seen, missed

    def stop(self) -> tuple[tuple[RecordedCall, ...], int]:
        """Take the last calls as `take` does, and end the recording."""
        rest = self.take(0.0)
        self.on = False
        return rest

    def arrived(self, caller: Caller) -> Caller:
        """Pass a request that came to the next observer. Nothing about its client is kept."""
        return caller if self._next is None else self._next.arrived(caller)

    def another(self, caller: Caller) -> Caller:
        """Pass a further call of the same request to the next observer."""
        return caller if self._next is None else self._next.another(caller)

    def answered(self, caller: Caller, plan: Plan, outcome: Outcome, seconds: float) -> None:
        """Keep a call that was answered, if it is in the sample; end a recording that nobody asks for."""
        if self._next is not None:
            self._next.answered(caller, plan, outcome, seconds)
        now = self._clock()
        if now > self._until:
            self.stop()
            self._over()
        elif self._wanted(plan, outcome):
            self._keep(plan, outcome, now - seconds, seconds)

    def _wanted(self, plan: Plan, outcome: Outcome) -> bool:
        rule = plan.rule
        if not rule.known or rule.deny or rule.kind not in _KEPT or outcome.source is AnswerSource.REFUSED:
            return False
        return self._sample >= 1.0 or self._rng.random() < self._sample

    def _keep(self, plan: Plan, outcome: Outcome, at: float, seconds: float) -> None:
        write = plan.rule.kind != "read"
        params = b'["%b"]' % sha256(plan.asked).hexdigest().encode() if write else plan.asked
        size = len(params) * (1 if params.isascii() else _MAX_CHARACTER_BYTES) + _CALL_BYTES
        if self._size + size > MAX_RECORDED_BYTES:
            self._missed += 1
            return
        self._size += size
        self._seen.append(
            RecordedCall(
                at=at,
                network=plan.network,
                method=plan.method,
                params=params.decode("utf-8", "replace"),
                head=plan.head,
                block=plan.block,
                first=plan.first_block,
                source=outcome.source.label,
                seconds=seconds,
                hashed=write,
            )
        )
