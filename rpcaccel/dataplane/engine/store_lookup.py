"""One call's question to the second tier: what it has of the call, and who asks a node where it has nothing.

Where fetching costs a node much, one process of several holds a lease and asks; the others wait for what it puts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.plan.plan import Plan
from rpcaccel.dataplane.engine.fetch_context import FetchContext
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.stores.base import Lease

Done = Callable[[float, Entry | None, Lease | None], None]
"""Called with the seconds that the second tier took, and with what it has of the call. Where it has nothing, a node is
to be asked, and the lease, if there is one, is to be released once the answer was put."""


class StoreLookup:
    """The lookup of one call. Either `done` or `failed` is called, once, unless the lookup is cancelled."""

    __slots__ = ("_done", "_ends", "_entry", "_failed", "_looks", "_network", "_open", "_plan", "_shared", "_sole",
                 "_started", "_task")  # fmt: skip

    def __init__(
        self,
        shared: FetchContext,
        network: Network,
        plan: Plan,
        done: Done,
        failed: Callable[[Exception], None],
        *,
        ends: float,
        sole: bool,
    ) -> None:
        """The lookup of `plan`, which has keys in the second tier; `begin` begins it.

        Args:
            failed: called with an unforeseen exception.
            ends: when the call must be over (monotonic seconds).
            sole: only the process that gets the lease of the call is to ask a node.
        """
        self._shared = shared
        self._network = network
        self._plan = plan
        self._done = done
        self._failed = failed
        self._ends = ends
        self._sole = sole
        self._started = shared.clock()
        self._open = True
        self._entry: Entry | None = None
        self._looks = 1
        """Questions without an answer: for the entry, and whether another host sent the transaction."""
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<lookup of {self._plan.method}{'' if self._open else ', over'}>"

    def begin(self) -> None:
        """Ask the second tier; `done` may be called before this returns."""
        shared, plan = self._shared, self._plan
        if plan.rule.names_transaction is not None:
            self._looks += 1
            if not shared.sends.look(self._network, plan, self._answered):
                self._looks -= 1
        if not shared.store.look(plan.shared_keys, self._accepts, self._found):
            self._found(None)

    def cancel(self) -> None:
        """End the lookup without an answer."""
        self._open = False
        if self._task is not None:
            self._task.cancel()

    def _accepts(self, key: bytes, entry: Entry) -> bool:
        try:
            return self._open and self._shared.accepts(self._plan, key, entry)
        except Exception as error:
            self._failed(error)
            return False

    def _found(self, entry: Entry | None) -> None:
        self._entry = entry
        self._answered()

    def _answered(self) -> None:
        self._looks -= 1
        if not self._open or self._looks:
            return
        shared, plan, entry = self._shared, self._plan, self._entry
        if entry is not None and shared.sends.doubts(self._network, plan, entry.result):
            entry = None
        seconds = shared.clock() - self._started
        if entry is None and self._sole:
            self._task = asyncio.get_running_loop().create_task(self._claim(seconds))
        else:
            self._done(seconds, entry, None)

    async def _claim(self, seconds: float) -> None:
        shared, plan = self._shared, self._plan
        try:
            claimed = await shared.leasing.claim(
                plan.shared_keys[0], lambda: shared.stored(plan), within=self._ends - shared.clock()
            )
        except Exception as error:
            self._failed(error)
            return
        self._task = None
        if isinstance(claimed, Entry):
            self._done(seconds, claimed, None)
        else:
            self._done(seconds, None, claimed)
