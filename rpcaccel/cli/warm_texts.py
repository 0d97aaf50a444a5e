"""The words of `rpcaccel warm`: warnings, the progress, and how a run ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from rpcaccel.core.wire.printable import printable
from rpcaccel.warming.job import number_of

if TYPE_CHECKING:
    from pathlib import Path

    from rpcaccel.cli.warm_proxy import ProxyFacts
    from rpcaccel.warming.job import WarmingJob
    from rpcaccel.warming.runner import WarmingRunner


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
        parts.append(size(tally.bytes))
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
        "failures": [msgspec.to_builtins(kind) for kind in tally.failures.values()],
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
    return f"{facts.network}: {blocks}; {tally.calls:,} calls, {size(tally.bytes)}: {counts}"


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


def size(count: int) -> str:
    """A number of bytes, roughly."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.3g} {unit}" if amount < 1000 else f"{amount:,.0f} {unit}"


def duration(seconds: float) -> str:
    """A time, roughly: "40 s", "12 min", "3 h 20 min", "5 d 2 h"."""
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"
