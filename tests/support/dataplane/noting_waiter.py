"""A waiter that notes how its flight landed."""

from __future__ import annotations

from msgspec import field

from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.dataplane.engine.single_flight import Waiter
from tests.support.waiting import until


class NotingWaiter(Waiter, eq=False, kw_only=True):
    """Waits for a flight, and notes what it was told."""

    told: list[Outcome | BaseException] = field(default_factory=list)

    def landed(self, outcome: Outcome | BaseException) -> None:
        self.told.append(outcome)

    async def outcome(self) -> Outcome:
        """The outcome, once it was told."""
        await until(lambda: self.told)
        (outcome,) = self.told
        assert isinstance(outcome, Outcome)
        return outcome
