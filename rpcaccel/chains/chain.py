"""A chain as one frozen value: its methods, errors, finality and identity."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from rpcaccel.core.agreement.equality import Differences
from rpcaccel.core.heads.served_head import Finality
from rpcaccel.core.live.header import HeaderForm
from rpcaccel.core.live.subscription import SubscribeTable
from rpcaccel.core.plan.rules import LateMember, RuleTable
from rpcaccel.core.proof.forms import ProofForm
from rpcaccel.core.replies.error_rules import ErrorTable


class Probe(Struct, frozen=True, forbid_unknown_fields=True):
    """A call that asks a node for one fact about itself."""

    method: str
    params: str = "[]"
    """The raw JSON text of the params."""
    at: str = "."
    """Path to the fact in the result: members joined by dots, "." for the result itself. Numbers are integers, hex
    strings or decimal strings."""


class Identity(Struct, frozen=True, forbid_unknown_fields=True):
    """The probes of a chain; None where its nodes cannot answer one."""

    head: Probe
    eth_chain_id: Probe
    network_id: Probe | None = None
    shard: Probe | None = None
    genesis: Probe | None = None
    """The hash of block 0, which separates chains with the same ids, and a chain that was begun anew."""
    block_one: Probe | None = None
    """The hash of block 1, which separates a chain from one that was begun anew with the same block 0."""
    final: Probe | None = None
    """The number of the newest final block, for chains whose finality is a tag."""
    safe: Probe | None = None
    """The number of the block that the tag `safe` names on such a chain."""
    block: Probe | None = None
    """A block with `number`, `hash` and `parentHash`, for chains that can reorganise. `{block}` in the params is
    replaced by a tag or a hex number with its quotes."""
    epoch: Probe | None = None
    """The epoch of the node's head."""
    role: Probe | None = None
    roles: dict[str, str] = {}
    """The role in the words of the settings, by what the node calls itself."""
    archive: Probe | None = None
    """A boolean: does the node keep the state of old blocks?"""
    signs: Probe | None = None
    """The keys with which the node signs blocks, as a list. A node without keys proposes no block."""
    version: Probe | None = None


class RangeLimit(Struct, frozen=True, forbid_unknown_fields=True):
    """The longest range that nodes accept, and their error for a longer one."""

    most: int
    """The greatest difference of last and first block."""
    message: str
    code: int = -32000


class ExaminationTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The calls by which a node is examined (controlplane.nodes.examine): the table [chain.examination]. In params
    `{block}`, `{first}` and `{last}` stand for hex numbers with their quotes. None where the chain has no such call."""

    state: Probe | None = None
    """A call about the state of `{block}` that costs little on every node."""
    logs: Probe | None = None
    """All logs from `{first}` to `{last}`."""
    range: Probe | None = None
    """Logs from `{first}` to `{last}` of which there are none, so that a long range costs little."""
    range_most: int = 10_000
    """The greatest difference of last and first block that is tried."""
    batch: Probe | None = None
    """The call of which batches are made."""
    traces: Probe | None = None
    """A trace of a transaction that does not exist: a node that traces says so, another lacks the method."""
    traced: tuple[str, ...] = ()
    """Names and fnmatch patterns of the methods that a node lacks when it lacks that of `traces`, beside those whose
    rule names a role for them: none of another namespace, since nodes switch each one on and off."""
    roles: dict[str, Probe] = {}
    """A call that needs a role, by the role in the words of the settings."""
    reads: tuple[Probe, ...] = ()
    """Calls about `{block}` whose answers are compared with those of other nodes."""


class LiveTable(SubscribeTable, frozen=True, forbid_unknown_fields=True):
    """What subscriptions are on this chain (docs/harmony.md): the table [chain.live]."""

    leaves_out: tuple[str, ...] = ()
    """Names and fnmatch patterns of the members of a block that are no part of its header: a newHeads notification has
    all others."""
    constant: dict[str, str] = field(default_factory=dict)
    """Members that are the same in every header of the chain, whatever `block` says (strings)."""
    block_by_hash: str = "eth_getBlockByHash"
    """The method of a block by hash; its params are the hash and `false`."""
    extra: Probe | None = None
    """A call whose result has members of the header that `block` lacks or has otherwise; `{block}` in its params stands
    for the number."""
    extra_members: tuple[str, ...] = ()
    """The names of these members."""
    port_offsets: tuple[int, ...] = ()
    """How far above the port of HTTP the WebSocket usually is on the same host, where both are not one port."""
    hosts: dict[str, str] = field(default_factory=dict)
    """The host of the WebSocket, by the host of HTTP, for public endpoints that have another one."""


class PublicNetwork(Struct, frozen=True, forbid_unknown_fields=True):
    """Endpoints of a chain that anybody may ask without a key, within the limits of those who run them: a table
    [[chain.public]]."""

    chain_id: int
    """The chain id that the endpoints serve."""
    endpoints: tuple[str, ...]
    """Their URLs."""
    looked_at: str
    """The day on which the endpoints were looked up, as YYYY-MM-DD."""
    shard: int = 0


class Chain(Struct, frozen=True, kw_only=True):
    """The rules of a chain: methods, errors, block time, finality, identity."""

    name: str
    rules: RuleTable
    errors: ErrorTable
    base: str
    """The name of the chain of whose kind it is, whose nodes answer like its own; empty where there is none."""
    chain_ids: frozenset[int]
    """The chain ids by which its nodes are told from those of its base."""
    public: tuple[PublicNetwork, ...]
    """Public endpoints, for a first look: those of one shard are one network."""
    block_time: float
    """Expected seconds between blocks."""
    finality: Finality
    finality_depth: int
    """Blocks below the head from which blocks are final, if finality is a depth or no node tells the tag."""
    tags: frozenset[str]
    """The block tags that all nodes read alike."""
    paths: Mapping[str, str]
    """Well-known request paths, with the prefix of methods that are called without one there."""
    identity: Identity
    late: tuple[LateMember, ...]
    """The members of results that are null until their values are known."""
    live: LiveTable
    header: HeaderForm
    """The form of the headers that subscribers are sent, as `live` says."""
    examination: ExaminationTable
    untraced: frozenset[str]
    """The methods with a rule that a node lacks with that of `ExaminationTable.traces` (`ExaminationTable.traced`)."""
    provable: ProofForm
    ranges: Mapping[str, RangeLimit]
    """Limits of ranges by the form of the result."""
    differences: Differences
    """What may differ between the answers of right nodes: the table [chain.differences], and the methods whose rules
    say that they differ by node."""

    def finality_with(self, depth: int | None) -> tuple[Finality, int]:
        """The finality and its depth with the depth that an operator set (`finality_depth`), which comes before the
        chain's own. None: nobody set one."""
        if depth is None:
            return self.finality, self.finality_depth
        return ("instant", 0) if depth == 0 and self.finality == "instant" else ("depth", depth)

    def __repr__(self) -> str:
        return f"<Chain {self.name}: {len(self.rules)} methods, {len(self.errors.rows)} error rows>"
