"""The calls of DApps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from random import Random
from typing import Any

import msgspec
import pytest

from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.workload import READS, Visitors, asking, learn, made_up, zipf
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_nodes


@pytest.mark.parametrize("nodes", [harmony_nodes, ethereum_nodes])
async def test_every_kind_of_call_is_answered(nodes: Callable[..., Any]) -> None:
    async with nodes(1) as (node,), ConnectionPool(parse(node.url), 1) as pool:
        ask = asking(pool)
        visitors = Visitors(await learn(ask), Random(1))
        calls = list(islice(visitors, 150))
        assert {call.method for call in calls} == set(READS)
        for call in calls:
            assert await ask(call.method, msgspec.json.decode(call.params)) is not None, call
        assert 3 <= len(visitors.page()) < 15


def test_the_popular_are_asked_about_far_more_often() -> None:
    popular = zipf(range(1000), Random(1))
    drawn = Counter(popular() for _ in range(5000))
    assert drawn[0] > 10 * drawn[20] > 0
    assert len(drawn) > 200


def test_people_are_the_same_in_every_process() -> None:
    assert made_up("person", 1) == "0xe75d8a88df0014e8882cc4b9a1b45ac9a7f37be6" != made_up("person", 2)
