"""Putting a body on the wire as a Go node does: lengths below 2 kB, chunks above, gzip for those who accept it."""

from __future__ import annotations

import zlib

from aiohttp import web

from .knobs import Knobs

HEADERS = {"Content-Type": "application/json", "Vary": "Origin"}
CHUNK_FROM = 2048
"""Bytes from which Go's server no longer knows the length in time."""


def plain(status: int, written: str = "", *, content_type: str = "text/plain") -> web.Response:
    """A short answer that is no JSON-RPC."""
    return web.Response(status=status, text=written, content_type=content_type)


def cut(request: web.BaseRequest) -> web.Response:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def send(request: web.BaseRequest, body: bytes, knobs: Knobs) -> web.StreamResponse:
    """The JSON-RPC answer with HTTP 200."""
    response = web.Response(body=body, headers=HEADERS)
    if knobs.gzip and body and "gzip" in request.headers.get("Accept-Encoding", ""):
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        response.headers["Content-Encoding"] = "gzip"
        response.body = packer.compress(body) + packer.flush()
    if len(body) >= CHUNK_FROM:
        response.enable_chunked_encoding()
    return response
