"""The table of attacks: `python -m benchmarks.attacks --out docs/failures.md`, with --calls 10000 for the record.

Three simulated nodes and the proxy, each in a process of its own. Ordinary reads come at a constant rate in an open
loop, each checked; beside them goes on what a hostile client, or a hostile node, does. An attack checks the answers
that it gets itself, too: what is wrong with them counts as a failed call.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web

from benchmarks.attacked import (
    ADDRESS,
    CODE,
    DEEP_BLOCK,
    MB,
    TRACE,
    Attack,
    Case,
    Field,
    call_of,
    eight_floods,
    non_readers,
    read,
    request_of,
    says,
    streams,
    under,
)  # fmt: skip
from benchmarks.storms import Hail, Node, Weather, command, flap, watching
from rpcaccel.bench.report.report import Report, Table, count, machine, milliseconds
from rpcaccel.config.secrets import hash_password
from rpcaccel.simnode.chain.addresses import to_hex
from rpcaccel.simnode.chain.blocks import ChainSpec, Generator
from tests.support.services import LOOPBACK
from tests.support.storm import NETWORK, Caller

PASSWORD = "correct horse battery staple"
OWN = {"X-Rpcaccel-Request": "attack"}
"""The header that tells the admin side that no page of another site sends the request."""
OVERTIME_SECONDS = 120.0
"""Seconds that an attack may go on after the ordinary reads have ended."""

MAX_FAULTS_SHOWN = 5
"""Faults of an attack that are printed."""

# ---- clients --------------------------------------------------------------------------------------------------------


async def flood(field: Field, client: int) -> None:
    """Invented methods, bad parameters and calls that revert, each as a client may send them."""
    for number in itertools.takewhile(lambda _: field.going, itertools.count()):
        await asyncio.gather(
            field.call(f"hmyv2_invented{client}_{number}"),
            field.call("hmyv2_getBalance", f"one1 too many requests {number}"),
            field.call("hmyv2_getBlockByNumber", f"rate limit exceeded {number}", {}),
            field.call("eth_call", {"to": ADDRESS, "data": f"0x{number:08x}"}, "latest"),
        )


def flood_while(hurt: Callable[[Node], Awaitable[None]]) -> Attack:
    """The mistakes of four clients, while a node is hurt."""

    async def attack(field: Field) -> None:
        async def later() -> None:
            await asyncio.sleep(1.5)  # the clients have made many mistakes by then
            await hurt(field.nodes[0])

        hurting = asyncio.create_task(later())
        try:
            await asyncio.gather(*(flood(field, client) for client in range(4)))
        finally:
            hurting.cancel()
            await asyncio.gather(hurting, return_exceptions=True)

    return attack


async def hanging_calls(field: Field) -> None:
    """Sixty calls at a time that no node ever answers: half of them are heavy, half run a contract."""
    for node in field.nodes:
        await node.turn(faults={"hang": 1.0}, fault_methods=["eth_call", "eth_estimateGas"])
    for batch in itertools.takewhile(lambda _: field.going, itertools.count()):
        calls = [{"to": ADDRESS, "data": f"0x{batch:04x}{number:04x}"} for number in range(30)]
        methods = ("eth_call", "eth_estimateGas")
        await asyncio.gather(*(field.call(method, call, "latest") for call in calls for method in methods))


async def long_names(field: Field) -> None:
    """A hundred names of 5 MB."""
    for number in range(100):
        answer = await field.post(call_of(f"{number}" + "x" * (5 * MB - 200)))
        field.expect(len(answer) < 1000, f"a name came back in {len(answer)} bytes")


async def long_batch(field: Field) -> None:
    """Three hundred times one kept answer of 4 MB, in one request of some kilobytes."""
    field.relay.scripts[CODE] = says(b'"0x' + b"60" * (2 * MB) + b'"')
    batch = [call_of(CODE, ADDRESS, DEEP_BLOCK, id=number) for number in range(300)]
    for _ in range(3):
        answers = read(await field.post(batch))
        field.expect([answer["id"] for answer in answers] == list(range(300)), "items are missing or out of order")


async def many_batches(field: Field) -> None:
    """Ten clients at once, each with a batch of a hundred calls whose answers have 4 MB and are not kept."""
    field.relay.scripts[CODE] = says(b'"0x' + b"60" * (2 * MB) + b'"')
    await field.leave_to_first(CODE)

    async def client(number: int) -> None:
        batch = [call_of(CODE, f"0x{number:020x}{call:020x}", DEEP_BLOCK, id=call) for call in range(100)]
        answers = read(await field.post(batch))
        field.expect([answer["id"] for answer in answers] == list(range(100)), "items are missing or out of order")

    await asyncio.gather(*(client(number) for number in range(10)))


async def many_wordings(field: Field) -> None:
    """Eight thousand wordings of 4 kB of calls that are known, on every path there is."""
    prefixed = [f"/api/v1/{name}" for name in ("eth", "hmy/v1", "hmy/v2")]
    paths = ["", *prefixed, f"/{NETWORK}", *(f"/{NETWORK}{path}" for path in prefixed)]
    for number in range(8000):
        spaces = b" " * (4000 - number % 2000) + b"\t" * (1 + number // 2000)
        body = b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]%b}' % spaces
        await asyncio.gather(*(field.post(body, path) for path in paths))


async def half_closed(field: Field) -> None:
    """Clients that end their side of the connection once they have asked, hits and misses."""
    for number in itertools.takewhile(lambda _: field.going, itertools.count()):
        reader, writer = await asyncio.open_connection(LOOPBACK, field.port)
        writer.write(request_of(call_of("hmyv2_getBalance", f"0x{number:040x}"), close=True))
        writer.write_eof()
        answer = await reader.read()
        field.expect(b'"result"' in answer, f"a half-closed client got {answer[:60]!r}")
        writer.close()


async def refused_reloads(field: Field) -> None:
    """The proxy is told to read a broken configuration, and every call comes on a connection of its own."""
    good = field.config.read_text(encoding="utf-8")
    field.config.write_text(good + "\nbroken = [", encoding="utf-8")
    try:
        for number in itertools.takewhile(lambda _: field.going, itertools.count()):
            if number % 20 == 0:
                field.program.signal(signal.SIGHUP)
            try:
                reader, writer = await asyncio.open_connection(LOOPBACK, field.port)
                writer.write(request_of(call_of("eth_chainId"), close=True))
                field.expect(b'"result"' in await reader.read(), "a fresh connection got no answer")
                writer.close()
            except OSError as error:
                field.wrong.append(type(error).__name__)
    finally:
        field.config.write_text(good, encoding="utf-8")


async def wrong_passwords(field: Field) -> None:
    """Fifty guessers with the operator's account and address, while the operator logs in with the right password."""
    numbers = itertools.count()

    async def log_in(password: str) -> int:
        said = {"user": "operator", "password": password}
        async with field.http.post(f"{field.admin}/api/v1/session", json=said, headers=OWN) as reply:
            return reply.status

    async def guess() -> None:
        while field.going:
            status = await log_in(f"guess {next(numbers)}")
            field.expect(status == 401, f"a wrong password: {status}")

    guessers = [asyncio.create_task(guess()) for _ in range(50)]
    try:
        await asyncio.sleep(1)  # guesses first fill what they can
        for number in itertools.takewhile(lambda _: field.going, itertools.count()):
            status = await log_in(PASSWORD)
            field.expect(status == 200, f"login {number} of the operator: {status}")
            await asyncio.sleep(0.1)  # at the pace of a person in a hurry
    finally:
        for guesser in guessers:
            guesser.cancel()
        await asyncio.gather(*guessers, return_exceptions=True)


async def from_a_web_page(field: Field) -> None:
    """Calls that drive a node, from a page of another origin, while the node would carry them out."""
    for method in ("personal_unlockAccount", "miner_start", "admin_addPeer", "eth_sendTransaction", "debug_setHead"):
        field.relay.scripts[method] = says(b"true")
        for _ in range(3):  # nodes in turn
            field.expect("error" in await field.call(method, "0x0"), f"{method} was carried out")


# ---- nodes ----------------------------------------------------------------------------------------------------------


async def deep_answers(field: Field) -> None:
    """Answers nested 2,050 and 10,000 levels deep, alone and in a batch with another call."""
    for depth in (2_050, 10_000):
        result = b'{"calls":[' * depth + b"]}" * depth
        field.relay.scripts[TRACE] = says(result)
        for number in range(20):
            asked = call_of(TRACE, f"0x{depth + number:064x}")
            answer = await field.post(asked)
            field.expect(result in answer, f"{depth} levels alone: {answer[:150]!r}")
            answer = await field.post([asked, call_of("eth_chainId", id=2)])
            field.expect(result in answer and b'"id":2,"result"' in answer, f"{depth} levels in a batch")


async def broken_text(field: Field) -> None:
    """A node's answers are not UTF-8; what it says is to reach no client, and to spoil no batch."""
    field.relay.scripts[CODE] = says(b'"\xff\xfe"')
    for number in itertools.takewhile(lambda _: field.going, itertools.count()):
        asked = [call_of(CODE, f"0x{number:040x}", DEEP_BLOCK), call_of("eth_chainId", id=2)]
        answers = read(await field.post(asked))
        field.expect(len(answers) == 2 and "result" in answers[1], "a batch was spoilt")


async def own_codes(field: Field) -> None:
    """Error objects of every kind come back byte for byte."""
    errors = [b'{"code":-38020,"message":"block range"}', b'{"message":"x","code": 7 ,"data":{"a":1e400}}']
    for number in range(200):
        error = errors[number % len(errors)]
        await field.leave_to_first(CODE)

        async def script(_: web.Request, call_id: bytes, error: bytes = error) -> web.StreamResponse:
            return web.Response(body=b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (call_id, error))

        field.relay.scripts[CODE] = script
        answer = await field.post(call_of(CODE, f"0x{number:040x}", DEEP_BLOCK))
        field.expect(error in answer, f"{error!r} came back as {answer[:120]!r}")


async def gzip_bombs(field: Field) -> None:
    """A megabyte of gzip that becomes a gigabyte."""
    bomb = await asyncio.to_thread(gzip.compress, b" " * (1000 * MB), 1)
    field.relay.scripts[CODE] = streams([bomb], "gzip")
    for number in range(10):
        said = await field.call(CODE, f"0x{number:040x}", DEEP_BLOCK)
        field.expect("result" in said, f"a bomb: {str(said)[:100]}")


async def endless_bodies(field: Field) -> None:
    """Answers that never end, as quick as they are taken."""
    field.relay.scripts[CODE] = streams(itertools.repeat(b" " * 65_536))
    for number in range(3):
        said = await field.call(CODE, f"0x{number:040x}", DEEP_BLOCK)
        field.expect("result" in said, f"an endless body: {str(said)[:100]}")


async def long_answer(field: Field) -> None:
    """An answer of 200 MB to a client that reads as fast as it can."""
    result = b'"0x' + b"60" * (100 * MB) + b'"'
    field.relay.scripts[CODE] = says(result)
    await field.leave_to_first(CODE)
    answer = await field.post(call_of(CODE, ADDRESS, DEEP_BLOCK))
    field.expect(answer.endswith(result + b"}"), f"{len(answer)} bytes came of {len(result)}")


async def told_to_wait(field: Field) -> None:
    """Every node answers one method with 429 and a Retry-After of a day."""
    for node in field.nodes:
        await node.turn(faults={"too_many": 1.0}, fault_methods=[CODE], retry_after=86_400)
    for number in itertools.takewhile(lambda _: field.going, itertools.count()):
        await field.call(CODE, f"0x{number:040x}", DEEP_BLOCK)
        await asyncio.sleep(0.01)  # a steady pace: the reads beside it are what is measured


async def head_dies(field: Field) -> None:
    """The one node at the head is killed while the newest block is read; the others are one block behind."""
    for node in field.nodes[1:]:
        await node.turn(lag=1)
    await field.known(lambda node: node["lag"] == 1)
    reading = [asyncio.create_task(_newest(field)) for _ in range(8)]
    await asyncio.sleep(1)  # the newest block has been read for a while
    await field.nodes[0].kill()
    await asyncio.gather(*reading)


async def _newest(field: Field) -> None:
    for _ in range(300):
        said = await field.call("hmyv2_getBlockByNumber", "latest", {})
        field.expect(bool(said.get("result")), f"the newest block: {str(said)[:100]}")
        await asyncio.sleep(0.01)  # a steady pace: the reads beside it are what is measured, too


async def roles(field: Field) -> None:
    """One explorer among validators, with nothing configured: what only the explorer has is answered."""
    for node in field.nodes[1:]:
        await node.turn(explorer=False)
    await field.known(lambda node: node["says"].get("explorer") is False)
    for number in range(300):
        for method in ("getTransactionsHistory", "getStakingTransactionsHistory"):
            address = f"0x{number:040x}"
            said = await field.call(f"hmyv2_{method}", {"address": address, "pageIndex": 0, "pageSize": 10})
            field.expect(bool(said.get("result")), f"{method}: {str(said)[:100]}")


async def hidden_laggard(field: Field) -> None:
    """Every URL but one lags, and the one hides a machine that lags, too: what that one said does not outlive it."""
    well, *others = field.nodes
    for node in others:
        await node.turn(lag=40)
    field.relay.behind = [well, others[0]]
    contract, head = to_hex(Generator(ChainSpec()).contract), await _head(field, well.url)
    asked = [
        call_of("eth_call", {"to": contract, "data": f"0x{number:08x}"}, hex(head - number % 5))
        for number in range(200)
    ]
    for call in asked:
        await field.post(call)
    field.relay.behind = [well]
    while await _head(field, field.url) <= head + 1:
        await asyncio.sleep(0.1)  # between two looks
    for call in asked:
        told, true = await field.post(call), await field.post(call, at=well.url)
        field.expect(read(told) == read(true), f"{told[:100]!r} instead of {true[:100]!r}")


async def far_receipts(field: Field) -> None:
    """Receipts that name a block far above the chain: nobody is told that it is the head."""
    receipt = b'{"blockNumber":"0xffffff","blockHash":"0x%b","logs":[]}' % (b"ab" * 32)
    field.relay.scripts["eth_getTransactionReceipt"] = says(receipt)
    for number in itertools.takewhile(lambda _: field.going, itertools.count()):
        await field.call("eth_getTransactionReceipt", f"0x{number:064x}")
        told, true = await _head(field, field.url), await _head(field, field.nodes[1].url)
        field.expect(told <= true + 1, f"the head is said to be {told}, and it is {true}")


async def _head(field: Field, url: str) -> int:
    return int(read(await field.post(call_of("eth_blockNumber"), at=url))["result"], 16)


# ---- the table ------------------------------------------------------------------------------------------------------

CASES: dict[str, Case] = {
    "client mistakes, a node killed": Case(flood_while(Node.kill)),
    "client mistakes, a node frozen": Case(flood_while(Node.freeze)),
    "client mistakes, a node restarting": Case(flood_while(flap)),
    "60 calls that hang, 30 of them heavy": Case(hanging_calls),
    "the one node at the head killed": Case(head_dies, weight=2),
    "Retry-After of a day for a method": Case(told_to_wait),
    "one explorer, two validators": Case(roles),
    "a URL that hides a lagging machine": Case(hidden_laggard, hostile=True, memory="64MB"),
    "receipts that name a far block": Case(far_receipts, hostile=True),
    "answers 10,000 levels deep": Case(deep_answers, hostile=True),
    "answers that are not UTF-8": Case(broken_text, hostile=True),
    "errors with codes of their own": Case(own_codes, hostile=True),
    "gzip bombs of 1 GB": Case(gzip_bombs, hostile=True),
    "endless answers": Case(endless_bodies, hostile=True),
    "an answer of 200 MB, read at full speed": Case(long_answer, hostile=True),
    "half-closed clients": Case(half_closed),
    "refused reloads, fresh connections": Case(refused_reloads),
    "100 method names of 5 MB": Case(long_names, memory="64MB"),
    "a batch of 300 times 4 MB": Case(long_batch, hostile=True, memory="64MB"),
    "ten batches of 100 answers of 4 MB": Case(many_batches, hostile=True),
    "600 clients that do not read 4 MB": Case(non_readers, hostile=True, memory="64MB"),
    "8,000 wordings of 4 kB, eight paths": Case(many_wordings, memory="16MB"),
    "eight floods at once, reads need no node": Case(eight_floods, hostile=True, memory="64MB"),
    "wrong passwords": Case(
        wrong_passwords,
        {"admin": {"accounts": {"operator": {"password": hash_password(PASSWORD).reveal(), "role": "admin"}}}},
    ),
    "calls that drive a node": Case(from_a_web_page, hostile=True),
}
NOTE = (
    "*failed*: ordinary reads that failed or were answered wrongly, and answers to the attack itself that were not as "
    "they should be. Memory is the proxy's resident set: before the attack, at its highest, and 2 s after the "
    "attackers left. *Longest turn*: the longest time for which the proxy's event loop kept a call waiting, as "
    "`rpcaccel_loop_longest_turn_seconds` tells it."
)


class Row(NamedTuple):
    """The figures of one attack, in seconds and bytes."""

    case: str
    calls: int
    failed: int
    healthy: float | None
    during: float | None
    before: int
    peak: int
    after: int
    turn: float | None
    """The longest turn of the proxy's event loop; None where the admin side asks for a login."""


async def measure(name: str, weather: Weather) -> Row:
    """One attack, with programs of its own: a quarter of the calls before it, the others beside it."""
    case = CASES[name]
    async with under(case) as field:
        caller, healthy, during = Caller(field.url, field.http), Hail(), Hail()
        await healthy.fall(caller, max(1, weather.calls // 4), weather.rate)
        before = field.memory("VmRSS")
        field.forget_peak()
        turns: list[float] = []
        async with watching(field.longest_turn, turns):
            attacking = asyncio.create_task(case.attack(field))
            await during.fall(caller, weather.calls, weather.rate)
            field.going = False
            async with asyncio.timeout(OVERTIME_SECONDS):
                await attacking
        peak = field.memory("VmHWM")
        await asyncio.sleep(2.0)  # memory is told 2 s after the attackers left
        for fault in sorted({*field.wrong, *healthy.faults, *during.faults})[:MAX_FAULTS_SHOWN]:
            print(f"  {name}: {fault}", file=sys.stderr)
        failed = healthy.failed + during.failed + len(field.wrong)
        after = field.memory("VmRSS")
        turn = max(turns) or None
        return Row(name, len(during.calls), failed, healthy.p99(), during.p99(), before, peak, after, turn)


def report(rows: list[Row], weather: Weather) -> Report:
    columns = ("attack", "calls", "failed", "p99 before", "p99 beside it", "memory before", "peak", "after",
               "longest turn")  # fmt: skip
    table = Table("Attacks", columns, [_texts(row) for row in rows], NOTE)
    facts = machine() | {"load": f"{weather.rate:g} calls a second in an open loop, milliseconds; nodes answer in 2 ms"}
    return Report("Attacks", facts, [table], data={"network": NETWORK, "rows": [row._asdict() for row in rows]})


def _texts(row: Row) -> tuple[str, ...]:
    sizes = (f"{size / MB:.0f} MB" for size in (row.before, row.peak, row.after))
    times = milliseconds(row.healthy), milliseconds(row.during)
    return row.case, count(row.calls), str(row.failed), *times, *sizes, milliseconds(row.turn)


if __name__ == "__main__":
    command(str(__doc__), [*CASES], measure, report, "attacks")
