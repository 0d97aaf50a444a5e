"""Notes of the errors that clients get, for the log of the supervisor: what one worker saw since its last report.

A call without an error does not pass here. Of each cause an error is counted, and only a few calls are kept whole, so
that thousands of errors a second cost little. The groups, samples and bytes of one report are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from time import time

from rpcaccel.core.dispatch.outcome import Outcome, fault_of
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import Rule
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.replies.error_rules import fold
from rpcaccel.core.stats.counters import OTHER, bump
from rpcaccel.core.stats.error_log import (
    PARAMS_OFF,
    ErrorAttempt,
    ErrorFault,
    ErrorKey,
    ErrorNews,
    ErrorSample,
    ErrorsSeen,
    UnknownMethod,
)
from rpcaccel.core.wire.jsonrpc import RESPONSE_TOO_LARGE
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.rpc.access_log import request_id, shown, words_of
from rpcaccel.dataplane.rpc.admission import Caller

MAX_ERROR_GROUPS = 90
"""Groups of one report; errors beyond them are counted by network and fault alone."""
MAX_ERROR_SAMPLES, MAX_SAMPLES_OF_A_GROUP = 24, 2
"""Samples of one report, and of one group in it."""
MAX_NAMED_METHODS = 200
"""Methods without a rule that one report names."""
MAX_PARAMS_CHARACTERS, MAX_MESSAGE_CHARACTERS, MAX_SAMPLE_ATTEMPTS = 2048, 500, 12
"""Characters of the params and of the message in a sample, and attempts."""
_MAX_PARSED_ERRORS, _MAX_PARSED_BYTES = 256, 1024
"""Errors whose parts are remembered, and bytes of the longest one of them: most errors are the same again."""
_SHOWN_KINDS = frozenset({"read", "filter-new", "filter-poll", "filter-drop", "subscribe"})
"""Kinds of methods whose params may be shown."""
HASHED = "a signed transaction, shown as the SHA-256 of its params"
PARAMS_UNREAD = "left out: nothing says what the params of this method hold"


class ErrorNotes:
    """The errors of one worker since its last report."""

    def __init__(self, wall: Callable[[], float] = time) -> None:
        """`wall` gives the time in seconds since 1970."""
        self.params = True
        """The setting errors.params: may samples hold params?"""
        self._wall = wall
        self._groups: dict[ErrorKey, ErrorsSeen] = {}
        self._methods: dict[tuple[str, str], UnknownMethod] = {}
        self._unnamed = 0
        self._samples = 0
        self._parts: dict[bytes, tuple[int, str, str]] = {}

    def __repr__(self) -> str:
        return f"<notes of {len(self._groups)} groups of errors, {self._samples} samples>"

    def note(self, caller: Caller, plan: Plan, outcome: Outcome, seconds: float) -> tuple[int, ErrorFault]:
        """Note a call that got an error; returns the error's code and whose doing it is."""
        fault = fault_of(plan, outcome)
        code, message, text = self._read(outcome.error or b"")
        # Only of clients' own mistakes are invented names told apart: failures of nodes must not be pushed out by them.
        method = shown(plan.method) if plan.rule.known or fault != "service" else OTHER
        key = ErrorKey(plan.network, method, code, text, fault)
        found = self._groups.get(key) or self._open(key)
        found.count += 1
        found.kind = outcome.kind.value if outcome.kind is not None else ""
        found.last_seen = self._wall()
        bump(found.clients, caller.name)
        if outcome.node:
            bump(found.nodes, outcome.node)
        if self._samples < MAX_ERROR_SAMPLES and len(found.samples) < MAX_SAMPLES_OF_A_GROUP:
            self._samples += 1
            found.samples.append(self._sample(caller, plan, outcome, seconds, message))
        if plan.rule.known or fault == "refused":
            return code, fault
        if (named := self._named(key.network, plan.method)) is not None:
            named.errors += 1
        return code, fault

    def turned_away(self, caller: Caller, network: str, methods: Mapping[str, int], message: str) -> None:
        """Note calls of a batch whose answers found no room, by method."""
        for method, count in methods.items():
            key = ErrorKey(network, shown(method), RESPONSE_TOO_LARGE, fold(message), "refused")
            found = self._groups.get(key) or self._open(key)
            found.count += count
            found.last_seen = self._wall()
            found.clients[caller.name] = found.clients.get(caller.name, 0) + count

    def called(self, network: str, method: str) -> None:
        """Count a call of a method without a rule that the settings do not refuse."""
        named = self._named(network, method)
        if named is None:
            self._unnamed += 1
            return
        named.calls += 1
        named.last_seen = self._wall()

    def _named(self, network: str, method: str) -> UnknownMethod | None:
        """The counts of a method without a rule since the last report; None where there is no room for it. An error may
        come in another report than its call."""
        key = network, shown(method)
        found = self._methods.get(key)
        if found is None and len(self._methods) < MAX_NAMED_METHODS:
            found = self._methods[key] = UnknownMethod(*key)
        return found

    def take(self) -> ErrorNews | None:
        """What was seen since the last time; None when nothing was."""
        if not (self._groups or self._methods or self._unnamed):
            return None
        news = ErrorNews(tuple(self._groups.values()), tuple(self._methods.values()), self._unnamed)
        self._groups, self._methods, self._unnamed, self._samples = {}, {}, 0, 0
        return news

    def _read(self, error: bytes) -> tuple[int, str, str]:
        """Code, message and folded message of an error."""
        known = self._parts.get(error)
        if known is None:
            code, message = error_parts(error)
            known = code, printable(message[:MAX_MESSAGE_CHARACTERS])[:MAX_MESSAGE_CHARACTERS], fold(message)
            if len(error) <= _MAX_PARSED_BYTES:
                if len(self._parts) >= _MAX_PARSED_ERRORS:
                    self._parts.clear()
                self._parts[error] = known
        return known

    def _open(self, key: ErrorKey) -> ErrorsSeen:
        """A new group; where there are many already, the one group of everything else of the network and fault."""
        if len(self._groups) >= MAX_ERROR_GROUPS:
            key = ErrorKey(key.network, "", 0, "", key.fault)
        return self._groups.setdefault(key, ErrorsSeen(key))

    def _sample(self, caller: Caller, plan: Plan, outcome: Outcome, seconds: float, message: str) -> ErrorSample:
        params, why = self._params(plan.rule, plan.asked)
        words = partial(words_of, plan.rule) if self.params else fold
        return ErrorSample(
            at=self._wall(),
            client=caller.name,
            address=printable(caller.address),
            request=caller.request or request_id(caller.headers),
            params=params,
            params_note=why,
            message=words(message)[:MAX_MESSAGE_CHARACTERS],
            node=outcome.node,
            seconds=seconds,
            attempts=tuple(
                ErrorAttempt(leg.node, leg.start, leg.seconds, leg.end, words(leg.said))
                for leg in outcome.legs[:MAX_SAMPLE_ATTEMPTS]
            ),
            stopped=outcome.stopped,
        )

    def _params(self, rule: Rule, asked: bytes) -> tuple[str, str]:
        """The params as they may be shown, and why they are not shown as they came."""
        if not self.params:
            return "", PARAMS_OFF
        if not rule.known or rule.deny:
            return "", PARAMS_UNREAD
        if rule.kind == "send":
            return f'["{sha256(asked).hexdigest()}"]', HASHED
        if rule.kind not in _SHOWN_KINDS:
            return "", PARAMS_UNREAD
        text = printable(asked[: MAX_PARAMS_CHARACTERS + 1].decode("utf-8", "replace"))
        return (text if len(text) <= MAX_PARAMS_CHARACTERS else f"{text[: MAX_PARAMS_CHARACTERS - 1]}…"), ""
