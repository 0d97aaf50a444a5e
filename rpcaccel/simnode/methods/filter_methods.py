"""The methods for logs and filters of Harmony's hmy and eth namespaces and of geth; a filter lives on one node only."""

from __future__ import annotations

from typing import Any

from rpcaccel.simnode.methods import lookup
from rpcaccel.simnode.methods.block_args import LATEST, UnreadableArgument, hex_or_tag
from rpcaccel.simnode.methods.block_methods import height_of
from rpcaccel.simnode.methods.json_views import hex0
from rpcaccel.simnode.methods.node_identity import Filter
from rpcaccel.simnode.methods.registry import (
    FILTERS,
    HARMONY,
    MethodCall,
    RpcError,
    call_object,
    failed,
    geth,
    string,
    text,
)

IDLE = 300.0
"""Seconds after which an unpolled filter dies."""


def _bound(asked: MethodCall, criteria: dict[str, Any], name: str) -> int:
    value = criteria.get(name)
    if value is None:
        return LATEST
    try:
        return hex_or_tag(value if isinstance(value, str) else str(value), geth=asked.version == "geth")
    except UnreadableArgument as unreadable:
        raise RpcError(-32602, f"invalid argument 0: {unreadable}") from None


def _height(asked: MethodCall, reference: int) -> int:
    """The height that a bound of a range names, also above the head."""
    return reference if reference >= 0 else height_of(asked, reference) or 0


def find_logs(asked: MethodCall, criteria: dict[str, Any]) -> list[dict[str, Any]]:
    """The logs of a getLogs call. A range beyond the head is cut short without a word."""
    if criteria.get("blockHash"):
        block = asked.branch.by_hash(bytes.fromhex(str(criteria["blockHash"])[2:]), asked.head)
        if block is None:
            raise failed("unknown block" if asked.version == "geth" else "Header is not found")
        return lookup.logs(asked, block.number, block.number, criteria, asked.version)
    first = _height(asked, _bound(asked, criteria, "fromBlock"))
    last = _height(asked, _bound(asked, criteria, "toBlock"))
    if asked.version != "geth" and last - first > lookup.LOGS_LIMIT:
        raise failed(f"GetLogs query must be smaller than size {lookup.LOGS_LIMIT}")
    if asked.version == "geth" and first > last:
        raise RpcError(-32000, "invalid block range params")
    knobs = asked.local.knobs
    if knobs.logs_range and last - first > knobs.logs_range:
        said = knobs.logs_refusal.replace("{most}", str(knobs.logs_range)).replace("{asked}", str(last - first))
        raise RpcError(knobs.logs_code, said)
    found = lookup.logs(asked, first, min(last, asked.head), criteria, asked.version)
    if knobs.logs_results and len(found) > knobs.logs_results:
        raise RpcError(-32005, f"query returned more than {knobs.logs_results} results")
    return found


@HARMONY.add("getLogs", call_object, spaces=FILTERS)
@geth("getLogs", call_object)
def get_logs(asked: MethodCall, criteria: dict[str, Any]) -> bytes:
    found = find_logs(asked, criteria)
    if asked.version == "eth" and asked.local.knobs.crashed_receipts:
        for number in sorted({int(entry["blockNumber"], 16) for entry in found}):
            asked.local.read_receipts(number, spoil=True)
    if asked.lies("truncated_logs"):
        del found[len(found) - max(1, len(found) // 4) :]
    return text(found)


def _install(asked: MethodCall, kind: str, criteria: dict[str, Any]) -> bytes:
    token = asked.local.token()
    seen = {tx.hash for tx in lookup.pending(asked)} if kind == "pending" else set()
    asked.local.filters[token] = Filter(kind, criteria, asked.head + 1, asked.local.clock.now(), seen)
    return text(token)


@HARMONY.add("newFilter", call_object, spaces=FILTERS)
@geth("newFilter", call_object)
def new_filter(asked: MethodCall, criteria: dict[str, Any]) -> bytes:
    _bound(asked, criteria, "fromBlock")
    return _install(asked, "logs", criteria)


@HARMONY.add("newBlockFilter", spaces=FILTERS)
@geth("newBlockFilter")
def new_block_filter(asked: MethodCall) -> bytes:
    return _install(asked, "blocks", {})


@HARMONY.add("newPendingTransactionFilter", spaces=FILTERS)
@geth("newPendingTransactionFilter")
def new_pending_filter(asked: MethodCall) -> bytes:
    return _install(asked, "pending", {})


def _filter(asked: MethodCall, token: str) -> Filter:
    now = asked.local.clock.now()
    found = asked.local.filters.get(token)
    if found is None or now - found.polled_at > IDLE:
        asked.local.filters.pop(token, None)
        raise failed("filter not found")
    found.polled_at = now
    return found


@HARMONY.add("getFilterChanges", string, spaces=FILTERS)
@geth("getFilterChanges", string)
def get_filter_changes(asked: MethodCall, token: str) -> bytes:
    found = _filter(asked, token)
    if found.kind == "pending":
        news = [tx for tx in lookup.pending(asked) if tx.hash not in found.seen]
        found.seen |= {tx.hash for tx in news}
        return text([hex0(tx.eth_hash if asked.version != "v1" else tx.hash) for tx in news])
    first, found.next_block = found.next_block, max(found.next_block, asked.head + 1)
    if found.kind == "blocks":
        return text([hex0(asked.branch.hash_of(height)) for height in range(first, asked.head + 1)])
    return text(lookup.logs(asked, first, asked.head, found.criteria, asked.version))


@HARMONY.add("getFilterLogs", string, spaces=FILTERS)
@geth("getFilterLogs", string)
def get_filter_logs(asked: MethodCall, token: str) -> bytes:
    found = _filter(asked, token)
    if found.kind != "logs":
        raise failed("filter not found")
    return text(find_logs(asked, found.criteria))


@HARMONY.add("uninstallFilter", string, spaces=FILTERS)
@geth("uninstallFilter", string)
def uninstall_filter(asked: MethodCall, token: str) -> bytes:
    return text(asked.local.filters.pop(token, None) is not None)


HARMONY.fixed("syncNewFilterFromOtherReaders", b"null", spaces=FILTERS)  # a proxy has to deny it
