from __future__ import annotations

from contextlib import suppress

import pytest

from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.rate_limits import GoTokenBucket, Limiters


@pytest.mark.parametrize(
    ("limiter", "asked", "passed"), [("utility_metrics", 60, 30), ("all_validators", 20, 6), ("delegations", 80, 35)]
)
def test_as_many_parallel_calls_pass_as_a_real_node_let_pass(limiter: str, asked: int, passed: int) -> None:
    limiters, waits = Limiters(), []
    for _ in range(asked):
        with suppress(RpcError):
            waits.append(limiters.wait(limiter, "v2", 50.0, small=True, rate=0.0))
    assert len(waits) == passed
    assert max(waits) <= 5.0
    with pytest.raises(RpcError, match=r"rate: Wait\(n=1\) would exceed context deadline"):
        limiters.wait(limiter, "v2", 50.0, small=True, rate=0.0)


def test_a_bucket_fills_again_and_each_namespace_has_its_own() -> None:
    limiters = Limiters()
    for _ in range(3):
        limiters.wait("all_validators", "v1", 0.0, small=True, rate=0.0)
    assert limiters.wait("all_validators", "v2", 0.0, small=True, rate=0.0) == 0.0
    assert limiters.wait("all_validators", "v1", 100.0, small=True, rate=0.0) == 0.0
    assert repr(GoTokenBucket(1.0, 3.0)) == "<GoTokenBucket 3/3>"


def test_limiters_can_be_switched_off_and_the_configurable_one_on() -> None:
    limiters = Limiters()
    assert {limiters.wait("all_validators", "v2", 0.0, small=False, rate=0.0) for _ in range(50)} == {0.0}
    assert {limiters.wait("chain", "v2", 0.0, small=True, rate=0.0) for _ in range(50)} == {0.0}
    assert max(limiters.wait("chain", "v2", 0.0, small=True, rate=10.0) for _ in range(20)) > 0.0
