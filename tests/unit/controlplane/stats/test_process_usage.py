import os
from pathlib import Path

import pytest

from rpcaccel.controlplane.stats.prometheus import Usage, usage


def told(proc: Path, stat: str) -> Usage | None:
    home = proc / "7"
    (home / "fd").mkdir(parents=True)
    (home / "fd" / "0").touch()
    (home / "stat").write_text(stat)
    return usage(7, proc)


def test_usage_is_read_as_proc_tells_it(tmp_path: Path) -> None:
    numbers = ["S", *(str(number) for number in range(4, 53))]
    numbers[11], numbers[12], numbers[21] = "300", "100", "5"
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    assert told(tmp_path, f"7 (a (odd) name) {' '.join(numbers)}\n") == Usage(5 * page, 400 / ticks, 1)


def test_a_process_that_is_gone_has_no_usage(tmp_path: Path) -> None:
    assert usage(7, tmp_path) is None


@pytest.mark.parametrize("stat", ["", "7 (name) S", "7 (name) S " + "x " * 40])
def test_a_stat_that_cannot_be_read_is_no_usage(tmp_path: Path, stat: str) -> None:
    assert told(tmp_path, stat) is None
