"""Lifetimes: bounded in the second tier for every class."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.cache.retention import lifetime
from rpcaccel.core.plan.rules import CacheClass


@pytest.mark.parametrize("cache", CacheClass)
def test_nothing_stays_in_the_second_tier_for_ever(cache: CacheClass) -> None:
    assert 0 < lifetime(cache, 2.0).store < inf


def test_an_answer_true_at_one_head_goes_soon_and_the_sooner_the_faster_the_chain() -> None:
    assert lifetime(CacheClass.HEAD, 2.0).memory == 30.0
    assert lifetime(CacheClass.HEAD, 12.0).memory == 180.0
    assert lifetime(CacheClass.FOREVER, 2.0).memory == inf


@given(st.sampled_from(CacheClass), st.floats(0, 100), st.floats(0, 100))
def test_a_life_is_no_longer_than_the_operator_wants(cache: CacheClass, max_age: float, stale: float) -> None:
    life = lifetime(cache, 2.0, max_age=max_age, stale=stale)
    assert not max_age or life.memory <= max_age + stale
