"""Observers: the access log, traces, or both are called for every call where the settings want them."""

from __future__ import annotations

from typing import Protocol

from rpcaccel.config.model import Settings
from rpcaccel.core.client_limits import Client
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.plan.plan import Plan
from rpcaccel.dataplane.rpc.access_log import NOBODY, VISITOR, AccessLog, access_log
from rpcaccel.dataplane.rpc.admission import Headers
from rpcaccel.dataplane.rpc.tracing import Tracing
from rpcaccel.dataplane.upstream.trace_context import CURRENT


class Observer(Protocol):
    """Is called for the events of calls, in the context of the request that brought them."""

    def arrived(self, named: Headers, address: str, guest: Client | None) -> str:
        """A request came. Returns its name in the log, empty when it has none."""
        ...

    def another(self) -> None:
        """A further call of the same request begins to be fetched, in a task of its own."""
        ...

    def answered(self, network: str, plan: Plan, outcome: Outcome, seconds: float) -> None:
        """A call of that request was answered."""
        ...


def forget() -> None:
    """Forget the visitor and the trace of an earlier request. Requests come in the context of a connection, or of the
    whole server (uvloop), so that what was set for one request is still set when the next one comes."""
    if VISITOR.get() is not NOBODY:
        VISITOR.set(NOBODY)
    if CURRENT.get() is not None:
        CURRENT.set(None)


class Both:
    """Implements Observer for traces and log together: traces begin first, so that a line can name its trace."""

    def __init__(self, tracing: Tracing, log: AccessLog) -> None:
        self._tracing = tracing
        self._log = log

    def arrived(self, named: Headers, address: str, guest: Client | None) -> str:
        self._tracing.arrived(named, address, guest)
        return self._log.arrived(named, address, guest)

    def another(self) -> None:
        self._tracing.another()

    def answered(self, network: str, plan: Plan, outcome: Outcome, seconds: float) -> None:
        self._log.answered(network, plan, outcome, seconds)
        self._tracing.answered(network, plan, outcome, seconds)


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
