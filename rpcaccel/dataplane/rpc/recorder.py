"""The recorder of real calls for `rpcaccel record`: a bounded list that the control plane takes again and again.

While somebody records, the recorder stands in front of the access log and of traces; otherwise calls do not pass it. It
keeps what a call asked for and nothing about the client: no address, no header, no key. A signed transaction is kept as
a hash; methods without a rule, or for a node's operator, are left out, because their params may hold anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from hashlib import sha256

from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.messages import RecordedCall
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.dataplane.rpc.admission import Caller
from rpcaccel.dataplane.rpc.observer import Observer

MAX_RECORDED_BYTES = 8 * 1024 * 1024
"""Bytes of calls that may wait to be taken; a call beyond them is counted as missed."""
UNASKED_SECONDS = 10.0
"""Seconds after which a recording ends that nobody has asked for."""
_EACH = 200
"""About the bytes that a call takes beside its params."""
_WIDEST = 4
"""Bytes that a character of a text with any that is not ASCII takes at the most."""
_KEPT = frozenset({"read", "send"})


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
        size = len(params) * (1 if params.isascii() else _WIDEST) + _EACH
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
