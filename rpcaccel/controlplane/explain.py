"""`POST /api/v1/explain`: how a call would be treated, and what every process holds of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from rpcaccel.controlplane.link import Link
from rpcaccel.controlplane.refusal import Refusal, read
from rpcaccel.core import jsonrpc
from rpcaccel.core.explained import Explanation
from rpcaccel.core.jsonrpc import Invalid


class Question(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of the request."""

    call: Raw
    """A JSON-RPC call, as a client would send it."""
    network: str = ""
    """Where it would be sent; the main network when empty."""


async def explain(body: bytes, links: Sequence[Link]) -> dict[str, Any]:
    """The document. Raises Refusal for a question that cannot be answered."""
    question = asked(body)
    call = jsonrpc.decode(bytes(question.call))
    if isinstance(call, list):
        raise Refusal(400, "not-a-call", "a batch is explained call by call: send one of them")
    if isinstance(call, Invalid):
        raise Refusal(400, "not-a-call", call.message)
    told = await asyncio.gather(*(link.explain(question.network, call.method, call.params) for link in links))
    explanations = [one for one in told if one is not None]
    if not explanations:
        missing = f"no network is called {question.network!r}" if links else "no worker is running"
        raise Refusal(404, "not-found", missing)
    return document(explanations)


def asked(body: bytes) -> Question:
    """The question in a body: `{"call": ..., "network": ...}`, or the call alone. Raises Refusal."""
    try:
        return read(body, Question) if "call" in read(body, dict[str, Raw]) else Question(Raw(body))
    except Refusal as error:
        raise Refusal(400, "not-json", f'expected {{"call": {{...}}, "network": "..."}}: {error.detail}') from None


def document(explanations: Sequence[Explanation]) -> dict[str, Any]:
    """One worker's plan, and what all of them hold. The tier they share is named once."""
    first = explanations[0]
    made: dict[str, Any] = msgspec.to_builtins(first)
    others = [held for one in explanations[1:] for held in one.held if held.tier == "memory"]
    made["held"] = msgspec.to_builtins([*first.held, *others])
    made["in_flight"] = any(one.in_flight for one in explanations)
    made["workers"] = [one.worker for one in explanations]
    return made
