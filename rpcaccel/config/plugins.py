"""What settings name and others bring: chains, balancers, the extra for traces. Asked late, so that reading settings
loads none of them."""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from urllib.parse import urlsplit

_EXPORTER = "opentelemetry.exporter.otlp.proto.http"


def known_chain(name: str) -> str:
    """The name, if a chain has it. Raises ValueError listing those there are."""
    from rpcaccel import chains  # noqa: PLC0415 -- settings are read without it until a chain is named

    return _known(name, chains.names(), "chain")


def known_balancer(name: str) -> str:
    """The name, if a balancer has it. Raises ValueError listing those there are."""
    from rpcaccel import balancers  # noqa: PLC0415 -- likewise

    return _known(name, balancers.names(), "balancer")


def methods_of(chain: str) -> frozenset[str]:
    """The methods that the chain's table names."""
    from rpcaccel.chains.load import load  # noqa: PLC0415 -- likewise

    return frozenset(rule.method for rule in load(chain).rules)


def trace_receiver(address: str) -> str:
    """Where spans are sent, with its path. Raises ValueError for what is no address, and without the extra."""
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
