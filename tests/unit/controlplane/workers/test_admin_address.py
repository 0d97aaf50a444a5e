"""The names under which the admin side is asked."""

from __future__ import annotations

import pytest

from rpcaccel.controlplane.workers.sockets import name_asked


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("RPC.Example:8889", "rpc.example"),
        ("rpc.example", "rpc.example"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[FD00:0:0::5]:8889", "fd00::5"),
        ("[fd00::5]", "fd00::5"),
        ("fd00::5:0", "fd00::5"),
        (":8889", ""),
        ("", ""),
    ],
)
def test_a_host_header_has_one_spelling_of_its_name(host: str, name: str) -> None:
    assert name_asked(host) == name
