"""What a subscribe asks for, and what is wrong with it: as nodes say it, and where we offer more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel import chains
from rpcaccel.core.live import subscription
from rpcaccel.core.live.log_filter import LogFilter
from rpcaccel.core.live.subscription import Replay, Topic, subscribed, unsubscribed
from rpcaccel.core.wire.jsonrpc import Invalid
from tests.support.services import SUPPORT

RECORDED = [tuple(row) for row in json.loads((SUPPORT / "facts" / "subscribe.json").read_text("utf-8"))]
"""Chain, method, params, and what a node answered: "ok", or the code and message of its error."""
REPLAY = Replay(head=50_000, most=10_000)
ADDRESS, TOPIC = "0x" + "ab" * 20, "0x" + "cd" * 32


def why_not_as_the_node(chain: str, params: Any) -> str:
    """Why we answer otherwise than the node; empty where we do not."""
    items = [*params, None, None]
    name, members = items[0], items[1]
    if name == "transactionReceipts" and chain == "ethereum":
        return "its feed is not served"
    if not isinstance(members, dict):
        return ""
    if chain == "harmony" and len(members.get("topics") or ()) > 4:
        return "no log of the EVM has five topics"
    return "so old a block is beyond the bound of a replay" if members.get("fromBlock") == "0x1" else ""


SAME = [row for row in RECORDED if not why_not_as_the_node(row[0], row[2])]
OTHERWISE = [row for row in RECORDED if row not in SAME]


def told(chain: str, method: str, params: Any, replay: Replay = REPLAY) -> Topic | list[Any]:
    """What we make of it: a topic, or the error as code and message."""
    namespace, _, verb = method.rpartition("_")
    text = json.dumps(params).encode()
    if verb == "unsubscribe":
        named = unsubscribed(text)
        found: Topic | Invalid = subscription.NOT_FOUND if isinstance(named, str) else named
    else:
        found = subscribed(namespace, text, chains.load(chain).live, replay)
    return [found.code, found.message] if isinstance(found, Invalid) else found


def logs(members: dict[str, Any], chain: str = "ethereum", replay: Replay = REPLAY) -> Any:
    return told(chain, "eth_subscribe", ["logs", members], replay)


def heads(argument: Any, replay: Replay = REPLAY) -> Any:
    return told("harmony", "hmy_subscribe", ["newHeads", argument], replay)


@pytest.mark.parametrize(("chain", "method", "params", "answer"), SAME)
def test_a_subscribe_is_answered_as_a_node_of_the_chain_does(
    chain: str, method: str, params: Any, answer: str | list[Any]
) -> None:
    found = told(chain, method, params)
    assert isinstance(found, Topic) if answer == "ok" else found == answer


@pytest.mark.parametrize(("chain", "method", "params", "answer"), OTHERWISE)
def test_where_we_answer_otherwise_the_node_takes_what_we_refuse(
    chain: str, method: str, params: Any, answer: str | list[Any]
) -> None:
    assert answer == "ok"
    assert isinstance(told(chain, method, params), list)


def test_a_topic_says_what_is_wanted_and_in_which_namespace() -> None:
    assert told("harmony", "hmy_subscribe", ["newHeads"]) == Topic("newHeads", "hmy")
    assert told("ethereum", "eth_subscribe", ["newPendingTransactions", True]) == Topic(
        "newPendingTransactions", "eth", full=True
    )
    wanted = LogFilter.of([ADDRESS], [[], [TOPIC]])
    assert logs({"address": ADDRESS, "topics": [None, TOPIC]}) == Topic("logs", "eth", filter=wanted)


def test_filters_that_mean_the_same_are_one_topic() -> None:
    one = logs({"address": [ADDRESS, "0x" + "12" * 20], "topics": [[TOPIC], None]})
    other = logs({"Address": ["0x" + "12" * 20, ADDRESS.upper().replace("X", "x"), ADDRESS], "topics": [TOPIC, []]})
    assert one == other
    assert hash(one) == hash(other)


def test_a_null_among_the_alternatives_stands_for_every_topic() -> None:
    assert logs({"topics": [[TOPIC, None, 5]]}).filter == LogFilter.of((), [[]])


def test_names_of_members_are_read_as_nodes_read_them() -> None:
    assert logs({"Address": "0x12"})[1].startswith("invalid argument 1: invalid address: hex has invalid length 1")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"address": 7}, "invalid argument 1: invalid addresses in query"),
        ({"address": [ADDRESS, 7]}, "invalid argument 1: non-string address at index 1"),
        ({"address": [ADDRESS, "0xzz"]}, "invalid argument 1: invalid address at index 1: invalid hex string"),
        ({"address": ""}, "invalid argument 1: invalid address: empty hex string"),
        ({"address": "0x123"}, "invalid argument 1: invalid address: hex string of odd length"),
        ({"topics": [7]}, "invalid argument 1: invalid topic(s)"),
        ({"topics": [[7]]}, "invalid argument 1: invalid topic(s)"),
        ({"topics": "0x12"}, "json: cannot unmarshal string into Go value of type []interface {}"),
        ({"address": [ADDRESS] * 1001}, "address: 1001 addresses, at most 1000 are taken"),
        ({"topics": [None, [TOPIC] * 1001]}, "topics[1]: 1001 topics, at most 1000 are taken"),
        ({"blockHash": TOPIC, "fromBlock": "0x1"}, "cannot specify both BlockHash and FromBlock/ToBlock"),
        ({"fromBlock": 5}, 'fromBlock: expected a number like "0x1a"'),
        ({"fromBlock": "5"}, 'fromBlock: expected a number like "0x1a"'),
        ({"toBlock": "soon"}, 'toBlock: expected a number like "0x1a"'),
        ({"toBlock": "0x5"}, 'toBlock: expected none or "latest"'),
        ({"fromBlock": "0xc000", "toBlock": "0xd000"}, 'toBlock: expected none or "latest"'),
    ],
)
def test_a_bad_filter_is_refused_with_the_name_of_its_member(members: dict[str, Any], words: str) -> None:
    code, message = logs(members)
    assert code == -32602
    assert words in message


@pytest.mark.parametrize("block", ["latest", "pending", None])
def test_a_first_block_that_is_still_to_come_means_new_ones_only(block: str | None) -> None:
    assert logs({"fromBlock": block, "toBlock": "latest"}).from_block is None
    assert heads({"fromBlock": block}).from_block is None


def test_a_first_block_up_to_the_head_is_where_a_replay_begins() -> None:
    for number in (40_000, 45_678, 50_000):
        assert logs({"fromBlock": hex(number)}).from_block == number
        assert heads({"fromBlock": hex(number)}).from_block == number
    young = Replay(head=100, most=10_000)
    assert heads({"fromBlock": "earliest"}, young).from_block == 0


def test_a_first_block_a_little_above_the_head_is_kept_for_a_client_that_saw_a_host_which_was_ahead() -> None:
    for number in (50_001, 50_002, 50_128):
        assert logs({"fromBlock": hex(number)}).from_block == number
        assert heads({"fromBlock": hex(number)}).from_block == number
    for code, message in (logs({"fromBlock": hex(50_129)}), heads({"fromBlock": hex(50_129)})):
        assert (code, message) == (
            -32602,
            "invalid argument 1: fromBlock: 0xc3d1 is more than 128 blocks above the head, which is 0xc350 here",
        )


@pytest.mark.parametrize("members", [{"foo": 1}, {"toBlock": "0x5"}, {"fromBlock": "0xc350", "toBlock": "latest"}])
def test_heads_are_asked_for_from_a_block_and_by_no_other_member(members: dict[str, Any]) -> None:
    assert told("ethereum", "eth_subscribe", ["newHeads", members]) == [
        -32602,
        'invalid argument 1: expected {"fromBlock": "0x…"}',
    ]
    for nothing in (None, True, {}):
        code, message = told("ethereum", "eth_subscribe", ["newHeads", nothing])  # type: ignore[misc]
        assert (code, message) == (-32602, "too many arguments, want at most 1")


def test_a_first_block_below_the_bound_is_refused_with_the_oldest_that_is_taken() -> None:
    for code, message in (logs({"fromBlock": hex(39_999)}), heads({"fromBlock": "earliest"})):
        assert code == -32602
        assert "fromBlock: " in message
        assert "more than 10000 blocks (http.websocket.replay) below the head" in message
        assert message.endswith("is 0x9c40")


def test_nothing_is_replayed_before_a_head_is_known() -> None:
    code, message = heads({"fromBlock": "0x5"}, Replay(head=-1, most=10))
    assert (code, "no node has told its head yet" in message) == (-32000, True)


def test_params_that_are_too_long_or_too_deep_or_no_json_are_refused() -> None:
    table = chains.load("ethereum").live
    for text in (b'["logs",{"x":"' + b"x" * 400_000 + b'"}]', b"[" * 100_000 + b"]" * 100_000, b'["\xff"]'):
        found = subscribed("eth", text, table, REPLAY)
        assert isinstance(found, Invalid)
        assert found.message.startswith("params: ")


def test_a_name_that_nobody_knows_is_not_repeated_at_length() -> None:
    assert len(told("ethereum", "eth_subscribe", ["x" * 10_000])[1]) < 200  # type: ignore[index]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.just(ADDRESS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["address", "topics", "fromBlock", "toBlock", "blockHash", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.sampled_from(["newHeads", "logs", "newPendingTransactions", "syncing", "x"]), st.lists(_VALUES, max_size=2))
def test_whatever_is_asked_gets_a_topic_or_an_error(name: str, arguments: list[Any]) -> None:
    for chain in ("harmony", "ethereum"):
        found = told(chain, "eth_subscribe", [name, *arguments])
        assert isinstance(found, Topic | list)
        told(chain, "eth_unsubscribe", arguments)
