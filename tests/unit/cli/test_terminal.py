"""Progress where there is no terminal."""

from __future__ import annotations

import pytest

from rpcaccel.cli import terminal


def test_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress() as progress:
        for share in (0.1, 0.2, 0.3):
            progress("measuring", share)
    out, err = capsys.readouterr()
    assert (out, err) == ("", " 10 %  measuring\n")


def test_results_are_wide_where_nobody_looks() -> None:
    assert terminal.console().width >= 80
