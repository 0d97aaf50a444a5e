"""The client's address when the request came through proxies (X-Forwarded-For, Forwarded).

Only the proxies that the operator named are trusted. Each appends the address from which it took the request, so the
list is read from its right end: the first address that belongs to no trusted proxy is the client's. Everything further
left may have been written by the client itself.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
ForwardedHeader = Literal["x-forwarded-for", "forwarded"]
FORWARDED_HEADERS: tuple[ForwardedHeader, ...] = get_args(ForwardedHeader)

MAX_HEADER_CHARACTERS = 4096
"""Characters of a header that are read: the last ones of X-Forwarded-For. A longer Forwarded is ignored."""

_FOR = re.compile(r"(?:^|;)\s*for\s*=\s*\"?([^\s;,\"]+)", re.IGNORECASE)
_ELEMENT = re.compile(r"(?:[^,\"]|\"[^\"]*\")+")


class Trust:
    """The trusted proxies, and the header that they write."""

    __slots__ = ("_networks", "header")

    def __init__(self, networks: Iterable[str] = (), header: ForwardedHeader = "x-forwarded-for") -> None:
        """`networks`: addresses or CIDR ranges. Raises ValueError for what is neither."""
        self._networks: tuple[IpNetwork, ...] = tuple(ipaddress.ip_network(text, strict=False) for text in networks)
        self.header: ForwardedHeader = header

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __repr__(self) -> str:
        return f"<trust {self.header} of {', '.join(map(str, self._networks)) or 'nobody'}>"

    def client(self, peer: str, headers: Sequence[str]) -> str:
        """The client's address; `peer` is the connected address, `headers` the header's values in their order."""
        believed = parse(peer)
        if believed is None or not headers or not self._trusts(believed):
            return peer if believed is None else str(believed)
        for hop in reversed(_hops(self.header, headers)):
            address = parse(hop)
            if address is None:
                break  # no address: the proxy that passed this on is the last known hop
            believed = address
            if not self._trusts(address):
                break
        return str(believed)

    def _trusts(self, address: IpAddress) -> bool:
        return any(address in network for network in self._networks)


def parse(text: str) -> IpAddress | None:
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
    """The network that belongs to one client: its IPv4 address, or the /64 around its IPv6 address."""
    address = parse(text)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return text if address is None else str(address)


def _hops(header: ForwardedHeader, values: Sequence[str]) -> list[str]:
    """The addresses in a header, from the furthest to the nearest; empty strings for elements without an address."""
    text = ",".join(values)
    if header == "x-forwarded-for":
        return text[-MAX_HEADER_CHARACTERS:].split(",")
    # A quote that the client leaves open, or makes look closed, would swallow what its proxy wrote after it.
    if len(text) > MAX_HEADER_CHARACTERS or "\\" in text or text.count('"') % 2:
        return []
    return [_element(part) for part in _ELEMENT.findall(text)]


def _element(element: str) -> str:
    """The `for` of one element of Forwarded (RFC 7239 section 4)."""
    match = _FOR.search(element)
    return "" if match is None else match[1]
