"""Whole weights for the shares that nodes should have, and steps from the weights in force to others.

The weights of a network keep their scale: the sum of a tier stays what it was. The served head follows the sum of all
weights, and a drained node that comes back is to find its share as it was. Where weights so small cannot stand in the
ratios that are wanted, all weights of the network grow alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

STEP = 1.5
"""Factor by which one step changes a node's share of its tier at the most."""
LARGEST = 1000
"""The largest weight."""
SCALES = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 500)
"""Factors by which weights may grow; the first one that is fine enough is taken."""
_OF_STEP = 0.2
"""The part of a step by which rounding may miss its end."""
_OF_SHARE = 0.05
"""The part of a share by which rounding may miss it."""
_ALWAYS = 0.0005
"""Share of a tier by which rounding may always miss."""


def shares_of(weights: Mapping[str, float]) -> dict[str, float]:
    """The shares of the sum of all weights, which is above 0 unless there are none."""
    total = sum(weights.values())
    return {id: weight / total for id, weight in weights.items()}


def whole_weights(targets: Mapping[str, float], fits: Callable[[Mapping[str, int]], bool]) -> dict[str, int]:
    """Weights of 1 to LARGEST in about the ratios of `targets`, in the scale of these if that is fine enough.

    Args:
        targets: by node, a weight that need not be whole; one of them is above 0.
        fits: are these weights fine enough? Where none are, the finest are taken.
    """
    most = LARGEST / max(targets.values())
    weights: dict[str, int] = {}
    scales: list[float] = [scale for scale in SCALES if scale <= most]
    for scale in scales or [most]:
        weights = {id: min(LARGEST, max(1, round(weight * scale))) for id, weight in targets.items()}
        if fits(weights):
            break
    return weights


def step(
    present: Mapping[str, int], wanted: Mapping[str, int], tiers: Mapping[str, int], most: float = STEP
) -> dict[str, int]:
    """The weights on the way from those in force to those wanted.

    No share that a node has of its tier changes by more than the factor `most`. A share is bounded and not a weight:
    weights count only in relation to each other, and 1 and 1 could not change by half. Each tier goes its own way.

    Args:
        present: the weights of all nodes of a network. A node of weight 0 keeps it.
        wanted: weights of at least 1; a node that is not named keeps its weight.
        tiers: by node, its tier.
    """
    now = {id: weight for id, weight in present.items() if weight}
    then = {id: wanted.get(id, weight) for id, weight in now.items()}
    targets: dict[str, float] = {}
    arrived = True
    for tier in {tiers[id] for id in now}:
        before = shares_of({id: weight for id, weight in now.items() if tiers[id] == tier})
        after = shares_of({id: then[id] for id in before})
        part = min([1.0, *(_part(share, after[id], most) for id, share in before.items())])
        arrived = arrived and part == 1.0
        whole = sum(now[id] for id in before)
        targets |= {id: whole * (share + part * (after[id] - share)) for id, share in before.items()}
    if arrived:
        return {id: then[id] for id in wanted if id in then}

    def near(weights: Mapping[str, int]) -> bool:
        for tier in {tiers[id] for id in targets}:
            aim = {id: target for id, target in targets.items() if tiers[id] == tier}
            had, made = shares_of({id: now[id] for id in aim}), shares_of({id: weights[id] for id in aim})
            for id, share in shares_of(aim).items():
                if abs(made[id] - share) > min(_OF_STEP * abs(share - had[id]), _OF_SHARE * share) + _ALWAYS:
                    return False
        return True

    return whole_weights(targets, near)


def _part(now: float, then: float, most: float) -> float:
    """The part of the way from one share to another that one step may go."""
    far = now * (most - 1.0) if then > now else now * (1.0 - 1.0 / most)
    return far / abs(then - now) if abs(then - now) > far else 1.0
