"""This host's part in what hosts tell each other about themselves: every few seconds it posts a document to the Redis
that they share, and reads those of all others in the same command.

The exchange has a connection of its own, so that its failures are not counted against that of settings and purges. It
goes on while this host drains, and takes its document away at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Mapping

import structlog
from msgspec.structs import replace

from rpcaccel import stores
from rpcaccel.config.model import RedisSettings
from rpcaccel.controlplane.hosts.host_book import HostBook, HostsNow
from rpcaccel.controlplane.hosts.host_report import HostReport, encoded
from rpcaccel.controlplane.stats.snapshot import Notice
from rpcaccel.stores.shared_board import Board, UnreachableError
from rpcaccel.stores.tasks import cancel_and_wait

log = structlog.get_logger("rpcaccel.sharing")


class HostExchange:
    """Tells other hosts about this one while the settings name a Redis, and knows what they tell."""

    def __init__(
        self,
        report: Callable[[], HostReport],
        *,
        block_times: Callable[[], Mapping[str, float | None]] = dict,
        board: Callable[[RedisSettings], Board | None] = lambda redis: stores.driver(redis).board(redis),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`report` tells what this host is like now; `block_times` the seconds that a block of each network takes."""
        self.run = secrets.token_hex(8)
        self._report = report
        self._block_times = block_times
        self._board_of = board
        self._clock = clock
        self._book = HostBook(self.run)
        self._redis: RedisSettings | None = None
        self._board: Board | None = None
        self._at_once = asyncio.Event()
        self._draining = False
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<HostExchange {self._book!r}>"

    async def share(self, redis: RedisSettings) -> None:
        """Exchange with the hosts that use this Redis, and with no others any more."""
        if redis == self._redis:
            return
        await self.leave()
        self._redis = redis
        self._board = self._board_of(redis)
        if self._board is not None:
            self._task = asyncio.create_task(self._follow(self._board), name="hosts")

    def drain(self) -> None:
        """Tell the other hosts at once that this one takes no new calls."""
        self._draining = True
        self._at_once.set()

    async def leave(self) -> None:
        """Take the document of this host away, and end the exchange."""
        board, task, self._board, self._task = self._board, self._task, None, None
        if board is not None and task is not None:
            await cancel_and_wait(task)
            with contextlib.suppress(UnreachableError):
                await board.leave(self.run)
            await board.close()
            self._book = HostBook(self.run)

    async def meet(self, board: Board) -> None:
        """Tell about this host, and hear of all others."""
        report = self._tell()
        try:
            met = await board.meet(self.run, encoded(report))
        except UnreachableError as error:
            self._book.lose(str(error), self._clock())
        else:
            self._book.hear(met, self._clock(), self._block_times())

    async def _follow(self, board: Board) -> None:
        await board.open()
        while True:
            try:
                await self.meet(board)
            except Exception:
                log.exception("what hosts tell of themselves was not exchanged, and is exchanged again")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._book.every):
                    await self._at_once.wait()
            self._at_once.clear()

    def _tell(self) -> HostReport:
        report = self._report()
        if self._draining:
            report = replace(report, draining=True)
        self._book.tell(report, self._clock())
        return report

    def shown(self) -> HostsNow:
        """All hosts as they are known; this one as it is now."""
        self._tell()
        return self._book.document(self._clock(), shared=self._board is not None)

    def notices(self) -> list[Notice]:
        """What lasts and should be looked at."""
        return self._book.notices(self._clock())
