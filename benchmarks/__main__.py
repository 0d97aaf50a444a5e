"""Measure what docs/benchmarks.md states, and write its tables: `make bench`, or a part of it.

    python -m benchmarks --out docs/benchmarks.md                  about ten minutes
    python -m benchmarks --only "seed table" --only misses         these parts, which are shown and not written

A part that fails is told, and the others go on. Ctrl-C ends the part under way with what was measured so far, and
begins no other.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import pages, seed, sidebyside, subscribers
from rpcaccel.bench.load.progress import Progress, Watch
from rpcaccel.bench.report.report import Report

Measure = Callable[[Watch, bool], Report]
"""Measures one section of the page; in its short form for some seconds, which shows only that the measurement works."""

PARTS: dict[str, Measure] = {
    "side by side": sidebyside.measure,
    "misses": sidebyside.misses,
    "seed table": seed.measure,
    "subscribers": subscribers.measure,
}
"""By section of the page, in the order in which they are measured."""


def run(parts: Mapping[str, Measure], out: Path | None, *, short: bool, say: Callable[[str], None]) -> int:
    """Measure some parts; returns the exit code, which is 1 when a part could not be measured."""
    watch = Watch(_each_step(say))
    failed = 0
    before = signal.signal(signal.SIGINT, lambda *_: watch.stop.set())
    try:
        for section, measure in parts.items():
            began = time.monotonic()
            say(f"== {section}")
            try:
                report = measure(watch, short)
            except (OSError, AssertionError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
                say(f"== {section} failed: {error}")
                failed += 1
            else:
                # Figures of a run that was short or interrupted are not written.
                pages.tell(report, None if watch.stopped or short else out, section)
                say(f"== {section}: {time.monotonic() - began:.0f} s")
            if watch.stopped:
                break
    finally:
        signal.signal(signal.SIGINT, before)
    return int(failed > 0)


def _each_step(say: Callable[[str], None]) -> Progress:
    """Say each step once, when it begins."""
    last = ""

    def progress(text: str, share: float) -> None:
        nonlocal last
        if text != last:
            last = text
            say(f"{share * 100:3.0f} %  {text}")

    return progress


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(PARTS), help="this part; may be repeated")
    parser.add_argument("--short", action="store_true", help="a minute, to see that it works; writes nothing")
    parser.add_argument("--out", type=Path, help="a page whose section is replaced (.md), or a report (.json, .html)")
    given = parser.parse_args()
    wanted = {name: PARTS[name] for name in given.only or PARTS}
    sys.exit(run(wanted, given.out, short=given.short, say=lambda text: print(text, file=sys.stderr, flush=True)))


if __name__ == "__main__":
    main()
