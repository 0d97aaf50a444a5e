"""The log's two forms."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from typing import Literal

import pytest
import structlog

from rpcaccel.config.sections import LogSettings
from rpcaccel.dataplane import logs

FORMS: tuple[Literal["console", "json"], ...] = ("console", "json")


def test_json_lines_hold_level_time_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(format="json"))
    structlog.get_logger().info("node left", node="a")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"], line["node"]) == ("node left", "info", "a")
    assert line["timestamp"].endswith("Z")


def test_lines_for_people_begin_at_the_level_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(level="warning"))
    structlog.get_logger().info("too little")
    structlog.get_logger().warning("enough", node="a")
    written = capsys.readouterr().err
    assert "too little" not in written
    assert "enough" in written
    assert "node" in written


def unwritable(kind: str) -> int:
    """A descriptor."""
    if kind == "full disk":
        return os.open("/dev/full", os.O_WRONLY)
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["closed", "full disk", "nobody reads"])
def test_a_line_that_cannot_be_written_stops_nobody(kind: str, form: Literal["console", "json"]) -> None:
    stream = open(unwritable(kind), "w", encoding="utf-8", buffering=1)  # noqa: SIM115 -- to close it fails as well
    with contextlib.redirect_stderr(stream):
        logs.configure(LogSettings(format=form, level="debug"))
        if kind == "closed":
            stream.close()
        log = structlog.get_logger()
        for write in (log.debug, log.info, log.warning, log.error, log.critical, log.exception):
            write("said", to="nobody")
    with contextlib.suppress(OSError):
        stream.close()


def test_what_libraries_log_has_the_form_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(format="json"))
    library = logging.Logger("a.library")
    library.addHandler(logs.Libraries())
    library.log(35, "retrying in %.1f s {x}", 0.5)
    try:
        dict[int, int]().pop(7)
    except KeyError:
        library.exception("failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["event"], first["level"], first["logger"]) == ("retrying in 0.5 s {x}", "warning", "a.library")
    assert (second["event"], second["level"]) == ("failed", "error")
    assert "KeyError: 7" in second["exception"]


@pytest.mark.parametrize("form", FORMS)
def test_what_went_wrong_is_told_without_what_the_program_held_in_its_hands(
    capsys: pytest.CaptureFixture[str], form: Literal["console", "json"]
) -> None:
    logs.configure(LogSettings(format=form))
    password = "".join(["hun", "ter2"])
    try:
        dict[int, int]().pop(len(password))
    except KeyError:
        structlog.get_logger().exception("it failed")
    written = capsys.readouterr().err
    assert "it failed" in written
    assert "KeyError: 7" in written
    assert "test_logs.py" in written
    assert password not in written


FORGED = "fine\n2026-01-01T00:00:00Z [info] all is well\x1b[2J\x9b31m\u202e\u2028\r\x07"


@pytest.mark.parametrize("form", FORMS)
def test_no_foreign_text_makes_a_line_of_its_own_or_commands_the_terminal(
    form: Literal["console", "json"], capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(LogSettings(format=form))
    log = structlog.get_logger()
    log.warning(f"node: {FORGED}", reason=FORGED, listed=[FORGED], named={"a": FORGED})
    logs.Libraries().emit(logging.makeLogRecord({"name": "a", "levelno": 30, "msg": f"said {FORGED}"}))
    lines = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    assert all("all is well" in line for line in lines)


def test_an_exception_that_quotes_a_stranger_is_told_in_printable_indented_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure(LogSettings(format="console"))
    structlog.get_logger().error("it failed", exc_info=ValueError(FORGED))
    first, *others = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert "it failed" in first
    assert all(line.isprintable() and line.startswith("  ") for line in others)
    assert any("ValueError: fine" in line for line in others)
