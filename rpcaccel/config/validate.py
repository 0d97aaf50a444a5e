"""Validation: a document becomes settings, or a list of faults. Wrong values are told first, then broken rules over
several of them.

`check`, `serve`, a reload and a change at run time all use `validate`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, NamedTuple

from pydantic import ValidationError

from rpcaccel.config.errors import Fault, Path, dotted, excess, from_pydantic, listed, shown, source_of
from rpcaccel.config.model import (
    MOST_NODES_IN_ALL,
    AdminSettings,
    DiskSettings,
    MemorySettings,
    NetworkSettings,
    NodeSettings,
    Settings,
)
from rpcaccel.config.secrets import Listen, NodeUrl, is_loopback, parse_listen
from rpcaccel.core.plan.rules import RuleTable
from rpcaccel.stores import driver_of

OPEN = (
    "an address of this machine alone (127.0.0.1, ::1 or localhost), since the admin side has no password: for one "
    "there is [admin.accounts.NAME] and `rpcaccel passwd`"
)


class Misfit(NamedTuple):
    """One rule that settings break."""

    path: Path
    found: str
    expected: str

    def fault(self, said: Mapping[Path, str]) -> Fault:
        """The fault, with the source of the value at the path."""
        return Fault(dotted(self.path), self.found, self.expected, source_of(self.path, said))


def misfits(settings: Settings) -> Iterator[Misfit]:
    """Every rule that these settings break."""
    if settings.default_network and settings.default_network not in settings.networks:
        expected = f"one of the networks: {', '.join(settings.networks) or 'there is none yet'}"
        yield Misfit(("default_network",), shown(settings.default_network), expected)
    yield from _admin(settings.admin)
    yield from _certificate((), settings)
    yield from _certificate(("admin",), settings.admin)
    yield from _places(settings)
    yield from _memory(settings.memory)
    yield from _disk(settings.disk)
    yield from _replicas(settings)
    yield from _alerts(settings)
    nodes = sum(len(network.nodes) for network in settings.networks.values())
    if nodes > MOST_NODES_IN_ALL:
        yield Misfit(("networks",), f"{nodes} nodes", f"at most {MOST_NODES_IN_ALL} nodes in all networks together")
    yield from _keys(settings)
    for name, network in settings.networks.items():
        yield from _network(("networks", name), network)


def _keys(settings: Settings) -> Iterator[Misfit]:
    """Keys whose calls no node of a network might be asked for."""
    for name, key in settings.clients.keys.items():
        for network, part in settings.networks.items():
            if key.tag and not any(key.tag in node.tags for node in part.nodes):
                yield Misfit(("clients", "keys", name, "tag"), shown(key.tag), f"a tag that some node of {network} has")


def is_open(listen: str, admin: AdminSettings) -> bool:
    """Whether other machines would reach the admin side there without a password."""
    return not admin.accounts and not is_loopback(parse_listen(listen).host)


def _admin(admin: AdminSettings) -> Iterator[Misfit]:
    if is_open(admin.listen, admin):
        yield Misfit(("admin", "listen"), shown(admin.listen), OPEN)


def _certificate(prefix: Path, place: Settings | AdminSettings) -> Iterator[Misfit]:
    for name, other in (("tls_cert", "tls_key"), ("tls_key", "tls_cert")):
        if getattr(place, name) and not getattr(place, other):
            both = " and ".join(dotted((*prefix, one)) for one in ("tls_cert", "tls_key"))
            expected = f"a PEM file: {both} are given together or not at all, and {name} is"
            yield Misfit((*prefix, other), "nothing", expected)


def _places(settings: Settings) -> Iterator[Misfit]:
    if _clash(parse_listen(settings.listen), parse_listen(settings.admin.listen)):
        expected = f"another port than that of listen ({settings.listen}), where calls are taken"
        yield Misfit(("admin", "listen"), shown(settings.admin.listen), expected)


def _clash(one: Listen, other: Listen) -> bool:
    """Whether both would listen on one port of one address. Port 0 is always free."""
    if one.port != other.port or one.port == 0:
        return False
    ours, theirs = _addresses(one.host), _addresses(other.host)
    return _covers(ours, theirs) or _covers(theirs, ours)


def _covers(ours: set[str], theirs: set[str]) -> bool:
    """Whether one of their addresses is among ours. "::" is every interface, "0.0.0.0" every one of IPv4."""
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
    # Only a given value is judged: the default gives way to a smaller memory.
    if "max_entry" in memory.model_fields_set and 0 < memory.size < memory.max_entry:
        expected = f"at most the {memory.size} bytes of memory.size"
        yield Misfit(("memory", "max_entry"), str(memory.max_entry), expected)


def _disk(disk: DiskSettings) -> Iterator[Misfit]:
    if disk.path.startswith("~"):
        yield Misfit(("disk", "path"), shown(disk.path), 'the path of a folder; "~" stands for no home directory here')


def _replicas(settings: Settings) -> Iterator[Misfit]:
    url, replicas = settings.redis.url.reveal(), [replica.reveal() for replica in settings.redis.replicas]
    if not replicas:
        return
    unfit = driver_of(url).unfit_replicas(url, replicas) if url else {None: "none without a redis.url"}
    for index, expected in unfit.items():
        path = ("redis", "replicas") if index is None else ("redis", "replicas", index)
        yield Misfit(path, "a list" if index is None else shown(replicas[index]), expected)


def _alerts(settings: Settings) -> Iterator[Misfit]:
    for name, webhook in settings.alerts.webhooks.items():
        for index, network in enumerate(webhook.networks):
            if network not in settings.networks:
                expected = f"one of the networks: {', '.join(settings.networks)}"
                yield Misfit(("alerts", "webhooks", name, "networks", index), shown(network), expected)


def _network(path: Path, network: NetworkSettings) -> Iterator[Misfit]:
    places: dict[str, int] = {}
    addresses: dict[NodeUrl, NodeSettings] = {}
    for index, node in enumerate(network.nodes):
        other = addresses.setdefault(node.url, node)
        if other is not node and other.headers == node.headers:
            # Two nodes that are one would outvote another one, about the head and about an answer.
            yield Misfit(
                (*path, "nodes", index, "url"), node.url.shown, f"another address than that of node {other.id}"
            )
        if (first := places.setdefault(node.id, index)) < index:
            expected = f"another id than that of {dotted((*path, 'nodes', first))}"
            yield Misfit((*path, "nodes", index, "id"), shown(node.id), expected)
    tags = sorted({tag for node in network.nodes for tag in node.tags})
    for index, route in enumerate(network.routes):
        if route.tag not in tags:
            there = f": {', '.join(tags)}" if tags else "; none has any"
            yield Misfit(
                (*path, "routes", index, "tag"), shown(route.tag), f"a tag that some node of {path[-1]} has{there}"
            )
    yield from _private_routes(path, network)
    if not any(node.weight for node in network.nodes):
        yield Misfit((*path, "nodes"), "weights of 0 alone", "a node with a weight above 0: others get no calls")
    yield from _agreement(path, network)
    yield from _proof(path, network)
    if not network.rules:
        return
    known = {rule.method for rule in _table_of(network)}
    for pattern in network.rules:
        if pattern in known or any(fnmatchcase(method, pattern) for method in known):
            continue
        close = get_close_matches(pattern, known, n=1)
        expected = f"a method of {network.chain}, or a pattern that fits one" + (
            f"; did you mean {close[0]}?" if close else ": what no table knows is never kept, and needs no rule"
        )
        yield Misfit((*path, "rules", pattern), shown(pattern), expected)


def _table_of(network: NetworkSettings) -> RuleTable:
    """What the network's chain says of its methods."""
    from rpcaccel.chains.chain_tables import load  # noqa: PLC0415 -- settings are read without it until one is asked of

    return load(network.chain).rules


def _private_routes(path: Path, network: NetworkSettings) -> Iterator[Misfit]:
    """Routes that keep transactions from other nodes, where they do not."""
    for index, route in enumerate(network.routes):
        where = (*path, "routes", index)
        if route.fallback and route.broadcast:
            yield Misfit((*where, "fallback"), str(route.fallback), "0, or broadcast = false beside it")
        sends = sorted(rule.method for rule in _table_of(network) if rule.kind == "send")
        if not route.broadcast and not any(fnmatchcase(one, name) for one in sends for name in route.methods):
            yield Misfit((*where, "broadcast"), "false", f"true: the route names none of {', '.join(sends)}")


def _agreement(path: Path, network: NetworkSettings) -> Iterator[Misfit]:
    """Agreement that no call could ever reach."""
    for index, route in enumerate(network.routes):
        tagged = sum(route.tag in node.tags for node in network.nodes)
        if 1 < route.agree > tagged > 0:
            expected = f"at most {tagged}: so many nodes have the tag"
            yield Misfit((*path, "routes", index, "agree"), str(route.agree), expected)
    for method, rule in network.rules.items():
        where = (*path, "rules", method, "agree")
        if rule.agree > len(network.nodes):
            yield Misfit(where, str(rule.agree), f"at most the {len(network.nodes)} nodes of {path[-1]}")
        elif rule.agree > 1 and (known := _table_of(network).get(method)).known and not known.agreeable:
            yield Misfit(where, str(rule.agree), f"1: {method} is no read that several nodes would answer alike")


def _proof(path: Path, network: NetworkSettings) -> Iterator[Misfit]:
    """Proof that no answer could ever have."""
    for method, rule in network.rules.items():
        where = (*path, "rules", method, "prove")
        if not rule.prove:
            continue
        provable = sorted(rule.method for rule in _table_of(network) if rule.part)
        if not any(fnmatchcase(read, method) for read in provable):
            there = ", ".join(provable) or "there are none"
            expected = f"false: {method} is none of the reads of {network.chain} that can be proved: {there}"
            yield Misfit(where, "true", expected)
        elif network.prove == "off":
            yield Misfit(where, "true", f'false: {dotted((*path, "prove"))} is "off", so that no answer is judged')


NO_NETWORK = "at least one network: give node URLs, or a [networks.NAME] table with nodes"
_NO_NETWORK_FAULT = Fault("networks", "nothing", NO_NETWORK)

JudgeSettings = Callable[[Settings], Iterable[Misfit]]
"""Returns broken rules that settings alone do not show, such as files that are missing."""


def validate(
    document: Mapping[str, Any],
    sources: Mapping[Path, str] | None = None,
    judge: JudgeSettings = lambda _settings: (),
    *,
    networks_later: bool = False,
) -> Settings | list[Fault]:
    """The settings of a document (the shape of the TOML file), or its faults, in the order of the paths.
    `networks_later`: there may be no network yet."""
    said = sources or {}
    if networks_later:
        document = {"networks": {}, **document}
    if (too_large := excess(document)) is not None:
        return [too_large]
    try:
        settings = Settings.model_validate(dict(document))
    except ValidationError as error:
        faults = from_pydantic(error.errors(include_url=False), Settings, said)
        if not document.get("networks") and not networks_later:
            faults = [_NO_NETWORK_FAULT, *(fault for fault in faults if fault.path != "networks")]
        return faults
    if not settings.networks and not networks_later:
        return [_NO_NETWORK_FAULT]
    return listed(one.fault(said) for one in chain(misfits(settings), judge(settings))) or settings
