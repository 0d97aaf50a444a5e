"""The stream of events: what its readers get each second, made from the latest frame, and its handler."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from msgspec.structs import asdict

from rpcaccel.controlplane.admin.handling import STILL_ALLOWED, STREAM_HEADERS, Control
from rpcaccel.controlplane.documents import current_figures
from rpcaccel.controlplane.documents.series import columns
from rpcaccel.controlplane.stats.history import History
from rpcaccel.controlplane.stats.snapshot import Frame

STALLED_SECONDS = 30.0
"""Seconds after which the connection of a reader that takes nothing is closed."""


class LiveEvents:
    """Turns frames into events, and has the handler of the stream."""

    def __init__(self, control: Control, stalled: float = STALLED_SECONDS) -> None:
        """`stalled`: seconds after which the connection of a reader that takes nothing is closed."""
        self._control = control
        self._stalled = stalled
        self._states: dict[tuple[str, str], str] = {}

    def __repr__(self) -> str:
        return f"<LiveEvents of {len(self._states)} nodes>"

    def tell(self, frame: Frame, history: History, at: float) -> None:
        """Send the figures of this second, and the changes of nodes' states; `at` in seconds since 1970."""
        self._tell_nodes(frame, at)
        events = self._control.events
        if events.readers:
            events.tell("stats", self._stats(frame, history, at), keep=False)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """The stream of events, until the reader leaves."""
        control = self._control
        response = web.StreamResponse(headers=request[STREAM_HEADERS])
        response.content_type = "text/event-stream"
        await response.prepare(request)
        last = request.headers.get("Last-Event-ID") or request.query.get("last", "")
        # Subscribed before the greeting is written, so that no event in between is lost.
        place = control.events.subscribe(last)
        try:
            async for frame in control.events.frames(place, {"revision": control.ledger.revision}):
                if not request[STILL_ALLOWED]():
                    break
                async with asyncio.timeout(self._stalled):
                    await response.write(frame)
        except ConnectionError:
            pass
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        finally:
            control.events.leave(place)
        return response

    def _tell_nodes(self, frame: Frame, at: float) -> None:
        states = {(node.network, node.id): node for node in frame.nodes}
        for key, node in states.items():
            was = self._states.get(key)
            if was is not None and was != node.state:
                told = {"network": node.network, "id": node.id, "state": node.state, "was": was, "why": node.why}
                self._control.events.tell("node", {**told, "at": at})
        self._states = {key: node.state for key, node in states.items()}

    def _stats(self, frame: Frame, history: History, at: float) -> dict[str, Any]:
        newest = asdict(columns(history.points()[-1:]))
        return {
            "at": at,
            "revision": self._control.ledger.revision,
            "adopted": self._control.adopted(),
            "workers": len(self._control.workers()),
            "point": {name: column[0] for name, column in newest.items()} if newest["at"] else None,
            **asdict(current_figures.moment(frame, history)),
        }
