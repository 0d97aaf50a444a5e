"""Asks nodes what they are before they are served: their chain and shard, by which they make networks, and whether each
is right."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.chains import Chain, Probe
from rpcaccel.config.errors import ConfigError, Fault
from rpcaccel.config.load import UrlNetwork, node_flags, put
from rpcaccel.config.model import NetworkSettings, NodeSettings
from rpcaccel.config.secrets import REVEAL
from rpcaccel.config.validate import validate
from rpcaccel.config.value_types import ids_once, is_sharded, meant_by, network_name, parse_node
from rpcaccel.controlplane.nodes.probes import Asker, Look, Questions, connect
from rpcaccel.core.heads.identity import Claims, ExpectedIdentity, Finding, NodesFound, wanted_of
from rpcaccel.core.heads.identity import judge as judge_claims
from rpcaccel.core.live.subscription import HEADS
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.replies.failure import Failure
from rpcaccel.core.wire.json_params import MAX_TEXT, number_at
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.upstream.node_socket import NodeSocket

_MAX_TROUBLE_CHARACTERS = 120


class ProbeError(Exception):
    """A node did not answer as nodes do. The text is for the operator and holds no secret."""

    def __init__(self, text: str, *, silent: bool = False) -> None:
        """`silent`: no answer came at all."""
        line = printable(text)
        super().__init__(line if len(line) <= _MAX_TROUBLE_CHARACTERS else f"{line[:_MAX_TROUBLE_CHARACTERS]}…")
        self.silent = silent


async def number_of(asker: Asker, probe: Probe, timeout: float) -> int:
    """The block number or chain id that a node answers to a probe, within `timeout` seconds. Raises ProbeError."""
    answer = await asker.send(probe.method, probe.params.encode(), timeout=timeout)
    if isinstance(answer, Failure):
        raise ProbeError(answer.text, silent=True)
    if answer.result is None:
        _, message = error_parts(answer.error or b"")
        raise ProbeError(f"{probe.method}: {message}")
    result = bytes(answer.result)
    if (found := number_at(result, probe.at) if len(result) <= MAX_TEXT else None) is None:
        raise ProbeError(f"{probe.method}: answered with something that is not a number")
    return found


DEFAULT_CHAIN, DEFAULT_SHARD = "harmony", 0
"""The chain and the shard that are served when no node answers."""
MAX_SHARD = 65_535
"""The greatest shard that settings may name."""
PROBED_SECONDS = 15.0
"""Seconds for all that one node is asked about itself."""
DISCOVERY_SECONDS = 3.0
"""Seconds that nodes get to tell what they serve; a node that has not answered by then is taken for one like the
others."""
_PAUSE = 0.25
"""Seconds between two questions to a node that did not answer."""


class Said(NamedTuple):
    """The chain and the shard that a node claims to serve, and its chain id; None where the node tells no chain id."""

    chain: str
    shard: int
    eth_chain_id: int | None = None


class Discovery(NamedTuple):
    """The networks to be served, that of the first node first, and sentences about nodes that did not answer."""

    networks: list[UrlNetwork]
    notes: list[str]


def assumed(texts: Sequence[str], chain: str | None, shard: int | None) -> Discovery:
    """One network of all nodes, of the chain and shard that the operator names, or of the default ones. No node is
    asked."""
    named, number_of_shard = chain or DEFAULT_CHAIN, DEFAULT_SHARD if shard is None else shard
    return Discovery([UrlNetwork(network_name(named, number_of_shard), named, number_of_shard, tuple(texts))], [])


_LEAST_PUBLIC_BLOCK_TIME = 2.0
"""Seconds: public endpoints are asked for their heads no more often than on a chain with such blocks."""


def public(named: Sequence[str], chain: str | None, shard: int | None) -> Discovery:
    """The networks of the chains that are named, which are public endpoints, and sentences that say whose. Raises
    ConfigError for a name that no chain has, for names beside URLs, and where `chain` or `shard` fit none of them."""
    named = [name.lower() if name.lower() in chains.names() else name for name in named]
    for name in named:
        if "://" not in name and name not in chains.names():
            expected = f"expected a URL such as https://node.example, or a chain: {', '.join(chains.names())}"
            hint = f"; did you mean {meant}?" if (meant := meant_by(name)) else ""
            raise ConfigError([Fault("", "", f"found {name!r}, {expected}{hint}")])
    if urls := [name for name in named if "://" in name]:
        fault = (
            f"{next(name for name in named if name not in urls)} stands for public endpoints, and URLs for nodes of"
            " yours: give names or URLs; to serve both, write the URLs of the endpoints, too"
        )
        raise ConfigError([Fault("", "", fault)])
    if chain is not None and set(named) != {chain}:
        raise ConfigError([Fault("", "", f"--chain {chain} contradicts {', '.join(named)}: leave one of them out")])
    found = [_public_network(name, shard or 0) for name in dict.fromkeys(named)]
    return Discovery([network for network, _ in found], [note for _, note in found])


def _public_network(chain: str, shard: int) -> tuple[UrlNetwork, str]:
    """The network of a chain's public endpoints, and a sentence that says whose they are. Raises ConfigError."""
    known = chains.load(chain)
    public = next((one for one in known.public if one.shard == shard), None)
    name = network_name(chain, shard)
    if public is None:
        fault = f"the table of {chain} names no public endpoints of shard {shard}: give the URLs of nodes"
        if not is_sharded(chain):
            fault = f"{chain} has no shards: serve it without --shard {shard}"
        raise ConfigError([Fault("", "", fault)])
    note = (
        f"{name} is served from public endpoints, for a first look: the list is of {public.looked_at}, and the limits"
        f" are those of who runs them ({', '.join(public.endpoints)}); for more, give the URLs of your own nodes"
    )
    pace = _LEAST_PUBLIC_BLOCK_TIME if known.block_time < _LEAST_PUBLIC_BLOCK_TIME else None
    modest = {"examine": False, **({} if pace is None else {"block_time": pace})}
    return UrlNetwork(name, chain, shard, public.endpoints, public.chain_id, modest), note


def is_open(chain: str | None, shard: int | None) -> bool:
    """Whether the chain or the shard is left for the nodes to tell."""
    if chain is None:
        return True
    return shard is None and is_sharded(chain)


async def discover(
    texts: Sequence[str],
    chain: str | None,
    shard: int | None,
    *,
    wait: float = DISCOVERY_SECONDS,
    connect: Callable[[NodeSettings], Asker] = connect,
) -> Discovery:
    """Ask nodes, written URL[,weight=N][,id=NAME] and known to be well written, what they serve.

    Args:
        chain: the chain that the operator names; None: the nodes are asked.
        shard: the shard that the operator names; None: the nodes are asked.
        wait: seconds after which a node that has not answered is taken for one like the others.
    """
    nodes = [NodeSettings.model_validate({"id": "node", **parse_node(text)}) for text in texts]
    answered, deadline = asyncio.Event(), asyncio.get_running_loop().time() + wait
    questions = [_ask(connect(node), chain, shard, answered, deadline) for node in nodes]
    replies = await asyncio.gather(*questions)
    said = [_completed(one, replies) if isinstance(one, Said) else one for one in replies]
    known = [one for one in said if isinstance(one, Said)]
    if not known:
        found = assumed(texts, chain, shard)
        network = found.networks[0]
        note = (
            f"no node has said within {wait:g} s what it serves ({said[0]}): taken for nodes of {network.name};"
            " if they are others, say so with --chain and --shard, or start again when they answer"
        )
        return Discovery(found.networks, [note])
    names = _names(known)
    places = [one if isinstance(one, Said) else known[0] for one in said]
    networks = [
        UrlNetwork(
            name,
            place.chain,
            place.shard,
            tuple(text for text, own in zip(texts, places, strict=True) if own == place),
            None if name == network_name(place.chain, place.shard) else place.eth_chain_id,
        )
        for place, name in sorted(names.items(), key=lambda pair: places.index(pair[0]))
    ]
    notes = [
        f"{node.url.shown} has not said what it serves ({one}): taken for a node of {names[known[0]]}"
        for node, one in zip(nodes, said, strict=True)
        if isinstance(one, str)
    ]
    return Discovery(networks, [*notes, *_renamed(networks)])


def _renamed(networks: Sequence[UrlNetwork]) -> list[str]:
    """A sentence for each network that had the name of its chain's base before its chain had a table of its own."""
    return [
        f"{network.name} is served on /{network.name} by the rules of {network.chain}, which its chain id names; with"
        f" --chain {base} it is served as {base}, as before there was a table of it"
        for network in networks
        if (base := chains.load(network.chain).base)
    ]


def _completed(said: Said, others: Sequence[Said | str]) -> Said:
    """The claim of a node, with the chain id of another node of the same chain and shard where the node tells none."""
    if said.eth_chain_id is not None:
        return said
    alike = (other for other in others if isinstance(other, Said) and other[:2] == said[:2] and other.eth_chain_id)
    return next(alike, said)


def _names(known: Sequence[Said]) -> dict[Said, str]:
    """A name for each network. The name holds the chain id where two networks would have the same name."""
    names: dict[Said, str] = {}
    for said in known:
        plain = network_name(said.chain, said.shard)
        alike = {other.eth_chain_id for other in known if network_name(other.chain, other.shard) == plain}
        marked = len(alike) > 1 and said.eth_chain_id is not None
        names[said] = f"{plain}-{said.eth_chain_id}" if marked else plain
    return names


async def _ask(
    upstream: Asker, chain: str | None, shard: int | None, answered: asyncio.Event, deadline: float
) -> Said | str:
    """The claim of a node, or the reason why there is none, in words. The node is asked again until `deadline`, or
    until another node has answered."""
    clock = asyncio.get_running_loop().time
    try:
        while True:
            last = answered.is_set()
            try:
                said = await _said(upstream, max(0.05, deadline - clock()), chain, shard)
            except ProbeError as error:
                if last or clock() + _PAUSE >= deadline:
                    return str(error)
            else:
                answered.set()
                return said
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE):
                    await answered.wait()
    finally:
        await upstream.close()


async def _said(asker: Asker, timeout: float, chain: str | None, shard: int | None) -> Said:
    """The claim of a node. Raises ProbeError when the node does not answer."""
    found = chains.load(chain) if chain else await _chain(asker, timeout)
    identity = found.identity
    if shard is None:
        shard = DEFAULT_SHARD if identity.shard is None else await number_of(asker, identity.shard, timeout)
        if shard > MAX_SHARD:
            raise ProbeError(f"it says that it serves shard {shard}, which no chain has")
    try:
        return Said(found.name, shard, await number_of(asker, identity.eth_chain_id, timeout))
    except ProbeError:
        return Said(found.name, shard)


async def _chain(asker: Asker, timeout: float) -> Chain:
    """The only chain whose nodes answer the call for the head as this node does, or the one of its kind that has the
    node's chain id. Raises ProbeError."""
    answering: list[Chain] = []
    trouble, heard = "no chain is known", False
    every = [*map(chains.load, chains.names())]
    for candidate in (chain for chain in every if not chain.base):
        try:
            await number_of(asker, candidate.identity.head, timeout)
        except ProbeError as error:
            trouble, heard = str(error), heard or not error.silent
            if not heard:
                break  # the node does not answer anything
        else:
            answering.append(candidate)
            heard = True
    for candidate in answering:
        others = [other for other in answering if other is not candidate]
        if not any(other.rules.get(candidate.identity.head.method).known for other in others):
            return await _of_its_kind(candidate, [one for one in every if one.base == candidate.name], asker, timeout)
    raise ProbeError(trouble if not answering else "it answers as the nodes of several chains do")


async def _of_its_kind(base: Chain, kin: Sequence[Chain], asker: Asker, timeout: float) -> Chain:
    """The chain of the kind of `base` that has the node's chain id; `base` where none has, or the node tells none."""
    try:
        own = await number_of(asker, base.identity.eth_chain_id, timeout) if kin else None
    except ProbeError:
        return base
    return next((chain for chain in kin if own in chain.chain_ids), base)


# -- what each node is ------------------------------------------------------------------------------------------------

FAR_BEHIND = 20
"""Blocks that a node may be behind the best head of its network before it counts as wrong."""
RIGHT = "right"


async def try_nodes(texts: Sequence[str], chain: str | None = None, shard: int | None = None) -> NodesFound:
    """Ask nodes that are not served yet, written URL[,weight=N][,id=NAME], or the public endpoints of chains that are
    named, what they are. `chain` and `shard` are those that the operator names. Raises ConfigError."""
    if any("://" not in text for text in texts):
        found = public(texts, chain, shard)
    elif is_open(chain, shard):
        _settings_of(assumed(ids_once(texts), chain, shard))  # what is badly written is refused before a node is asked
        found = await discover(texts, chain, shard)
    else:
        found = assumed(texts, chain, shard)
    networks = _settings_of(found)
    probed = await asyncio.gather(*(probe_network(name, network) for name, network in networks.items()))
    chosen = {
        name: network.model_dump(mode="json", exclude_unset=True, context=REVEAL) for name, network in networks.items()
    }
    return NodesFound(chosen, [finding for findings in probed for finding in findings], found.notes)


def _settings_of(found: Discovery) -> Mapping[str, NetworkSettings]:
    """The settings of networks, by name. Raises ConfigError."""
    document: dict[str, Any] = {}
    for flag in node_flags(found.networks):
        put(document, flag.path, flag.value)
    settings = validate(document)
    if isinstance(settings, list):
        raise ConfigError(settings)
    return settings.networks


async def probe_network(name: str, network: NetworkSettings, within: float = PROBED_SECONDS) -> list[Finding]:
    """Findings about every node of a network, judged against each other and the settings. `within`: seconds for all
    that one node is asked."""
    return judge(await asyncio.gather(*(_probe(name, network, node, within) for node in network.nodes)), network)


def judge(found: Sequence[Finding], network: NetworkSettings) -> list[Finding]:
    """The findings with `trouble` for each node that serves another chain or shard than a running proxy would expect of
    the network, is far behind the best head, or has a WebSocket that is wrong."""
    chain = chains.load(network.chain)
    shard = None if chain.identity.shard is None else network.shard
    _, depth = chain.finality_with(network.finality_depth)
    claims = [_claims(finding, depth) for finding in found]
    said = [(its, one.weight) for its, one in zip(claims, found, strict=True) if not one.trouble]
    wanted = wanted_of(said, network.chain_id, shard)
    verdicts = [judge_claims(its, wanted) for its in claims]
    troubles = [
        one.trouble or (its.why if its.right is False else "") for its, one in zip(verdicts, found, strict=True)
    ]
    heads = [one.head for one, trouble in zip(found, troubles, strict=True) if not trouble and one.head is not None]
    return [_measured(one, trouble, max(heads, default=0)) for one, trouble in zip(found, troubles, strict=True)]


def _claims(finding: Finding, depth: int = -1) -> Claims:
    """What a finding says of the chain. Its block 1 says nothing before it is final, `depth` blocks below the head: it
    may be on another branch of the same chain."""
    one = finding.block_one if finding.head is not None and finding.head > depth else None
    return Claims(finding.chain_id, shard=finding.shard, genesis=finding.genesis, block_one=one)


def _measured(finding: Finding, trouble: str, best: int) -> Finding:
    """The finding of a node; one without trouble is compared with the best head, and its WebSocket looked at."""
    if trouble or finding.head is None:
        return replace(finding, trouble=trouble)
    behind = max(0, best - finding.head)
    if behind > FAR_BEHIND:
        trouble = f"{behind} blocks behind"
    elif finding.websocket not in {None, RIGHT}:
        trouble = f"its WebSocket {finding.websocket}"
    return replace(finding, behind=behind, trouble=trouble)


async def _probe(network_name: str, network: NetworkSettings, node: NodeSettings, within: float) -> Finding:
    chain, client = chains.load(network.chain), connect(node)
    nobody = Finding(network=network_name, node=node.id, url=str(node.url), weight=node.weight, chain=chain.name)
    try:
        async with asyncio.timeout(within):
            found = await find(nobody, client, chain, node.timeout)
            if not node.ws or network.websockets == "off":
                return found
            return replace(found, websocket=await _websocket(found, chain, node))
    except TimeoutError:
        return replace(nobody, trouble=f"took more than {within:g} s to say what it is")
    finally:
        await client.close()


async def find(finding: Finding, asker: Asker, chain: Chain, timeout: float) -> Finding:
    """The finding with what a node says of itself, and with trouble where head or chain id is missing, or the node is
    of another chain. `timeout`: seconds that each call may take."""
    questions, chain_id, claims = Questions(chain.identity, timeout), None, None
    try:
        chain_id, trouble, heard = await number_of(asker, chain.identity.eth_chain_id, timeout), "", True
    except ProbeError as error:
        trouble, heard = str(error), not error.silent
    if not trouble:
        # The connection is open by now: its handshake is not measured.
        look = await questions.look(asker, again=None, hashes=False, tags=False)
        if isinstance(look, Look):
            finding = replace(finding, head=look.sighting.number, latency=look.latency)
            claims = await questions.claims(asker)  # None where a call got no answer, which makes no node wrong
        else:
            trouble = look.text
    if heard:
        trouble = await _of_its_chain(trouble, asker, chain, timeout)
    claims = claims or Claims(chain_id)
    role = ", ".join(role for role, has in claims.says.items() if has) or claims.version
    return replace(
        finding, chain_id=chain_id, shard=claims.shard, genesis=claims.genesis, block_one=claims.block_one,
        role=role, version=claims.version, trouble=trouble,
    )  # fmt: skip


async def _of_its_chain(trouble: str, asker: Asker, chain: Chain, timeout: float) -> str:
    """The trouble with a node, which may be that it answers the call for the head of another chain, which nodes of its
    own chain do not answer: under the rules of another chain, wrong answers of a lagging node would count as right."""
    for other in map(chains.load, chains.names()):
        name, head = other.name, other.identity.head
        if other.base or head == chain.identity.head or (not trouble and chain.rules.get(head.method).known):
            continue  # nodes of this chain may answer that call, too
        try:
            await number_of(asker, head, timeout)
        except ProbeError:
            continue
        if trouble:
            return f"{trouble}; it answers {head.method}: a node of {name}?"
        return f"answers {head.method}: a {name} node, not one of {chain.name}"
    return trouble


async def _websocket(finding: Finding, chain: Chain, node: NodeSettings) -> str:
    """What the WebSocket that is named for a node is (Finding.websocket): is it one of the same chain, which pushes?"""
    socket = NodeSocket(node, node.ws.reveal())
    try:
        if why := await socket.open():
            return why
        said = await find(finding, socket, chain, node.timeout)
        if said.trouble:
            return f"does not answer as its node does: {said.trouble}"
        wanted = ExpectedIdentity(finding.chain_id, finding.shard, finding.genesis, finding.block_one)
        verdict = judge_claims(_claims(said), wanted)
        if verdict.right is False:
            return f"is not one of its node: {verdict.why}"
        refused = await socket.follow(chain.live.namespaces[0], HEADS, lambda _: None) if chain.live.namespaces else ""
        return refused or RIGHT
    finally:
        await socket.close()
