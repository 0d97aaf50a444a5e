"""The log: structured lines on stderr, for people or as JSON."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from rpcaccel.config.observability import LogSettings


def configure(settings: LogSettings) -> None:
    """Send the program's log, and that of the libraries it uses, to stderr in the form and from the level chosen."""
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
        # The ornate traceback shows the variables of every frame: passwords among them, and at length.
        plain = structlog.dev.plain_traceback
        last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)
    structlog.configure(
        processors=[*shared, last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(
        level=max(level, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )
