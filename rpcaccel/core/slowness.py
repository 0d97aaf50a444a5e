"""Why a call took long, in a few words."""

from __future__ import annotations

from rpcaccel.core.cells import Source, Step
from rpcaccel.core.outcome import Outcome

_WAITED = {
    Step.REDIS: "the second tier",
    Step.FLIGHT: "the same call under way",
    Step.FORWARD: "the nodes",
}


def reason(outcome: Outcome, seconds: float) -> str:
    """What took most of the `seconds` that a call took from its arrival to its answer."""
    if outcome.source is Source.REFUSED:
        return "refused"
    if not outcome.steps:
        return "the proxy itself was busy"
    step, longest = max(outcome.steps, key=lambda taken: taken[1])
    if longest < seconds / 2:
        return f"the proxy itself was busy: {seconds - sum(taken for _, taken in outcome.steps):.3f} s in no step"
    waited = f"waited {longest:.3f} s for {_WAITED.get(Step(step), step)}"
    if step == Step.FORWARD and outcome.node:
        waited = f"node {outcome.node} answered after {longest:.3f} s"
    return f"{waited}, {outcome.attempts} attempts" if outcome.attempts > 1 else waited
