"""The log: structured lines on stderr, for people or as JSON."""

from __future__ import annotations

import io
import logging
import sys
from contextlib import suppress
from typing import Any, TextIO

import structlog

from rpcaccel.config.sections import LogSettings
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.output import take_lost


def configure(settings: LogSettings) -> None:
    """Send the log of the program and of its libraries to stderr, in the form and from the level that the settings
    name."""
    level = getattr(logging, settings.level.upper())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if settings.format == "json":
        shared.append(structlog.processors.format_exc_info)
        last: Any = structlog.processors.JSONRenderer()
    else:
        shared.append(_printable)
        last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_traceback)
    structlog.configure(
        processors=[*shared, last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: Lines(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[Libraries()])


def _printable(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Make the values of a line printable, so that no foreign text adds another line. JSON escapes such characters by
    itself."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}


def _traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    """The plain traceback. The ornate one shows the variables of every frame, passwords among them, and is long. An
    exception may quote foreign text, so its lines are indented and printable."""
    told = io.StringIO()
    structlog.dev.plain_traceback(told, exc_info)
    stream.write("\n".join(f"  {printable(line)}" for line in told.getvalue().split("\n")))


class Lines(structlog.PrintLogger):
    """Writes lines. A line that cannot be written, because the disk is full or the reader has ended, is lost: no call
    fails for it. The number of lost lines is the next line."""

    def msg(self, message: str) -> None:
        if lost := take_lost():
            structlog.get_logger("rpcaccel").warning("lines of the log were lost", lines=lost)
        with suppress(OSError, ValueError):  # ValueError: the stream is closed
            super().msg(message)

    log = debug = info = warn = warning = fatal = failure = err = error = critical = exception = msg


class Libraries(logging.Handler):
    """Hands what libraries log to the program's own log, in its form."""

    def emit(self, record: logging.LogRecord) -> None:
        told: dict[str, Any] = {"logger": record.name}
        if record.exc_info:
            told["exc_info"] = record.exc_info
        level = min(record.levelno // 10 * 10, logging.CRITICAL)  # structlog knows only the five levels
        structlog.get_logger().log(level, record.getMessage(), **told)
