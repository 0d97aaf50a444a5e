"""A client is held to its limits, told why, and counted."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.client_limits import UNKNOWN_KEY, Client, Limits
from rpcaccel.core.stats.counters import ClientCell


def client(**limits: object) -> Client:
    return Client("a", Limits(**limits), ClientCell("a"), 0.0)  # type: ignore[arg-type]


def test_without_limits_everything_passes_and_is_counted() -> None:
    free = client()
    assert not free.limits.any
    assert not free.shares
    assert free.enter(5.0) is None
    assert free.batch(10**6) is None
    assert free.call("eth_call", True, 5.0) is None
    assert (free.cell.calls, free.cell.in_flight, free.cell.seen_at) == (1, 1, 5.0)
    free.leave()
    assert free.cell.in_flight == 0


def test_heavy_calls_cost_more_and_the_wait_is_told() -> None:
    paying = client(rate=10.0, burst=12.0, heavy_cost=10)
    assert paying.shares
    assert paying.call("eth_getLogs", True, 0.0) is None
    assert paying.call("eth_call", False, 0.0) is None
    refused = paying.call("eth_getLogs", True, 0.0)
    assert refused is not None
    assert (refused.reason, refused.http, refused.retry_after) == ("rate", 429, 0.9)
    assert orjson.loads(refused.error) == {"code": -32005, "message": "too many calls: 10 a second are taken"}
    assert paying.cell.limited == {"rate": 1}
    assert paying.settle() == 11
    assert paying.settle() == 0


@pytest.mark.parametrize(
    "limits",
    [{}, {"concurrency": 1}, {"rate": 1.0, "burst": 2.0, "heavy_cost": 2}, {"deny": ("eth_*",)}, {"allow": ("eth_*",)}],
)
def test_a_whole_request_passes_where_no_step_of_it_is_refused_and_else_leaves_no_trace(limits: dict[str, Any]) -> None:
    at_once, by_steps = client(**limits), client(**limits)
    for now, heavy in enumerate([False, True, True, False, False, True]):
        before = at_once.cell.calls, at_once.seen_at, at_once.spent
        passed = at_once.passes("eth_call", heavy, now / 4)
        stepped = by_steps.enter(now / 4) is None and by_steps.call("eth_call", heavy, now / 4) is None
        by_steps.leave()
        assert passed == stepped
        if passed:
            assert (at_once.cell.calls, at_once.spent) == (before[0] + 1, by_steps.spent)
            assert at_once.seen_at == at_once.cell.seen_at == now / 4
        else:
            assert (at_once.cell.calls, at_once.seen_at, at_once.spent) == before
        assert repr(at_once._bucket) == repr(by_steps._bucket)
    assert at_once.cell.limited == {}
    at_once.enter(9.0)
    assert at_once.passes("eth_call", False, 9.0) == (limits.get("concurrency") != 1 and "deny" not in limits)


def test_what_is_spent_at_another_worker_counts() -> None:
    shared = client(rate=10.0)
    shared.charge(10, 0.0)
    assert shared.call("eth_call", False, 0.0) is not None
    assert shared._bucket is not None
    assert shared._bucket.level == 0
    free = client()
    free.charge(10, 0.0)
    assert free.call("eth_call", False, 0.0) is None


def test_a_rate_below_one_still_lets_a_call_through() -> None:
    slow = client(rate=0.1)
    assert slow.call("eth_call", False, 0.0) is None
    assert slow.call("eth_call", False, 0.0) is not None


def test_requests_at_once_are_bounded() -> None:
    narrow = client(concurrency=1)
    assert narrow.enter(0.0) is None
    refused = narrow.enter(0.0)
    assert refused is not None
    assert refused.reason == "concurrency"
    narrow.leave()
    assert narrow.enter(0.0) is None
    assert narrow.cell.in_flight == 1


def test_batches_and_methods_are_bounded() -> None:
    bound = client(batch=3, allow=("eth_*",), deny=("eth_sendRawTransaction",))
    assert bound.batch(3) is None
    assert (too_long := bound.batch(4)) is not None
    assert (too_long.reason, too_long.code) == ("batch", -32600)
    assert bound.call("eth_call", False, 0.0) is None
    for method in ("hmy_call", "eth_sendRawTransaction"):
        refused = bound.call(method, False, 0.0)
        assert refused is not None
        assert (refused.reason, refused.code, refused.http) == ("method", -32601, 200)
    assert bound.cell.limited == {"batch": 1, "method": 2}


def test_new_limits_give_no_new_burst() -> None:
    changed = client(rate=1.0, burst=5.0)
    for _ in range(5):
        assert changed.call("m", False, 0.0) is None
    changed.adopt(Limits(rate=2.0, burst=50.0), 0.0)
    assert changed.call("m", False, 0.0) is not None
    changed.adopt(Limits(), 0.0)
    assert changed.call("m", False, 0.0) is None
    assert repr(changed) == "<client a None 0 in flight>"


def test_a_wrong_key_is_a_401() -> None:
    assert (UNKNOWN_KEY.http, orjson.loads(UNKNOWN_KEY.error)["code"]) == (401, -32600)


@given(
    rate=st.floats(0.1, 100.0),
    burst=st.sampled_from([0.0, 1.0, 2.5, 100.0]),
    heavy=st.booleans(),
    calls=st.integers(1, 700),
)
def test_further_calls_are_granted_to_a_client_that_waited_long_enough_and_leave_no_debt(
    rate: float, burst: float, heavy: bool, calls: int
) -> None:
    paying = client(rate=rate, burst=burst, heavy_cost=10)
    assert paying.call("eth_subscribe", False, 0.0) is None
    assert paying.pay("eth_getLogs", heavy, 0.0, calls) is None
    assert paying.settle() <= max(1.0, burst or rate)


def test_further_calls_are_refused_when_the_bucket_is_empty() -> None:
    paying = client(rate=5.0)
    paying.call("eth_subscribe", False, 0.0)
    paying.pay("eth_getLogs", True, 0.0, 1)
    assert paying.call("eth_subscribe", False, 0.5) is None
    refused = paying.pay("eth_getLogs", True, 0.5, 1)
    assert refused is not None
    assert (refused.reason, refused.http) == ("rate", 429)
