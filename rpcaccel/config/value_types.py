"""Types of values in the settings: each reads several spellings and keeps one form; names of networks and nodes, and
nodes written in one text: URL[,weight=N][,id=NAME].

Sizes ("256MB", "5 MiB") follow IEC 80000-13: MB is 1,000,000 bytes, MiB is 1,048,576. Durations are written "30ms" or
"2m". Bare numbers are bytes, or seconds. Chains, balancers and the extra for traces are looked up when a value names
one, so that reading settings loads none of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, StringConstraints

from rpcaccel.config.secrets import NodeUrl, StoreUrl, format_listen, parse_listen

NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"
"""Names of networks: safe in a path, a metric and a log."""
NODE_ID = r"^[a-z0-9][a-z0-9._:-]{0,254}$"
"""Ids of nodes: as names of networks, with colons, since the default is host:port."""
NODE_TEXT = "URL[,weight=N][,id=NAME]"
OPTIONS = ("weight", "id")

_SCHEMELESS = re.compile(r"[^\s/]+:[0-9]{1,5}([/,]\S*)?")
"""A host with a port, where a URL should be."""
_OPTION = re.compile(r"(?s)(.*),([a-z_]+)=([^,=&?#/]*)")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = frozenset(
    {"connection", "content-encoding", "content-length", "content-type", "te", "trailer", "transfer-encoding"}
)


def is_sharded(chain: str) -> bool:
    """Does the table of this chain name a call that asks a node for its shard? False for an unknown chain."""
    from rpcaccel import chains  # noqa: PLC0415 -- settings are read without it until a chain is named

    return chain in chains.names() and chains.load(chain).identity.shard is not None


def network_name(chain: str, shard: int = 0) -> str:
    """The default name of a network of this chain: harmony-s0, ethereum."""
    return f"{chain}-s{shard}" if is_sharded(chain) else chain


def parse_node(text: str) -> dict[str, Any]:
    """A node's document of URL[,weight=N][,id=NAME]; values are judged by the model.

    Commas may be part of the URL: options are read from the end. Raises ValueError for a repeated or misspelt option.
    """
    node: dict[str, Any] = {}
    rest = text.strip()
    while match := _OPTION.fullmatch(rest):
        before, option, value = match.groups()
        if option not in OPTIONS:
            if close := get_close_matches(option, OPTIONS, n=1):
                raise ValueError(f"{NODE_TEXT}; did you mean {close[0]}= for {option}=?")
            break
        if option in node:
            raise ValueError(f"{NODE_TEXT} with {option}= once")
        node[option] = value
        rest = before
    return {"url": rest, **dict(reversed(node.items()))}


def meant_by(word: str) -> str:
    """What a word that is no URL was probably meant for: the name of a chain, or "http:// before it" where it is a host
    and a port; empty where neither is near."""
    from rpcaccel import chains  # noqa: PLC0415 -- settings are read without it until a chain is named

    if _SCHEMELESS.fullmatch(word):
        return "http:// before it"
    is_file = not {".", "/"}.isdisjoint(word)
    return "" if is_file else next(iter(get_close_matches(word.lower(), chains.names(), n=1)), "")


def ids_once(texts: Sequence[str]) -> list[str]:
    """The node texts without ids that an earlier text of the list has as well."""
    once: list[str] = []
    seen: set[str] = set()
    for text in texts:
        try:
            node = parse_node(text)
        except ValueError:
            node = {}
        name = node.pop("id", "")
        once.append(",".join([node.pop("url"), *(f"{key}={node[key]}" for key in node)]) if name in seen else text)
        seen |= {name} - {""}
    return once


def named_nodes(nodes: Sequence[Any]) -> list[Any]:
    """The nodes as tables, each with an id. Anything else is left as it is, for the model to refuse."""
    tables = [_table(node) for node in nodes]
    taken = {node["id"] for node in tables if isinstance(node, dict) and isinstance(node.get("id"), str)}
    numbers: dict[str, int] = {}
    for node in tables:
        if isinstance(node, dict) and node.get("id") in (None, ""):
            name = unique = default_id(node.get("url"))
            while unique in taken:
                numbers[name] = numbers.get(name, 1) + 1
                unique = f"{name}-{numbers[name]}"
            node["id"] = unique
            taken.add(unique)
    return tables


def default_id(url: object) -> str:
    """The host, and the port when written, of a node's URL, in letters an id may have."""
    try:
        host = (url if isinstance(url, NodeUrl) else NodeUrl(str(url))).host
    except ValueError:
        return "node"
    if host.startswith("["):
        host = host.replace("[", "").replace("]", "").replace("::", ":").replace("%", "-")
    return re.sub(r"[^a-z0-9._:-]", "-", host.lower()).lstrip("._:-")[:240] or "node"


def header_name(name: str) -> str:
    """The name of a header that can be sent to a node. Raises ValueError saying what was expected."""
    if not _HEADER.fullmatch(name):
        raise ValueError("a header name of letters, digits and dashes")
    if name.lower() in _OURS:
        raise ValueError("another header; the proxy sets this one itself")
    return name


def _table(node: Any) -> Any:
    if isinstance(node, str):
        try:
            return parse_node(node)
        except ValueError:
            return node
    return dict(node) if isinstance(node, Mapping) else node


SIZE = 'a size such as 262144, "256MB" or "5 MiB"'
DURATION = 'a duration such as 2.5 (seconds), "30ms", "10s", "2m" or "1h"'

SIZE_PATTERN = r"^\s*\d+(\.\d+)?\s*([kKmMgGtT]?[iI]?[bB]?)\s*$"
DURATION_PATTERN = r"^\s*\d+(\.\d+)?\s*(us|µs|ms|s|m|h|d)?\s*$"

_LONGEST = 40
_LARGEST_SIZE = 1 << 62
_LONGEST_SECONDS = 1e10
_LETTERS = "kmgt"
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zµ]*)\s*", re.IGNORECASE)
_SECONDS = {
    "": Decimal(1),
    "us": Decimal("0.000001"),
    "µs": Decimal("0.000001"),
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}


def _byte_units() -> dict[str, int]:
    units = {"": 1, "b": 1}
    for power, letter in enumerate(_LETTERS, start=1):
        units[letter] = units[letter + "b"] = 1000**power
        units[letter + "i"] = units[letter + "ib"] = 1024**power
    return units


_BYTES = _byte_units()


def _quantity(value: object, units: Mapping[str, Decimal | int], largest: float, expected: str) -> Decimal:
    """The number that is meant, in the unit of a bare number. Raises ValueError with `expected`."""
    number = None
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value) if len(value) <= _LONGEST else None
        if match is not None and (unit := units.get(match[2].lower())) is not None:
            number = Decimal(match[1]) * unit
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = Decimal(value)
    if number is None or not number.is_finite() or not 0 <= number <= largest:
        raise ValueError(expected)
    return number


def parse_size(value: object) -> int:
    """Bytes of a size; a fraction of a byte is dropped. Raises ValueError naming what was expected."""
    if isinstance(value, float):
        raise ValueError(SIZE)  # noqa: TRY004 -- pydantic turns only ValueError into a fault
    return int(_quantity(value, _BYTES, _LARGEST_SIZE, SIZE))


def format_size(size: int) -> str:
    """The shortest text that parses back to exactly this many bytes."""
    for power in range(len(_LETTERS), 0, -1):
        letter = _LETTERS[power - 1].upper()
        for unit, name in ((1000**power, f"{letter}B"), (1024**power, f"{letter}iB")):
            if size and size % unit == 0:
                return f"{size // unit}{name.replace('KB', 'kB')}"
    return f"{size}B"


def parse_duration(value: object) -> float:
    """Seconds of a duration. Raises ValueError naming what was expected."""
    return float(_quantity(value, _SECONDS, _LONGEST_SECONDS, DURATION))


def format_duration(seconds: float) -> str:
    """A text in the largest unit that divides the seconds: "12h", "75s", "30ms"."""
    exact = Decimal(str(seconds))
    unit = next((unit for unit in ("d", "h", "m", "s", "ms") if exact and not exact % _SECONDS[unit]), "us")
    return f"{(exact / _SECONDS[unit]).normalize():f}{unit}" if exact else "0s"


_EXPORTER = "opentelemetry.exporter.otlp.proto.http"


def known_chain(name: str) -> str:
    """The name, if a chain has it. Raises ValueError listing those there are."""
    from rpcaccel import chains  # noqa: PLC0415 -- settings are read without it until a chain is named

    return _known(name, chains.names(), "chain")


def known_balancer(name: str) -> str:
    """The name, if a balancer has it. Raises ValueError listing those there are."""
    from rpcaccel import balancers  # noqa: PLC0415 -- likewise

    return _known(name, balancers.names(), "balancer")


def known_provider(name: str) -> str:
    """The name, if there are figures of this provider, or nothing. Raises ValueError listing those there are."""
    from rpcaccel import providers  # noqa: PLC0415 -- likewise

    return name and _known(name, providers.names(), "provider")


def _name_providers(schema: dict[str, Any]) -> None:
    from rpcaccel import providers  # noqa: PLC0415 -- likewise

    schema["enum"] = ["", *providers.names()]


def trace_receiver(address: str) -> str:
    """The address that spans are sent to, with its path. Raises ValueError for no address, and without the extra."""
    if not address:
        return ""
    try:
        parts = urlsplit(address)
        there = bool(parts.hostname) and parts.port != 0 and parts.scheme in ("http", "https")
    except ValueError:
        there = False
    if not there or "@" in parts.netloc or any(char.isspace() for char in address):
        raise ValueError('an address such as "http://127.0.0.1:4318" without user and password')
    try:
        installed = find_spec(_EXPORTER) is not None
    except ModuleNotFoundError:
        installed = False
    if not installed:
        raise ValueError('the extra for traces, which is not installed: pip install "rpcaccel[otel]"')
    return address if parts.path.strip("/") else parts._replace(path="/v1/traces").geturl()


def _known(name: str, names: Collection[str], kind: str) -> str:
    if name not in names:
        raise ValueError(f"a {kind}: {', '.join(sorted(names))}")
    return name


LEAST_WORKER_TIMEOUT = 3.0
"""Seconds: a worker that is only busy is not to be taken for one that hangs."""


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


def matching(pattern: str, expected: str) -> AfterValidator:
    """Lets texts pass that this pattern matches as a whole; a fault of any other text says what was `expected`."""
    form = re.compile(pattern)

    def check(text: str) -> str:
        if not form.fullmatch(text):
            raise ValueError(expected)
        return text

    return AfterValidator(check)


def _worker_timeout(seconds: float) -> float:
    if 0 < seconds < LEAST_WORKER_TIMEOUT:
        raise ValueError(f"0, or at least {LEAST_WORKER_TIMEOUT:g} seconds, since workers report once a second")
    return seconds


def listed(value: object) -> object:
    """A list written as one text, as an environment variable has to: separated by commas or spaces."""
    return [part for part in re.split(r"[,\s]+", value) if part] if isinstance(value, str) else value


def _or_text(pattern: str, **more: str) -> Any:
    """In the JSON Schema: a number, or a text of this pattern. The bounds of a field hold for the number alone."""

    def write(schema: dict[str, Any]) -> None:
        schema |= {"type": [schema["type"], "string"], "pattern": pattern, **more}

    return Field(json_schema_extra=write)


Size = Annotated[int, BeforeValidator(parse_size), _or_text(SIZE_PATTERN, format="size")]
Duration = Annotated[float, BeforeValidator(parse_duration), _or_text(DURATION_PATTERN, format="duration")]
WorkerTimeout = Annotated[Duration, AfterValidator(_worker_timeout)]
Number = Annotated[float, BeforeValidator(_number)]
Whole = Annotated[int, BeforeValidator(_whole)]
WorkerCount = Annotated[int, BeforeValidator(_worker_count), _or_text("^auto$")]
ListenText = Annotated[str, AfterValidator(_listen)]
MethodPattern = Annotated[str, matching(r"[A-Za-z0-9_.*?-]+", 'a method name or pattern such as "debug_*"')]
MethodPatterns = Annotated[tuple[MethodPattern, ...], BeforeValidator(listed)]
_Origin = Annotated[
    str, matching(r"\*|null|[a-z][a-z0-9+.-]*://[^\s/,]+", '"*" or an origin such as "https://app.example.com"')
]
Origins = Annotated[tuple[_Origin, ...], BeforeValidator(listed)]
_HostName = Annotated[
    str,
    StringConstraints(to_lower=True),
    matching(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", 'a host name such as "rpc.example.com"'),
]
HostNames = Annotated[tuple[_HostName, ...], BeforeValidator(listed)]
_IN_ORDER = PlainSerializer(sorted, return_type=list[str], when_used="json")
"""A set is written in order, so that equal sets have equal documents."""
Roles = Annotated[
    frozenset[Literal["archive", "explorer", "observer", "beacon", "auth", "debug"]],
    BeforeValidator(listed),
    _IN_ORDER,
]
_TAG = r"[a-z0-9][a-z0-9._-]{0,63}"
TAG_OR_NONE = rf"^({_TAG})?$"
Tag = Annotated[str, StringConstraints(pattern=rf"^{_TAG}$")]
Tags = Annotated[frozenset[Tag], BeforeValidator(listed), _IN_ORDER]
HeaderName = Annotated[str, AfterValidator(header_name)]
KNOWN = "x-known"
"""The member of a field's JSON Schema that says of what its values are the names: "chains" or "balancers"."""
ChainName = Annotated[str, AfterValidator(known_chain), Field(json_schema_extra={KNOWN: "chains"})]
BalancerName = Annotated[str, AfterValidator(known_balancer), Field(json_schema_extra={KNOWN: "balancers"})]
ProviderName = Annotated[str, AfterValidator(known_provider), Field(json_schema_extra=_name_providers)]
StoreUrls = Annotated[tuple[StoreUrl, ...], BeforeValidator(listed)]
