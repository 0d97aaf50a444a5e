"""The hit path says and counts what the long way would have said and counted."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from time import monotonic
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rpcaccel.config.sections import HttpSettings
from rpcaccel.core import client_limits
from rpcaccel.core.cache.entry import Selection
from rpcaccel.dataplane.http.handler import MAX_INLINE_GZIP_BYTES
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.manual_clock import ManualClock
from tests.support.properties import examples
from tests.support.proxy import BreakingClock, Proxy, proxying, settings_for

KEY = client_limits.make(bytes(32))
BODIES = [
    b'{"jsonrpc":"2.0","id":%b,"method":"hmyv2_getBlockByNumber","params":[26,{}]}',
    b'{"method":"eth_getBalance","params":["0x0000000000000000000000000000000000000001","latest"],"id":%b}',
    b'{"jsonrpc":"2.0","id":%b,"method":"hmyv2_blockNumber","params":[]}',
    b'{"jsonrpc":"2.0","id":%b,"method":"eth_gasPrice"}',
    b'{"jsonrpc":"2.0","id":%b,"method":"eth_getTransactionByHash","params":["0x' + b"ab" * 32 + b'"]}',
    b'{"jsonrpc":"2.0","id":%b,"method":"hmyv2_getBlocks","params":[20,26,{}]}',
    b'{"jsonrpc":"2.0","id":%b,"method":"hmyv2_blockNumber","id":5}',
    b'{"id":%b,"method":"debug_x"}',
    b'[{"id":%b,"method":"hmyv2_blockNumber"},{"id":1,"method":"hmyv2_getBlockByNumber","params":[26,{}]},'
    b'{"id":2,"method":"hmyv2_getBlockByNumber","params":[26,{}]},{"method":"eth_gasPrice"},7]',
]
IDS = [b"1", b"2", b'"a"', b"22", b"null", b"1.5", b"01"]
HEADERS = [b"", b"Origin: https://dapp.example\r\n", b"Accept-Encoding: gzip\r\n", b"X-Rpcaccel-Timeout: 2s\r\n",
           b"X-Rpcaccel-Timeout: soon\r\n", b"X-Api-Key: %b\r\n" % KEY.encode(), b"X-Api-Key: wrong\r\n"]  # fmt: skip
PATHS = [b"/", b"/", b"/harmony-s0", b"/nowhere", b"/key/%b/" % KEY.encode()]
KEYS = {"keys": {"dapp": {"hashes": [client_limits.hashed(KEY)], "rate": 1, "burst": 3, "deny": ["eth_gasPrice"]}}}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"http": {"headers": "cache", "cors_origins": ["https://dapp.example"]}},
    {"http": {"headers": "none", "gzip_from": 100, "max_body": len(BODIES[3] % b"1")}},
    {"http": {"deny": ["hmyv2_block*"]}, "net": {"rules": {"eth_gasPrice": {"max_age": "1s"}}}},
    {"clients": KEYS},
    {"clients": {"anonymous": {"rate": 1, "burst": 2}, **KEYS}},
    {"clients": {"require_key": True, **KEYS}},
    {"log": {"slow": "60s"}},
    {"http": {"max_in_flight": 1}},
]
CHANGING = re.compile(rb"(Date|Server-Timing|X-Request-ID): [^\r]*")
Step = Callable[[Proxy, ManualClock, "Line"], Any]


class Line:
    """A connection, and another one where the worker ended it; `last` are header lines that go with every request."""

    def __init__(self, proxy: Proxy, last: bytes = b"", *, forgets: bool = False) -> None:
        self._proxy, self._last, self.forgets = proxy, last, forgets
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: bytes, header: bytes, body: bytes) -> tuple[bytes, bytes]:
        """Head and body of the answer."""
        self._open = self._open or await asyncio.open_connection("127.0.0.1", self._proxy.worker.port)
        reader, writer = self._open
        head = b"POST %b HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n%b%b\r\n" % (path, len(body), header, self._last)
        writer.write(head + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"Content-Length: (\d+)", answer)[1])  # type: ignore[index]
        told = await reader.readexactly(length)
        if b"Connection: close" in answer:
            assert await reader.read() == b""
            self.close()
        return CHANGING.sub(b"", answer), told

    def close(self) -> None:
        """Hang up."""
        if self._open is not None:
            self._open[1].close()
        self._open = None


@contextmanager
def lines(proxy: Proxy, *last: bytes, forgets: bool = False) -> Iterator[Line]:
    line = Line(proxy, *last, forgets=forgets)
    if forgets:
        forget(proxy)
    try:
        yield line
    finally:
        line.close()


def shortened(proxy: Proxy) -> bool:
    """Was the request before answered by the hit path?"""
    lanes = proxy.worker._lanes.open
    used = any(lane._used for lane in lanes)
    for lane in lanes:
        lane.look(monotonic(), HttpSettings())  # which forgets it
    return used


def forget(proxy: Proxy) -> None:
    """Nothing is known of any call from now on, until the settings change."""
    for route in proxy.worker._front.routes.values():
        route.known.get = lambda _words: None  # type: ignore[assignment]


def counted(proxy: Proxy) -> object:
    """Everything a worker counted that does not hang on sockets or on processor time; only on the hit path are
    compressed forms kept, and wordings known."""
    tally, worker = proxy.worker.report().tally, proxy.worker
    apart = worker.state.memos.size + sum(len(slot.squeezed) for slot in worker._memory._slots.values())
    for tier in tally.tiers:
        tier.bytes -= apart
    for cell in tally.cells:
        cell.proof_seconds = 0.0
    parts = (tally.cells, tally.clients, tally.tiers, tally.refusals, tally.requests, tally.bytes_in, tally.in_flight)
    uses = {name: found.uses.count for name, found in proxy.worker.state.networks["harmony-s0"].planner._plans.items()}
    return msgspec.to_builtins(parts), uses


asks = st.tuples(
    st.just("ask"), st.sampled_from(PATHS), st.sampled_from(HEADERS), st.sampled_from(BODIES), st.sampled_from(IDS)
)
others = st.one_of(
    st.tuples(st.just("head"), st.integers(0, 3)),
    st.tuples(st.just("adopt"), st.sampled_from(SETTINGS)),
    st.tuples(st.just("purge"), st.sampled_from(["", "hmyv2_getBlockByNumber"])),
    st.tuples(st.just("wait"), st.sampled_from([0.4, 1.0, 5000.0])),
)
again = st.builds(lambda step, times: [step] * times, st.one_of(asks, asks, others), st.integers(1, 4))


async def act(step: tuple[Any, ...], proxy: Proxy, clock: ManualClock, line: Line) -> object:
    """One thing that happens to a worker; what is to be seen of it."""
    kind, *how = step
    if kind == "ask":
        path, header, body, call_id = how
        return await line.ask(path, header, body % call_id)
    if kind == "head":
        proxy.see(proxy.nodes[0].head - how[0])
    elif kind == "adopt":
        proxy.worker.adopt(settings_for(proxy.nodes, **how[0]), proxy.worker.state.revision + 1)
        proxy.see()
        if line.forgets:
            forget(proxy)
    elif kind == "purge":
        return await proxy.worker.purge(Selection(method=how[0]))
    else:
        clock.advance(how[0])
    return None


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(again, max_size=12))
@example([[("ask", b"/", b"", body, call_id)] * 3 for body in BODIES for call_id in IDS[:2]])
@example([[("ask", b"/", header, BODIES[0], b"1")] * 3 for header in HEADERS])
@example([[("adopt", SETTINGS[2]), *[("ask", b"/", b"", BODIES[3], call_id) for call_id in (*IDS[:1] * 3, b"22")]]])
@example([[*[("ask", b"/", b"", body, b"1")] * 3, ("wait", 5000.0)] for body in BODIES * 2])
@example([[("head", back), *[("ask", b"/", b"", BODIES[-1], b"1")] * 3] for back in (0, 1, 0)])
@example([[("adopt", one), *[("ask", b"/", b"", BODIES[-1], b"1")] * 4] for one in SETTINGS])
@example([[("adopt", one), *[("ask", b"/", HEADERS[5], BODIES[2], b"1")] * 5] for one in SETTINGS])
def test_both_ways_are_alike_whatever_happens(steps: Sequence[list[tuple[Any, ...]]]) -> None:
    async def compare() -> None:
        async with AsyncExitStack() as stack:
            nodes = await stack.enter_async_context(harmony_nodes(1))
            worlds = []
            # Nothing follows from announcing trailers, but such a request goes the long way, in the other lane.
            for last, forgets in ((b"X: trailers\r\n", False), (b"TE: trailers\r\n", True)):
                clock = ManualClock(1000.0)
                proxy = await stack.enter_async_context(proxying(nodes, clock=clock.now))
                worlds.append((proxy, clock, stack.enter_context(lines(proxy, last, forgets=forgets))))
            for step in [step for group in steps for step in group]:
                seen = [await act(step, *world) for world in worlds]
                assert seen[0] == seen[1], step
            one, two = (counted(proxy) for proxy, _, _ in worlds)
            assert one == two

    asyncio.run(compare())


@asynccontextmanager
async def ready(**more: Any) -> AsyncIterator[tuple[Proxy, Callable[..., Any]]]:
    """A proxy that knows a call, and how to make it: says whether the hit path answered."""
    async with AsyncExitStack() as stack:
        nodes = await stack.enter_async_context(harmony_nodes(1))
        proxy = await stack.enter_async_context(proxying(nodes, **more))
        line = stack.enter_context(lines(proxy))

        async def ask(body: bytes = BODIES[0] % b"1", header: bytes = b"", path: bytes = b"/") -> bool:
            head, _ = await line.ask(path, header, body)
            assert head.startswith(b"HTTP/1.1 200")
            return shortened(proxy)

        for _ in range(2):  # a miss, and the hit it is learnt from
            assert not await ask()
        yield proxy, ask


async def test_a_known_call_takes_it_with_any_id_and_under_any_head() -> None:
    async with ready() as (_, ask):
        assert await ask()
        assert await ask(BODIES[0] % b"987654321")
        assert await ask(BODIES[0] % b'"a-b"')
        assert await ask(header=b"Origin: https://dapp.example\r\n")
        assert not await ask(path=b"/harmony-s0")
        assert await ask(path=b"/harmony-s0")


async def test_a_fact_of_the_network_takes_it_and_a_new_head_makes_it_learn_anew() -> None:
    async with ready() as (proxy, ask):
        fact = BODIES[2] % b"1"
        assert [await ask(fact), await ask(fact)] == [False, True]
        proxy.see(proxy.nodes[0].head - 1)
        proxy.see()
        assert [await ask(fact), await ask(fact)] == [False, True]


@pytest.mark.parametrize("more", [{"log": {"access": True}}, {"log": {"slow": "60s"}}])
async def test_lines_are_written_on_the_long_way_only(more: dict[str, Any]) -> None:
    async with ready(**more) as (_, ask):
        assert not await ask()


async def test_who_is_within_its_limits_takes_it_and_who_is_not_is_told_so_and_counted_once() -> None:
    clients = {"keys": {"dapp": {"hashes": [client_limits.hashed(KEY)], "rate": 1, "burst": 3}}}
    async with ready(clients=clients, clock=ManualClock(1000.0).now) as (proxy, ask):
        key = b"X-Api-Key: %b\r\n" % KEY.encode()
        assert [await ask(header=key) for _ in range(3)] == [True] * 3
        with lines(proxy) as line:
            head, _ = await line.ask(b"/", key, BODIES[0] % b"1")
        assert head.startswith(b"HTTP/1.1 429")
        (cell,) = (cell for cell in proxy.worker.report().tally.clients if cell.client == "dapp")
        assert (cell.calls, cell.limited) == (4, {"rate": 1})


async def test_what_is_compressed_takes_it_and_is_compressed_once() -> None:
    async with ready(http={"gzip_from": 100}) as (proxy, ask):
        (slot,) = proxy.worker._memory._slots.values()
        assert await ask(header=b"Accept-Encoding: gzip;q=0\r\n")
        assert not slot.squeezed
        assert await ask(header=b"Accept-Encoding: gzip\r\n")
        squeezed = slot.squeezed
        with lines(proxy) as line:
            packed, plain = [await line.ask(b"/", one, BODIES[0] % b"77") for one in (HEADERS[2], HEADERS[0])]
        assert slot.squeezed is squeezed
        assert b"Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n" in packed[0]
        assert gzip.decompress(packed[1]) == plain[1]
        assert orjson.loads(plain[1])["id"] == 77


async def test_what_takes_long_to_compress_goes_the_long_way() -> None:
    async with ready() as (proxy, ask):
        (slot,) = proxy.worker._memory._slots.values()
        assert slot.entry is not None
        slot.entry = replace(slot.entry, result=b'"%b"' % (b"x" * MAX_INLINE_GZIP_BYTES))
        assert await ask()
        assert not await ask(header=b"Accept-Encoding: gzip\r\n")
        assert not await ask(header=b"Accept-Encoding: gzip\r\n")


async def test_a_worker_that_drains_ends_connections_and_a_full_one_refuses() -> None:
    async with ready() as (proxy, ask):
        proxy.worker._tally.in_flight = proxy.worker._front.settings.max_in_flight
        with lines(proxy) as line:
            assert (await line.ask(b"/", b"", BODIES[0] % b"1"))[0].startswith(b"HTTP/1.1 503")
        proxy.worker._tally.in_flight = 0
        assert await ask()
        proxy.worker._front.draining = True
        with lines(proxy) as line:
            assert b"Connection: close" in (await line.ask(b"/", b"", BODIES[0] % b"1"))[0]


async def test_a_connection_it_answers_on_is_not_idle() -> None:
    async with ready() as (proxy, _):
        (known,) = proxy.worker._lanes.open
        with lines(proxy) as line:
            await line.ask(b"/", b"", BODIES[0] % b"1")
            (lane,) = proxy.worker._lanes.open - {known}
            transport = lane.transport
            assert transport is not None
            for seconds, ends in ((100.0, False), (74.0, False), (76.0, True)):
                lane.look(lane._touched + seconds, HttpSettings())
                assert transport.is_closing() == ends


async def test_a_bug_on_it_is_answered_and_ends_the_connection() -> None:
    clock = BreakingClock()
    async with ready(clock=clock) as (proxy, ask):
        assert await ask()
        clock.break_once()
        with lines(proxy) as line:
            head, _ = await line.ask(b"/", b"", BODIES[0] % b"1")
            assert head.startswith(b"HTTP/1.1 500")
            assert b"Connection: close" in head
