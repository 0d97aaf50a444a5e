"""`python -m tests.support.coverage_by_package 92`: the share of each package that ran, from the data of a run.

Ends with 1 when a package is below the limit (percent of statements and branches), after naming every one that is.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.services import ROOT


def shares(files: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Percent of each package that ran, from the `files` of coverage's JSON report."""
    ran: dict[str, int] = defaultdict(int)
    all_of_it: dict[str, int] = defaultdict(int)
    for name, file in files.items():
        package = "/".join(Path(name).parts[:2]) if len(Path(name).parts) > 2 else Path(name).parts[0]
        summary = file["summary"]
        ran[package] += summary["covered_lines"] + summary["covered_branches"]
        all_of_it[package] += summary["num_statements"] + summary["num_branches"]
    return {package: 100.0 * ran[package] / total for package, total in sorted(all_of_it.items()) if total}


def main(limit: float) -> int:
    """Print the share of each package; 1 when one is below the limit."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "coverage.json"
        subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", file], cwd=ROOT, check=True)
        found = shares(json.loads(file.read_text(encoding="utf-8"))["files"])
    for package, share in found.items():
        print(f"{share:6.1f} %  {package}{'' if share >= limit else f'   <- below {limit:g} %'}")
    return int(any(share < limit for share in found.values()))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
