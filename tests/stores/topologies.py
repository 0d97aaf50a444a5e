"""Several real redis-servers that belong together: a primary with a replica, watched by Sentinels, and a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.stores.redisserver import RedisServer, free_port

SLOTS = 16384


@contextmanager
def pair(place: Path) -> Iterator[tuple[RedisServer, RedisServer]]:
    """A primary and a replica that follows it."""
    with RedisServer(place / "primary", "--repl-diskless-sync-delay", "0") as primary:
        follow = ("--replicaof", "127.0.0.1", str(primary.port))
        with RedisServer(place / "replica", *follow) as replica:
            replica.wait_for("INFO replication", b"master_link_status:up")
            yield primary, replica


@contextmanager
def watched(place: Path) -> Iterator[tuple[list[RedisServer], list[RedisServer]]]:
    """Two servers (the first is primary) watched by three Sentinels that fail over within a second."""
    with ExitStack() as stack:
        primary, replica = stack.enter_context(pair(place))
        sentinels = []
        for n in range(3):
            folder = place / f"sentinel{n}"
            folder.mkdir()
            port = free_port()
            (folder / "sentinel.conf").write_text(
                f"sentinel monitor main 127.0.0.1 {primary.port} 2\n"
                "sentinel down-after-milliseconds main 500\n"
                "sentinel failover-timeout main 3000\n"
            )
            sentinels.append(
                stack.enter_context(RedisServer(folder, str(folder / "sentinel.conf"), "--sentinel", port=port))
            )
        for sentinel in sentinels:
            sentinel.wait_for("SENTINEL MASTER main", b"num-other-sentinels\n2", b"num-slaves\n1")
        yield [primary, replica], sentinels


@contextmanager
def cluster(place: Path) -> Iterator[list[RedisServer]]:
    """Three primaries, and a replica of the first."""
    arguments = ("--cluster-enabled", "yes", "--cluster-node-timeout", "500", "--cluster-require-full-coverage", "no")
    quick = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--loglevel", "warning")
    with ExitStack() as stack:
        servers = [stack.enter_context(RedisServer(place / str(n), *arguments, *quick)) for n in range(4)]
        _join(servers, 3)
        servers[3].wait_for("INFO replication", b"master_link_status:up")
        yield servers


def _join(servers: list[RedisServer], primaries: int) -> None:
    """Make a cluster of `servers`: the first `primaries` share the slots, each other one follows one of them."""
    for n, server in enumerate(servers):
        if n < primaries:
            slots = range(SLOTS * n // primaries, SLOTS * (n + 1) // primaries)
            server.command("CLUSTER", "ADDSLOTS", *map(str, slots))
            server.command("CLUSTER", "SET-CONFIG-EPOCH", str(n + 1))
        if n:
            servers[0].command("CLUSTER", "MEET", "127.0.0.1", str(server.port))
    for server in servers:
        server.wait_for("CLUSTER INFO", b"cluster_known_nodes:%d" % len(servers))
    for n, server in enumerate(servers[primaries:]):
        followed = servers[n % primaries].reply("CLUSTER", "MYID").strip().decode()
        server.command("CLUSTER", "REPLICATE", followed)
    for server in servers:
        server.wait_for("CLUSTER INFO", b"cluster_state:ok", b"cluster_size:%d" % primaries)
        # A replica is listed once the others heard how far it has come.
        server.wait_for("CLUSTER SLOTS", *(b":%d" % each.port for each in servers))
