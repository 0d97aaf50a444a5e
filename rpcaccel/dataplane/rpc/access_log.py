"""The access log: a line for every call, or only for slow ones with what made them slow.

There is no instance of this, and structlog is not loaded by a worker, unless the settings ask for it.
"""

from __future__ import annotations

import random
import re
import secrets
from contextvars import ContextVar
from typing import Any, NamedTuple

from rpcaccel.config.sections import LogSettings
from rpcaccel.core.client_limits import Client
from rpcaccel.core.dispatch.outcome import Outcome, reason
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.rpc.admission import Headers
from rpcaccel.dataplane.upstream.trace_context import CURRENT

HEADER = "X-Request-ID"
_HEADER = HEADER.lower()
_FIT = re.compile(r"[!-~]{1,128}")
_LONGEST_METHOD = 64


class Visitor(NamedTuple):
    """Whose call it is, and under which name the request goes."""

    request: str
    client: str
    address: str
    told: bool
    """Does each of its calls write a line?"""


NOBODY = Visitor("", "", "", told=True)
VISITOR: ContextVar[Visitor] = ContextVar("visitor", default=NOBODY)
"""Of the request being answered; what is begun for it, a task or a callback, inherits it."""


class AccessLog:
    """Writes lines as the settings want them."""

    def __init__(self, settings: LogSettings) -> None:
        import structlog  # noqa: PLC0415 - a worker that writes no lines does without it

        self._share = settings.access_share if settings.access else 0.0
        self._slow = settings.slow
        self._log: Any = structlog.get_logger("rpcaccel.access")

    def arrived(self, named: Headers, address: str, guest: Client | None) -> str:
        """A request came; the name it goes by: the client's own X-Request-ID when it is fit to be printed."""
        request_id = named.get(_HEADER, "")
        name = request_id if _FIT.fullmatch(request_id) else secrets.token_hex(8)
        told = random.random() < self._share
        VISITOR.set(Visitor(name, "" if guest is None else guest.name, address, told))
        return name

    def another(self) -> None:
        """A further call of the same request begins to be fetched: it goes by the same name."""

    def answered(self, network: str, plan: Plan, outcome: Outcome, seconds: float) -> None:
        """A call of that request was answered."""
        slow = 0 < self._slow <= seconds
        visitor = VISITOR.get()
        if not (slow or (self._share and visitor.told)):
            return
        traced = CURRENT.get()
        fields: dict[str, Any] = {
            "request": visitor.request,
            "client": visitor.client,
            "address": visitor.address,
            "trace": "" if traced is None else traced.trace,
            "network": network,
            "method": shown(plan.method),
            "source": outcome.source.label,
            "node": outcome.node,
            "attempts": outcome.attempts,
            "ms": round(seconds * 1000, 3),
            "bytes": len(outcome.result) if outcome.result is not None else 0,
        }
        if outcome.error is not None:
            fields["error"] = error_parts(outcome.error)[0]
        fields = {name: value for name, value in fields.items() if value != ""}
        if slow:
            self._log.warning("slow call", **fields, reason=reason(outcome, seconds))
        else:
            self._log.info("call", **fields)


def access_log(settings: LogSettings) -> AccessLog | None:
    """The log these settings ask for; None when they ask for none."""
    return AccessLog(settings) if settings.access or settings.slow else None


def shown(method: str) -> str:
    """The beginning of a method's name as it may stand in a line: clients send what they like."""
    return printable(method[:_LONGEST_METHOD])
