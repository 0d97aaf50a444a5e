"""A client's limits hold over several workers, and nobody waits for that."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rpcaccel.config.sections import ClientsSettings
from rpcaccel.core import client_limits
from rpcaccel.core.client_limits import Client
from rpcaccel.core.messages import Spent
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.rpc.admission import ACTIVE_SECONDS, Admission, Neighbours, SharedLimits
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import proxying
from tests.support.services import RedisServer
from tests.support.waiting import until

KEY = client_limits.make(bytes(32))
CLIENTS = {
    "keys": {
        "dapp": {"hashes": [client_limits.hashed(KEY)], "rate": 10, "burst": 10},
        "free": {"hashes": ["sha256:" + "0" * 64]},
    }
}


class Worker:
    """The part of a worker that matters here, with a clock to turn."""

    def __init__(self) -> None:
        self.now = 100.0
        self.tally = Tally()
        self.door = Admission(self.tally, lambda: self.now)
        self.door.adopt(ClientsSettings.model_validate(CLIENTS))
        self.shared_limits = SharedLimits(self.door.clients, lambda: self.now, self.tally)

    @property
    def client(self) -> Client:
        return dict(self.door.clients())["key:dapp"]

    def calls(self, count: int) -> int:
        """Make calls; how many were let through."""
        self.client.seen_at = self.now
        return sum(self.client.call("eth_call", False, self.now) is None for _ in range(count))


async def test_what_is_spent_at_one_worker_is_missing_at_the_other() -> None:
    one, other = Worker(), Worker()
    neighbours = Neighbours(lambda spent: other.shared_limits.charge(spent.tokens))
    assert one.calls(7) == 7
    await one.shared_limits.settle(neighbours.exchange)
    assert other.calls(10) == 3
    await one.shared_limits.settle(neighbours.exchange)
    assert other.calls(1) == 0


async def test_nothing_is_said_where_nothing_was_spent() -> None:
    said: list[Spent] = []
    worker = Worker()
    await worker.shared_limits.settle(Neighbours(said.append).exchange)
    worker.now += ACTIVE_SECONDS
    worker.client.settle()
    await worker.shared_limits.settle(Neighbours(said.append).exchange)
    assert said == []
    worker.shared_limits.charge({"address:9.9.9.9": 5})


async def test_without_an_answer_the_worker_goes_on_alone_and_counts_it() -> None:
    async def silent(_spent: Mapping[bytes, int]) -> dict[bytes, int] | None:
        return None

    worker = Worker()
    assert worker.calls(10) == 10
    await worker.shared_limits.settle(silent)
    worker.now += 1.0
    assert worker.calls(20) == 10
    assert worker.tally.snapshot().limits_alone == 1


async def test_others_known_only_to_redis_are_charged() -> None:
    async def told(spent: Mapping[bytes, int]) -> dict[bytes, int] | None:
        assert spent == {b"key:dapp": 2}
        return {b"key:dapp": 8}

    worker = Worker()
    worker.calls(2)
    await worker.shared_limits.settle(told)
    assert worker.calls(1) == 0


async def test_two_hosts_share_a_rate_through_redis_and_go_on_without_it(
    new_redis: Callable[..., RedisServer],
) -> None:
    redis = new_redis()
    body = b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'
    clients = {"keys": {"dapp": {"hashes": [client_limits.hashed(KEY)], "rate": 0.001, "burst": 40}}}
    more = {"clients": clients, "redis": {"url": redis.url}}
    async with harmony_nodes(1) as nodes, proxying(nodes, **more) as one, proxying(nodes, **more) as other:
        for proxy in (one, other):
            assert (await proxy.post(body, X_Api_Key=KEY)).status == 200
        clients_seen = [dict(proxy.worker.admission.clients())["key:dapp"] for proxy in (one, other)]
        await until(lambda: not any(client.spent for client in clients_seen))
        for _ in range(30):
            await one.post(body, X_Api_Key=KEY)
        await until(lambda: clients_seen[1]._bucket.level < 10)
        statuses = [(await other.post(body, X_Api_Key=KEY)).status for _ in range(12)]
        assert statuses.count(200) <= 9
        redis.kill()
        await until(lambda: other.worker.report().tally.limits_alone > 0)
        assert (await one.post(body, X_Api_Key=KEY)).status in (200, 429)
