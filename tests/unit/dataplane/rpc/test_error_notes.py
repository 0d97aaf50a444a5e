"""What a worker notes of errors that clients get: of each cause the count, and of a few calls the whole story."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import orjson
import pytest

from rpcaccel.core import client_limits, messages
from rpcaccel.core.dispatch.outcome import Leg, Outcome
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import UNKNOWN_RULE, CacheClass, MethodKind, Rule
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.core.stats.error_log import PARAMS_OFF, ErrorGroup, ErrorLog, ErrorNews, ErrorSample, ErrorsSeen
from rpcaccel.core.wire import jsonrpc
from rpcaccel.dataplane.rpc.admission import NOBODY
from rpcaccel.dataplane.rpc.error_notes import (
    HASHED,
    MAX_ERROR_GROUPS,
    MAX_ERROR_SAMPLES,
    MAX_NAMED_METHODS,
    MAX_PARAMS_CHARACTERS,
    MAX_SAMPLES_OF_A_GROUP,
    PARAMS_UNREAD,
    ErrorNotes,
)
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.proxy import Proxy, proxying

KEY = client_limits.make(bytes(32))
READ = Rule(method="hmyv2_call", cache=CacheClass.HEAD)
SECRET = "s3cretkey1234567"


def plan_of(method: str = "hmyv2_call", params: bytes = b'["0x1"]', rule: Rule = READ) -> Plan:
    return Plan(network="s0", method=method, rule=rule, params=params, asked=params, cache=CacheClass.HEAD)


def failed(message: str = "no answer", code: int = -32000, **more: Any) -> Outcome:
    about: dict[str, Any] = {"source": AnswerSource.NODE, "kind": FailureKind.TIMEOUT, "node": "b"}
    return Outcome(error=jsonrpc.error_object(code, message), **{**about, **more})


def noted(notes: ErrorNotes) -> tuple[ErrorsSeen, ...]:
    news = notes.take()
    return () if news is None else news.groups


def test_nothing_is_said_when_no_call_ended_in_an_error() -> None:
    assert ErrorNotes().take() is None


def test_errors_of_one_cause_are_counted_together_and_only_a_few_are_kept_whole() -> None:
    notes = ErrorNotes(lambda: 5.0)
    for number in range(100):
        notes.note(NOBODY, plan_of(), failed(f"no answer within {number} s"), 0.5)
    (group,) = noted(notes)
    assert (group.count, group.key.text, group.clients, group.nodes) == (
        *(100, "no answer within # s"),
        *({"anonymous": 100}, {"b": 100}),
    )
    assert len(group.samples) == MAX_SAMPLES_OF_A_GROUP
    assert noted(notes) == ()


def test_a_flood_of_causes_names_and_params_stays_bounded_and_is_counted_to_the_last() -> None:
    notes, log = ErrorNotes(), ErrorLog()
    for number in range(3000):
        name = f"invented\n{number}" * 50
        notes.called("s0", name)
        plan = plan_of(name, b'["%b"]' % (b"x" * 10_000), UNKNOWN_RULE)
        notes.note(NOBODY, plan, failed(name, kind=FailureKind.METHOD_MISSING), 0.0)
    news = notes.take()
    assert news is not None
    assert len(news.groups) == MAX_ERROR_GROUPS + 1
    assert sum(len(group.samples) for group in news.groups) <= MAX_ERROR_SAMPLES
    assert sum(group.count for group in news.groups) == 3000
    assert len(news.methods) == MAX_NAMED_METHODS
    assert sum(method.calls for method in news.methods) + news.unnamed == 3000
    assert all(group.key.method.isprintable() and len(group.key.method) <= 64 for group in news.groups)
    log.take(news, 0.0)
    assert log.size < 330_000


def test_failures_of_nodes_are_not_told_apart_by_invented_names() -> None:
    notes = ErrorNotes()
    for number in range(50):
        notes.note(NOBODY, plan_of(f"invented{number}", rule=UNKNOWN_RULE), failed(), 0.0)
    (group,) = noted(notes)
    assert (group.key.method, group.key.fault, group.count) == ("other", "service", 50)


def test_a_code_of_any_length_can_be_told_and_is_the_clients_to_read() -> None:
    notes = ErrorNotes()
    outcome = failed(code=2**70)
    notes.note(NOBODY, plan_of(), outcome, 0.0)
    news = notes.take()
    assert news is not None
    assert messages.encode(news)
    assert news.groups[0].key.code == 0
    assert str(2**70).encode() in (outcome.error or b"")


def sampled(kind: MethodKind = "read", params: bytes = b'["0x1"]', *, on: bool = True, **more: Any) -> ErrorSample:
    notes = ErrorNotes()
    notes.params = on
    rule = Rule(**{"method": "m", "cache": CacheClass.NEVER, "kind": kind, **more})
    notes.note(NOBODY, plan_of("m", params, rule), failed(), 0.5)
    (group,) = noted(notes)
    return group.samples[0]


@pytest.mark.parametrize(
    ("sample", "params", "note"),
    [
        (sampled(), '["0x1"]', ""),
        (sampled(on=False), "", PARAMS_OFF),
        (sampled("write"), "", PARAMS_UNREAD),
        (sampled(deny=True), "", PARAMS_UNREAD),
        (sampled(method=""), "", PARAMS_UNREAD),
        (sampled(params=b'["a\n\x1b\xff"]'), '["a\\n\\x1b\ufffd"]', ""),
    ],
)
def test_params_are_shown_where_a_rule_says_what_they_hold(sample: ErrorSample, params: str, note: str) -> None:
    assert (sample.params, sample.params_note) == (params, note)


def test_long_params_are_cut() -> None:
    sample = sampled(params=b'["%b"]' % (b"\x00" * 5000))
    assert len(sample.params) == MAX_PARAMS_CHARACTERS
    assert sample.params.endswith("…")


def test_a_signed_transaction_is_shown_as_a_hash() -> None:
    sample = sampled("send", b'["0xf86c0a85"]')
    assert "f86c" not in sample.params
    assert sample.params_note == HASHED
    assert len(orjson.loads(sample.params)[0]) == 64


RAW = f"0x{'f8' * 100}"


@pytest.mark.parametrize(
    ("rule", "on", "quoted"),
    [
        (READ, True, True),
        (READ, False, False),
        (Rule(method="m", cache=CacheClass.NEVER, kind="send"), True, False),
        (UNKNOWN_RULE, True, False),
    ],
)
def test_words_that_quote_params_are_folded_where_params_may_not_be_shown(rule: Rule, on: bool, quoted: bool) -> None:
    notes = ErrorNotes()
    notes.params = on
    legs = (Leg("b", 0.0, 0.1, "unknown", f"cannot decode {RAW}"),)
    notes.note(NOBODY, plan_of("m", b"[]", rule), failed(f"cannot decode {RAW}", legs=legs), 0.5)
    (sample,) = noted(notes)[0].samples
    for text in (sample.message, sample.attempts[0].said):
        assert text == (f"cannot decode {RAW}" if quoted else "cannot decode <hex>")


# -- a whole worker --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def noting(nodes: Sequence[SimNode], **more: Any) -> AsyncIterator[tuple[Proxy, ErrorLog]]:
    """A worker, and the log of what it tells of errors."""
    log = ErrorLog()
    hear = partial(_hear, log)
    async with proxying(nodes, on_hint=hear, **more) as proxy:
        yield proxy, log


def _hear(log: ErrorLog, word: object) -> None:
    if isinstance(word, ErrorNews):
        log.take(word, 0.0)


def seen(proxy: Proxy, log: ErrorLog) -> dict[tuple[str, str], ErrorGroup]:
    """The groups that a worker noted so far, by fault and method."""
    proxy.worker._tell_errors()
    return {(group.key.fault, group.key.method): group for group in log.groups()}


async def test_a_report_that_cannot_be_sent_is_logged_and_neither_ends_the_reports_nor_the_drain() -> None:
    def tell(_word: object) -> None:
        raise RuntimeError

    logged: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, told: logged.append(told["message"]))
    async with harmony_nodes(1) as nodes, proxying(nodes, on_hint=tell) as proxy:
        for _ in range(2):
            await proxy.call("hmyv2_nope")
            proxy.worker._tell_errors()
        await proxy.call("hmyv2_nope")
        await proxy.worker.drain(1.0)
    assert logged == ["errors that clients got are not reported"] * 3


async def test_a_sample_tells_whose_call_it_was_and_what_each_node_said() -> None:
    clients = {"keys": {"shop": {"hashes": [client_limits.hashed(KEY)]}}}
    async with harmony_nodes(2) as nodes, noting(nodes, clients=clients) as (proxy, log):
        for node in nodes:
            node.knobs.turn({"faults": {"error": 1.0}, "error_text": "shard 9 is on holiday"})
        body = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getBlockByNumber", "params": [26, {}]}
        await proxy.post(orjson.dumps(body), f"/key/{KEY}", X_Request_Id="abc-1")
        group = seen(proxy, log)["service", "hmyv2_getBlockByNumber"]
    assert (group.count, group.clients, group.key.text) == (1, {"shop": 1}, "shard # is on holiday")
    (sample,) = group.samples
    assert (sample.client, sample.request, sample.params) == ("shop", "abc-1", "[26,{}]")
    assert sample.message == "shard 9 is on holiday"
    assert group.nodes == {sample.node: 1}
    assert [(attempt.end, attempt.said) for attempt in sample.attempts] == [("unknown", "shard 9 is on holiday")] * 2
    assert {attempt.node for attempt in sample.attempts} == {node.name for node in nodes}
    assert sample.stopped == "no other node could be asked"


async def test_the_only_attempt_of_a_call_is_told_when_it_failed() -> None:
    async with harmony_nodes(1) as nodes, noting(nodes) as (proxy, log):
        reply = await proxy.call("hmyv2_getBlockByNumber", "not a block", {})
        assert "attempt" not in reply.headers["Server-Timing"]
        group = seen(proxy, log)["client", "hmyv2_getBlockByNumber"]
        (attempt,) = group.samples[0].attempts
    assert (attempt.end, attempt.said) == ("invalid-params", group.samples[0].message)


async def test_a_client_that_gave_too_little_time_is_told_apart_from_a_node_that_did_not_answer() -> None:
    async with harmony_nodes(1) as nodes, noting(nodes, net={"deadline": "100ms"}) as (proxy, log):
        nodes[0].knobs.turn({"faults": {"hang": 1.0}})
        bodies = [
            orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getBlockByNumber", "params": [block, {}]})
            for block in (26, 26, 27)
        ]
        times = ("1ms", "1ms", "60s")
        replies = await asyncio.gather(
            *(proxy.post(body, X_Rpcaccel_Timeout=given) for body, given in zip(bodies, times, strict=True))
        )
        found = seen(proxy, log)
        (cell,) = proxy.worker.report().tally.cells
    assert [reply.status for reply in replies] == [504] * 3
    by_client, failed = (found[fault, "hmyv2_getBlockByNumber"] for fault in ("client", "service"))
    assert (by_client.kind, by_client.count) == ("client-deadline", 2)
    assert (failed.kind, failed.count) == ("timeout", 1)
    assert (cell.client_errors, cell.errors) == (2, 1)


async def test_no_secret_of_a_nodes_address_is_noted() -> None:
    async with harmony_nodes(1) as nodes:
        nodes[0].knobs.turn({"faults": {"error": 1.0}, "error_text": f"no quota for {SECRET} today"})
        own = {"nodes": [{"id": nodes[0].name, "url": f"{nodes[0].url}/?key={SECRET}"}]}
        async with noting(nodes, net=own) as (proxy, log):
            await proxy.call("hmyv2_getBlockByNumber", 26, {})
            group = seen(proxy, log)["service", "hmyv2_getBlockByNumber"]
    assert SECRET not in str(group)
    assert "***" in group.key.text
    assert "***" in group.samples[0].attempts[0].said


async def test_refused_calls_are_noted_by_what_refused_them() -> None:
    clients = {"anonymous": {"deny": ["hmyv2_call"]}}
    http = {"deny": ["hmyv2_getBalance"], "max_batch_answer": 400}
    async with harmony_nodes(1) as nodes, noting(nodes, clients=clients, http=http) as (proxy, log):
        for method in ("hmyv2_call", "hmyv2_getBalance", "hmyv2_setNodeToBackupMode"):
            await proxy.call(method)
        block = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getBlockByNumber", "params": [26, {}]}
        await proxy.post(orjson.dumps([block] * 3))
        found = seen(proxy, log)
    assert {method for fault, method in found if fault == "refused"} == {
        *("hmyv2_call", "hmyv2_getBalance", "hmyv2_setNodeToBackupMode", "hmyv2_getBlockByNumber")
    }
    assert "not allowed for you" in found["refused", "hmyv2_call"].key.text
    assert found["refused", "hmyv2_getBlockByNumber"].count == 3


async def test_methods_without_a_rule_are_counted_by_name() -> None:
    async with harmony_nodes(1) as nodes, noting(nodes, http={"deny": ["admin_*"]}) as (proxy, log):
        for _ in range(3):
            await proxy.call("hmyv2_nope")
        await proxy.call("admin_nope")  # refused
        await proxy.call("hmyv2_blockNumber")
        proxy.worker._tell_errors()
    (method,) = log.methods()
    assert (method.method, method.calls, method.errors) == ("hmyv2_nope", 3, 3)


async def test_the_setting_keeps_params_out() -> None:
    async with harmony_nodes(1) as nodes, noting(nodes, errors={"params": False}) as (proxy, log):
        await proxy.call("hmyv2_getBlockByNumber", "not a block", {})
        sample = seen(proxy, log)["client", "hmyv2_getBlockByNumber"].samples[0]
    assert (sample.params, sample.params_note) == ("", PARAMS_OFF)


def test_an_error_that_comes_in_a_later_report_than_its_call_is_counted_for_the_methods_name() -> None:
    notes, log = ErrorNotes(lambda: 7.0), ErrorLog()
    notes.called("s0", "hmyv2_nope")
    for _ in range(2):
        news = notes.take()
        assert news is not None
        log.take(news, 0.0)
        plan = plan_of("hmyv2_nope", b"[]", UNKNOWN_RULE)
        notes.note(NOBODY, plan, failed("no such method", kind=FailureKind.METHOD_MISSING), 0.0)
    (named,) = log.methods()
    assert (named.calls, named.errors, named.last_seen) == (1, 1, 7.0)
