"""A subscribe from the client's message to its follower: through the same way as every other call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import copy
from typing import Any, cast

import pytest

from rpcaccel.config.sections import WebSocketSettings
from rpcaccel.core.client_limits import Client, Exposure, Limits
from rpcaccel.core.heads.served_head import NetworkHeads, Served
from rpcaccel.core.live.block import LiveBlock
from rpcaccel.core.live.log_filter import LogFilter
from rpcaccel.core.messages import Announced
from rpcaccel.core.stats.counters import HITS, AnswerSource, ClientCell, NetworkCell
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.live.hub import MAX_FILTER_BYTES, PART_OF_FILTERS, Hub
from rpcaccel.dataplane.live.live_session import LiveSession
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.rpc.admission import Caller, PathRoute
from rpcaccel.dataplane.rpc.calls import Answered, Calls
from rpcaccel.dataplane.rpc.hit_memo import KnownCalls
from tests.support.dataplane.fake_live import FakeFollower, FakePending, FakeSink
from tests.support.dataplane.world import HEAD, World


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


class Live:
    """A hub beside the engine of a host in the world, with followers that do what a test says."""

    def __init__(
        self,
        world: World,
        *,
        most_filters: int = MAX_FILTER_BYTES,
        **settings: Any,
    ) -> None:
        self.world = world
        self.host = world.hosts[0]
        self.tally = Tally()
        self.followers: dict[str, FakeFollower] = {}
        self.pending: dict[str, FakePending] = {}
        self.settings = WebSocketSettings(**settings)
        tokens = iter(range(10_000_000))
        self.hub = Hub(
            self.tally,
            world.clock.now,
            self.host.engine,
            self.settings,
            follow=cast(Any, self.follow),
            listen=cast(Any, self.listen),
            token=lambda size: f"{next(tokens):0{size * 2}x}",
            most_filters=most_filters,
        )
        self.hub.adopt(self.host.state.networks, self.settings)
        self.calls = Calls(self.host.engine, self.hub, world.clock.now, world.settings.http)
        self.sink, self.session = self.connect()

    def follow(self, network: Network, *around: Any) -> FakeFollower:
        made = self.followers[network.name] = FakeFollower(network, *around)
        return made

    def listen(self, network: Network, *around: Any) -> FakePending:
        made = self.pending[network.name] = FakePending(network, *around)
        return made

    def connect(self, holder: str = "") -> tuple[FakeSink, LiveSession]:
        sink = FakeSink()
        return sink, LiveSession(sink, self.settings.subscriptions, holder)

    def ask(
        self,
        method: str,
        *params: Any,
        network: str = "one",
        session: LiveSession | None = None,
        settled: bool = True,
        guest: Client | None = None,
    ) -> Any:
        """The result of a call in a message of its own, or its error as code and message."""
        body = json.dumps({"id": 1, "method": method, "params": params}).encode()
        turn = (session or self.session).turn()
        answer = self.send(body, network, Caller(turn=turn, guest=guest))
        if settled:
            turn.settle()
        return answer.get("result") or [answer["error"]["code"], answer["error"]["message"]]

    def send(self, body: bytes, network: str, caller: Caller) -> Any:
        answered = self.calls.begin(body, self.route(network), caller)
        assert isinstance(answered, Answered), "nothing has to be waited for"
        return json.loads(answered.body)

    def route(self, network: str) -> PathRoute:
        served = self.host.state.networks[network]
        return PathRoute(served, KnownCalls(served))

    def cell(self, network: str = "one") -> NetworkCell:
        return self.tally.network(network)

    def head(self, number: int, network: str = "one") -> None:
        """A new head is delivered."""
        block = LiveBlock(number, f"0x{number}", f"0x{number - 1}", b"%d" % number)
        self.world.run(self.followers[network].topics.heads(block, self.world.clock.now()))


@pytest.fixture
def live(world: World) -> Live:
    return Live(world)


def test_a_subscription_has_an_id_of_32_digits_and_gets_what_comes_after_its_answer(live: Live) -> None:
    first = live.ask("eth_subscribe", "newHeads")
    assert first == "0x" + "0" * 32
    live.head(1)
    assert live.ask("hmy_subscribe", "newHeads", settled=False) == "0x" + "0" * 31 + "1"
    live.head(2)
    assert live.sink.results == [1, 2], "the second one is not told anything before its answer is written"


def test_each_call_of_a_batch_is_answered_and_begins_when_the_batch_is_written(live: Live) -> None:
    turn = live.session.turn()
    calls = [
        {"id": 1, "method": "eth_subscribe", "params": ["newHeads"]},
        {"id": 2, "method": "eth_blockNumber"},
        {"id": 3, "method": "eth_subscribe", "params": ["foo"]},
    ]
    answers = live.send(json.dumps(calls).encode(), "one", Caller(turn=turn))
    assert [answer.get("result") for answer in answers] == ["0x" + "0" * 32, hex(HEAD), None]
    assert not live.followers["one"].begun
    turn.settle()
    turn.settle()
    assert len(live.followers["one"].begun) == 1


def test_an_unsubscribe_of_any_namespace_ends_the_subscription_at_once(live: Live) -> None:
    for method in ("eth_unsubscribe", "hmy_unsubscribe", "hmyv2_unsubscribe", "net_unsubscribe", "debug_unsubscribe"):
        named = live.ask("eth_subscribe", "newHeads")
        assert live.ask(method, named) is True, method
        assert live.ask(method, named) == [-32000, "subscription not found"]
    live.head(1)
    assert not live.sink.sent
    assert live.cell().subscriptions == {"newHeads": 0}
    assert live.followers["one"].changes == 5


def test_a_subscription_belongs_to_its_connection(live: Live) -> None:
    named = live.ask("eth_subscribe", "newHeads")
    _, other = live.connect()
    assert live.ask("eth_unsubscribe", named, session=other) == [-32000, "subscription not found"]
    assert live.ask("eth_unsubscribe", named) is True


def test_a_subscription_that_is_ended_within_its_own_message_never_begins(live: Live) -> None:
    turn = live.session.turn()
    named = live.send(b'{"id":1,"method":"eth_subscribe","params":["newHeads"]}', "one", Caller(turn=turn))["result"]
    assert live.ask("eth_unsubscribe", named) is True
    turn.settle()
    assert not live.followers["one"].begun


def test_what_a_refused_message_subscribed_to_ends_and_the_rest_stays(live: Live) -> None:
    kept, turn = live.ask("eth_subscribe", "newHeads"), live.session.turn()
    live.send(b'{"id":1,"method":"eth_subscribe","params":["newHeads"]}', "one", Caller(turn=turn))
    turn.drop()
    turn.settle()
    assert [one.id for one in live.followers["one"].begun if one.open] == [kept]
    assert live.session.count == 1


@pytest.mark.parametrize(
    ("network", "method", "error"),
    [
        ("one", "hmyv2_subscribe", [-32601, 'no "newHeads" subscription in hmyv2 namespace']),
        ("three", "debug_subscribe", [-32601, 'no "newHeads" subscription in debug namespace']),
    ],
)
def test_a_namespace_without_subscriptions_says_so(live: Live, network: str, method: str, error: list[Any]) -> None:
    assert live.ask(method, "newHeads", network=network) == error


@pytest.mark.parametrize(("network", "code"), [("one", -32000), ("three", -32601)])
def test_over_http_the_error_is_that_of_a_node_and_no_node_is_asked(live: Live, network: str, code: int) -> None:
    for params in ('["newHeads"]', "[]", '["foo"]'):
        body = b'{"id":1,"method":"eth_subscribe","params":%b}' % params.encode()
        error = live.send(body, network, Caller())["error"]
        assert error == {"code": code, "message": "notifications not supported"}
    error = live.send(b'{"id":1,"method":"eth_unsubscribe","params":["0x1"]}', network, Caller())["error"]
    assert error == {"code": -32000, "message": "subscription not found"}
    assert not live.world.sent


def test_the_same_words_are_never_answered_from_what_is_known(live: Live) -> None:
    """Each subscribe makes a subscription of its own, also after it was explained or planned."""
    live.host.state.networks["one"].plan("eth_subscribe", b'["newHeads"]')
    assert len({live.ask("eth_subscribe", "newHeads") for _ in range(5)}) == 5


def test_errors_of_subscribes_are_the_clients_own(live: Live) -> None:
    live.ask("eth_subscribe", "foo")
    live.ask("eth_unsubscribe", "0x1")
    live.send(b'{"id":1,"method":"eth_subscribe","params":["newHeads"]}', "one", Caller())
    news = live.calls.errors.take()
    assert news is not None
    assert {group.key.fault for group in news.groups} == {"client"}


def test_a_connection_has_only_so_many_subscriptions(world: World) -> None:
    live = Live(world, subscriptions=2)
    first = live.ask("eth_subscribe", "newHeads")
    live.ask("eth_subscribe", "newHeads")
    code, message = live.ask("eth_subscribe", "newHeads")
    assert code == -32005
    assert "at most 2 subscriptions on one connection (http.websocket.subscriptions)" in message
    live.ask("eth_unsubscribe", first)
    assert isinstance(live.ask("eth_subscribe", "newHeads"), str)


def test_the_filters_of_one_client_have_a_bound_and_equal_ones_count_once(world: World) -> None:
    live = Live(world, most_filters=PART_OF_FILTERS * 3 * LogFilter.of([f"0x{1:040x}"]).weight)

    def subscribe(number: int) -> Any:
        return live.ask("eth_subscribe", "logs", {"address": f"0x{number:040x}"})

    named = [subscribe(number) for number in (1, 1, 1, 2, 3)]
    assert all(isinstance(one, str) for one in named)
    first, second, *_ = live.followers["one"].begun
    assert first.topic.filter is second.topic.filter
    code, message = subscribe(4)
    assert (code, "bytes of filters of one client" in message) == (-32005, True)
    assert isinstance(subscribe(1), str), "a filter that is held takes no more room"
    live.ask("eth_unsubscribe", named[0])
    assert isinstance(subscribe(4), list), "it is still used by others"
    live.ask("eth_unsubscribe", named[3])
    assert isinstance(subscribe(4), str)
    live.session.close()
    assert live.cell().subscriptions == {"logs": 0}
    assert live.cell().topics == 0
    live.sink, live.session = live.connect()
    assert all(isinstance(subscribe(number), str) for number in (7, 8, 9))


def test_all_filters_together_have_a_bound_of_which_no_client_takes_more_than_a_part(world: World) -> None:
    live = Live(world, most_filters=PART_OF_FILTERS * 3 * LogFilter.of([f"0x{1:040x}"]).weight)

    def subscribe(number: int) -> Any:
        return live.ask("eth_subscribe", "logs", {"address": f"0x{number:040x}"})

    for client in range(PART_OF_FILTERS):
        for _ in range(2):  # its connections count together
            live.sink, live.session = live.connect(f"client {client}")
            answers = [subscribe(10 * client + number) for number in range(4)]
            assert [type(one) for one in answers] == [str, str, str, list], f"client {client} has no more than its part"
    live.sink, live.session = live.connect("late")
    code, message = subscribe(100)
    assert (code, "bytes of filters of all clients together" in message) == (-32005, True)
    assert isinstance(subscribe(1), str), "another client holds it"


def test_a_client_may_call_what_its_limits_and_the_settings_allow(live: Live) -> None:
    limits = Limits(deny=("eth_subscribe",))
    guest = Client("g", limits, ClientCell("g"), live.world.clock.now())
    assert live.ask("eth_subscribe", "newHeads", guest=guest)[0] == -32601
    assert isinstance(live.ask("hmy_subscribe", "newHeads", guest=guest), str)
    live.host.engine.exposure = Exposure(deny=("*_subscribe",))
    try:
        assert "refused by this proxy" in live.ask("hmy_subscribe", "newHeads")[1]
    finally:
        live.host.engine.exposure = Exposure()


def test_subscriptions_are_counted_and_resumed_ones_by_themselves(live: Live) -> None:
    live.ask("eth_subscribe", "newHeads")
    live.ask("eth_subscribe", "logs", {"fromBlock": hex(HEAD - 3)})
    live.ask("eth_subscribe", "newHeads", {"fromBlock": hex(HEAD)})
    assert live.cell().subscriptions == {"newHeads": 2, "logs": 1}
    assert live.cell().resumed == 2
    assert [one.topic.from_block for one in live.followers["one"].begun] == [None, HEAD - 3, HEAD]
    live.session.close()
    live.session.close()
    assert live.cell().subscriptions == {"newHeads": 0, "logs": 0}


def test_a_replay_is_bounded_by_the_settings_in_force(world: World) -> None:
    live = Live(world, replay=5)
    assert live.ask("eth_subscribe", "newHeads", {"fromBlock": hex(HEAD - 6)})[0] == -32602
    live.hub.adopt(live.host.state.networks, WebSocketSettings(replay=6))
    assert isinstance(live.ask("eth_subscribe", "newHeads", {"fromBlock": hex(HEAD - 6)}), str)


def test_pending_transactions_are_followed_while_somebody_subscribes_to_them(live: Live) -> None:
    live.ask("eth_subscribe", "newHeads", network="three")
    pending = live.pending["three"]
    assert not pending.wanted
    hashes = live.ask("eth_subscribe", "newPendingTransactions", network="three")
    whole = live.ask("eth_subscribe", "newPendingTransactions", True, network="three")
    assert pending.wanted
    live.world.run(pending.topics.pending([b'"0x1"']))
    live.world.run(pending.topics.whole_pending([b'{"hash":"0x1"}']))
    assert live.sink.results == ["0x1", {"hash": "0x1"}]
    assert live.cell("three").delivered == {"newPendingTransactions": 2}
    assert live.ask("eth_unsubscribe", hashes, network="three") is True
    assert pending.wanted
    assert live.ask("eth_unsubscribe", whole, network="three") is True
    assert not pending.wanted


def test_what_is_subscribed_on_a_connection_that_was_closed_meanwhile_ends_at_once(live: Live) -> None:
    live.session.close()
    live.ask("eth_subscribe", "newHeads")
    assert live.cell().subscriptions == {"newHeads": 0}
    assert not live.followers["one"].begun


def test_nothing_is_followed_until_somebody_subscribes_and_then_from_the_head_known(live: Live) -> None:
    live.hub.see(NetworkHeads(network="one", served=Served(head=7)))
    live.hub.announced(Announced("one", 7, "0x7", b"{}"))
    assert not live.followers
    live.ask("eth_subscribe", "newHeads")
    live.hub.see(NetworkHeads(network="one", served=Served(head=8)))
    live.hub.see(NetworkHeads(network="two", served=Served(head=9)))
    header = Announced("one", 9, "0x9", b"{}")
    live.hub.announced(header)
    assert [served.head for served in live.followers["one"].seen] == [7, 8]
    assert live.followers["one"].told == [header]
    assert live.followers.keys() == {"one"}


def test_a_new_revision_is_handed_on_and_a_network_that_is_gone_closes_its_subscribers(live: Live) -> None:
    networks = live.host.state.networks
    other_sink, other = live.connect()
    live.ask("eth_subscribe", "newHeads")
    live.ask("eth_subscribe", "logs", {})
    live.ask("eth_subscribe", "newHeads", network="two", session=other)

    async def adopt() -> None:
        live.hub.adopt({"two": networks["two"]}, live.settings)
        await live.hub.close()

    live.world.run(adopt())
    assert live.sink.closed == [(1012, "the network is no longer served here")]
    assert live.cell().cut == {"restarted": 1}
    assert live.cell().subscriptions == {"newHeads": 0, "logs": 0}
    assert not other_sink.closed
    assert live.followers["two"].network is networks["two"]
    assert live.followers["one"].closed
    assert live.followers["two"].closed
    code, message = live.ask("eth_subscribe", "newHeads", session=other)
    assert (code, message) == (-32000, "the network is no longer served here")


def test_a_subscribe_or_an_unsubscribe_is_no_answer_that_a_cache_has_given(live: Live) -> None:
    def counted() -> list[int]:
        cells = live.host.engine.tally.snapshot().cells
        return [sum(cell.latency[source].count for cell in cells) for source in (*HITS, AnswerSource.LIVE)]

    before = counted()
    opened = live.ask("eth_subscribe", "newHeads")
    live.ask("eth_unsubscribe", opened)
    live.ask("eth_subscribe", "nothing")
    assert [now - then for now, then in zip(counted(), before, strict=True)] == [*(0 for _ in HITS), 3]


def test_a_client_has_only_so_many_subscriptions_that_still_catch_up(world: World) -> None:
    live = Live(world)
    live.hub.most_behind = 2

    def resume(session: LiveSession | None = None) -> Any:
        return live.ask("eth_subscribe", "newHeads", {"fromBlock": hex(HEAD - 1)}, session=session)

    live.ask("eth_subscribe", "newHeads")
    follower = live.followers["one"]
    follower.holds_back = True
    first, _ = resume(), resume()
    code, message = resume()
    assert (code, "still sent what they missed" in message) == (-32005, True)
    assert isinstance(live.ask("eth_subscribe", "newHeads"), str), "others are not counted"
    assert isinstance(resume(live.connect("another")[1]), str)
    live.ask("eth_unsubscribe", first)
    assert isinstance(resume(), str)
    assert isinstance(resume(), list)
    for one in follower.begun[1:]:
        if one.open:
            follower.topics.add(one)
    assert isinstance(resume(), str)


@pytest.mark.parametrize(("name", "blocks", "tokens"), [("newHeads", 0, 1), ("newHeads", 32, 3), ("logs", 40, 10)])
def test_blocks_that_are_sent_again_are_paid_for(live: Live, name: str, blocks: int, tokens: int) -> None:
    guest = Client("team", Limits(rate=1.0, burst=1000.0), ClientCell("team"), live.world.clock.now())
    criteria = {"fromBlock": hex(HEAD - blocks)}
    assert isinstance(live.ask("eth_subscribe", name, criteria, guest=guest), str)
    assert guest.settle() == 1 + tokens


@pytest.mark.parametrize(("name", "method"), [("newHeads", "eth_getBlockByNumber"), ("logs", "eth_getLogs")])
def test_who_may_not_get_blocks_or_logs_is_not_sent_old_ones(live: Live, name: str, method: str) -> None:
    guest = Client("team", Limits(deny=(method,)), ClientCell("team"), live.world.clock.now())
    refused = live.ask("eth_subscribe", name, {"fromBlock": hex(HEAD - 1)}, guest=guest)
    assert refused == [-32601, f"the method {method} is not allowed for you"]
    assert isinstance(live.ask("eth_subscribe", name, *([{}] if name == "logs" else []), guest=guest), str)


def test_the_heads_of_another_shard_are_forgotten(live: Live) -> None:
    live.hub.see(NetworkHeads(network="one", served=Served(head=HEAD)))
    other = live.host.state.networks["one"].settings.model_copy(update={"shard": 3})
    networks = dict(live.host.state.networks)
    networks["one"] = copy(networks["one"])
    networks["one"].settings = other
    live.hub.adopt(networks, live.settings)
    live.ask("eth_subscribe", "newHeads")
    assert live.followers["one"].seen == []
