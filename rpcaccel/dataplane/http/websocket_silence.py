"""What follows from a client's silence on its WebSocket: it is pinged, and given up after a while.

Nothing is done here: `WebSocket.look` does what is decided. Times are seconds of time.monotonic.
"""

from __future__ import annotations

from enum import StrEnum

from rpcaccel.config.sections import WebSocketSettings

PINGS = 2
"""The pings that a client may leave unanswered. Half of http.websocket.ping after the last one it is given up."""


class Silent(StrEnum):
    """What to do about a client."""

    NOTHING = "nothing"
    PING = "ping"
    GONE = "gone"
    """The pings are not answered."""
    IDLE = "idle"
    """Nothing was called or subscribed to for http.websocket.idle."""


class Silence:
    """For how long one client has been silent."""

    __slots__ = ("called", "heard", "pings", "spoke", "used")

    def __init__(self, now: float) -> None:
        self.heard = self.used = now
        """When the client was last heard of, and when it last had a call or a subscription."""
        self.spoke = self.called = False
        """Did the client send something, or a call, since `look` was called last?"""
        self.pings = 0
        """The pings that were sent since the client was last heard of."""

    def look(self, now: float, settings: WebSocketSettings, *, there: bool, busy: bool) -> Silent:
        """Decide what to do now; PING is counted as done.

        Args:
            there: does something else than the client's own words tell that it is there?
            busy: has it a call under way, or a subscription?
        """
        if self.spoke or there:
            self.spoke, self.heard, self.pings = False, now, 0
        if self.called or busy:
            self.called, self.used = False, now
        silent = now - self.heard
        if self.pings >= PINGS and silent > (PINGS + 0.5) * settings.ping:
            return Silent.GONE
        if now - self.used > settings.idle:
            return Silent.IDLE
        if self.pings < PINGS and silent >= settings.ping * (self.pings + 1):
            self.pings += 1
            return Silent.PING
        return Silent.NOTHING
