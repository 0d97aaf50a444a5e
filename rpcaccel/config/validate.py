"""A document becomes settings, or the list of everything that is wrong with it.

What is wrong with settings whose values are right each by itself: the rules that look at several of them at once.

`validate` applies these rules, so that `check`, `serve`, a reload and a change at run time judge alike.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from pydantic import ValidationError

from rpcaccel.config.errors import ConfigError, Fault, Path, dotted, from_pydantic, shown, source_of
from rpcaccel.config.model import AdminSettings, MemorySettings, NetworkSettings, Settings
from rpcaccel.config.names import named_nodes, repeats
from rpcaccel.config.secrets import Listen, is_loopback, parse_listen
from rpcaccel.config.value_types import listed, methods_of
from rpcaccel.stores.redis import redis_url

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


NO_NETWORK = "at least one network: give node URLs, or a [networks.NAME] table with nodes"
_NODE = "http://127.0.0.1"
_STAND_IN = {"networks": {"x": {"nodes": [_NODE]}}}


Judge = Callable[[Settings], Iterable[Misfit]]
"""Says what is wrong with settings beyond what stands in them, such as files that are not there."""


def validate(
    document: Mapping[str, Any], sources: Mapping[Path, str] | None = None, judge: Judge = lambda _settings: ()
) -> Settings | list[Fault]:
    """The settings of a document (the shape of the TOML file), or its faults, in the order of the paths."""
    said = sources or {}
    faults: list[Fault] = []
    wrong: list[Path] = []
    settings: Settings | None
    try:
        settings = Settings.model_validate(dict(document))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        faults = from_pydantic(errors, Settings, said)
        if not document.get("networks"):
            missing = Fault("networks", "nothing", NO_NETWORK)
            faults = [missing, *(fault for fault in faults if fault.path != "networks")]
        faults += _cross_faults(document, said)
        faults = faults or [Fault("", "", "networks and nodes with names of their own")]
        wrong = _exact([one["loc"] for one in errors])
        settings = _remainder(document, wrong)
    if settings is not None:
        told = (*misfits(settings), *judge(settings))
        faults += [one.fault(said) for one in told if not _touched(one, wrong)]
        if not faults:
            return settings
    return faults


def _remainder(document: Mapping[str, Any], wrong: Sequence[Path]) -> Settings | None:
    """The settings without what is wrong by itself, so that rules over several of them are applied all the same; None
    where too little is left."""
    left: Any = document
    # First each value, or the member of a list that it is in; then its network, or its table, and what is wrong then.
    for cut in (_nearest, _table, _table, lambda _path: ("networks",)):
        left = _without(left, [cut(path) for path in wrong])
        try:
            return Settings.model_validate(left if left.get("networks") else {**left, **_STAND_IN})
        except ValidationError as error:
            wrong = _exact([one["loc"] for one in error.errors(include_url=False)])
    return None


def _exact(paths: Sequence[Path]) -> list[Path]:
    """The paths that no other goes beyond: a list is said to be too short when a member of it is wrong."""
    return [one for one in paths if not any(other[: len(one)] == one and other != one for other in paths)]


def validated(document: Mapping[str, Any], sources: Mapping[Path, str] | None = None) -> Settings:
    """The settings of a document. Raises ConfigError with every fault."""
    result = validate(document, sources)
    if isinstance(result, Settings):
        return result
    raise ConfigError(result)


def _cross_faults(document: Mapping[str, Any], said: Mapping[Path, str]) -> list[Fault]:
    """What single fields cannot see, from the raw document: so that it is found beside faults in fields."""
    networks = document.get("networks")
    if not isinstance(networks, Mapping) or not networks:
        return []
    faults = []
    default = document.get("default_network", "")
    if isinstance(default, str) and default and default not in networks:
        expected = f"one of the networks: {', '.join(map(str, networks))}"
        source = source_of(("default_network",), said)
        faults.append(Fault("default_network", shown(default), expected, source))
    for name, network in networks.items():
        nodes = network.get("nodes") if isinstance(network, Mapping) else None
        nodes = nodes.split() if isinstance(nodes, str) else nodes
        if not isinstance(nodes, list | tuple):
            continue
        tables = named_nodes(nodes)
        ids = [node.get("id") if isinstance(node, Mapping) else object() for node in tables]
        for index in repeats(ids):
            path: Path = ("networks", str(name), "nodes", index, "id")
            expected = f"another id than that of {dotted(path[:3])}[{ids.index(ids[index])}]"
            faults.append(Fault(dotted(path), shown(ids[index], path), expected, source_of(path, said)))
        faults += _lost_routes(str(name), network.get("routes"), tables, said)
    return faults


def _lost_routes(name: str, routes: Any, nodes: list[Any], said: Mapping[Path, str]) -> list[Fault]:
    """Routes to tags that no node has, where routes and tags can be read at all."""
    told = [listed(node.get("tags", ())) for node in nodes if isinstance(node, Mapping)]
    tags = sorted({str(tag) for some in told if isinstance(some, list | tuple) for tag in some})
    expected = f"a tag that some node of {name} has" + (f": {', '.join(tags)}" if tags else "; none has any")
    paths: list[tuple[Path, Any]] = [
        (("networks", name, "routes", index, "tag"), route["tag"])
        for index, route in enumerate(routes if isinstance(routes, list | tuple) else ())
        if isinstance(route, Mapping) and isinstance(route.get("tag"), str) and route["tag"] not in tags
    ]
    return [Fault(dotted(path), shown(tag, path), expected, source_of(path, said)) for path, tag in paths]


def _nearest(path: Path) -> Path:
    """The path of the value, or of the outermost member of a list above it."""
    if not path:
        return ("default_network",)  # the one rule over the whole document that the model itself holds
    path = path[:-1] if path[-1] == "[key]" else path
    return next((path[: depth + 1] for depth, part in enumerate(path) if isinstance(part, int)), path)


def _table(path: Path) -> Path:
    """The path of the network, or of the first table, that the value is in."""
    return path[: 2 if path[:1] == ("networks",) else 1] or _nearest(path)


def _without(value: Any, paths: Sequence[Path], name: object = "") -> Any:
    """A copy without what stands at these paths; a right node takes the place of a wrong one."""
    if not paths or not isinstance(value, Mapping | list | tuple):
        return value
    out = {path[0] for path in paths if len(path) == 1}
    below: dict[object, list[Path]] = {}
    for path in paths:
        if len(path) > 1:
            below.setdefault(path[0], []).append(path[1:])
    if isinstance(value, Mapping):
        return {key: _without(one, below.get(key, ()), key) for key, one in value.items() if key not in out}
    stand_in = [_NODE] if name == "nodes" else []
    kept = [stand_in if at in out else [_without(one, below.get(at, ()))] for at, one in enumerate(value)]
    return [one for some in kept for one in some]


def _touched(misfit: Misfit, wrong: Sequence[Path]) -> bool:
    """Is what the rule looks at, or what is below it or above it, wrong by itself?"""
    path = (*misfit.path, "[key]") if misfit.of_name else misfit.path
    pairs = itertools.product(filter(None, (path, misfit.also)), filter(None, wrong))
    return any(path[: len(other)] == other[: len(path)] for path, other in pairs)
