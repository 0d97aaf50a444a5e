"""The JSON-RPC decoder under a coverage-guided fuzzer: `python -m tests.deep.hostile.fuzz_jsonrpc`, until it ends.

Needs the atheris package, which is no dependency; test_fuzz.py runs the same check over what hypothesis makes up.
"""

from __future__ import annotations

import json
import sys

from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.jsonrpc import Call, Invalid


def check(body: bytes) -> None:
    """One body: a call, a refusal, or members each of which is one of both; and all that is said of it is JSON."""
    decoded = jsonrpc.decode(body)
    members = [jsonrpc.decode_member(member) for member in decoded] if isinstance(decoded, list) else [decoded]
    assert members
    for member in members:
        if isinstance(member, Invalid):
            said = json.loads(jsonrpc.refusal(member))
            assert said["error"]["code"] in (-32700, -32600, -32602)
            continue
        assert isinstance(member, Call)
        assert member.method
        assert member.params[:1] in (b"[", b"{")
        if member.id is not None:
            assert isinstance(json.loads(b"".join(jsonrpc.result_reply(member.id, b"1"))), dict)


def main() -> None:
    """Fuzz until stopped or until something is found."""
    import atheris  # noqa: PLC0415 - optional

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
