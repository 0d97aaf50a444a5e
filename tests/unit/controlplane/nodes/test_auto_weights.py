"""Weights that are applied by themselves: only where that is wanted, in bounded steps, never against the operator."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.controlplane.nodes.auto_weights import MYSELF, REST, AutoWeights
from rpcaccel.controlplane.settings.audit import Author
from rpcaccel.controlplane.settings.ledger import Ledger
from rpcaccel.core.weights.weight_walk import STEP_EVERY
from rpcaccel.core.weights.whole_weights import STEP, step
from tests.support.watched_nodes import NETWORK, WatchedNodes

OPERATOR = Author("ops", "page")


class Automatic:
    """Nodes of 20 and 60 ms, their settings, and what changes the settings by itself."""

    def __init__(self, **network: Any) -> None:
        self.watched = WatchedNodes({"a": 0.02, "b": 0.06}, **{"weights": "auto", **network})
        self.ledger = Ledger(self.watched.settings, wall=lambda: self.watched.at)
        self.ledger.open()
        self.auto = AutoWeights(self.ledger, self.watched.gathered, wall=lambda: self.watched.at)

    async def live(self, minutes: int) -> list[dict[str, int]]:
        """Look once a minute; returns the weights after each step that was made."""
        made = []
        for _ in range(minutes):
            self.watched.live(1)
            if await self.auto.look():
                made.append(self.weights())
            self.watched.settings = self.ledger.settings
        return made

    def weights(self) -> dict[str, int]:
        return {node.id: node.weight for node in self.ledger.settings.networks[NETWORK].nodes}

    async def by_hand(self, weight: int) -> None:
        patch = {"networks": {NETWORK: {"nodes": {"a": {"weight": weight}}}}}
        await self.ledger.change(patch, OPERATOR)
        self.watched.settings = self.ledger.settings


def share(weights: dict[str, int], id: str) -> float:
    return weights[id] / sum(weights.values())


async def test_weights_go_to_the_suggested_ones_in_steps_of_ten_minutes() -> None:
    auto = Automatic()
    steps = await auto.live(240)
    shares = [0.5, *(share(weights, "b") for weights in steps)]
    assert len(steps) >= 5
    assert shares[-1] < 0.06
    assert all(before / after <= STEP * 1.05 for before, after in pairwise(shares))
    times = [change.at for change in auto.ledger.audit if change.by == MYSELF.name and change.via == MYSELF.via]
    assert all(later - earlier >= STEP_EVERY for earlier, later in pairwise(times))
    await auto.live(120)
    assert auto.weights() == steps[-1], "small gains are not worth a change"


async def test_a_step_is_audited_with_its_reason_and_undone_like_any_change() -> None:
    auto = Automatic()
    (first,) = await auto.live(12)
    change = auto.ledger.audit[-1]
    assert (change.by, change.via, change.action, change.outcome) == ("rpcaccel", "weights", "change", "adopted")
    assert change.why.startswith("a step towards the suggested weights: the mean would have been ")
    assert change.text.startswith(f"networks.{NETWORK}.nodes.a.weight: 1 -> {first['a']}")
    await auto.ledger.undo(OPERATOR)
    assert auto.weights() == {"a": 1, "b": 1}


@pytest.mark.parametrize("how", ["undo", "change"])
async def test_after_the_operator_the_network_rests_for_an_hour(how: str) -> None:
    auto = Automatic()
    assert await auto.live(12)
    if how == "undo":
        await auto.ledger.undo(OPERATOR)
    else:
        await auto.by_hand(3)
    auto.watched.settings = auto.ledger.settings
    assert await auto.live(int(REST / 60) - 1) == []
    assert await auto.live(2) != []


async def test_nothing_changes_by_itself_unless_that_is_wanted() -> None:
    auto = Automatic(weights="manual")
    assert await auto.live(60) == []
    assert auto.watched.gathered().suggestions()[NETWORK].weights


async def test_nodes_are_watched_for_a_while_first() -> None:
    auto = Automatic()
    assert await auto.live(int(STEP_EVERY / 60) - 1) == []


async def test_the_step_of_another_host_counts_as_one() -> None:
    auto = Automatic()
    await auto.live(9)
    async with auto.ledger.changing:
        overlay = {"networks": {NETWORK: {"nodes": {"a": {"weight": 2}}}}}
        await auto.ledger.take_over(overlay, Author("rpcaccel at host-b", "shared"))
    auto.watched.settings = auto.ledger.settings
    assert await auto.live(9) == []
    assert await auto.live(2) != []


async def test_a_refused_step_is_tried_again_and_breaks_nothing() -> None:
    auto, refusals = Automatic(), ["no room"]

    async def publish(_settings: object, _revision: int) -> str:
        return refusals.pop() if refusals else ""

    auto.ledger.publish = publish
    assert len(await auto.live(12)) == 1
    assert [change.outcome for change in auto.ledger.audit][-2:] == ["refused", "adopted"]


async def test_it_looks_until_it_is_stopped() -> None:
    auto = Automatic()
    auto.watched.live(12)
    looking = AutoWeights(auto.ledger, auto.watched.gathered, wall=lambda: auto.watched.at, every=0.001)
    changed = asyncio.Event()
    auto.ledger.heard = lambda _change: changed.set()
    looking.start()
    await changed.wait()
    await looking.stop()
    assert auto.weights() != {"a": 1, "b": 1}
    assert repr(looking) == "<AutoWeights nothing is due>"


WEIGHTS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 1000), min_size=2)


@given(WEIGHTS, st.data())
def test_a_step_changes_no_share_by_more_than_half_and_ends_at_what_is_wanted(
    wanted: dict[str, int], data: st.DataObject
) -> None:
    present = {id: data.draw(st.integers(1, 1000)) for id in wanted}
    stepped = step(present, wanted, dict.fromkeys(wanted, 0))
    assert all(1 <= weight <= 1000 for weight in stepped.values())
    for id in wanted:
        before, after = share(present, id), share(stepped, id)
        rounding = 1.0 / sum(stepped.values())
        assert after <= before * STEP + rounding
        assert after >= before / STEP - rounding
    near = {id: weight * 2 for id, weight in wanted.items()}
    assert step(near, wanted, dict.fromkeys(wanted, 0)) == wanted


async def test_a_step_that_made_calls_slower_is_taken_back_with_its_reason() -> None:
    auto = Automatic()
    assert len(await auto.live(10)) == 1
    auto.watched.seconds = {"a": 0.06, "b": 0.06}
    (back,) = await auto.live(2)
    assert back == {"a": 1, "b": 1}
    assert auto.ledger.audit[-1].why.startswith("the last step is taken back: calls took ")
    assert await auto.live(30) == []


def test_each_tier_goes_its_own_way_and_keeps_its_scale() -> None:
    tiers = {"a": 0, "b": 0, "out": 0, "c": 1, "d": 1}
    present = {"a": 100, "b": 100, "out": 100, "c": 1, "d": 1}
    wanted = {"a": 133, "b": 67}
    assert step(present, wanted, tiers) == wanted, "no share changes by more than half"
    far = step(present, {"a": 190, "b": 10, "c": 1, "d": 1}, tiers)
    assert far["out"] / (far["a"] + far["b"]) == pytest.approx(0.5, rel=0.02)
    assert far["c"] == far["d"]
    assert step({"a": 0, "b": 1, "c": 1}, {"b": 1, "c": 1}, tiers) == {"b": 1, "c": 1}
