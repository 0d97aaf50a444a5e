"""The faults of a simulated node (knobs.FAULTS), each as it looks on the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from aiohttp import web

from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.envelope import HEADERS, Parsed, RequestItem, cut, failure, plain
from rpcaccel.simnode.server.rate_limits import REFUSED
from rpcaccel.simnode.server.responder import Responder

HTML = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1></body>\r\n</html>\r\n"
_UNAVAILABLE = {"too_many": (429, "too many requests\n"), "unavailable": (503, "service unavailable\n")}
"""Status and text of the faults that name a time to come back."""
_BODIES = {"empty": b"", "garbage": b'{"jsonrpc":"2.0","id":1,"result":{"number":'}
_NO_ID = b'"no id at all"'
_IDS: dict[str, Callable[[RequestItem], bytes | None]] = {
    "half_body": lambda call: call.id,
    "wrong_id": lambda call: None if call.id is None else b'"somebody else"',
    "missing_id": lambda call: None if call.id is None else _NO_ID,
}
"""The faults that run the calls, and the id under which each call is answered."""


class Faulty:
    """Answers a request wrongly, or not at all."""

    def __init__(self, brain: Responder) -> None:
        self._brain = brain

    async def answer(self, request: web.BaseRequest, fault: str, parsed: Parsed) -> web.StreamResponse:
        """Answer a request with `fault`. Its calls are counted, and only the faults that send a result run them."""
        if fault in _IDS:
            calls = [RequestItem(call.method, call.params, _IDS[fault](call)) for call in parsed.calls]
            replies = [await self._brain.reply(call) for call in calls]
            body = _joined([reply for reply in replies if reply is not None], parsed)
            if fault == "half_body":
                return await _half_of(request, body)
            return web.Response(body=body.replace(b'"id":' + _NO_ID + b",", b""), headers=HEADERS)
        for call in parsed.calls:
            self._brain.note(call)
        if fault == "hang":
            # The wait ends when the client leaves, since aiohttp then cancels the handler, or when the node is stopped.
            await asyncio.get_running_loop().create_future()
        return cut(request) if fault == "reset" else self._refusal(fault, parsed)

    def _refusal(self, fault: str, parsed: Parsed) -> web.Response:
        knobs = self._brain.knobs
        if fault == "html":
            return plain(502, HTML, content_type="text/html")
        if fault in _UNAVAILABLE:
            response = plain(*_UNAVAILABLE[fault])
            response.headers["Retry-After"] = f"{knobs.retry_after:g}"
            return response
        if fault in _BODIES:
            return web.Response(body=_BODIES[fault], headers=HEADERS)
        if fault == "invalid_reply":
            replies = [
                json.dumps({"jsonrpc": "2.0", "id": json.loads(call.id or b"null")}).encode() for call in parsed.calls
            ]
        else:
            limited = fault == "rate_limit"
            error = RpcError(-32000, REFUSED) if limited else RpcError(knobs.error_code, knobs.error_text)
            self._brain.counts.errors += len(parsed.calls)
            replies = [failure(call.id, error.encode()) for call in parsed.calls if call.id is not None]
        return web.Response(body=_joined(replies, parsed), headers=HEADERS)


async def _half_of(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
    """Announce a body and close the connection in the middle of it."""
    response = web.StreamResponse(headers=HEADERS)
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


def _joined(replies: list[bytes], parsed: Parsed) -> bytes:
    if not replies:
        return b""
    return (b"[" + b",".join(replies) + b"]\n") if parsed.batch else replies[0] + b"\n"
