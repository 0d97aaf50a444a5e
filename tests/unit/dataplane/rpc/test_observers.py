"""What is kept of calls while somebody records, and what never is."""

from __future__ import annotations

import random
import sys
from hashlib import sha256
from typing import Any

import orjson
import structlog

from rpcaccel.config.model import Settings
from rpcaccel.core import client_limits
from rpcaccel.core.dispatch.outcome import Outcome
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass, Rule
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.dataplane.rpc.access_log import AccessLog
from rpcaccel.dataplane.rpc.admission import NOBODY
from rpcaccel.dataplane.rpc.observers import MAX_RECORDED_BYTES, UNASKED_SECONDS, Both, Observers, Recorder
from rpcaccel.dataplane.rpc.tracing import Tracing
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.manual_clock import ManualClock
from tests.support.proxy import Proxy, proxying, settings_for

KEY = client_limits.make(bytes(32))
SIGNED = b'["0xf86b01"]'
"""Params of a call that sends a signed transaction."""
GOOD = Outcome(source=AnswerSource.NODE, result=b"1")
RULE = Rule(method="eth_gasPrice", cache=CacheClass.HEAD)
PLAN = Plan(network="s0", method="eth_gasPrice", rule=RULE, params=b"[]", asked=b"[]", cache=CacheClass.HEAD)


async def proxied(proxy: Proxy, *methods: str) -> list[str]:
    """Call them while it is recorded; the methods that were kept."""
    proxy.worker.record(1.0)
    for method in methods:
        await proxy.call(method)
    return [seen.method for seen in proxy.worker.record(1.0, stop=True).calls]


async def test_calls_are_kept_with_where_they_stood_until_they_are_taken_away() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        await proxy.call("hmyv2_getBlockByNumber", 26, {})
        proxy.worker.record(1.0)
        await proxy.call("hmyv2_getBlockByNumber", 26, {})
        await proxy.post(b'[{"id":1,"method":"hmyv2_blockNumber"},{"id":2,"method":"eth_getBalance","params":'
                         b'["0x7c41e0668b551f4f902cfaec05b5bdca68b124ce", "latest"]}]')  # fmt: skip
        block, number, balance = proxy.worker.record(1.0).calls
        assert (block.network, block.method, block.params) == ("harmony-s0", "hmyv2_getBlockByNumber", "[26,{}]")
        assert (block.block, block.head, block.source, block.hashed) == (26, nodes[0].head, "memory", False)
        assert (number.method, number.source) == ("hmyv2_blockNumber", "local")
        assert balance.params == '["0x7c41e0668b551f4f902cfaec05b5bdca68b124ce", "latest"]'
        assert balance.block == balance.head == nodes[0].head
        assert block.at <= balance.at
        assert proxy.worker.record(1.0, stop=True).calls == ()
        await proxy.call("hmyv2_blockNumber")
        assert proxy.worker.record(1.0, stop=True).calls == ()


async def test_calls_that_are_answered_on_the_hit_path_otherwise_are_kept_too() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        for _ in range(3):  # known by now
            await proxy.call("eth_chainId")
        assert await proxied(proxy, "eth_chainId", "eth_chainId") == ["eth_chainId", "eth_chainId"]


async def test_nothing_is_kept_that_may_hold_a_secret_and_of_transactions_a_hash() -> None:
    clients = {"keys": {"dapp": {"hashes": [client_limits.hashed(KEY)]}}}
    async with harmony_nodes(1) as nodes, proxying(nodes, clients=clients) as proxy:
        proxy.worker.record(1.0)
        for method, params in (("personal_unlockAccount", ["0xabc", "sesame"]), ("hmyv2_call", [{"to": "0x1"}]),
                               ("eth_sendRawTransaction", ["0xf86b01"]), ("nobody_knowsThis", ["sesame"])):  # fmt: skip
            body = {"jsonrpc": "2.0", "id": "mine", "method": method, "params": params}
            await proxy.post(orjson.dumps(body), f"/key/{KEY}", X_Request_Id="abc-1")
        call, sent = proxy.worker.record(1.0, stop=True).calls
        assert (call.method, sent.method, sent.hashed) == ("hmyv2_call", "eth_sendRawTransaction", True)
        assert sent.params == f'["{sha256(SIGNED).hexdigest()}"]'
        kept = repr((call, sent))
        assert not [secret for secret in (KEY, "sesame", "127.0.0.1", "abc-1", "mine", "f86b01") if secret in kept]


async def test_the_access_log_is_written_on_while_it_is_recorded() -> None:
    with structlog.testing.capture_logs() as lines:
        async with harmony_nodes(1) as nodes, proxying(nodes, log={"access": True}) as proxy:
            assert await proxied(proxy, "eth_chainId") == ["eth_chainId"]
            assert (await proxy.call("eth_gasPrice")).headers["X-Request-ID"]
    assert [line["method"] for line in lines if line["event"] == "call"] == ["eth_chainId", "eth_gasPrice"]


async def test_settings_that_change_meanwhile_end_no_recording() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        proxy.worker.record(1.0)
        proxy.worker.adopt(settings_for(nodes), 2)
        assert await proxied(proxy, "eth_chainId") == ["eth_chainId"]


def recorder(clock: ManualClock, over: list[int]) -> Recorder:
    return Recorder(clock.now, random.Random(1), lambda: over.append(1))


def test_a_recording_nobody_takes_away_ends_with_the_next_call() -> None:
    clock, over = ManualClock(), list[int]()
    made = recorder(clock, over)
    assert made.before(None) is None
    made.take(1.0)
    assert made.before(None) is made
    made.answered(NOBODY, PLAN, GOOD, 0.0)
    clock.advance(UNASKED_SECONDS + 1)
    assert not over
    made.answered(NOBODY, PLAN, GOOD, 0.0)
    assert over
    assert repr(made) == "<recorder off, 0 calls>"
    assert made.before(None) is None


def test_a_sample_is_a_share_and_what_finds_no_room_is_counted() -> None:
    made = recorder(ManualClock(), [])
    made.take(0.25)
    for _ in range(2000):
        made.answered(NOBODY, PLAN, GOOD, 0.0)
    kept, missed = made.take(1.0)
    assert 400 < len(kept) < 600
    assert missed == 0
    for _ in range(MAX_RECORDED_BYTES // 200):
        made.answered(NOBODY, PLAN, GOOD, 0.0)
    kept, missed = made.stop()
    assert 0 < missed < len(kept)
    assert len(kept) + missed == MAX_RECORDED_BYTES // 200


def test_params_that_are_not_ascii_are_counted_as_wide_as_their_text() -> None:
    wide = Plan(network="s0", method="m", rule=RULE, params=b"", asked='["😀"]'.encode() * 1000, cache=RULE.cache)
    made = recorder(ManualClock(), [])
    made.take(1.0)
    for _ in range(MAX_RECORDED_BYTES // len(wide.asked)):
        made.answered(NOBODY, wide, GOOD, 0.0)
    kept, missed = made.stop()
    assert sum(map(sys.getsizeof, [one.params for one in kept])) <= MAX_RECORDED_BYTES
    assert missed > 0


# -- the access log and traces ------------------------------------------------------------------------------------

TRACED = {"endpoint": "http://127.0.0.1:1"}


def settings(**more: Any) -> Settings:
    return Settings.model_validate({"networks": {"s0": {"nodes": ["http://127.0.0.1:2"]}}, **more})


async def test_those_are_told_whom_the_settings_want_told() -> None:
    observers = Observers()
    assert observers.adopt(settings()) == (None, None)
    log, old = observers.adopt(settings(log={"slow": 1}))
    assert (type(log), old) == (AccessLog, None)
    tracing, old = observers.adopt(settings(tracing=TRACED))
    assert (type(tracing), old) == (Tracing, None)
    both, old = observers.adopt(settings(tracing=TRACED, log={"access": True}))
    assert (type(both), old) == (Both, None)
    other, old = observers.adopt(settings(tracing={**TRACED, "sample": 0.5}))
    assert (type(other), old) == (Tracing, tracing)
    nobody, last = observers.adopt(settings())
    assert (nobody, last) == (None, other)
    for closed in (old, last):
        assert isinstance(closed, Tracing)
        await closed.close()
    await observers.close()
