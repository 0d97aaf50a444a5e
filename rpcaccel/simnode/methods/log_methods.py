"""The methods for logs and filters of Harmony's hmy and eth namespaces and of geth, where a filter lives on one node
only; and the traces of ranges of Erigon."""

from __future__ import annotations

from typing import Any

from rpcaccel.simnode.chain.addresses import to_hex
from rpcaccel.simnode.chain.blocks import Tx
from rpcaccel.simnode.methods import arguments as args
from rpcaccel.simnode.methods import json_views as views
from rpcaccel.simnode.methods.arguments import LATEST, UnreadableArgument, hex_or_tag
from rpcaccel.simnode.methods.block_methods import height_of
from rpcaccel.simnode.methods.json_views import View
from rpcaccel.simnode.methods.registry import FILTERS, Filter, MethodCall, RpcError, answers, both, ethereum, harmony

FILTER_IDLE_SECONDS = 300.0
"""Seconds after which an unpolled filter dies."""
LOGS_LIMIT = 1024
"""Greatest difference of last and first block in a getLogs of Harmony."""
TRACES_UNASKED = 200
"""Traces that a trace_filter gets at the most which does not say how many (--trace.maxtraces of Erigon)."""


def logs(call: MethodCall, first: int, last: int, criteria: View, version: str) -> list[View]:
    """The logs of blocks first..last that fit `address` and `topics`, as this node has them."""
    found = []
    for height in range(first, last + 1):
        block = call.block_at(height)
        for tx in block.txs:
            entry = views.log(call.branch, tx, block, version)
            if entry is not None and fits(entry, criteria):
                found.append(as_stored(call, tx, entry))
    return found


def as_stored(call: MethodCall, tx: Tx, entry: View) -> View:
    """A log as this node has it: with a block hash of its own for each transaction where the node proposed the
    block."""
    if call.proposed(tx.number):
        entry["blockHash"] = to_hex(call.make.digest(b"unsealed", tx.hash))
    return entry


def fits(entry: View, criteria: View) -> bool:
    """Whether a log passes a filter's address and topics, by go-ethereum's rules."""
    topics = criteria.get("topics") or []
    if len(topics) > len(entry["topics"]):
        return False
    places = [criteria.get("address") or [], *topics]
    for wanted, found in zip(places, [entry["address"], *entry["topics"]], strict=False):
        choices = [wanted] if isinstance(wanted, str) else wanted or []
        if choices and found not in {choice.lower() for choice in choices}:
            return False
    return True


def _bound(call: MethodCall, criteria: View, name: str) -> int:
    value = criteria.get(name)
    try:
        return LATEST if value is None else hex_or_tag(str(value), geth=call.geth)
    except UnreadableArgument as unreadable:
        raise RpcError(f"invalid argument 0: {unreadable}", -32602) from None


def _height(call: MethodCall, criteria: View, name: str) -> int:
    """The height that a bound of a range names, also above the head."""
    reference = _bound(call, criteria, name)
    return reference if reference >= 0 else height_of(call, reference) or 0


def find_logs(call: MethodCall, criteria: View) -> list[View]:
    """The logs of a getLogs call. A range beyond the head is cut short without a word."""
    if criteria.get("blockHash"):
        block = call.branch.by_hash(bytes.fromhex(str(criteria["blockHash"])[2:]), call.head)
        if block is None:
            raise RpcError("unknown block" if call.geth else "Header is not found")
        return logs(call, block.number, block.number, criteria, call.version)
    first, last = (_height(call, criteria, name) for name in ("fromBlock", "toBlock"))
    if not call.geth and last - first > LOGS_LIMIT:
        raise RpcError(f"GetLogs query must be smaller than size {LOGS_LIMIT}")
    if call.geth and first > last:
        raise RpcError("invalid block range params")
    knobs = call.knobs
    if knobs.logs_range and last - first > knobs.logs_range:
        said = knobs.logs_refusal.replace("{most}", str(knobs.logs_range)).replace("{asked}", str(last - first))
        raise RpcError(said, knobs.logs_code)
    found = logs(call, first, min(last, call.head), criteria, call.version)
    if knobs.logs_results and len(found) > knobs.logs_results:
        raise RpcError(f"query returned more than {knobs.logs_results} results", -32005)
    return found


@both("getLogs", args.call_object, spaces=FILTERS)
def get_logs(call: MethodCall, criteria: View) -> list[View]:
    found = find_logs(call, criteria)
    if call.version == "eth" and call.knobs.crashed_receipts:
        for number in sorted({int(entry["blockNumber"], 16) for entry in found}):
            call.local.read_receipts(number, spoil=True)
    if call.lies("truncated_logs"):
        del found[len(found) - max(1, len(found) // 4) :]
    return found


@ethereum("filter", args.call_object, spaces={"trace": "geth"})
def filter_traces(call: MethodCall, criteria: View) -> list[View]:
    """The traces of a range, without a word about those that are left out."""
    first, last = (_height(call, criteria, name) for name in ("fromBlock", "toBlock"))
    if first > last:
        raise RpcError("invalid parameters: fromBlock cannot be greater than toBlock")
    found: list[View] = []
    for height in range(first, min(last, call.head) + 1):
        block = call.block_at(height)
        found += (trace for tx in block.txs if _is_among(trace := views.trace(call.branch, tx, block), criteria))
    after, count = int(criteria.get("after") or 0), int(criteria.get("count") or TRACES_UNASKED)
    return found[after : after + count]


def _is_among(trace: View, criteria: View) -> bool:
    """Does a trace begin or end at one of the addresses, if some are given?"""
    wanted = {end: criteria.get(f"{end}Address") for end in ("from", "to")}
    given = {end: {address.lower() for address in addresses} for end, addresses in wanted.items() if addresses}
    return not given or any(trace["action"].get(end) in addresses for end, addresses in given.items())


def _install(call: MethodCall, kind: str, criteria: View) -> str:
    token = call.local.token()
    seen = {tx.hash for tx in call.pending()} if kind == "pending" else set()
    call.local.filters[token] = Filter(kind, criteria, call.head + 1, call.local.clock.now(), seen)
    return token


@both("newFilter", args.call_object, spaces=FILTERS)
def new_filter(call: MethodCall, criteria: View) -> str:
    _bound(call, criteria, "fromBlock")
    return _install(call, "logs", criteria)


both("newBlockFilter", spaces=FILTERS)(lambda call: _install(call, "blocks", {}))
both("newPendingTransactionFilter", spaces=FILTERS)(lambda call: _install(call, "pending", {}))


def _filter(call: MethodCall, token: str) -> Filter:
    """The filter of that id, which is polled by this. Raises RpcError for one that is not there or died."""
    now = call.local.clock.now()
    found = call.local.filters.get(token)
    if found is None or now - found.polled_at > FILTER_IDLE_SECONDS:
        call.local.filters.pop(token, None)
        raise RpcError("filter not found")
    found.polled_at = now
    return found


@both("getFilterChanges", args.string, spaces=FILTERS)
def get_filter_changes(call: MethodCall, token: str) -> list[Any]:
    found = _filter(call, token)
    if found.kind == "pending":
        news = [tx for tx in call.pending() if tx.hash not in found.seen]
        found.seen |= {tx.hash for tx in news}
        return [views.tx_hash(call.version, tx) for tx in news]
    first, found.next_block = found.next_block, max(found.next_block, call.head + 1)
    if found.kind == "blocks":
        return [to_hex(call.branch.hash_of(height)) for height in range(first, call.head + 1)]
    return logs(call, first, call.head, found.criteria, call.version)


@both("getFilterLogs", args.string, spaces=FILTERS)
def get_filter_logs(call: MethodCall, token: str) -> list[View]:
    found = _filter(call, token)
    if found.kind != "logs":
        raise RpcError("filter not found")
    return find_logs(call, found.criteria)


both("uninstallFilter", args.string, spaces=FILTERS)(
    lambda call, token: call.local.filters.pop(token, None) is not None
)
harmony("syncNewFilterFromOtherReaders", spaces=FILTERS)(answers("null"))  # a proxy has to deny it
