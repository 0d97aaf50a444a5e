"""The table of the hot functions, from what pytest-benchmark wrote.

python -m pytest -m bench --benchmark-enable --benchmark-json hot.json tests/unit/benchmarks
python -m benchmarks.hot hot.json --out docs/benchmarks.md
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks import pages
from rpcaccel.bench.report.report import Report, Table, machine


def report(found: dict[str, Any]) -> Report:
    """The report on what pytest-benchmark found."""
    rows = [_row(one) for one in found["benchmarks"]]
    columns = ("body", "median", "mean", "deviation", "a second")
    note = "Microseconds. The median is what a quiet machine takes; mean and deviation show how quiet it was."
    return Report("Hot functions", machine(), [Table("Hot functions", columns, rows, note)])


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    stats = one["stats"]
    name = one["name"].removeprefix("test_").replace("_", " ")
    times = (f"{stats[key] * 1e6:.2f}" for key in ("median", "mean", "stddev"))
    return (name, *times, f"{1 / stats['median']:,.0f}")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    made = report(json.loads(given.json.read_text(encoding="utf-8")))
    pages.tell(made, given.out, "hot functions")


if __name__ == "__main__":
    main()
