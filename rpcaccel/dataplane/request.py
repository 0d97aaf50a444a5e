"""What goes to a node: a call as bytes, and as few headers as will do."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Protocol

import msgspec
from yarl import URL

from rpcaccel.core import traceparent
from rpcaccel.dataplane.secrecy import Secret, login

_TRACED = traceparent.HEADER.encode()
_OPERATORS = re.compile(rb"(?<=\n)%b: [^\r\n]*\r\n" % _TRACED)


class Endpoint(Protocol):
    """What a connector needs of a node's settings (config.model.NodeSettings); times in seconds."""

    @property
    def id(self) -> str: ...
    @property
    def url(self) -> Secret: ...
    @property
    def headers(self) -> Mapping[str, Secret]: ...
    @property
    def max_connections(self) -> int: ...
    @property
    def keepalive(self) -> float: ...
    @property
    def connect_timeout(self) -> float: ...
    @property
    def timeout(self) -> float: ...
    @property
    def warm(self) -> int: ...
    @property
    def max_answer(self) -> int: ...


def call_text(number: int, method: str, params: bytes) -> bytes:
    """A JSON-RPC call; `params` is raw JSON and stays as it is."""
    return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (number, msgspec.json.encode(method), params)


def request_headers(url: URL, own: Mapping[str, Secret]) -> dict[str, str]:
    """The headers of every call to a node; the operator's own come last and win."""
    headers = {
        "content-type": "application/json",
        "accept-encoding": "identity" if _on_this_machine(url.host) else "gzip",
        "user-agent": "rpcaccel",
    }
    if url.user is not None:
        headers["authorization"] = f"Basic {login(url.user, url.password or '')}"
    headers.update((name.lower(), value.reveal()) for name, value in own.items())
    return headers


def request_head(url: URL, own: Mapping[str, Secret]) -> bytes:
    """What every request to a node begins with: its first line and its headers, up to those that differ by call."""
    headers = {"Host": url.host_port_subcomponent or "", **request_headers(url, own)}
    if (host := headers.pop("host", None)) is not None:
        headers["Host"] = host
    lines = [f"POST {url.raw_path_qs} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), ""]
    return "\r\n".join(lines).encode()


def post_text(head: bytes, body: bytes, span: str = "") -> bytes:
    """A whole request; `span` is what the node is told of the trace that the call belongs to, if it belongs to one:
    then not of the operator's, since two make none (W3C Trace Context, section 3.2)."""
    if span:
        head = b"%b%b: %b\r\n" % (_OPERATORS.sub(b"", head), _TRACED, span.encode())
    return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


def _on_this_machine(host: str | None) -> bool:
    """There, bytes are cheaper than the time both sides spend on compressing them."""
    if host is None or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
