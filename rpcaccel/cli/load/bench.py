"""`rpcaccel bench`: measure endpoints, one's own nodes among them, with and without the proxy."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from signal import Signals
from typing import Annotated, TypeVar

import typer

from rpcaccel.bench.load.client import LoadTarget, parse
from rpcaccel.bench.load.progress import StoppedError, Watch
from rpcaccel.bench.load.workload import LoadCall, Mix, NoEndpointError, written
from rpcaccel.bench.report import render
from rpcaccel.bench.report.report import Report
from rpcaccel.bench.runs import compare as comparing
from rpcaccel.bench.runs import rate as constant_rate
from rpcaccel.bench.runs import table as side_by_side
from rpcaccel.bench.runs.table import Column
from rpcaccel.cli import terminal
from rpcaccel.cli.admin_client import AdminClient, RemoteError, meanwhile
from rpcaccel.cli.command import AsJson, asks_proxy
from rpcaccel.cli.load import bench_targets
from rpcaccel.cli.options import seconds_of
from rpcaccel.core.stats.histogram import Histogram
from rpcaccel.dataplane import event_loop

INTERRUPTED = 130
T = TypeVar("T")

app = typer.Typer(
    name="bench", help="Measure endpoints: side by side, at a rate, in pairs, from inside.", no_args_is_help=True
)

Out = Annotated[
    list[Path] | None,
    typer.Option("--report", "--out", "-o", metavar="FILE", help="Also into a file: .html, .md or .json; repeatable."),
]
Method = Annotated[
    list[str] | None, typer.Option("--method", "-m", metavar="NAME", help="Only this method. May be repeated.")
]
Single = Annotated[
    str, typer.Option("--call", metavar="JSON", help='This call alone: \'{"method": "eth_gasPrice", "params": []}\'.')
]
Seed = Annotated[int, typer.Option(metavar="N", help="Other seeds ask about other blocks and addresses.")]
Timeout = Annotated[float, typer.Option(min=0.001, metavar="SECONDS", help="After that a call has failed.")]
Connections = Annotated[int, typer.Option(min=1, max=20000, metavar="N", help="Connections at the most.")]


@app.command()
@asks_proxy
def table(  # noqa: PLR0913, PLR0917 -- an argument for each flag
    admin: AdminClient,
    direct: Annotated[str, typer.Option(metavar="URL", help="A node, asked directly.")],
    proxy: Annotated[str, typer.Option(metavar="URL", help="The proxy before it: asked twice, cold, warm.")] = "",
    balanced: Annotated[
        str, typer.Option(metavar="URL", help="Another proxy, that keeps no answers: pooling and balancing alone.")
    ] = "",
    serve: Annotated[
        str, typer.Option(metavar="CHAIN", help="Or start both meanwhile, for this chain, or auto: as nodes say.")
    ] = "",
    redis_proxy: Annotated[
        str, typer.Option(metavar="URL", help="Another proxy on the same Redis that was not asked before.")
    ] = "",
    also: Annotated[
        list[str] | None, typer.Option(metavar="NAME=URL", help="A further column, between them. May be repeated.")
    ] = None,
    number: Annotated[int, typer.Option("-n", min=1, metavar="N", help="Calls of each method.")] = 50,
    concurrency: Annotated[int, typer.Option("-c", min=1, max=10000, metavar="N", help="Calls at once.")] = 15,
    method: Method = None,
    purge: Annotated[
        bool, typer.Option("--purge", help="Empty all its caches before the cold column: not on a proxy in use.")
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="What is asked about; otherwise something new each time.")] = 0,
    timeout: Timeout = 30.0,
    out: Out = None,
    as_json: AsJson = False,
) -> int:
    """Compare a node with and without the proxy: so many calls of each of ten methods, side by side.

    The first column opens a connection for each call, the second keeps its connections.

    Examples:
    rpcaccel bench table --direct http://node:9500 --serve auto -o table.html
    rpcaccel bench table --direct http://node:9500 --proxy http://127.0.0.1:8888
    rpcaccel bench table --direct http://node:9500 --serve auto -n 200 -c 50
    """
    target(direct)  # a faulty URL is reported before any proxy is started
    with (
        bench_targets.meanwhile(direct, "" if proxy else serve) as keeping,
        bench_targets.meanwhile(direct, "" if balanced or proxy else serve, "--memory", "0") as passing,
    ):
        columns = _columns(direct, also or (), balanced or passing, proxy or keeping, redis_proxy)
        asked = side_by_side.TableOptions(
            tuple(columns), number, concurrency, tuple(method or ()), timeout, seed or time.time_ns() % (1 << 31)
        )

        def before(column: Column) -> None:
            if purge and column.name == COLD:
                admin.post("purge", {"all": True})

        async def measure(watch: Watch) -> tuple[Report, int]:
            found = await side_by_side.table(asked, watch, before)
            bad = any(series.errors for cells in found.cells.values() for series in cells.values())
            return side_by_side.reported(found, stopped=watch.stopped), int(bad)

        return measured(measure, out, as_json=as_json)


COLD, WARM = "proxy cold", "proxy warm"


def _columns(direct: str, also: Sequence[str], balanced: str, proxy: str, redis_proxy: str) -> list[Column]:
    """The columns in the order in which they are called. Raises typer.BadParameter."""
    columns = [Column("direct", target(direct, keep=False)), Column("kept alive", target(direct))]
    for text in also:
        name, equals, url = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--also {name}: expected NAME=URL")
        columns.append(Column(name, target(url)))
    named = {"balanced": balanced, COLD: proxy, WARM: proxy, "proxy, Redis": redis_proxy}
    columns += [Column(name, target(url)) for name, url in named.items() if url]
    if len({column.name for column in columns}) < len(columns):
        raise typer.BadParameter("two columns of one name")
    return columns


@app.command()
def rate(  # noqa: PLR0913, PLR0917 -- an argument for each flag
    url: Annotated[str, typer.Argument(metavar="URL", help="What is measured.")],
    rate: Annotated[float, typer.Option("--rate", "-r", min=0.1, max=1e6, metavar="N", help="Calls a second.")],
    duration: Annotated[str, typer.Option("--duration", "-d", metavar="TIME", help="How long.")] = "10s",
    connections: Connections = 512,
    method: Method = None,
    call: Single = "",
    mix: Annotated[Mix, typer.Option(help="Its ten methods in turn, or what DApps call.")] = "table",
    timeout: Timeout = 10.0,
    spin: Annotated[
        bool, typer.Option(help="Keep a core busy to send at exact times; without it up to 1 ms late.")
    ] = True,
    seed: Seed = 1,
    out: Out = None,
    as_json: AsJson = False,
) -> int:
    """Measure latency at a constant rate: each call counts from the moment it was due, whatever became of those before.

    Exit code 1 when the generator could not hold the rate, and then no latency is reported, or when no call succeeded.

    Examples:
    rpcaccel bench rate http://127.0.0.1:8888 -r 1000 -d 30s -o rate.html
    rpcaccel bench rate https://my-node:9500 -r 50 -d 10s -m hmyv2_blockNumber
    """
    methods = tuple(method or ())
    asked = constant_rate.RateOptions(
        target(url), rate, seconds_of(duration, "--duration", some=True), connections, timeout, spin,
        methods=methods, call=single(call), mix=mix, seed=seed,
    )  # fmt: skip

    async def measure(watch: Watch) -> tuple[Report, int]:
        report, held = await constant_rate.rate(asked, watch)
        return report, int(not held)

    return measured(measure, out, as_json=as_json)


@app.command()
def compare(  # noqa: PLR0913, PLR0917 -- an argument for each flag
    a: Annotated[str, typer.Argument(metavar="A", help="A URL, or a config file that is served for each run.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The other one.")],
    runs: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Runs of each.")] = 5,
    duration: Annotated[str, typer.Option("--duration", "-d", metavar="TIME", help="How long one run takes.")] = "5s",
    connections: Connections = 32,
    rate: Annotated[float, typer.Option(min=0.0, metavar="N", help="Calls a second; 0: as fast as it goes.")] = 0.0,
    method: Method = None,
    call: Single = "",
    warmup: Annotated[str, typer.Option(metavar="TIME", help="Before each run.")] = "1s",
    pid_a: Annotated[
        list[int] | None, typer.Option(metavar="PID", help="A process of A; its port tells it otherwise.")
    ] = None,
    pid_b: Annotated[list[int] | None, typer.Option(metavar="PID", help="A process of B.")] = None,
    timeout: Timeout = 10.0,
    seed: Seed = 1,
    out: Out = None,
    as_json: AsJson = False,
) -> int:
    """Compare two endpoints, or settings, in interleaved runs: means, spreads, ratios, and whether these mean anything.

    Examples:
    rpcaccel bench compare http://127.0.0.1:9500 http://127.0.0.1:8888
    rpcaccel bench compare before.toml after.toml --runs 10 -d 10s -o compare.html
    """
    one, other = bench_targets.names(a, b)
    asked = comparing.CompareOptions(
        a=one,
        b=other,
        runs=runs,
        duration=seconds_of(duration, "--duration", some=True),
        warmup=seconds_of(warmup, "--warmup"),
        connections=connections,
        rate=rate,
        timeout=timeout,
        methods=tuple(method or ()),
        call=single(call),
        seed=seed,
    )
    both = (bench_targets.side(a, pid_a or ()), bench_targets.side(b, pid_b or ()))

    async def measure(watch: Watch) -> tuple[Report, int]:
        found = await comparing.compare(asked, both, watch)
        return comparing.reported(found, stopped=watch.stopped), int(bool(found.dead))

    return measured(measure, out, as_json=as_json)


@app.command()
@asks_proxy
def steps(
    proxy: AdminClient,
    duration: Annotated[
        str, typer.Option("--duration", "-d", metavar="TIME", help="How long to watch; 0s: all since its start.")
    ] = "10s",
    out: Out = None,
    as_json: AsJson = False,
) -> int:
    """Tell where calls spend their time inside a running proxy, step by step, under the load that it has.

    Examples:
    rpcaccel bench steps --duration 30s
    rpcaccel bench steps -d 0s --admin 127.0.0.1:8889 -o steps.md
    """
    from rpcaccel.bench.runs import steps as step_times  # which loads the reader of Prometheus' text

    span = seconds_of(duration, "--duration")

    def read() -> dict[str, Histogram]:
        return step_times.read(proxy.text("/metrics"))

    async def measure(watch: Watch) -> tuple[Report, int]:
        before = await watch.unless_stopped(meanwhile(read)) if span else {}
        watch.part(f"watching {proxy}", 0, 1)
        began = time.monotonic()
        while (left := began + span - time.monotonic()) > 0 and not await watch.pause(min(left, 0.2)):
            watch.at(1 - left / span)
        found = step_times.passed(before, await meanwhile(read))
        return step_times.reported(found, span and time.monotonic() - began, str(proxy), stopped=watch.stopped), 0

    return measured(measure, out, as_json=as_json)


# -- shared by the commands ------------------------------------------------------------------------------------------


def target(url: str, *, keep: bool = True) -> LoadTarget:
    """The target of a URL. Raises typer.BadParameter."""
    try:
        return parse(url, keep=keep)
    except ValueError as error:
        raise typer.BadParameter(f"a URL: expected {error}") from None


def single(text: str) -> LoadCall | None:
    """The call that --call names; None when the text is empty. Raises typer.BadParameter."""
    try:
        return written(text) if text else None
    except ValueError:
        raise typer.BadParameter('--call: expected {"method": "...", "params": [...]}') from None


def measured(
    measure: Callable[[Watch], Awaitable[tuple[Report, int]]], out: list[Path] | None, *, as_json: bool = False
) -> int:
    """Measure, then print the report and write it into files; returns the exit code. After Ctrl-C the report is about
    what was measured until then."""
    for file in out or ():
        _check(file)

    try:
        (report, code), stopped = watched(measure)
    except StoppedError:
        return INTERRUPTED
    except (NoEndpointError, RemoteError, ValueError, OSError) as error:
        typer.echo(f"rpcaccel: {error}", err=True)
        return 1
    if as_json:
        typer.echo(render.as_json(report), nl=False)
    else:
        render.terminal(report, terminal.console())
    for file in out or ():
        try:
            render.write(report, file)
        except OSError as error:
            typer.echo(f"rpcaccel: {file} cannot be written: {error.strerror}", err=True)
            return 1
    return INTERRUPTED if stopped else code


def watched(
    work: Callable[[Watch], Awaitable[T]], *signals: Signals, every: float = terminal.PROGRESS_LINE_SECONDS
) -> tuple[T, bool]:
    """Run `work` under a progress bar; what it returns, and whether Ctrl-C, or one of these signals, ended it early.
    Raises what it raises.

    `every`: seconds between lines about the progress where there is no terminal.
    """

    async def main() -> tuple[T, bool]:
        with terminal.progress(every) as progress:
            watch = Watch(progress)
            with watch.interruptible(*signals):
                return await work(watch), watch.stopped

    return event_loop.run(main())


def _check(file: Path) -> None:
    """Check that a report can be written into a file, before minutes are spent on measuring. Raises
    typer.BadParameter."""
    try:
        render.form(file)
    except ValueError as error:
        raise typer.BadParameter(f"-o {error}") from None
    if not file.parent.is_dir():
        raise typer.BadParameter(f"-o {file}: there is no directory {file.parent}")
    if file.is_dir():
        raise typer.BadParameter(f"-o {file} is a directory")
