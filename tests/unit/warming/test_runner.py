"""The job at work, against an endpoint that says what a test wants it to."""

from __future__ import annotations

import asyncio
import errno
import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from rpcaccel.bench.load.client import LoadReply, Outcome
from rpcaccel.bench.load.progress import Watch
from rpcaccel.warming import block_calls
from rpcaccel.warming.block_calls import BlockCall
from rpcaccel.warming.job import FailedCalls, WarmingJob, WarmingOrder, number_of, read
from rpcaccel.warming.runner import MAX_FAILED_BLOCKS_IN_A_ROW, MAX_TRIES, MAX_WAIT_SECONDS, SAVE_SECONDS, WarmingRunner
from rpcaccel.warming.warming_limits import Pace, QuotaGuard, Spare
from tests.support.instant_time import instantly

SIMPLE = (BlockCall("block", "[{block}]"),)
GOOD = '{"id":1,"result":{}}'
Answer = Callable[[str, list[object]], Outcome]


def reply(body: str, status: int = 200, source: str = "miss", pause: str = "") -> LoadReply:
    return LoadReply(status, body.encode(), source, True, pause)


def error(code: int) -> str:
    return f'{{"id":1,"error":{{"code":{code},"message":"no"}}}}'


class Endpoint:
    """Answers after `takes` seconds what a test's function says."""

    def __init__(self, answer: Answer = lambda _method, _params: reply(GOOD), takes: float = 0.0) -> None:
        self._answer = answer
        self._takes = takes
        self.asked: list[tuple[str, list[object]]] = []
        self.times: list[float] = []
        self.at_once = self.most = 0

    async def post(self, body: bytes) -> Outcome:
        call = json.loads(body)
        self.asked.append((call["method"], call["params"]))
        self.times.append(asyncio.get_running_loop().time())
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(self._takes)
        self.at_once -= 1
        return self._answer(call["method"], call["params"])

    @property
    def blocks(self) -> list[object]:
        return [params[0] for _, params in self.asked]


def job(last: int = 5, first: int = 1) -> WarmingJob:
    return WarmingJob(WarmingOrder("http://a", "x", first, last, ("block [{block}]",)), 10**9)


def runner(
    made: WarmingJob, endpoint: Endpoint, calls: tuple[BlockCall, ...] = SIMPLE, **more: object
) -> WarmingRunner:
    return WarmingRunner(made, block_calls.with_sources(calls, "ethereum"), endpoint.post, **more)  # type: ignore[arg-type]


@instantly
async def test_every_block_is_called_once_so_many_at_once() -> None:
    endpoint, made = Endpoint(takes=1.0), job(20)
    run = runner(made, endpoint)
    await run.run(4)
    assert endpoint.blocks == list(range(1, 21))
    assert endpoint.most == 4
    assert made.complete
    assert (run.tally.calls, run.tally.bytes, run.broken) == (20, 20 * len(GOOD), "")
    assert repr(run) == "<WarmingRunner of <WarmingJob 20 of 20 blocks done, 0 given up>>"


@pytest.mark.parametrize("result", ["{}", "[]", '{"hash":"0x1"}'])
def test_a_block_without_hashes_is_a_failure(result: str) -> None:
    @instantly
    async def story() -> None:
        endpoint, made = Endpoint(lambda _method, _params: reply(f'{{"id":1,"result":{result}}}')), job(1)
        run = runner(made, endpoint, block_calls.of_methods(["eth_getTransactionReceipt"], "ethereum"))
        await run.run(1)
        assert made.given_up == 1
        assert list(run.tally.failures) == [("eth_getBlockByNumber", "the answer is no block with hashes")]

    story()


@instantly
async def test_a_call_that_fails_is_repeated_a_few_times_and_then_left_out() -> None:
    endpoint = Endpoint(lambda _method, params: reply(error(-32000) if params == [3] else GOOD))
    made = job()
    run = runner(made, endpoint)
    await run.run(2)
    assert Counter(endpoint.blocks) == {1: 1, 2: 1, 3: MAX_TRIES, 4: 1, 5: 1}
    assert (made.done, made.given_up, made.left) == (4, 1, [(3, 3)])
    assert list(run.tally.failures.values()) == [FailedCalls("block", "-32000 no", 3)]


@instantly
async def test_a_call_that_fails_once_is_done_by_the_second_attempt() -> None:
    said = iter([error(-32000), GOOD])
    made = job(1)
    run = runner(made, Endpoint(lambda _method, _params: reply(next(said))))
    await run.run(1)
    assert made.complete
    assert (run.tally.failed_calls, run.trouble) == (0, "")


@instantly
async def test_what_no_repetition_helps_is_not_repeated() -> None:
    endpoint, made = Endpoint(lambda _method, _params: reply(error(-32601))), job(1)
    await runner(made, endpoint).run(1)
    assert len(endpoint.asked) == 1
    assert made.given_up == 1


@instantly
async def test_the_whole_job_waits_as_long_as_the_proxy_says() -> None:
    said = iter([reply(error(-32005), 429, pause="30")])
    endpoint, made = Endpoint(lambda _method, _params: next(said, reply(GOOD))), job(6)
    await runner(made, endpoint).run(1)
    assert [round(at - endpoint.times[0]) for at in endpoint.times] == [0, 30, 30, 30, 30, 30, 30]
    assert made.complete


@instantly
async def test_without_a_word_how_long_the_pauses_grow() -> None:
    said = iter([reply(error(-32005), 429)] * 4)
    endpoint = Endpoint(lambda _method, _params: next(said, reply(GOOD)))
    await runner(job(1), endpoint).run(1)
    times = endpoint.times
    assert [round(after - before) for before, after in pairwise(times)] == [1, 2, 4, 8]


@instantly
async def test_a_call_that_is_always_too_much_is_left_out_in_the_end() -> None:
    endpoint, made = Endpoint(lambda _method, _params: reply(error(-32005), 429)), job(1)
    await runner(made, endpoint).run(1)
    assert MAX_WAIT_SECONDS <= endpoint.times[-1] - endpoint.times[0] <= MAX_WAIT_SECONDS + 60
    assert (made.given_up, made.complete) == (1, False)


@instantly
async def test_a_proxy_that_is_gone_is_waited_for_and_ends_the_job_when_it_stays_away() -> None:
    away: list[Outcome] = ["connect"] * 5
    endpoint, made = Endpoint(lambda _method, _params: away.pop() if away else reply(GOOD)), job()
    run = runner(made, endpoint)
    await run.run(1)
    assert made.complete
    gone, other = Endpoint(lambda _method, _params: "connect"), job(100)
    run = runner(other, gone)
    await run.run(4)
    assert run.broken == "nobody answers: connect"
    assert (other.done, other.given_up, number_of(other.left)) == (0, 0, 100)


@instantly
async def test_when_every_block_fails_the_job_is_given_up() -> None:
    endpoint, made = Endpoint(lambda _method, _params: reply(error(-32601))), job(10**6)
    run = runner(made, endpoint)
    await run.run(1)
    assert run.broken == f"{MAX_FAILED_BLOCKS_IN_A_ROW} blocks in a row failed"
    assert len(endpoint.asked) == MAX_FAILED_BLOCKS_IN_A_ROW
    assert number_of(made.left) == 10**6


@instantly
async def test_calls_keep_to_the_rate() -> None:
    endpoint = Endpoint()
    await runner(job(11), endpoint, pace=Pace(2)).run(4)
    assert abs(endpoint.times[-1] - endpoint.times[0] - 5.0) < 0.51


@instantly
async def test_it_stops_between_two_calls_and_the_next_run_does_the_rest() -> None:
    watch = Watch()

    def answer(_method: str, params: list[object]) -> Outcome:
        if params == [10]:
            watch.stop.set()
        return reply(GOOD)

    endpoint, made = Endpoint(answer, takes=0.1), job(20)
    calls = (*SIMPLE, BlockCall("more", "[{block}]"))
    await runner(made, endpoint, calls, watch=watch).run(4)
    assert 0 < made.done < 20
    left = [block for first, last in made.left for block in range(first, last + 1)]
    assert len(left) == 20 - made.done
    later = WarmingJob(made.order, 10**9, read(made.save()))
    rest = Endpoint()
    await runner(later, rest, calls).run(4)
    assert later.complete
    assert Counter(rest.blocks) == dict.fromkeys(left, 2)


@instantly
async def test_a_stop_ends_a_pause() -> None:
    watch = Watch()
    run = runner(job(), Endpoint(lambda _method, _params: reply(error(-32005), 429, pause="3600")), watch=watch)
    running = asyncio.create_task(run.run(2))
    await asyncio.sleep(10)
    assert run.paused == "-32005 no"
    watch.stop.set()
    began = asyncio.get_running_loop().time()
    await running
    assert asyncio.get_running_loop().time() - began < 1


class Quota:
    """A quota that counts the calls of an endpoint, as the proxy tells it: a second later."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.endpoint = Endpoint()

    async def read(self) -> Spare:
        now = asyncio.get_running_loop().time()
        used = sum(1 for at in self.endpoint.times if at <= now - 1)
        return Spare(max(0.0, self.limit - used), "a has 50% of its day's quota left")


@instantly
async def test_quotas_are_kept_to_and_the_job_goes_on_when_they_renew() -> None:
    quota, made, watch = Quota(30), job(100), Watch()
    run = runner(made, quota.endpoint, guard=QuotaGuard(quota.read), watch=watch)
    running = asyncio.create_task(run.run(4))
    await asyncio.sleep(600)
    assert len(quota.endpoint.asked) == 30
    assert run.paused == "a has 50% of its day's quota left"
    quota.limit = 1000
    await running
    assert made.complete


@instantly
async def test_answers_that_were_there_use_no_quota() -> None:
    quota, made = Quota(2), job(100)
    quota.endpoint = Endpoint(lambda _method, _params: reply(GOOD, source="disk"))
    quota.endpoint.times = NoTimes()
    run = runner(made, quota.endpoint, guard=QuotaGuard(quota.read))
    began = asyncio.get_running_loop().time()
    await run.run(2)
    assert asyncio.get_running_loop().time() - began < 1
    assert made.complete
    assert run.tally.there == 100


class NoTimes(list[float]):
    """Times of calls that reach no node."""

    def append(self, _at: float) -> None:
        """Nothing is noted."""


@instantly
async def test_the_file_is_written_while_the_job_runs() -> None:
    saved: list[bytes] = []
    await runner(job(), Endpoint(takes=SAVE_SECONDS * 0.7), save=saved.append).run(1)
    assert [read(one).left for one in saved[:2]] == [((2, 5),), ((3, 5),)]


@instantly
async def test_a_file_that_cannot_be_written_ends_the_job() -> None:
    def full(_file: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = runner(job(1000), Endpoint(takes=1.0), save=full)
    await run.run(1)
    assert run.broken == "the job's file cannot be written: No space left on device"


@instantly
async def test_progress_tells_calls_and_blocks_a_second() -> None:
    seen: list[tuple[float, float]] = []
    made = job(100)
    calls = (*SIMPLE, BlockCall("more", "[{block}]"))
    await runner(made, Endpoint(takes=1.0), calls, show=lambda run: seen.append(run.rates)).run(2)
    assert seen[0] == (0.0, 0.0)
    assert seen[-1] == pytest.approx((2, 1), rel=0.1)


@instantly
async def test_a_block_is_fetched_once_for_all_calls_that_take_hashes_out_of_it() -> None:
    hashes = [f"0x{digit * 64}" for digit in "ab"]
    block = {"hash": "0x" + "c" * 64, "transactions": hashes}
    endpoint, made = Endpoint(lambda _method, _params: reply(json.dumps({"id": 1, "result": block}))), job(1)
    names = ["eth_getBlockByNumber", "eth_getTransactionReceipt", "eth_getTransactionByHash"]
    await runner(made, endpoint, block_calls.of_methods(names, "ethereum")).run(1)
    assert endpoint.asked == [
        *(("eth_getBlockByNumber", ["0x1", whole]) for whole in (False, True)),
        *(("eth_getTransactionReceipt", [one]) for one in hashes),
        *(("eth_getTransactionByHash", [one]) for one in hashes),
    ]
    assert made.complete


@instantly
async def test_it_rests_when_it_is_told_to_and_says_why() -> None:
    endpoint, made = Endpoint(takes=0.1), job(20)
    run = runner(made, endpoint)
    running = asyncio.create_task(run.run(1))
    await asyncio.sleep(0.55)
    run.slow_down(60.0, "answers come faster than they are written")
    await asyncio.sleep(5)
    assert run.paused == "answers come faster than they are written"
    done = made.done
    await asyncio.sleep(50)
    assert made.done == done < 20
    await running
    assert made.complete
    assert run.paused == ""
