"""The plan of a call: everything that follows from its method, its params and the head, derived once.

All later steps (cache, flights, eligibility, dispatch, retention, explain) read the plan and derive nothing again.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.plan.block_range import Range
from rpcaccel.core.plan.params import Shape
from rpcaccel.core.plan.rules import CacheClass, Rule

_LASTING = frozenset({CacheClass.STATIC, CacheClass.FOREVER, CacheClass.BY_NUMBER})


class Terms(Struct, frozen=True, kw_only=True, gc=False):
    """What every plan of one call keeps to, whatever the head is when it is made. A call on terms is fetched by itself:
    it takes nothing that is kept, keeps nothing, and shares no flight."""

    min_head: int
    """No node below this head is asked, even when no other node is left."""
    route: bytes = b""
    """Is put behind the key for a consistent-hash balancer, so that another node is chosen."""
    headers_alone: bool = False
    """Is no more of a block judged than its header?"""
    told: frozenset[str] = frozenset()
    """The ids of the nodes that answered before: others are preferred."""

    def others(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Those of these nodes that did not answer before; none where nobody did."""
        return tuple(one for one in ids if one not in self.told) if self.told else ()


class Plan(Struct, frozen=True, kw_only=True, gc=False):
    """How one call is treated at one head."""

    network: str
    method: str
    """The full name with its prefix, as forwarded."""
    rule: Rule
    params: bytes
    """The raw JSON text forwarded as `params`; b"[]" when the caller sent none."""
    asked: bytes
    """The params as the caller sent them, from which a plan at another snapshot is made."""
    cache: CacheClass
    """The class of the answer, with the block reference taken into account."""
    key: bytes | None = None
    """The key of an answer that stays true; None when no answer to this call stays true."""
    head_key: bytes | None = None
    """The key of an answer that is true at this head only; None when no answer may be kept until the next head."""
    shared_keys: tuple[bytes, ...] = ()
    """Those of `key` and `head_key` that mean the same in every process, so that Redis may hold them. A key
    with a fork epoch does not, because each process counts its own epochs."""
    flight_key: bytes | None = None
    """Calls with this key may share one flight; None when the answer belongs to its caller alone."""
    block: int | None = None
    """The block that the call is about, the last one of a range; None when it is not known or there is none."""
    head: int = -1
    """The served head at which the plan was made."""
    first_block: int | None = None
    """The first block of a range."""
    range: Range | None = None
    """The range that the call may be split into; None when it must be forwarded whole."""
    final: bool = False
    """Can no reorganisation change the answer?"""
    depth: int = 0
    """Blocks that the answering node must have above the block for a complete answer."""
    min_head: int = -1
    """The lowest head of a node that may be asked (rule of truth 4); -1 when any may."""
    route_key: bytes = b""
    """The key for a consistent-hash balancer; empty: the identity of the caller is the key."""
    tag: str = ""
    """The tag of the nodes that may be asked; empty: any node."""
    hedge: bool = False
    pending: bool = False
    """Does the call read the transaction pool of the answering node?"""
    local: bytes | None = None
    """The result as raw JSON text, if the proxy answers itself."""
    checked: bool = False
    """Does the caller look itself after a result that says that there is nothing?"""
    terms: Terms | None = None
    """What later plans of the same call keep to as well."""
    note: str = ""
    """Why the answer is not kept, or what was rewritten; for `explain`."""
    shape: Shape | None = None
    """What follows from method and params alone; None where the params were not read."""

    @property
    def lasting_key(self) -> bytes | None:
        """The key of an answer that is true for ever, on every node and for the operator, so that the disk may hold it.
        Classes that turn over with the chain have lifetimes (core.cache.retention). Of what must be proved, the disk
        and Redis hold the proof."""
        return None if self.cache not in _LASTING or self.rule.max_age or self.rule.prove else self.key

    @property
    def oldest(self) -> int | None:
        """The oldest block that the call is about; None when it is not known or there is none."""
        return self.block if self.first_block is None else self.first_block

    @property
    def kept(self) -> bool:
        """May an answer be kept?"""
        return self.key is not None or self.head_key is not None

    @property
    def content(self) -> int:
        """Names what the caller asks, whatever the head is, to tell calls apart within one process."""
        return hash((self.method, self.asked))

    def with_params(self, params: bytes) -> Plan:
        """The same plan with other params to forward."""
        return replace(self, params=params)

    def on(self, terms: Terms) -> Plan:
        """The same plan on these terms."""
        return replace(self, terms=terms, key=None, head_key=None, shared_keys=(), flight_key=None, range=None,
                       min_head=max(self.min_head, terms.min_head), route_key=self.route_key + terms.route)  # fmt: skip

    @property
    def by_caller(self) -> bool:
        """Is each caller led to one node, because nodes differ in the answer?

        Reads of the pending block are not: a client may send little else, and one node would carry all of its calls.
        """
        return self.rule.cache is CacheClass.NODE

    @property
    def repeat(self) -> bool:
        """May the call be sent again after bytes of it were sent?"""
        return self.rule.repeat
