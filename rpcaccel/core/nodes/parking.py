"""Rests of a node, or of one of its methods: after refusals because of their rate, and after errors that other nodes
contradict.

A refusal may have been provoked by what its call holds, whatever the node says of it, so it parks that very call alone.
The method is parked when as many different calls as `DIFFERENT_CALLS` were refused and none was answered between. One
refusal with a Retry-After header is enough where the node has answered nothing for a while: otherwise the header, too,
may be about that one call. Each time that an answer shows such refusals to be about single calls, twice as many are
needed. Methods are parked apart, because providers count some apart and exclude others from a plan. The whole node is
parked when several methods were refused and no call was answered meanwhile, and at most until a probe is answered. A
rest lasts some minutes at the most, whatever the node says; the next call after it shows whether the limit still holds.

A node may also fail a method while other nodes answer the same calls, whatever the words of its errors mean. Only a
contradicted error counts: another node had a result for the very same call. So a client whose calls fail on all nodes
teaches nothing. A good answer to the method ends what was learnt of it, so that a client whose calls fail on one node
alone takes nothing from others whose calls the node answers.
"""

from __future__ import annotations

FIRST_REST_SECONDS, MAX_UNNAMED_REST_SECONDS = 1.0, 60.0
"""Seconds of the first and the longest rest for which the node named no time; each rest doubles the one before."""
MAX_UNSURE_REST_SECONDS = 5.0
"""Seconds of the longest rest of a method, if refusals of different calls are all that speaks for it: one caller may
have sent all of them."""
MAX_REST_SECONDS = 300.0
"""Seconds of the longest rest. When a daily quota is used up, a refused call every five minutes costs little; when the
node was wrong, it must not be parked for a day."""
REFUSED_METHODS = 3
"""Refused methods, with no answer between, after which the whole node is parked."""
SAME_REFUSAL_SECONDS = 60.0
"""Seconds within which the methods must be refused, and for which an answer shows that others' calls are answered."""
DIFFERENT_CALLS, MAX_DIFFERENT_AFTER_REST, MAX_DIFFERENT_CALLS = 5, 20, 80
"""Different calls, refused with no answer between, after which a method is parked: at first; and at the most where the
answers came after a rest, or between refusals."""
REFUSED_AFTER_REST = 3
"""Different calls that are refused after a rest before the next one begins."""
MAX_RESTING_CALLS = 256
"""Refused calls that rest by themselves; of more, those that were refused first are forgotten."""
_NEVER = float("-inf")


class Rest:
    """The rest of one call, of one method or of the whole node. Times are monotonic seconds."""

    __slots__ = ("_calls", "needed", "refused_at", "step", "until")

    def __init__(self) -> None:
        self._calls: set[int] = set()
        """The different calls that were refused since the last answer; as many as are needed at the most."""
        self.needed = DIFFERENT_CALLS
        self.until = _NEVER
        self.step = 0.0
        """Seconds of the last rest for which the node named no time."""
        self.refused_at = _NEVER

    def refused(self, call: int, now: float) -> bool:
        """Note a refused call; were enough different ones refused for a rest?"""
        self.refused_at = now
        if _NEVER < self.until <= now:  # the next calls after a rest show whether the limit still holds
            self.until = _NEVER
            while len(self._calls) > self.needed - REFUSED_AFTER_REST:
                self._calls.pop()
        if len(self._calls) < self.needed:
            self._calls.add(call)
        return len(self._calls) >= self.needed

    def answered(self) -> None:
        """Note an answer, which ends the rest: the refusals before it may have been about single calls, and were so if
        no rest had begun."""
        if self._calls:
            most = MAX_DIFFERENT_CALLS if self.until == _NEVER else MAX_DIFFERENT_AFTER_REST
            self.needed = max(self.needed, min(self.needed * 2, most))
        self._calls.clear()
        self.until, self.step = _NEVER, 0.0

    def begin(self, now: float, retry_after: float | None, most: float = MAX_UNNAMED_REST_SECONDS) -> None:
        """Begin or extend the rest after a refusal; calls that meet the same limit at once count as one step. `most`:
        seconds of the longest rest for which the node named no time."""
        self.refused_at = now
        if retry_after is not None:
            self.until = max(self.until, now + min(retry_after, MAX_REST_SECONDS))
        elif now >= self.until:
            self.step = min(self.step * 2 or FIRST_REST_SECONDS, most)
            self.until = now + self.step


class Parking:
    """The rests of one node. Methods are the names of rules, and all methods without a rule share one name, so the
    number of rests is bounded by the chain's table."""

    __slots__ = ("_calls", "_looks", "_node", "_seen_at", "answered_at", "methods", "troubled")

    def __init__(self) -> None:
        self.methods: dict[str, Rest] = {}
        """The rests of methods that were refused since they were last answered, or are refused for single calls."""
        self._calls: dict[int, Rest] = {}
        """The rests of single calls, in the order of their first refusals."""
        self._node = Rest()
        self.answered_at = _NEVER
        """The time of the last answered call."""
        self.troubled = False
        """Is anything left of a refusal? While it is False, neither the node nor a method is parked, and an answered
        call changes nothing but `answered_at`."""
        self._looks = 0
        """Answered probes reported since the node's rest began."""
        self._seen_at: object = None
        """Names the last answered probe."""

    def __repr__(self) -> str:
        return f"<parking, {len(self.methods)} methods refused>"

    @property
    def until(self) -> float:
        """The time until which the whole node is parked."""
        return self._node.until

    def of(self, method: str, call: int | None = None) -> float:
        """The time until which a method, or one call of it, is parked, apart from the whole node."""
        rest, own = self.methods.get(method), None if call is None else self._calls.get(call)
        return max(_NEVER if rest is None else rest.until, _NEVER if own is None else own.until)

    def resting(self, now: float) -> dict[str, float]:
        """The methods that are parked now, and the time until which they are."""
        return {method: rest.until for method, rest in self.methods.items() if now < rest.until}

    def refused(
        self, method: str, now: float, retry_after: float | None, *, call: int | None = None, own_limiter: bool = False
    ) -> None:
        """Note that the node refused a call because of the rate.

        Args:
            retry_after: the seconds that the node named, if any.
            call: names the content of the call; None: no caller can have caused the refusal.
            own_limiter: the node limits this method by itself (`Rule.limiter`), which says nothing about others.
        """
        self.troubled = True
        rest = self.methods.setdefault(method, Rest())
        sure = call is None or (retry_after is not None and now - self.answered_at > SAME_REFUSAL_SECONDS)
        if not sure and retry_after is not None:
            retry_after = min(retry_after, MAX_UNNAMED_REST_SECONDS)
        enough = sure or rest.refused(call or 0, now)
        if call is not None:
            self._call(call).begin(now, retry_after)
        most = MAX_UNNAMED_REST_SECONDS if sure else MAX_UNSURE_REST_SECONDS
        if enough:
            rest.begin(now, FIRST_REST_SECONDS if own_limiter and retry_after is None else retry_after, most)
        if own_limiter:
            rest.refused_at = _NEVER
            return
        since = max(self.answered_at, now - SAME_REFUSAL_SECONDS)
        enough = sure or self._node.refused(call or 0, now)
        if enough and sum(rest.refused_at > since for rest in self.methods.values()) >= REFUSED_METHODS:
            self._node.begin(now, retry_after, most)
            self._looks = 0

    def _call(self, call: int) -> Rest:
        """The rest of a single call."""
        rest = self._calls.get(call)
        if rest is None:
            if len(self._calls) >= MAX_RESTING_CALLS:
                del self._calls[next(iter(self._calls))]
            rest = self._calls[call] = Rest()
        return rest

    def answered(self, method: str, now: float, call: int | None = None) -> None:
        """Note that the node answered a call; `call` names its content."""
        self.answered_at = now
        if call in self._calls and now >= self._calls[call].until:
            del self._calls[call]
        rest = self.methods.get(method)
        if rest is not None and now >= rest.until:  # a call sent before the refusal does not count
            rest.answered()
            if rest.needed == DIFFERENT_CALLS or now - rest.refused_at > SAME_REFUSAL_SECONDS:
                del self.methods[method]
        if now >= self._node.until:
            self._node.answered()
            self.troubled = bool(self.methods)
            if not self.troubled:
                self._calls.clear()
                self._node = Rest()

    def probed(self, seen_at: object) -> None:
        """Note an answered probe, named by `seen_at`. A probe answered after the node's rest began ends that rest.

        The first probe that is reported after the rest began may be older than the rest. The second one, which was not
        over when the first was reported, cannot be.
        """
        if seen_at == self._seen_at:
            return
        self._seen_at = seen_at
        self._looks += 1
        if self._looks > 1:
            self._node.until = _NEVER


CONTRADICTED_ERRORS, MANY_CONTRADICTED_ERRORS = 5, 20
"""Contradicted errors with no good answer between, after which the node is asked last: the first number once
CONTRADICTED_SECONDS have passed since the first error, the second one whenever the errors came."""
CONTRADICTED_SECONDS = 2.0
SHOWN_SECONDS = 300.0
"""Seconds after a rest for which a method is named that nobody calls any more."""


class _Row:
    """The contradicted errors of one method since its last good answer. Times are monotonic seconds."""

    __slots__ = ("count", "rest", "since")

    def __init__(self, now: float) -> None:
        self.since = now
        self.count = 0
        self.rest = Rest()

    @property
    def learnt(self) -> bool:
        """Were there errors enough?"""
        return self.rest.step > 0


class Contradictions:
    """What other nodes contradict one node in. Methods are the names of rules, so that a chain's table bounds them."""

    __slots__ = ("methods",)

    def __init__(self) -> None:
        self.methods: dict[str, _Row] = {}

    def __repr__(self) -> str:
        return f"<contradicted in {', '.join(self.methods) or 'nothing'}>"

    def noted(self, method: str, now: float) -> None:
        """Note an error of the node to a call that another node answered."""
        row = self.methods.get(method)
        if row is None:
            row = self.methods[method] = _Row(now)
        row.count += 1
        lasting = row.count >= CONTRADICTED_ERRORS and now - row.since >= CONTRADICTED_SECONDS
        if row.learnt or lasting or row.count >= MANY_CONTRADICTED_ERRORS:
            row.rest.begin(now, None)

    def asked(self, method: str, now: float) -> None:
        """Note that the node is asked. A call after a rest is a trial: the next rest, twice as long, begins with the
        call, and a good answer ends that rest."""
        row = self.methods.get(method)
        if row is not None and row.learnt:
            row.rest.begin(now, None)

    def answered(self, method: str) -> None:
        """Note a good answer."""
        self.methods.pop(method, None)

    def until(self, method: str, answered_at: float) -> float:
        """The time until which other nodes are asked for this method; minus infinity when the node is asked like them.

        Args:
            answered_at: the time of the node's last good answer to any call. Where there was none since several methods
                began to fail, the node is asked last for all methods.
        """
        row = self.methods.get(method)
        until = row.rest.until if row is not None else _NEVER
        failing = [row for row in self.methods.values() if row.learnt and row.since > answered_at]
        return max(until, min(row.rest.until for row in failing)) if len(failing) >= REFUSED_METHODS else until

    def learnt(self, now: float) -> list[str]:
        """The methods that the node is asked last for, between its trials, and was asked for within SHOWN_SECONDS."""
        return sorted(
            method for method, row in self.methods.items() if row.learnt and now < row.rest.until + SHOWN_SECONDS
        )
