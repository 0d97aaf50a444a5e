"""Observers: the access log, traces, or both are called for every call where the settings want them."""

from __future__ import annotations

from typing import Protocol

from rpcaccel.config.model import Settings
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.plan.plan import Plan
from rpcaccel.dataplane.rpc.access_log import AccessLog, access_log
from rpcaccel.dataplane.rpc.admission import Caller
from rpcaccel.dataplane.rpc.tracing import Tracing


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
