"""Slow clients are given long enough, and no longer; together they may hold so much, and no more."""

from __future__ import annotations

import pytest

from rpcaccel.dataplane.slowclients import LEAST_TAKEN, SlowClients

MIB = 1 << 20


class Transport:
    def __init__(self) -> None:
        self.unsent = 0
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.aborted = True


class Connection:
    """A connection with the knobs a test needs."""

    def __init__(self, unsent: int = 0, head_since: float = 0.0) -> None:
        self.wire = Transport()
        self.wire.unsent = unsent
        self.head_since = head_since

    @property
    def transport(self) -> Transport | None:
        return None if self.wire.aborted else self.wire

    @property
    def writing_paused(self) -> bool:
        return self.wire.unsent > 0


class Watch:
    """The patience under test, and why it lost patience."""

    def __init__(self, *connections: Connection) -> None:
        self.lost: list[str] = []
        self._patience = SlowClients(lambda: connections, self.lost.append)

    def look(self, now: float, max_unsent: int = 100 * MIB) -> list[str]:
        self._patience.look(now, read_timeout=30.0, write_timeout=10.0, max_unsent=max_unsent)
        return self.lost


def test_a_head_must_be_complete_in_time() -> None:
    slow, idle = Connection(head_since=100.0), Connection()
    watch = Watch(slow, idle)
    assert watch.look(130.0) == []
    assert watch.look(130.1) == ["slow-head"]
    assert (slow.wire.aborted, idle.wire.aborted) == (True, False)
    assert watch.look(200.0) == ["slow-head"]


def test_who_takes_nothing_is_let_go_of() -> None:
    stuck = Connection(unsent=MIB)
    watch = Watch(stuck)
    assert watch.look(0.0) == []
    assert watch.look(10.0) == []
    assert watch.look(10.1) == ["slow-reader"]
    assert stuck.wire.aborted


def test_a_trickle_is_not_enough_and_a_slow_line_is() -> None:
    trickle, slow = Connection(unsent=10 * MIB), Connection(unsent=10 * MIB)
    watch = Watch(trickle, slow)
    for second in range(25):
        trickle.wire.unsent -= 1
        slow.wire.unsent -= LEAST_TAKEN // 8
        watch.look(float(second))
    assert (trickle.wire.aborted, slow.wire.aborted) == (True, False)


def test_who_has_taken_everything_begins_anew() -> None:
    client = Connection(unsent=MIB)
    watch = Watch(client)
    watch.look(0.0)
    client.wire.unsent = 0
    watch.look(9.0)
    client.wire.unsent = MIB
    watch.look(18.0)
    assert watch.look(27.0) == []


@pytest.mark.parametrize(("room", "gone"), [(10 * MIB, []), (6 * MIB, [0]), (3 * MIB, [0, 1]), (0, [0, 1, 2])])
def test_the_slowest_make_room_when_all_hold_too_much(room: int, gone: list[int]) -> None:
    clients = [Connection(unsent=0), Connection(unsent=0), Connection(unsent=0)]
    watch = Watch(*clients)
    for number, client in enumerate(clients):
        client.wire.unsent = 3 * MIB
        watch.look(float(number))
    watch.look(3.0, max_unsent=room)
    assert [number for number, client in enumerate(clients) if client.wire.aborted] == gone
    assert watch.lost == ["unsent-too-much"] * len(gone)
