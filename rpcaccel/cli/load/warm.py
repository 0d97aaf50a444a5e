"""`rpcaccel warm`: fill the cache of a running proxy with the answers about a range of blocks, and say how it goes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Annotated, Any, Literal

import typer
from msgspec import Struct, to_builtins
from rich.filesize import decimal

from rpcaccel.bench.load.client import ConnectionPool, LoadTarget
from rpcaccel.bench.load.progress import Watch
from rpcaccel.cli import completion
from rpcaccel.cli.admin_client import AdminClient, RemoteError
from rpcaccel.cli.command import CommandResult, asks_proxy
from rpcaccel.cli.load import bench, warm_proxy
from rpcaccel.cli.load.warm_proxy import ProxyFacts, WarmedProxy
from rpcaccel.config.value_types import NAME
from rpcaccel.controlplane.settings.kept_file import write_whole
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane import event_loop
from rpcaccel.warming import block_calls, job
from rpcaccel.warming.block_calls import BlockCall
from rpcaccel.warming.job import WarmingJob, number_of
from rpcaccel.warming.runner import WarmingRunner
from rpcaccel.warming.warming_limits import Pace, QuotaGuard


def warnings(facts: ProxyFacts, job: WarmingJob, not_kept: dict[str, str]) -> Iterator[str]:
    """What the operator should know before the job begins."""
    if not facts.lasts:
        yield "the proxy has neither a disk tier (--disk) nor Redis: what is fetched is kept in its memory alone"
    for method, why in not_kept.items():
        yield f"{method}: {why}"
    last = job.order.last
    if isinstance(last, int) and job.end < last:
        yield (
            f"it goes up to block {job.end}: answers about blocks above are not kept for good yet; "
            "the same command goes on with them later"
        )


def progress(runner: WarmingRunner) -> str:
    """One line about the progress."""
    job, tally, (calls, blocks) = runner.job, runner.tally, runner.rates
    handled = job.done + job.given_up
    parts = [f"{handled:,} of {job.blocks:,} blocks"]
    if tally.calls:
        parts.append(f"{calls:,.0f} calls/s")
        if not tally.sources.keys() <= {""}:
            parts.append(f"{tally.there / tally.calls:.0%} hits")
        parts.append(decimal(tally.bytes))
    if tally.failed_calls:
        parts.append(f"{tally.failed_calls:,} failed")
    if runner.paused:
        parts.append(f"waits: {runner.paused}")
    elif blocks > 0:
        parts.append(f"{duration((job.blocks - handled) / blocks)} left")
    return printable(", ".join(parts))


def document(runner: WarmingRunner, facts: ProxyFacts, seconds: float) -> dict[str, Any]:
    """How a run ended, for programs."""
    job, tally = runner.job, runner.tally
    return {
        "network": facts.network,
        "first": job.order.first,
        "last": job.end,
        "blocks": job.done,
        "left": number_of(job.left),
        "calls": tally.calls,
        "there": tally.there,
        "fetched": tally.calls - tally.there,
        "sources": dict(tally.sources),
        "failed": tally.failed_calls,
        "failures": [to_builtins(kind) for kind in tally.failures.values()],
        "unwritten": tally.unwritten,
        "bytes": tally.bytes,
        "seconds": round(seconds, 3),
        "trouble": runner.broken,
    }


def summary(runner: WarmingRunner, facts: ProxyFacts, seconds: float) -> str:
    """How a run ended, in one line."""
    job, tally = runner.job, runner.tally
    if not job.blocks:
        return f"{facts.network}: nothing to do, everything up to block {job.end} was fetched before"
    counts = f"{tally.there:,} were there already, {tally.calls - tally.there:,} fetched, {tally.failed_calls:,} failed"
    if tally.calls and tally.sources.keys() <= {""}:
        counts = f"{tally.failed_calls:,} failed (the proxy does not tell which it had: http.headers)"
    blocks = f"{job.done:,} blocks of {job.order.first}..{job.end} done in {duration(seconds)}"
    return f"{facts.network}: {blocks}; {tally.calls:,} calls, {decimal(tally.bytes)}: {counts}"


def complaints(runner: WarmingRunner, file: Path) -> Iterator[str]:
    """What was left out, and what to do about it."""
    tally = runner.tally
    for kind in tally.failures.values():
        often = f" (and {kind.count - 1:,} more calls of it)" if kind.count > 1 else ""
        yield printable(f"block {kind.first}: {kind.method}: {kind.text}{often}")
    if others := tally.failed_calls - sum(kind.count for kind in tally.failures.values()):
        yield f"{others:,} further calls failed"
    if tally.unwritten:
        yield (
            f"{tally.unwritten:,} answers found no room in the queue to the disk or Redis, so some may be in memory "
            "alone; a lower --rate prevents that"
        )
    if runner.broken:
        yield printable(f"given up: {runner.broken}")
    if left := number_of(runner.job.left):
        yield f"{left:,} blocks are left; the same command goes on with them ({file})"


def duration(seconds: float) -> str:
    """A time, to the second: "0:00:40", "5 days, 2:00:00"."""
    return str(timedelta(seconds=round(seconds)))


DEFAULT = "http://127.0.0.1:8888"
LINE_SECONDS = 10.0
"""Seconds between lines about the progress where there is no terminal."""
WRITE_REST_SECONDS = 5.0
"""Seconds that a tier gets to write what waits when it does not keep up."""
_BLOCK = re.compile(r"0x[0-9a-fA-F]{1,15}|[0-9]{1,18}")


class _Request(Struct, frozen=True, kw_only=True):
    """The flags of a run, read."""

    proxy: str
    network: str
    first: int
    last: int | Literal["final"]
    methods: tuple[str, ...]
    calls: tuple[str, ...]
    rate: float
    at_once: int
    leave: float
    timeout: float
    state: Path | None
    anew: bool
    admin: AdminClient

    @property
    def url(self) -> str:
        """The URL that calls about the network go to."""
        return warm_proxy.called(self.proxy, self.network)

    @property
    def target(self) -> LoadTarget:
        """The target of that URL. Raises typer.BadParameter."""
        return bench.target(self.url)


@asks_proxy
def warm(  # noqa: PLR0913, PLR0917 -- an argument for each flag
    admin: AdminClient,
    proxy: Annotated[
        str, typer.Argument(metavar="PROXY", help="The proxy's URL, with a key in it if the proxy wants one.")
    ] = DEFAULT,
    blocks: Annotated[
        str, typer.Option(metavar="A..B", help="Block A to block B; `final` or nothing for B: the newest final one.")
    ] = "",
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="What is fetched of each block: methods with commas between them.")
    ] = "",
    call: Annotated[
        list[str] | None,
        typer.Option(metavar="CALL", help="A call of your own: 'METHOD [PARAMS]', see below. May be repeated."),
    ] = None,
    network: Annotated[
        str, typer.Option(metavar="NAME", help="Of which network; the main one.", autocompletion=completion.networks)
    ] = "",
    rate: Annotated[
        float, typer.Option("--rate", "-r", min=0.0, max=1e6, metavar="N", help="Calls a second at most; 0: any.")
    ] = 0.0,
    at_once: Annotated[int, typer.Option("--at-once", min=1, max=64, metavar="N", help="Calls at once.")] = 4,
    leave: Annotated[
        str, typer.Option(metavar="SHARE", help="What clients keep of each node's quota for a day and a month.")
    ] = "50%",
    timeout: bench.Timeout = 60.0,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds how far it is; rpcaccel-warm-NETWORK.json if unset.")
    ] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Begin at A, whatever that file says.")] = False,
) -> CommandResult:
    """Fill the cache of a running proxy: make the calls that clients will make about each block of a range.

    Without --methods: eth_getBlockByNumber, with whole transactions and without, and on Harmony hmyv2_getBlockByNumber.

    The same command goes on where it was stopped, and tries again what failed. Exit code 1 if anything is left out.

    In the params of --call, {block} is the number, {hex} the number as 0x…, {hash} the block's hash, {tx} the hash of
    each transaction, {staking} that of each staking transaction.

    Examples:
    rpcaccel warm --blocks 70000000..
    rpcaccel warm --blocks 0..9999 --methods eth_getBlockByNumber,eth_getLogs
    rpcaccel warm http://host:8888/key/KEY --blocks 0..9 --admin host:8889
    rpcaccel warm --blocks 0..9 --rate 5 --call 'eth_getCode ["0x…","{hex}"]'
    """
    first, last = _range(blocks)
    if network and not re.fullmatch(NAME, network):
        raise typer.BadParameter(f"--network: found {network!r}, expected the name of a network")
    asked = _Request(
        proxy=proxy, network=network, first=first, last=last, calls=tuple(call or ()), rate=rate, at_once=at_once,
        methods=tuple(name.strip() for name in methods.split(",") if name.strip()), leave=_share(leave),
        timeout=timeout, state=state, anew=anew, admin=admin,
    )  # fmt: skip
    _ = asked.target  # a faulty URL is told first
    return _run(event_loop.run(_prepared(asked)))


def _range(text: str) -> tuple[int, int | Literal["final"]]:
    """The first and the last block. Raises typer.BadParameter."""
    first, dots, last = text.partition("..")
    if not dots:
        raise typer.BadParameter(f"--blocks: found {text!r}, expected A..B, or A.. up to the newest final block")
    begin = _block("A", first)
    if last in ("", "final"):
        return begin, "final"
    end = _block("B", last)
    if begin > end:
        raise typer.BadParameter(f"--blocks: A is {begin}, which is above B, {end}")
    return begin, end


def _block(name: str, text: str) -> int:
    if not _BLOCK.fullmatch(text):
        more = ", or final" if name == "B" else ""
        raise typer.BadParameter(f"--blocks: {name} is {text!r}, expected a block such as 1234 or 0x4d2{more}")
    return int(text, 0) if text.startswith("0x") else int(text)


def _share(text: str) -> float:
    """A share of 0 to 1. Raises typer.BadParameter."""
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise typer.BadParameter(f"--leave: found {text!r}, expected a share such as 50%")
    return found


class _Prepared(Struct, frozen=True, kw_only=True):
    """What is known before the first block."""

    asked: _Request
    facts: ProxyFacts
    calls: tuple[BlockCall, ...]
    job: WarmingJob
    file: Path


async def _prepared(asked: _Request) -> _Prepared:
    """Learn what is there, and say what the operator should know. Raises RemoteError and typer.BadParameter."""
    async with ConnectionPool(asked.target, 1) as pool:
        proxy = WarmedProxy(pool, asked.admin, asked.timeout)
        facts = await _facts(proxy, asked)
        calls = _calls(asked, facts.chain)
        newest = await proxy.newest(facts, calls)
        file = asked.state or Path(f"rpcaccel-warm-{facts.network}.json")
        job = _job(asked, facts, calls, newest, file)
        not_kept = await proxy.not_kept(facts, calls, asked.first)
    _write(file, job.save())
    for line in warnings(facts, job, not_kept):
        typer.echo(f"rpcaccel: {line}", err=True)
    return _Prepared(asked=asked, facts=facts, calls=calls, job=job, file=file)


async def _facts(proxy: WarmedProxy, asked: _Request) -> ProxyFacts:
    """What the admin side tells of the network; where it does not answer, that is said, and the job goes on."""
    try:
        document = await warm_proxy.read_settings(asked.admin)
    except RemoteError as error:
        typer.echo(f"rpcaccel: {error}", err=True)
        typer.echo("rpcaccel: it goes on without: quotas of nodes are not looked at", err=True)
        return await proxy.guessed(asked.network)
    return warm_proxy.told(document, asked.url, asked.network)


def _calls(asked: _Request, chain: str) -> tuple[BlockCall, ...]:
    """The calls to make. Raises typer.BadParameter."""
    named = asked.methods or (() if asked.calls else block_calls.usual(chain))
    try:
        found = block_calls.of_methods(named, chain)
    except ValueError as error:
        raise typer.BadParameter(f"--methods: {error}") from None
    try:
        return tuple(dict.fromkeys((*found, *map(block_calls.written, asked.calls))))
    except ValueError as error:
        raise typer.BadParameter(f"--call: {error}") from None


def _job(asked: _Request, facts: ProxyFacts, calls: tuple[BlockCall, ...], newest: int, file: Path) -> WarmingJob:
    """The job, gone on with where its file is. Raises typer.BadParameter."""
    order = job.WarmingOrder(asked.target.shown, facts.network, asked.first, asked.last, tuple(map(str, calls)))
    hint = "; --anew writes over it"
    try:
        saved = None if asked.anew else job.read(file.read_bytes())
        hint = "; --anew begins anew, --state names another file"
        job.check_same(saved, order)
    except FileNotFoundError:
        saved = None
    except OSError as error:
        raise typer.BadParameter(f"--state {file} cannot be read: {error.strerror}") from None
    except job.JobError as error:
        raise typer.BadParameter(f"{file} {error}{hint}") from None
    try:
        return WarmingJob(order, newest, saved)
    except job.JobError as error:
        raise typer.BadParameter(f"--blocks: {error}") from None


def _write(file: Path, content: bytes) -> None:
    """Replace the job's file. Raises typer.BadParameter."""
    try:
        write_whole(file, content)
    except OSError as error:
        raise typer.BadParameter(f"--state {file} cannot be written: {error.strerror}") from None


def _run(prepared: _Prepared) -> CommandResult:
    """Do the job, save it, and tell how it ended."""
    made, file, began = prepared.job, prepared.file, time.monotonic()
    runner, stopped = bench.watched(lambda watch: _filled(watch, prepared), SIGINT, SIGTERM, every=LINE_SECONDS)
    seconds = time.monotonic() - began
    for line in complaints(runner, file):
        typer.echo(f"rpcaccel: {line}", err=True)
    incomplete = runner.broken or made.given_up or runner.tally.unwritten
    code = 1 if incomplete else bench.INTERRUPTED if stopped else 0
    try:
        if made.complete:
            file.unlink(missing_ok=True)
        else:
            _write(file, made.save())
    except typer.BadParameter as error:  # what was done is told all the same
        typer.echo(f"rpcaccel: {error}", err=True)
        code = error.exit_code
    return CommandResult(document(runner, prepared.facts, seconds), [summary(runner, prepared.facts, seconds)], code)


async def _filled(watch: Watch, prepared: _Prepared) -> WarmingRunner:
    """Run the job until it is done, given up or stopped."""
    asked, made, facts = prepared.asked, prepared.job, prepared.facts

    def show(runner: WarmingRunner) -> None:
        watch.tell(progress(runner), (made.done + made.given_up) / max(1, made.blocks))

    def behind(unwritten: int) -> None:
        runner.tally.unwritten += unwritten
        runner.slow_down(WRITE_REST_SECONDS, "answers come faster than they are written")

    async with ConnectionPool(asked.target, asked.at_once) as pool:
        proxy = WarmedProxy(pool, asked.admin, asked.timeout)
        looks = warm_proxy.AdminLooks(proxy, facts, asked.leave, behind)
        runner = WarmingRunner(
            made,
            block_calls.with_sources(prepared.calls, facts.chain),
            proxy.post,
            pace=Pace(asked.rate),
            guard=QuotaGuard(looks.spare) if facts.told else None,
            watch=watch,
            show=show,
            save=lambda content: write_whole(prepared.file, content),
        )
        await runner.run(asked.at_once)
        if facts.told:
            await looks.spare()  # the last answers may be among those that were not written
    return runner
