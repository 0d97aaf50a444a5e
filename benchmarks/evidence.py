"""All evidence by one command, written into docs/benchmarks.md: `make bench`, or a part of it.

    python -m benchmarks.evidence --out docs/benchmarks.md                       about ten minutes
    python -m benchmarks.evidence --only "seed table" --only growth              these parts
    python -m benchmarks.evidence --all                                          the slow parts as well

Each part stands for itself: one that fails is told, and the others go on. Ctrl-C ends the part under way with what was
measured so far, and begins no other.
"""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import pages
from rpcaccel.bench.load.progress import Watch
from rpcaccel.bench.report.report import Report

Measure = Callable[[Watch], Report]
Parts = Mapping[str, tuple[Measure, Measure]]
"""By section of the page, the function that measures it, and one that tries the measurement out in seconds."""

PROGRAMS = ("misses", "seed", "sustained", "overhead", "agreement", "growth", "subscribers", "disk", "node_calls")
SLOW = ("ranges, refresh, redis", "disk tier", "node calls a miss")


def parts() -> Parts:
    """Every part, by its section, in the order in which they are measured."""
    modules = [importlib.import_module(f"benchmarks.{name}") for name in PROGRAMS]
    return {
        "hot functions": (lambda _watch: _hot(), lambda _watch: _hot("-k", "tally")),
        "side by side": (lambda watch: _sidebyside(watch, 3.0, 3), lambda watch: _sidebyside(watch, 1.0, 1, "shared")),
        **{module.SECTION: (module.measure, module.short) for module in modules},
        SLOW[0]: (lambda _watch: _saved(120), lambda _watch: _saved(2)),
    }


def _hot(*more: str) -> Report:
    from benchmarks import hot  # noqa: PLC0415 -- each part is loaded when it is measured

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "hot.json"
        command = ["-m", "pytest", "-q", "-m", "bench", "--benchmark-enable", f"--benchmark-json={file}", *more]
        done = subprocess.run(
            [sys.executable, *command, "tests/unit/benchmarks"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stdout[-2000:])
        return hot.report(json.loads(file.read_text(encoding="utf-8")))


def _sidebyside(watch: Watch, seconds: float, runs: int, *only: str) -> Report:
    from benchmarks import sidebyside  # noqa: PLC0415

    rounds = sidebyside.Rounds(seconds, runs, lambda text: watch.part(text, 0, 1))
    return sidebyside.measure(list(only or sidebyside.PARTS), rounds)


def _saved(heads: int) -> Report:
    from benchmarks import replay  # noqa: PLC0415

    return replay.measure(heads)


def run(parts: Parts, out: Path | None, *, short: bool, say: Callable[[str], None]) -> int:
    """Measure some parts; returns the exit code, which is 1 when a part could not be measured."""
    watch = Watch(_Lines(say))
    failed = 0
    before = signal.signal(signal.SIGINT, lambda *_: watch.stop.set())
    try:
        for section, measures in parts.items():
            began = time.monotonic()
            say(f"== {section}")
            try:
                report = measures[short](watch)
            except (OSError, AssertionError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
                say(f"== {section} failed: {error}")
                failed += 1
                if watch.stopped:
                    break
                continue
            # Figures of a run that was short or interrupted are not written.
            pages.tell(report, None if watch.stopped or short else out, section)
            say(f"== {section}: {time.monotonic() - began:.0f} s")
            if watch.stopped:
                break
    finally:
        signal.signal(signal.SIGINT, before)
    return int(failed > 0)


class _Lines:
    """Prints each new step, and every few seconds the progress."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._text = ""
        self._at = 0.0

    def __call__(self, text: str, share: float) -> None:
        now = time.monotonic()
        if text != self._text or now - self._at >= 10.0:
            self._text, self._at = text, now
            self._say(f"{share * 100:3.0f} %  {text}")


def main(doc: str, parts: Parts) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if len(parts) > 1:
        parser.add_argument("--only", action="append", choices=list(parts), help="this part; may be repeated")
        parser.add_argument("--all", action="store_true", help=f"also {'; '.join(SLOW)}: most of an hour more")
    parser.add_argument("--short", action="store_true", help="a minute, to see that it works; writes nothing")
    parser.add_argument("--out", type=Path, help="a page whose section is replaced (.md), or a report (.json, .html)")
    given = parser.parse_args()
    usual = [name for name in parts if name not in SLOW or len(parts) == 1 or given.all]
    wanted = {name: parts[name] for name in getattr(given, "only", None) or usual}
    sys.exit(run(wanted, given.out, short=given.short, say=lambda text: print(text, file=sys.stderr, flush=True)))


if __name__ == "__main__":
    main(__doc__ or "", parts())
