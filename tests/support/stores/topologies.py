"""Several real redis-servers that belong together: a primary with a replica, watched by Sentinels, and a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.services import RedisServer, wait_until

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
    """Two servers (the first is primary) watched by three Sentinels, which fail over soon after `hurry_sentinels`."""
    with ExitStack() as stack:
        primary, replica = stack.enter_context(pair(place))
        sentinels = []
        for n in range(3):
            folder = place / f"sentinel{n}"
            folder.mkdir()
            (folder / "sentinel.conf").write_text(
                f"sentinel monitor main 127.0.0.1 {primary.port} 2\n"
                "sentinel down-after-milliseconds main 60000\n"
                "sentinel failover-timeout main 1000\n"
            )
            sentinels.append(stack.enter_context(RedisServer(folder, folder / "sentinel.conf", "--sentinel")))
        for sentinel in sentinels:
            sentinel.wait_for("SENTINEL MASTER main", b"num-other-sentinels\n2", b"num-slaves\n1")
        yield [primary, replica], sentinels


def hurry_sentinels(sentinels: list[RedisServer]) -> None:
    """Let them fail over now: until here they waited a minute, so that a busy machine was taken for no dead server."""
    for sentinel in sentinels:
        assert sentinel.command("SENTINEL", "SET", "main", "down-after-milliseconds", "500") == b"+OK"


@contextmanager
def cluster(place: Path) -> Iterator[list[RedisServer]]:
    """Three primaries, and a replica of the first, which takes over within a second or two of `hurry_cluster`."""
    arguments = ("--cluster-enabled", "yes", "--cluster-node-timeout", "60000", "--cluster-require-full-coverage", "no")
    # A replica takes over however long it has not heard of its primary: on a busy machine that is soon long.
    always = ("--cluster-replica-validity-factor", "0")
    quick = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--loglevel", "warning")
    with ExitStack() as stack:
        servers = [stack.enter_context(RedisServer(place / str(n), *arguments, *always, *quick)) for n in range(4)]
        _join(servers, 3)
        servers[3].wait_for("INFO replication", b"master_link_status:up")
        yield servers


def hurry_cluster(servers: list[RedisServer]) -> None:
    """Let those that are left fail over now, as `hurry_sentinels` does."""
    for server in servers:
        assert server.command("CONFIG", "SET", "cluster-node-timeout", "500") == b"+OK"


def _join(servers: list[RedisServer], primaries: int) -> None:
    """Make a cluster of `servers`: the first `primaries` share the slots, each other one follows one of them."""
    for n, server in enumerate(servers):
        if n < primaries:
            slots = range(SLOTS * n // primaries, SLOTS * (n + 1) // primaries)
            server.command("CLUSTER", "ADDSLOTS", *map(str, slots))
            server.command("CLUSTER", "SET-CONFIG-EPOCH", str(n + 1))

    def met() -> bool:
        # A server forgets whom it was told to meet when a busy machine lets the handshake take a second.
        known = servers[0].reply("CLUSTER", "NODES")
        for server in servers[1:]:
            if b":%d@" % server.port not in known:
                servers[0].command("CLUSTER", "MEET", "127.0.0.1", str(server.port))
        counts = b"cluster_known_nodes:%d" % len(servers)
        return b"handshake" not in known and all(counts in server.reply("CLUSTER", "INFO") for server in servers)

    wait_until("every server of the cluster known to every other", met)
    for n, server in enumerate(servers[primaries:]):
        followed = servers[n % primaries].reply("CLUSTER", "MYID").strip().decode()
        server.command("CLUSTER", "REPLICATE", followed)
    for server in servers:
        server.wait_for("CLUSTER INFO", b"cluster_state:ok", b"cluster_size:%d" % primaries)
        # A replica is listed once the others heard how far it has come.
        server.wait_for("CLUSTER SLOTS", *(b":%d" % each.port for each in servers))
