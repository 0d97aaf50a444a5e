"""One of three nodes answers a method with an error that no table knows, where the others answer the same calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.node import Node
from rpcaccel.core.replies.answer import Answer
from tests.support.dataplane.world import Sent, World

NETWORK, ADDRESS = "three", f"0x{7:040x}"
METHODS = ("eth_call", "eth_getBalance", "eth_getTransactionCount", "eth_getCode")
USED_UP = {"code": -32000, "message": "this plan has used all of its compute units for today"}
UNREAD = {"code": -32000, "message": "your workspace has nothing left"}
"""An error that no table knows."""


class RefusingWorld(World):
    """Nodes answer some calls with an error."""

    def __post_init__(self) -> None:
        self.refusing: dict[str, set[str]] = {}
        """By node: the texts of which a call that is refused holds one."""
        self.error: dict[str, Any] = UNREAD
        self.status = 200
        self.calls = 0
        super().__post_init__()

    def let_through(self) -> None:
        while self.sent or self.shared.reads:
            for sent in self.sent:
                if self.refuses(sent):
                    sent.said = Answer(error=json.dumps(self.error).encode(), http_status=self.status)
                sent.deliver()
            while self.shared.reads:
                self.shared.answer(0)
            self.settle()

    def refuses(self, sent: Sent) -> bool:
        text = sent.method + sent.params.decode()
        return any(part in text for part in self.refusing.get(sent.node.name, ()))

    def ask(self, method: str = "eth_call", text: str = "") -> Any:
        """The members of the answer to a call that was never made before, and 20 ms pass."""
        self.calls += 1
        data = f"0x{self.calls:064x}{text}"
        params: list[Any] = [{"to": ADDRESS, "data": data}, "0x20"]
        if method != "eth_call":
            params = [f"0x{self.calls:040x}", "0x20"]
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        call = self.start(self.hosts[0].ask(NETWORK, body))
        self.let_through()
        self.clock.advance(0.02)
        return json.loads(call.result().body)

    @property
    def pool(self) -> list[Node]:
        return list(self.hosts[0].state.networks[NETWORK].pool.nodes)


@pytest.fixture
def world() -> Iterator[RefusingWorld]:
    made = RefusingWorld(kinds={NETWORK: "ethereum"})
    yield made
    made.close()


def attempts(world: RefusingWorld, which: int) -> int:
    return next(
        cell for cell in world.hosts[0].engine.tally.snapshot().nodes if cell.node == f"{NETWORK}-{which}"
    ).calls


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (USED_UP, 200),
        (UNREAD, 200),
        ({"code": -32603, "message": "your workspace is over its allowance"}, 500),
        ({"code": 77, "message": "no"}, 200),
        ({"code": -32099, "message": "upstream pool is empty"}, 200),
        ({"code": -32602, "message": "your key may not do this"}, 200),
        ({"code": -32600, "message": "this is not part of what you pay for"}, 400),
        ({"code": -32003, "message": "sorry"}, 200),
        ({"code": -32000, "message": "response too large"}, 200),
        ({"code": -32000, "message": "nonce too low"}, 200),
        ({"code": -32000, "message": "already known"}, 200),
        ({"code": -32000, "message": "filter not found"}, 200),
    ],
)
def test_no_call_fails_and_the_node_is_tried_now_and_then(
    world: RefusingWorld, error: dict[str, Any], status: int
) -> None:
    world.refusing, world.error, world.status = {f"{NETWORK}-0": {"eth_call"}}, error, status
    assert [answer for _ in range(400) if "result" not in (answer := world.ask())] == []
    assert attempts(world, 0) <= 26
    assert world.hosts[0].state.networks[NETWORK].pool.budget.refused == 0
    before = attempts(world, 0)
    for _ in range(90):
        world.ask("eth_getBalance")
    assert attempts(world, 0) - before >= 25, "other methods are asked of it as ever"
    world.refusing.clear()
    world.clock.advance(61.0)
    before = attempts(world, 0)
    for _ in range(90):
        assert "result" in world.ask()
    assert attempts(world, 0) - before >= 25, "it has its share again"


def test_a_node_that_fails_everything_is_tried_now_and_then(world: RefusingWorld) -> None:
    world.refusing = {f"{NETWORK}-0": {"eth_"}}
    for method in METHODS * 150:
        assert "result" in world.ask(method)
    before = attempts(world, 0)
    for method in METHODS * 50:
        assert "result" in world.ask(method)
    assert attempts(world, 0) - before <= 8


@given(st.lists(st.sampled_from(["well", "poison"]), min_size=20, max_size=120))
def test_calls_that_fail_on_all_nodes_change_no_share(calls: list[str]) -> None:
    world = RefusingWorld(kinds={NETWORK: "ethereum"})
    try:
        world.refusing = {f"{NETWORK}-{which}": {"f00d"} for which in range(3)}
        for call in calls:
            answer = world.ask(text="f00d" if call == "poison" else "")
            assert ("error" in answer) == (call == "poison")
        assert not any(node.contradictions.methods for node in world.pool)
    finally:
        world.close()


@given(st.lists(st.integers(0, 12), min_size=3, max_size=30))
def test_calls_that_fail_on_one_node_by_what_they_hold_take_nothing_from_others(bursts: list[int]) -> None:
    world = RefusingWorld(kinds={NETWORK: "ethereum"})
    try:
        world.refusing = {f"{NETWORK}-0": {"f00d"}}
        for burst in bursts:
            for _ in range(burst):
                assert "result" in world.ask(text="f00d")
            for _ in range(3):
                assert "result" in world.ask()
        assert not any(node.contradictions.learnt(world.clock.now()) for node in world.pool)
    finally:
        world.close()


def test_a_send_is_not_made_twice_because_of_an_error_that_no_table_knows(world: RefusingWorld) -> None:
    world.refusing = {f"{NETWORK}-{which}": {"foo_bar"} for which in range(3)}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "foo_bar", "params": []}).encode()
    before = sum(attempts(world, which) for which in range(3))
    call = world.start(world.hosts[0].ask(NETWORK, body))
    world.let_through()
    assert json.loads(call.result().body)["error"]["message"] == UNREAD["message"]
    assert sum(attempts(world, which) for which in range(3)) == before + 1
