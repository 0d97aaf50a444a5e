"""What is wrong with settings whose values are right each by itself: the rules that look at several of them at once.

`validate` applies these rules, so that `check`, `serve`, a reload and a change at run time judge alike.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import NamedTuple

from rpcaccel.config.address import Listen, is_loopback, parse_listen
from rpcaccel.config.faults import Fault, Path, dotted, shown, source_of
from rpcaccel.config.model import AdminSettings, MemorySettings, NetworkSettings, Settings
from rpcaccel.config.plugins import methods_of
from rpcaccel.stores import redis_url

OPEN = (
    "an address of this machine alone (127.0.0.1, ::1 or localhost), since the admin side has no password: for one "
    "there is [admin.accounts.NAME] and `rpcaccel passwd`"
)


class Misfit(NamedTuple):
    """One rule that settings break."""

    path: Path
    found: str
    expected: str
    also: Path = ()
    """What else the rule looks at: where that is wrong by itself, nothing is to be said of the rule."""
    of_name: bool = False
    """Is the name at the end of the path what is wrong, whatever stands there?"""

    def fault(self, said: Mapping[Path, str]) -> Fault:
        """As it is told, with who said what stands there."""
        return Fault(dotted(self.path), self.found, self.expected, source_of(self.path, said))


def misfits(settings: Settings) -> Iterator[Misfit]:
    """Every rule that these settings break."""
    yield from _admin(settings.admin)
    yield from _places(settings)
    yield from _memory(settings.memory)
    yield from _replicas(settings)
    for name, network in settings.networks.items():
        yield from _network(("networks", name), network)


def is_open(listen: str, admin: AdminSettings) -> bool:
    """Would others reach the admin side there, and need no password?"""
    return not admin.accounts and not is_loopback(parse_listen(listen).host)


def _admin(admin: AdminSettings) -> Iterator[Misfit]:
    if is_open(admin.listen, admin):
        yield Misfit(("admin", "listen"), shown(admin.listen), OPEN, ("admin", "accounts"))
    for name, other in (("tls_cert", "tls_key"), ("tls_key", "tls_cert")):
        if getattr(admin, name) and not getattr(admin, other):
            expected = f"a PEM file: admin.tls_cert and admin.tls_key are given together or not at all, and {name} is"
            yield Misfit(("admin", other), "nothing", expected, ("admin", name))


def _places(settings: Settings) -> Iterator[Misfit]:
    if _clash(parse_listen(settings.listen), parse_listen(settings.admin.listen)):
        expected = f"another port than that of listen ({settings.listen}), where calls are taken"
        yield Misfit(("admin", "listen"), shown(settings.admin.listen), expected, ("listen",))


def _clash(one: Listen, other: Listen) -> bool:
    """Would both listen on one port of one address? Port 0 is always a free one."""
    if one.port != other.port or one.port == 0:
        return False
    ours, theirs = _addresses(one.host), _addresses(other.host)
    return _covers(ours, theirs) or _covers(theirs, ours)


def _covers(ours: set[str], theirs: set[str]) -> bool:
    """Is one of their addresses among ours? "::" is every interface, "0.0.0.0" every one of IPv4."""
    everywhere_4 = "0.0.0.0" in ours and any(":" not in address for address in theirs)
    return "::" in ours or everywhere_4 or bool(ours & theirs)


def _addresses(host: str) -> set[str]:
    """The addresses that a host name or address stands for; a name is not looked up, and stands for itself."""
    if host.lower() == "localhost":
        return {"127.0.0.1", "::1"}
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return {host.lower()}
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return {str(mapped or address)}


def _memory(memory: MemorySettings) -> Iterator[Misfit]:
    # A default that is too large hinders nothing: what does not fit into the memory is not kept in it.
    if "max_entry" in memory.model_fields_set and 0 < memory.size < memory.max_entry:
        expected = f"at most the {memory.size} bytes of memory.size"
        yield Misfit(("memory", "max_entry"), str(memory.max_entry), expected, ("memory", "size"))


def _replicas(settings: Settings) -> Iterator[Misfit]:
    if not settings.redis.replicas:
        return
    url = settings.redis.url.reveal()
    kind = redis_url.parse(url).kind if url else ""
    if kind in ("", "sentinel", "cluster"):
        expected = f"none: a {kind} finds its replicas itself" if kind else "none without a redis.url"
        yield Misfit(("redis", "replicas"), "a list", expected, ("redis", "url"))
    for index, replica in enumerate(settings.redis.replicas):
        if replica and redis_url.parse(replica.reveal()).kind not in ("single", "unix"):
            yield Misfit(("redis", "replicas", index), shown(replica), "one server: redis://, rediss:// or unix://")


def _network(path: Path, network: NetworkSettings) -> Iterator[Misfit]:
    if not any(node.weight for node in network.nodes):
        yield Misfit((*path, "nodes"), "weights of 0 alone", "a node with a weight above 0: others get no calls")
    if not network.rules:
        return
    known = methods_of(network.chain)
    for pattern in network.rules:
        if pattern in known or any(fnmatchcase(method, pattern) for method in known):
            continue
        close = get_close_matches(pattern, known, n=1)
        expected = f"a method of {network.chain}, or a pattern that fits one" + (
            f"; did you mean {close[0]}?" if close else ": what no table knows is never kept, and needs no rule"
        )
        yield Misfit((*path, "rules", pattern), shown(pattern), expected, (*path, "chain"), of_name=True)
