"""The events that the readers of the stream get each second, made from the latest frame."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from rpcaccel.controlplane.admin.handling import Control
from rpcaccel.controlplane.documents import current_figures
from rpcaccel.controlplane.stats.history import History
from rpcaccel.controlplane.stats.points import point_of
from rpcaccel.controlplane.stats.series import columns
from rpcaccel.controlplane.stats.snapshot import Frame


class LiveEvents:
    """Turns frames into events."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._states: dict[tuple[str, str], str] = {}

    def __repr__(self) -> str:
        return f"<LiveEvents of {len(self._states)} nodes>"

    def tell(self, frame: Frame, history: History, at: float) -> None:
        """Send the figures of this second, and the changes of nodes' states; `at` in seconds since 1970."""
        self._tell_nodes(frame, at)
        events = self._control.events
        if events.readers:
            events.tell("stats", self._stats(frame, history, at), keep=False)

    def _tell_nodes(self, frame: Frame, at: float) -> None:
        states = {(node.network, node.id): node for node in frame.nodes}
        for key, node in states.items():
            was = self._states.get(key)
            if was is not None and was != node.state:
                told = {"network": node.network, "id": node.id, "state": node.state, "was": was, "why": node.why}
                self._control.events.tell("node", {**told, "at": at})
        self._states = {key: node.state for key, node in states.items()}

    def _stats(self, frame: Frame, history: History, at: float) -> dict[str, Any]:
        bucket = history.newest()
        newest = asdict(columns([] if bucket is None else [point_of(bucket)]))
        return {
            "at": at,
            "revision": self._control.ledger.revision,
            "adopted": self._control.adopted(),
            "workers": len(self._control.workers()),
            "point": {name: column[0] for name, column in newest.items()} if newest["at"] else None,
            **asdict(current_figures.moment(frame, history)),
        }
