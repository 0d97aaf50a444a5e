"""Listening sockets."""

from __future__ import annotations

import errno
import os

import pytest

from rpcaccel.controlplane.workers.sockets import ListenError, address_of, bind, bind_workers, reason_of


def test_port_0_takes_a_free_port() -> None:
    with bind("127.0.0.1:0", "listen") as sock:
        assert address_of(sock).startswith("127.0.0.1:")
        assert address_of(sock) != "127.0.0.1:0"


def test_an_address_in_use_is_said_with_its_key() -> None:
    with bind("127.0.0.1:0", "listen") as sock:
        sock.listen()
        with pytest.raises(ListenError, match=r"^admin\.listen: cannot listen on 127\.0\.0\.1:\d+: .*in use"):
            bind(address_of(sock), "admin.listen")


def test_an_unknown_host_is_said_with_its_key() -> None:
    with pytest.raises(ListenError, match=r"^listen: no\.such\.host\.invalid:1: "):
        bind("no.such.host.invalid:1", "listen")


def test_workers_share_one_port() -> None:
    sockets = bind_workers("127.0.0.1:0", "listen", 3)
    try:
        assert len({address_of(sock) for sock in sockets}) == 1
        assert len(sockets) == 3
    finally:
        for sock in sockets:
            sock.close()


def test_a_port_taken_by_another_program_leaves_no_socket_open() -> None:
    with bind("127.0.0.1:0", "listen") as sock:
        sock.listen()
        with pytest.raises(ListenError):
            bind_workers(address_of(sock), "listen", 2)


def test_an_ipv6_address_is_written_in_brackets() -> None:
    with bind("[::1]:0", "listen") as sock:
        assert address_of(sock).startswith("[::1]:")


def test_a_port_that_another_proxy_shares_with_its_own_workers_is_not_joined() -> None:
    theirs = bind_workers("127.0.0.1:0", "listen", 2)
    try:
        for sock in theirs:
            sock.listen()
        with pytest.raises(ListenError, match="in use; --listen names another address"):
            bind_workers(address_of(theirs[0]), "listen", 2)
    finally:
        for sock in theirs:
            sock.close()


def test_the_reason_is_the_systems_own_words() -> None:
    repeated = OSError(errno.EADDRINUSE, "error while attempting to bind on address ('127.0.0.1', 1): in use")
    assert reason_of(repeated) == os.strerror(errno.EADDRINUSE)
    assert reason_of(OSError(-2, "Name or service not known")) == "Name or service not known"
    assert reason_of(OSError("odd")) == "odd"
