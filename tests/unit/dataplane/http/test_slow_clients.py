"""Slow clients are given long enough, and no longer; together they may hold so much, and no more."""

from __future__ import annotations

import asyncio
from typing import cast

from rpcaccel.dataplane.http.slow_clients import FREED_PART, LEAST_TAKEN_BYTES, SlowClients, Watched

MIB = 1 << 20


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.unsent = 0
        self.aborted = False
        self.looks = 0

    def get_write_buffer_size(self) -> int:
        self.looks += 1
        return self.unsent

    def abort(self) -> None:
        self.aborted = True


class Connection:
    """A connection with the knobs a test needs."""

    def __init__(self, unsent: int = 0, *, told: bool = False) -> None:
        """`told`: is the client told when it is given up?"""
        self.told = told
        self.wire = Transport()
        self.wire.unsent = unsent

    @property
    def transport(self) -> Transport | None:
        return None if self.wire.aborted else self.wire


class Watch:
    """The patience under test, and why it lost patience."""

    def __init__(self, *connections: Connection, max_unsent: int = 100 * MIB) -> None:
        self.lost: list[str] = []
        self.connections = list(connections)
        self.max_unsent = max_unsent
        self._patience = SlowClients(self._let_go)
        for connection in connections:
            if connection.wire.unsent:
                self.writes(connection, connection.wire.unsent)

    def _let_go(self, why: str, connection: Watched) -> None:
        self.lost.append(why)
        if cast(Connection, connection).told:
            self._patience.leaves(connection, self.max_unsent)

    def writes(self, connection: Connection, unsent: int, now: float = 0.0) -> Connection:
        """An answer is written, of which so many bytes are not taken."""
        connection.wire.unsent = unsent
        self._patience.waits(connection, now, self.max_unsent, timed=not connection.told)
        return connection

    def adds(self, connection: Connection, size: int, *, takes: int, now: float) -> None:
        """A message follows others, and the client takes so many bytes."""
        connection.wire.unsent += size - takes
        self._patience.grew(connection, size, now, self.max_unsent)

    def leaves(self, connection: Connection) -> None:
        """The client is told that it is given up."""
        self._patience.leaves(connection, self.max_unsent)

    def takes_all(self, connection: Connection) -> None:
        connection.wire.unsent = 0
        self._patience.no_longer(connection)

    def look(self, now: float) -> list[str]:
        self._patience.look(now, write_timeout=10.0, max_unsent=self.max_unsent)
        return self.lost


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
        slow.wire.unsent -= LEAST_TAKEN_BYTES // 8
        watch.look(float(second))
    assert (trickle.wire.aborted, slow.wire.aborted) == (True, False)


def test_who_has_taken_everything_begins_anew() -> None:
    client = Connection(unsent=MIB)
    watch = Watch(client)
    watch.look(0.0)
    watch.takes_all(client)
    watch.look(9.0)
    watch.writes(client, MIB, 18.0)
    assert watch.look(27.0) == []


def test_too_much_is_never_held_not_even_between_two_looks() -> None:
    watch = Watch(max_unsent=40 * MIB)
    clients = [watch.writes(Connection(), 4 * MIB, number / 1000) for number in range(600)]
    held = [client for client in clients if client.transport is not None]
    assert sum(client.wire.unsent for client in held) <= (40 + 4) * MIB
    assert watch.lost == ["unsent-too-much"] * (600 - len(held))
    assert held == clients[-len(held) :], "who waits longest goes first"


def test_what_is_held_for_a_client_is_all_of_its_answer_until_it_has_it_whole() -> None:
    watch = Watch(max_unsent=10 * MIB)
    for number in range(6):
        watch.writes(Connection(), 4 * MIB, float(number)).wire.unsent = MIB // 2
    assert len(watch.lost) == 3


def test_room_is_made_by_those_that_take_nothing_and_not_by_those_that_read() -> None:
    reads, idle = Connection(unsent=8 * MIB), Connection(unsent=6 * MIB)
    watch = Watch(reads, idle, max_unsent=16 * MIB)
    reads.wire.unsent -= MIB
    watch.writes(late := Connection(), 4 * MIB, 0.5)
    assert (reads.wire.aborted, idle.wire.aborted, late.wire.aborted) == (False, False, False)
    watch.writes(latest := Connection(), 8 * MIB, 0.6)
    assert [one.wire.aborted for one in (reads, idle, late, latest)] == [False, True, False, False]


def test_of_those_that_read_the_one_that_holds_most_makes_room_but_for_the_largest() -> None:
    clients = [Connection(unsent=size * MIB) for size in (1, 30, 2, 20, 3)]
    watch = Watch(*clients, max_unsent=27 * MIB)
    assert watch.lost == []
    for client in clients:
        client.wire.unsent -= LEAST_TAKEN_BYTES
    watch.writes(Connection(), 4 * MIB, 0.5)
    assert [client.wire.aborted for client in clients] == [False, False, False, True, False]


def test_an_answer_larger_than_the_bound_is_let_through_while_its_client_reads() -> None:
    watch = Watch(max_unsent=10 * MIB)
    large = watch.writes(Connection(), 100 * MIB)
    small = watch.writes(Connection(), 9 * MIB, 0.1)
    for second in range(1, 9):
        large.wire.unsent -= 10 * MIB
        small.wire.unsent -= MIB
        assert watch.look(float(second)) == []


def test_an_answer_larger_than_the_bound_has_the_time_that_every_answer_has() -> None:
    watch = Watch(max_unsent=10 * MIB)
    watch.writes(Connection(), 100 * MIB)
    assert watch.look(10.0) == []
    assert watch.look(10.1) == ["slow-reader"]


def test_who_left_holds_nothing() -> None:
    gone = Connection()
    watch = Watch(max_unsent=10 * MIB)
    watch.writes(gone, 9 * MIB)
    watch.takes_all(gone)
    gone.wire.aborted = True
    watch.writes(gone, 9 * MIB)
    watch.writes(Connection(), 9 * MIB)
    assert watch.look(5.0) == []


def test_a_client_that_takes_messages_as_they_come_is_kept_and_one_that_does_not_is_let_go() -> None:
    reading, deaf = Connection(), Connection()
    watch = Watch(reading, deaf)
    for connection in (reading, deaf):
        watch.writes(connection, 2 * LEAST_TAKEN_BYTES)
    for second in range(1, 10):
        watch.adds(reading, LEAST_TAKEN_BYTES, takes=LEAST_TAKEN_BYTES, now=float(second))
        watch.adds(deaf, 100, takes=0, now=float(second))
        assert watch.look(float(second)) == []
    assert watch.look(10.5) == ["slow-reader"]
    assert deaf.wire.aborted
    assert not reading.wire.aborted


def test_messages_that_follow_count_in_what_is_held_for_all() -> None:
    connections = [Connection() for _ in range(4)]
    watch = Watch(*connections, max_unsent=4 * MIB)
    for connection in connections:
        watch.writes(connection, MIB // 2)
    for _ in range(8):
        for connection in connections:
            if connection.transport is not None:
                watch.adds(connection, MIB // 4, takes=0, now=1.0)
    kept = [connection.wire.unsent for connection in connections if not connection.wire.aborted]
    assert watch.lost
    assert sum(kept) - max(kept) <= 4 * MIB


def test_messages_to_a_client_that_is_not_watched_count_nothing() -> None:
    watch = Watch(Connection())
    watch.adds(watch.connections[0], MIB, takes=0, now=1.0)
    assert watch.look(100.0) == []


def test_who_is_told_that_it_must_leave_is_not_broken_off_at_once_nor_counted_again() -> None:
    told, other = Connection(unsent=MIB, told=True), Connection(unsent=2 * MIB, told=True)
    watch = Watch(told, other, max_unsent=MIB // 2)
    for second in (1.0, 2.0, 100.0):
        assert watch.look(second) == ["unsent-too-much"]
    assert (told.wire.aborted, other.wire.aborted) == (False, False)


def test_those_that_are_told_hold_no_more_than_their_part_and_the_bound_is_kept() -> None:
    watch = Watch(max_unsent=40 * MIB)
    clients = [watch.writes(Connection(told=True), MIB, number / 1000) for number in range(600)]
    kept = [client for client in clients if not client.wire.aborted]
    assert sum(client.wire.unsent for client in kept) <= 41 * MIB
    leaving = len(watch.lost) - (600 - len(kept))
    assert 0 < leaving <= 40 // FREED_PART, "those that were told first are broken off first"
    assert kept == clients[-len(kept) :]


def looks(connections: list[Connection]) -> int:
    """How often the connections were looked at."""
    return sum(connection.wire.looks for connection in connections)


def test_all_are_not_compared_for_each_message_while_the_largest_alone_makes_it_too_much() -> None:
    many, large = [Connection() for _ in range(100)], Connection()
    watch = Watch(max_unsent=256 * MIB)
    watch.writes(large, 64 * MIB)
    for connection in many:
        watch.writes(connection, 2 * MIB)
    before = looks(many)
    for turn in range(500):
        watch.adds(many[turn % 100], 1000, takes=0, now=0.0)
    assert looks(many) - before <= 500 + 2 * 100
    assert watch.lost == []
    while not watch.lost:
        watch.adds(many[0], MIB, takes=0, now=0.0)
    held = sum(connection.wire.unsent for connection in many if not connection.wire.aborted)
    assert held <= (256 - 256 // FREED_PART) * MIB, "the bound holds nevertheless, at once"


def test_all_are_not_compared_for_each_message_while_one_that_was_told_holds_more_than_its_part() -> None:
    many, told = [Connection(told=True) for _ in range(100)], Connection(told=True)
    watch = Watch(max_unsent=256 * MIB)
    watch.leaves(watch.writes(told, 64 * MIB))
    for connection in many:
        watch.writes(connection, 222 * MIB // 100)
    before = looks(many)
    for turn in range(500):
        watch.adds(many[turn % 100], 1000, takes=0, now=0.0)
    assert looks(many) - before <= 500 + 2 * 100
    assert watch.lost == []


def test_another_is_spared_once_it_holds_more_or_the_one_that_did_has_taken_all() -> None:
    first, second, third = (Connection() for _ in range(3))
    watch = Watch(max_unsent=10 * MIB)
    for connection, size in ((first, 8), (second, 4), (third, 4)):
        watch.writes(connection, size * MIB)
    assert watch.lost == []
    watch.adds(second, 20 * MIB, takes=0, now=1.0)
    assert [one.wire.aborted for one in (first, second, third)] == [True, False, False]
    watch.takes_all(second)
    watch.writes(Connection(), 5 * MIB, 2.0)
    assert len(watch.lost) == 1
    watch.writes(Connection(), 7 * MIB, 3.0)
    assert len(watch.lost) == 1
    watch.writes(Connection(), 2 * MIB, 4.0)
    assert len(watch.lost) == 2, "4, 5 and 2 MiB wait beside the largest"
