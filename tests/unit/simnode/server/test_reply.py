from __future__ import annotations

import gzip

from aiohttp.test_utils import make_mocked_request

from rpcaccel.simnode.server.envelope import cut, plain, send
from rpcaccel.simnode.server.factories import knobs


async def test_compression_is_for_those_who_ask_unless_it_is_switched_off() -> None:
    request = make_mocked_request("POST", "/", headers={"Accept-Encoding": "br, gzip"})
    packed = await send(request, b"x" * 38, knobs())
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == b"x" * 38  # type: ignore[attr-defined]
    assert "Content-Encoding" not in (await send(request, b"x", knobs(gzip=False))).headers


def test_a_plain_answer_is_no_json() -> None:
    assert plain(415, "no").content_type == "text/plain"
    assert cut(make_mocked_request("POST", "/")).status == 200
