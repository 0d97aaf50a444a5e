from __future__ import annotations

import pytest

from rpcaccel.config.model import NetworkSettings, NodeSettings
from rpcaccel.config.secrets import NodeUrl
from rpcaccel.core.nodes.limits import MethodCosts
from rpcaccel.dataplane.networks import settings_mapping

NODE = NodeSettings.model_validate(
    {"url": NodeUrl("http://a"), "tags": ["archive"], "quota": {"second": 8, "day": 100, "month": 1000, "heavy": 5}}
)
NETWORK = NetworkSettings.model_validate(
    {
        "nodes": [NODE.model_dump() | {"url": NodeUrl("http://a")}],
        "routes": [{"methods": "eth_getLogs", "tag": "archive"}],
        "transactions": {"share": 0.5, "at_least": 3},
    }
)


def test_a_second_of_a_quota_is_divided_among_the_workers_and_a_day_and_a_month_are_not() -> None:
    share = settings_mapping.quota(NODE, 4)
    assert (share.second, share.day, share.month, share.costs) == (2, 100, 1000, MethodCosts(heavy=5))


def test_routes_and_broadcasts_are_what_was_set() -> None:
    assert settings_mapping.routes(NETWORK).tag_of("eth_getLogs") == "archive"
    assert (settings_mapping.broadcast(NETWORK).share, settings_mapping.broadcast(NETWORK).at_least) == (0.5, 3)


def test_a_block_that_is_not_there_yet_is_waited_for_half_a_block() -> None:
    assert settings_mapping.dispatch(NETWORK, 2.0).behind_pause == 1.0
    own = NETWORK.model_copy(update={"attempts": 7, "behind_attempts": 0})
    made = settings_mapping.dispatch(own, 0.5)
    assert (made.behind_pause, made.attempts, made.behind_attempts) == (0.25, 7, 0)


@pytest.mark.parametrize("set_to", [None, 0.5, 12.0])
@pytest.mark.parametrize("measured", [None, 0.25, 2.0, 60.0])
def test_calls_wait_by_the_block_time_that_was_measured_where_that_is_less_than_what_is_set_or_usual(
    set_to: float | None, measured: float | None
) -> None:
    network = NETWORK.model_copy(update={"block_time": set_to})
    assert settings_mapping.block_time(network, 2.0, measured) == min(set_to or 2.0, measured or 100.0)


def test_a_quantile_of_nought_means_no_hedges() -> None:
    assert settings_mapping.hedging(NETWORK) is not None
    off = NETWORK.model_copy(update={"hedge": NETWORK.hedge.model_copy(update={"quantile": 0.0})})
    assert settings_mapping.hedging(off) is None


def test_what_a_hidden_machine_may_lack_is_said_in_time_and_widened_by_what_was_seen_within_a_bound() -> None:
    said = NETWORK.model_copy(update={"hidden_lag": 60.0})
    assert [settings_mapping.doubt(said, 2.0, seen) for seen in (0, 10, 100, 10**6)] == [
        30,
        30,
        200,
        30 * settings_mapping.MOST_DOUBT,
    ]
    assert settings_mapping.doubt(said, 12.0, 0) == 5
    assert 2 * settings_mapping.most_lag(said, 2.0) == 30 * settings_mapping.MOST_DOUBT
    assert settings_mapping.doubt(said.model_copy(update={"hidden_lag": 0.0}), 2.0, 10**6) == 0
