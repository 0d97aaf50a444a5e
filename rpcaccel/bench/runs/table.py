"""`rpcaccel bench table`: the same calls of each method over several endpoints side by side, as in the seed study."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from random import Random

from msgspec import Struct, to_builtins

from rpcaccel.bench.load.client import ConnectionPool, LoadTarget
from rpcaccel.bench.load.generator import LoadGenerator, closed
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.load.workload import LoadCall, World, asking, draw, learn
from rpcaccel.bench.report.report import Report, Table, failures, machine, means, milliseconds, percent, remarks
from rpcaccel.bench.report.statistics import Series, Summary, together


class Column(Struct, frozen=True):
    """A column of the table: an endpoint that is called."""

    name: str
    target: LoadTarget


class TableOptions(Struct, frozen=True):
    """The options of `bench table`. `columns` are called in this order, with the same calls."""

    columns: tuple[Column, ...]
    number: int = 50
    concurrency: int = 15
    methods: tuple[str, ...] = ()
    timeout: float = 30.0
    seed: int = 1


class TableResults(Struct):
    """The calls made so far, by method and column."""

    asked: TableOptions
    world: World
    cells: dict[str, dict[str, Series]]
    elapsed: dict[tuple[str, str], float]

    def summary(self, method: str, column: str) -> Summary | None:
        """The figures of one cell; None when it was not reached."""
        series = self.cells.get(method, {}).get(column)
        return None if series is None else series.summary(self.elapsed[method, column])


async def table(
    asked: TableOptions, watch: Watch, before_column: Callable[[Column], None] = lambda _column: None
) -> TableResults:
    """Measure. Raises NoEndpointError when the first column's endpoint answers nothing.

    Args:
        before_column: called before a column's turn with each method; it may empty a cache.
    """
    async with AsyncExitStack() as opened:
        pools = {column.name: ConnectionPool(column.target, asked.concurrency) for column in asked.columns}
        for pool in pools.values():
            await opened.enter_async_context(pool)
        first = asked.columns[0]
        world = await watch.unless_stopped(learn(asking(pools[first.name]), first.target.shown))
        rng = Random(asked.seed)
        found = TableResults(asked, world, {}, {})
        methods = asked.methods or world.methods
        for number, method in enumerate(methods):
            calls = different(method, world, rng, asked.number)
            for place, column in enumerate(asked.columns):
                watch.part(f"{method} {column.name}", number * len(asked.columns) + place, len(methods) * len(pools))
                before_column(column)
                run = LoadGenerator(pools[column.name], timeout=asked.timeout)
                plan = closed(iter(calls), at_once=asked.concurrency, total=asked.number)
                found.cells.setdefault(method, {})[column.name] = await run.run(plan, watch)
                found.elapsed[method, column.name] = run.elapsed
                if watch.stopped:
                    return found
        return found


def different(method: str, world: World, rng: Random, number: int) -> list[LoadCall]:
    """`number` calls, no two alike as long as the method and the chain let them differ."""
    calls: dict[bytes, LoadCall] = {}
    for _ in range(number * 20):
        if len(calls) < number:
            call = draw(method, world, rng)
            calls.setdefault(call.params, call)
    return [*calls.values(), *(draw(method, world, rng) for _ in range(number - len(calls)))]


def reported(found: TableResults, *, stopped: bool = False) -> Report:
    """The report."""
    asked = found.asked
    names = [column.name for column in asked.columns]
    methods = list(found.cells)
    facts = machine() | {
        **{column.name: _place(column.target) for column in asked.columns},
        "protocol": f"{asked.number} calls of each method, {asked.concurrency} at once; the same calls in every column",
    }
    cells = {method: {name: found.summary(method, name) for name in names} for method in methods}
    rows = [(method, *(_cell(cells[method][name]) for name in names)) for method in methods]
    plot = means(methods, {name: {method: cells[method][name] for method in methods} for name in names})
    note = "Milliseconds: mean (p50 / p99)."
    said = remarks((), stopped=stopped)
    data = {"cells": to_builtins(cells)}
    first = Table("By method", ("method", *names), rows, note)
    return Report("JSON-RPC latency, side by side", facts, [first, _totals(found, names)], [plot], said, data)


def _place(target: LoadTarget) -> str:
    return target.shown if target.keep else f"{target.shown}, a connection for each call"


def _totals(found: TableResults, names: list[str]) -> Table:
    rows: list[tuple[str, ...]] = []
    for name in names:
        many = [cells[name] for cells in found.cells.values() if name in cells]
        total = together(many).summary(sum(found.elapsed.get((method, name), 0.0) for method in found.cells))
        times = (milliseconds(total.mean), milliseconds(total.p50), milliseconds(total.p99))
        rows.append((name, str(total.calls), *times, failures(total), percent(total.hit_ratio)))
    return Table("All methods", ("endpoint", "calls", "mean", "p50", "p99", "failures", "hits"), rows)


def _cell(found: Summary | None) -> str:
    if found is None:
        return "–"
    times = f"{milliseconds(found.mean)} ({milliseconds(found.p50)} / {milliseconds(found.p99)})"
    return f"{times}, {found.failures} failed" if found.failures else times
