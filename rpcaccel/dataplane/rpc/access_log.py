"""The access log: a line for every call, or only for slow ones with what made them slow.

A worker makes an AccessLog, and loads structlog, only where the settings ask for lines.
"""

from __future__ import annotations

import random
import re
import secrets
from typing import Any

from msgspec.structs import replace

from rpcaccel.config.sections import LogSettings
from rpcaccel.core.dispatch.outcome import Outcome, fault_of, reason
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import Rule
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.replies.error_rules import fold
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.rpc.admission import Caller, Headers

REQUEST_ID = "X-Request-ID"
_HEADER = REQUEST_ID.lower()
_FIT = re.compile(r"[!-~]{1,128}")
_MAX_METHOD_CHARACTERS, _MAX_TEXT_CHARACTERS, _MAX_QUOTED_CHARACTERS = 64, 200, 500


class AccessLog:
    """Writes lines as the settings want them. Implements Observer (dataplane.rpc.observers)."""

    def __init__(self, settings: LogSettings) -> None:
        import structlog  # noqa: PLC0415 - a worker that writes no lines does without it

        self._share = settings.access_share if settings.access else 0.0
        self._slow = settings.slow
        self._log: Any = structlog.get_logger("rpcaccel.access")

    def arrived(self, caller: Caller) -> Caller:
        """Name a request that came: by the client's own X-Request-ID when that is fit to be printed, else by chance."""
        name = request_id(caller.headers) or secrets.token_hex(8)
        return replace(caller, request=name, told=random.random() < self._share)

    def another(self, caller: Caller) -> Caller:
        """A further call of the same request has the name of the request."""
        return caller

    def answered(self, caller: Caller, plan: Plan, outcome: Outcome, seconds: float) -> None:
        """Write the line of a call that was answered, if it is slow or the request is in the sample."""
        slow = 0 < self._slow <= seconds
        if not (slow or (self._share and caller.told)):
            return
        fields: dict[str, Any] = {
            "request": caller.request,
            "client": "" if caller.guest is None else caller.guest.name,
            "address": caller.address,
            "trace": "" if caller.trace is None else caller.trace.trace,
            "network": plan.network,
            "method": shown(plan.method),
            "source": outcome.source.label,
            "node": outcome.node,
            "attempts": outcome.attempts,
            "ms": round(seconds * 1000, 3),
            "bytes": len(outcome.result) if outcome.result is not None else 0,
        }
        if outcome.error is not None:
            fields["error"], text = error_parts(outcome.error)
            fields["error_text"] = words_of(plan.rule, text)[:_MAX_TEXT_CHARACTERS]
            fields["fault"] = fault_of(plan, outcome)
        fields = {name: value for name, value in fields.items() if value != ""}
        if slow:
            self._log.warning("slow call", **fields, reason=reason(outcome, seconds))
        else:
            self._log.info("call", **fields)


def access_log(settings: LogSettings) -> AccessLog | None:
    """The log that the settings ask for; None when they ask for none."""
    return AccessLog(settings) if settings.access or settings.slow else None


def request_id(named: Headers | None) -> str:
    """The client's own X-Request-ID; empty when there is none that is fit to be printed."""
    given = "" if named is None else named.get(_HEADER, "")
    return given if _FIT.fullmatch(given) else ""


def words_of(rule: Rule, text: str) -> str:
    """The text of an error as it may be written down. Nodes quote params; where these may hold a signed transaction, or
    anything at all, numbers and hex digits are replaced by placeholders."""
    if rule.known and rule.kind != "send":
        return printable(text[:_MAX_QUOTED_CHARACTERS])
    return fold(text)


def shown(method: str) -> str:
    """The beginning of a method's name in printable characters: clients send names of any form."""
    return printable(method[:_MAX_METHOD_CHARACTERS])[:_MAX_METHOD_CHARACTERS]
