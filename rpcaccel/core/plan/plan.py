"""The plan of a call: everything that follows from method, params and head, derived once.

All later rooms (cache, flights, eligibility, dispatch, keep, explain) read the plan and derive nothing anew.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.plan.block_range import Range
from rpcaccel.core.plan.rules import CacheClass, Rule


class Plan(Struct, frozen=True, kw_only=True, gc=False):
    """What is to be done with one call at one head."""

    network: str
    method: str
    """The full name, prefix included, as forwarded."""
    rule: Rule
    params: bytes
    """The raw JSON text forwarded as `params`; b"[]" when the caller sent none."""
    asked: bytes
    """The params as the caller sent them: what a plan at another view is made from."""
    cache: CacheClass
    """The class after the block reference was read."""
    key: bytes | None = None
    """The key of an answer that stays true; None when no answer to this call does."""
    head_key: bytes | None = None
    """The key of an answer that is true at this head only; None when no answer may be kept so."""
    shared_keys: tuple[bytes, ...] = ()
    """Those of the two that mean the same in every process, so that the second tier may hold them. A key with a fork
    epoch in it does not: each process counts for itself."""
    flight_key: bytes | None = None
    """Calls with this key may wait for one another's answer; None when the answer is the caller's alone."""
    block: int | None = None
    """The block the call is about, the last one of a range, once its reference is resolved."""
    head: int = -1
    """The served head the plan was made at."""
    first_block: int | None = None
    """The first block of a range."""
    range: Range | None = None
    """How the call may be cut into pieces, where it is one about a range and all of it is understood."""
    final: bool = False
    """Is what the call names beyond any reorganisation?"""
    depth: int = 0
    """How far under the answering node's head the block must lie for the answer to be whole."""
    min_head: int = -1
    """Only nodes whose own head is at least this may be asked; -1 when it does not matter."""
    route_key: bytes = b""
    """What a consistent-hash balancer hashes; empty: what tells the caller from others."""
    tag: str = ""
    """Only nodes with this tag may be asked; empty: any."""
    hedge: bool = False
    pending: bool = False
    """Does the call read what the answering node has in its pool?"""
    local: bytes | None = None
    """The result itself as raw JSON, where the proxy knows the answer."""
    note: str = ""
    """Why the call is not kept, or what was rewritten; for `explain`."""

    @property
    def kept(self) -> bool:
        """Is there any key under which an answer may be kept?"""
        return self.key is not None or self.head_key is not None

    def with_params(self, params: bytes) -> Plan:
        """The same plan for a call whose params are put otherwise to one node."""
        return replace(self, params=params)

    @property
    def by_caller(self) -> bool:
        """Is it asked of one node for each caller, since nodes differ in the answer? Reads of the pending block are
        not: a client may ask for little else, and one node would carry all of that."""
        return self.rule.cache is CacheClass.NODE

    @property
    def repeat(self) -> bool:
        """May the call be sent again after bytes left?"""
        return self.rule.repeat
