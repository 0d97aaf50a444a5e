"""The kinds of values that settings have: each reads what people write and keeps one form of it."""

from __future__ import annotations

import os
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, StringConstraints, WithJsonSchema

from rpcaccel.config.address import RedisUrl, format_listen, parse_listen
from rpcaccel.config.naming import header_name
from rpcaccel.config.plugins import known_balancer, known_chain
from rpcaccel.config.units import DURATION_PATTERN, SIZE_PATTERN, parse_duration, parse_size

LEAST_WORKER_TIMEOUT = 3.0
"""Seconds: a worker that is only busy is not to be taken for one that hangs."""
_METHOD_PATTERN = re.compile(r"[A-Za-z0-9_.*?-]+")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^\s/,]+")


def _listen(text: str) -> str:
    return format_listen(parse_listen(text))


def _whole(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a whole number")  # noqa: TRY004 -- pydantic turns only ValueError into a fault
    if isinstance(value, str) and re.fullmatch(r"\s*0[xX][0-9a-fA-F]{1,16}\s*", value):
        return int(value, 16)
    return value


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number")  # noqa: TRY004 -- pydantic turns only ValueError into a fault
    return value


def _worker_count(value: object) -> object:
    """ "auto" is one for each processor that this program may use."""
    if isinstance(value, str) and value.strip().lower() == "auto":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _whole(value)


def _method_pattern(text: str) -> str:
    if not _METHOD_PATTERN.fullmatch(text):
        raise ValueError('a method name or pattern such as "debug_*"')
    return text


def _host_name(text: str) -> str:
    if not _HOST_NAME.fullmatch(text):
        raise ValueError('a host name such as "rpc.example.com"')
    return text.lower()


def _origin(text: str) -> str:
    if not _ORIGIN.fullmatch(text):
        raise ValueError('"*" or an origin such as "https://app.example.com"')
    return text


def _worker_timeout(seconds: float) -> float:
    if 0 < seconds < LEAST_WORKER_TIMEOUT:
        raise ValueError(f"0, or at least {LEAST_WORKER_TIMEOUT:g} seconds, since workers report once a second")
    return seconds


def listed(value: object) -> object:
    """A list written as one text, as an environment variable has to: separated by commas or spaces."""
    return [part for part in re.split(r"[,\s]+", value) if part] if isinstance(value, str) else value


def _unit(pattern: str, number: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": number, "minimum": 0}, {"type": "string", "pattern": pattern}]})


Size = Annotated[int, BeforeValidator(parse_size), _unit(SIZE_PATTERN, "integer")]
Duration = Annotated[float, BeforeValidator(parse_duration), _unit(DURATION_PATTERN, "number")]
WorkerTimeout = Annotated[Duration, AfterValidator(_worker_timeout)]
Number = Annotated[float, BeforeValidator(_number)]
Whole = Annotated[int, BeforeValidator(_whole)]
WorkerCount = Annotated[
    int,
    BeforeValidator(_worker_count),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 256}, {"const": "auto"}]}),
]
ListenText = Annotated[str, AfterValidator(_listen)]
MethodPatterns = Annotated[tuple[Annotated[str, AfterValidator(_method_pattern)], ...], BeforeValidator(listed)]
MethodPattern = Annotated[str, AfterValidator(_method_pattern)]
Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], BeforeValidator(listed)]
HostNames = Annotated[tuple[Annotated[str, AfterValidator(_host_name)], ...], BeforeValidator(listed)]
_IN_ORDER = PlainSerializer(sorted, return_type=list[str], when_used="json")
"""A set has no order of its own: written down, equal ones are to be equal."""
Roles = Annotated[
    frozenset[Literal["archive", "explorer", "beacon", "auth", "debug"]], BeforeValidator(listed), _IN_ORDER
]
Tag = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Tags = Annotated[frozenset[Tag], BeforeValidator(listed), _IN_ORDER]
HeaderName = Annotated[str, AfterValidator(header_name)]
ChainName = Annotated[str, AfterValidator(known_chain)]
BalancerName = Annotated[str, AfterValidator(known_balancer)]
RedisUrls = Annotated[tuple[RedisUrl, ...], BeforeValidator(listed)]
