"""Whose call it is, by address, when proxies stand in front.

Only the proxies the operator named are believed. Each appends the address it took the request from, so the list is read
from its right end: the first address that is none of the trusted proxies is the client's. What stands further left was
written by the client itself.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import Literal

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
HeaderName = Literal["x-forwarded-for", "forwarded"]

LONGEST = 4096
"""Characters of a header that are read: of X-Forwarded-For the last ones; a longer Forwarded is not believed."""

_FOR = re.compile(r"(?:^|;)\s*for\s*=\s*\"?([^\s;,\"]+)", re.IGNORECASE)
_ELEMENT = re.compile(r"(?:[^,\"]|\"[^\"]*\")+")


class Trust:
    """The proxies that are believed."""

    __slots__ = ("_networks", "header")

    def __init__(self, networks: Iterable[str] = (), header: HeaderName = "x-forwarded-for") -> None:
        """`networks`: addresses or CIDR ranges. Raises ValueError for what is neither."""
        self._networks: tuple[Network, ...] = tuple(ipaddress.ip_network(text, strict=False) for text in networks)
        self.header: HeaderName = header

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __repr__(self) -> str:
        return f"<trust {self.header} of {', '.join(map(str, self._networks)) or 'nobody'}>"

    def client(self, peer: str, headers: Sequence[str]) -> str:
        """The client's address, when `peer` is connected and sent these values of the header, in their order."""
        believed = parse(peer)
        if believed is None or not headers or not self._trusts(believed):
            return peer if believed is None else str(believed)
        for hop in reversed(_hops(self.header, headers)):
            address = parse(hop)
            if address is None:
                break  # who wrote this cannot be told: the proxy that passed it on is the last one known
            believed = address
            if not self._trusts(address):
                break
        return str(believed)

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def parse(text: str) -> Address | None:
    """The address in `1.2.3.4`, `1.2.3.4:5`, `2001:db8::1` or `[2001:db8::1]:5`; None in anything else."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def holder(text: str) -> str:
    """What one client has for certain: its IPv4 address, or the /64 of its IPv6 address, all of which is its own."""
    address = parse(text)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return text if address is None else str(address)


def _hops(header: HeaderName, values: Sequence[str]) -> list[str]:
    """The addresses a header lists, from the furthest to the nearest; empty for what does not say one."""
    text = ",".join(values)
    if header == "x-forwarded-for":
        return text[-LONGEST:].split(",")
    # A quote the client leaves open, or makes look closed, would swallow what its proxy wrote behind it.
    if len(text) > LONGEST or "\\" in text or text.count('"') % 2:
        return []
    return [_element(part) for part in _ELEMENT.findall(text)]


def _element(element: str) -> str:
    """The `for` of one element of Forwarded (RFC 7239 section 4)."""
    match = _FOR.search(element)
    return "" if match is None else match[1]
