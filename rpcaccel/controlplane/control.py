"""What the admin side can have done, beside looking: one port towards the supervisor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rpcaccel.controlplane.events import Events
from rpcaccel.controlplane.settings import Ledger
from rpcaccel.core.heads import NodeHead


class Control(Protocol):
    """Settings, workers, probes and the stream of events."""

    ledger: Ledger
    events: Events

    def workers(self) -> Sequence[dict[str, Any]]:
        """The workers with their states, old ones that still drain included."""
        ...

    def adopted(self) -> int:
        """How many workers have the revision in force."""
        ...

    @property
    def replaced(self) -> int:
        """Workers that died and were replaced since the start."""
        ...

    def shared(self) -> dict[str, Any] | None:
        """How settings are shared with other hosts; None when they are not."""
        ...

    async def purged(self, body: bytes) -> None:
        """A purge was carried out here by this request; other hosts are to do the same."""
        ...

    async def probe(self, network: str, node: str) -> NodeHead | None:
        """Look at a node at once; None when there is no such node."""
        ...
