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
        last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[*shared, last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(
        level=max(level, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )
