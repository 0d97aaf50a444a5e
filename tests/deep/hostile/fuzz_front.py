"""The short lane's reader of heads under a coverage-guided fuzzer: `python -m tests.deep.hostile.fuzz_front`.

What it takes for an ordinary POST, the complete server's parser must take for the same one: the same path, headers and
length, one request and no more. Needs the atheris package, which is no dependency; test_fuzz.py runs the same check
over what hypothesis makes up.
"""

from __future__ import annotations

import asyncio
import sys

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser

from rpcaccel.core.wire.http_head import END, read_head

LONGEST_BODY = 4096
_LOOP = asyncio.new_event_loop()


def check(data: bytes) -> None:
    """Some bytes from a client."""
    end = data.find(END) + len(END)
    head = read_head(data[:end]) if end >= len(END) else None
    if head is None or head.length > LONGEST_BODY:
        return
    parser = HttpRequestParser(BaseProtocol(_LOOP), _LOOP, 1 << 16)
    messages, upgraded, rest = parser.feed_data(data[:end] + b"x" * head.length)
    ((message, body),) = messages
    assert (message.method, message.path) == ("POST", head.path), data
    assert (upgraded, rest, message.chunked, message.upgrade, message.should_close) == (False, b"", False, False, False)
    assert message.compression is None, data
    assert {name.lower(): value for name, value in message.headers.items()} == {
        name: value.encode("latin-1").decode("utf-8", "surrogateescape") for name, value in head.headers.items()
    }, data
    assert body.is_eof(), data
    assert body.total_bytes == head.length, data


def main() -> None:
    """Fuzz until stopped or until something is found."""
    import atheris  # noqa: PLC0415 - optional

    atheris.Setup(sys.argv, atheris.instrument_func(check))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
