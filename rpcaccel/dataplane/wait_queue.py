"""Calls that wait for a node to have room again: in order, not too many, and not too long."""

from __future__ import annotations

import asyncio
from collections import deque

_LOOK_AGAIN = 0.05
"""Seconds: room also comes with time, where a node has a quota for each second."""
_LOOKERS = 16
"""Waiting calls for each of which that is no trouble; more of them look less often."""


class WaitQueue:
    """The waiting calls of one network and bulkhead."""

    __slots__ = ("_waiting", "most", "refused", "seconds")

    def __init__(self, most: int = 1000, seconds: float = 1.0) -> None:
        self.most = most
        """Calls that may wait; more are refused at once."""
        self.seconds = seconds
        """How long each may wait."""
        self.refused = 0
        """Calls for which no node came free in time, ever."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def __repr__(self) -> str:
        return f"<wait queue, {len(self)} calls waiting>"

    async def wait(self, seconds: float, *, again: bool = False) -> bool:
        """Wait for this call's turn, or until it is time to look again, at most `seconds`; False when there is no
        time left or no room to wait in.

        Args:
            again: it waited before: it stands in front of those that came later, and they do not fill its place.
        """
        if seconds <= 0 or (len(self._waiting) >= self.most and not again):
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if again else self._waiting.append)(turn)
        try:
            await asyncio.wait([turn], timeout=min(seconds, _LOOK_AGAIN * (1 + len(self._waiting) / _LOOKERS)))
        except asyncio.CancelledError:
            if turn.done():
                self.free()  # the turn came and cannot be used: it is the next one's
            raise
        finally:
            if not turn.done():
                self._waiting.remove(turn)
        return True

    def free(self) -> None:
        """A call ended: who has waited longest may try again."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
