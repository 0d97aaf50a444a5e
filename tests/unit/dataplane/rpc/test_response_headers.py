"""Where an answer came from, in headers."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

import msgspec
import pytest

from rpcaccel.core.dispatch.outcome import Leg, Outcome
from rpcaccel.core.stats.counters import AnswerSource
from rpcaccel.dataplane.rpc import response_headers
from rpcaccel.dataplane.rpc.response_headers import DateHeader
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import proxying


def read(lines: str) -> dict[str, str]:
    """Header lines as names and values."""
    assert not lines or lines.endswith("\r\n")
    return dict(line.split(": ", 1) for line in lines.split("\r\n")[:-1])


def call(outcome: Outcome, shown: response_headers.HeadersShown, seconds: float) -> dict[str, str]:
    return read(response_headers.for_call(outcome, shown, seconds))


def batch(outcomes: list[Outcome], shown: response_headers.HeadersShown, seconds: float) -> dict[str, str]:
    return read(response_headers.for_batch(outcomes, shown, seconds))


MISS = Outcome(
    source=AnswerSource.NODE, result=b"1", node="a", block=7, attempts=2, steps=(("redis", 0.0012), ("forward", 0.25))
)


def test_a_single_answer_names_cache_node_block_attempts_and_the_time_of_each_step() -> None:
    assert call(MISS, "all", 0.252) == {
        "X-Rpcaccel-Cache": "miss",
        "X-Rpcaccel-Node": "a",
        "X-Rpcaccel-Block": "7",
        "X-Rpcaccel-Attempts": "2",
        "Server-Timing": "redis;dur=1.20, forward;dur=250.00, total;dur=252.00",
    }


def test_several_attempts_are_told_with_their_beginning_and_end() -> None:
    legs = (Leg("a", 0.0, 0.12, "timeout"), Leg("b", 0.1, 0.15, "answered"))
    assert call(msgspec.structs.replace(MISS, legs=legs), "all", 0.252)["Server-Timing"] == (
        'redis;dur=1.20, forward;dur=250.00, attempt;desc="a timeout";start=0.00;dur=120.00, '
        'attempt;desc="b answered";start=100.00;dur=150.00, total;dur=252.00'
    )


def test_the_set_can_be_reduced_but_the_time_to_come_back_is_always_said() -> None:
    busy = Outcome(source=AnswerSource.NODE, error=b"{}", retry_after=0.2)
    assert call(busy, "cache", 0.1) == {"Retry-After": "1", "X-Rpcaccel-Cache": "miss"}
    assert call(busy, "none", 0.1) == {"Retry-After": "1"}


def test_a_hit_names_no_node() -> None:
    hit = call(Outcome(source=AnswerSource.MEMORY, result=b"1", block=7), "all", 0.001)
    assert hit["X-Rpcaccel-Cache"] == "memory"
    assert "X-Rpcaccel-Node" not in hit
    assert "X-Rpcaccel-Attempts" not in hit


def test_a_range_put_together_says_how_many_blocks_were_known() -> None:
    part = Outcome(source=AnswerSource.PARTIAL, result=b"[]", node="a, b", cached=(37, 40))
    assert call(part, "cache", 0.1) == {"X-Rpcaccel-Cache": "partial; cached=37; of=40"}
    assert batch([part], "cache", 0.1) == {"X-Rpcaccel-Cache": "partial=1"}


def test_a_batch_is_summed_up() -> None:
    hit = Outcome(source=AnswerSource.MEMORY, result=b"1", block=6)
    assert batch([MISS, hit, hit], "all", 0.25) == {
        "X-Rpcaccel-Cache": "memory=2, miss=1",
        "X-Rpcaccel-Node": "a",
        "X-Rpcaccel-Block": "6",
        "X-Rpcaccel-Attempts": "2",
        "Server-Timing": "total;dur=250.00",
    }
    headless = Outcome(source=AnswerSource.REFUSED, error=b"{}")
    assert batch([headless, MISS, hit, headless, MISS], "all", 0.25)["X-Rpcaccel-Block"] == "6"
    assert "X-Rpcaccel-Block" not in batch([headless], "all", 0.25)
    assert batch([MISS], "cache", 0.25) == {"X-Rpcaccel-Cache": "miss=1"}
    assert batch([], "all", 0.25) == {}


@pytest.mark.parametrize(("told", "seconds"), [("2s", 2.0), ("500ms", 0.5), ("1.5", 1.5), ("0", None), ("soon", None)])
def test_the_time_a_client_gives_is_a_duration(told: str, seconds: float | None) -> None:
    assert response_headers.seconds_given(told) == seconds


@pytest.mark.parametrize("source", [AnswerSource.LOCAL, AnswerSource.MEMORY])
@pytest.mark.parametrize("seconds", [0.0, 4.9e-6, response_headers.MIN_SHOWN_SECONDS, 1.23e-5, 0.5])
@pytest.mark.parametrize("shown", ["all", "cache", "none"])
def test_a_known_hit_is_told_as_any_other(
    source: AnswerSource, seconds: float, shown: response_headers.HeadersShown
) -> None:
    time = response_headers.hundredths(seconds)
    lines = response_headers.for_call(Outcome(source=source, result=b"1", block=7), shown, seconds)
    hit = response_headers.of_hit(source is AnswerSource.LOCAL, 7, shown, time)
    assert hit == f"HTTP/1.1 200 OK\r\n{lines}".encode()
    assert (time == 0) == (seconds < response_headers.MIN_SHOWN_SECONDS)


async def test_answers_carry_the_date_of_their_second() -> None:
    async with harmony_nodes(1) as nodes, proxying(nodes) as proxy:
        date = proxy.worker._lanes.date
        for _ in range(2):
            date.until = 0.0  # another second has begun
            reply = await proxy.call("net_peerCount")
            assert abs(parsedate_to_datetime(reply.headers["Date"]).timestamp() - time.time()) < 2.0
            assert date.until > 0.0


def test_the_date_is_that_of_the_second_and_says_when_the_next_one_begins() -> None:
    date = DateHeader(b"\r\n\r\n{")
    assert date.until < 0.0
    before = time.time()
    date.turn(1000.0)
    told = parsedate_to_datetime(date.text.removeprefix("\r\nDate: ")).timestamp()
    assert int(before) <= told <= time.time()
    assert 1000.0 < date.until <= 1001.0
    assert date.bytes == date.text.encode() + b"\r\n\r\n{"
