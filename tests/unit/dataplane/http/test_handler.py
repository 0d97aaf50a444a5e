"""The front: what a request is answered with, whatever lane it came by."""

from __future__ import annotations

from rpcaccel.dataplane.http.handler import HttpAnswer, RequestHandler, Visit
from rpcaccel.dataplane.http.request_head import NO_HEADERS, Named, RequestHead
from rpcaccel.dataplane.rpc.calls import Answered, answer_to
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import Proxy, proxying


def front_of(proxy: Proxy) -> RequestHandler:
    return proxy.worker._front


async def test_a_hit_is_answered_at_once_and_a_miss_is_waited_for() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        front = front_of(proxy)
        body = b'{"id":1,"method":"hmyv2_getBlockByNumber","params":[26,{}]}'
        for at_once in (False, True):
            visit = front.enter(RequestHead("/", NO_HEADERS), "127.0.0.1")
            assert isinstance(visit, Visit)
            answered = front.calls.begin(body, visit.route, visit.caller)
            assert isinstance(answered, Answered) == at_once
            reply = front.reply(visit, answered if isinstance(answered, Answered) else await answer_to(answered))
            assert isinstance(reply, HttpAnswer)
            assert reply.status == 200
            front.leave(visit)
        assert proxy.worker.report().tally.in_flight == 0


async def test_a_path_that_is_not_served_is_turned_away_at_the_door() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        reply = front_of(proxy).enter(RequestHead("/nowhere", NO_HEADERS), None)
        assert isinstance(reply, HttpAnswer)
        assert (reply.status, reply.close) == (404, False)


async def test_a_timeout_that_is_no_duration_is_refused_and_the_request_is_counted_out() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes, clients={"anonymous": {"concurrency": 1}}) as proxy:
        front = front_of(proxy)
        for _ in range(2):
            reply = front.enter(RequestHead("/", Named({"x-rpcaccel-timeout": "soon"})), "127.0.0.1")
            assert isinstance(reply, HttpAnswer)
            assert reply.status == 400
        assert isinstance(front.enter(RequestHead("/", NO_HEADERS), "127.0.0.1"), Visit)
        assert proxy.worker.report().tally.refusals == {"malformed": 2}
        assert proxy.worker.report().tally.in_flight == 1


async def test_every_answer_while_draining_ends_its_connection() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        front = front_of(proxy)
        front.draining = True
        assert front.other("GET", "/healthz", NO_HEADERS).close
        assert front.other("GET", "/readyz", NO_HEADERS).status == 503


async def test_what_cannot_be_read_on_ends_the_connection_and_is_counted() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        front = front_of(proxy)
        assert front.too_large(NO_HEADERS).status == 413
        assert front.too_slow(NO_HEADERS).status == 408
        assert front.failed().status == 500
        assert all(reply.close for reply in (front.too_large(NO_HEADERS), front.failed()))
        assert proxy.worker.report().tally.refusals == {"body-too-large": 2, "slow-client": 1, "bug": 2}
