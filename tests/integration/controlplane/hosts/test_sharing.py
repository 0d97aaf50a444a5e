"""The other hosts, over a real Redis."""

from __future__ import annotations

from rpcaccel.config.model import RedisSettings
from rpcaccel.controlplane.hosts.sharing import Hosts
from rpcaccel.controlplane.settings.ledger import Author, Ledger
from rpcaccel.controlplane.stats.events import Events
from tests.support.proxy import PATIENT_REDIS
from tests.support.sample_control import sample_settings
from tests.support.services import RedisServer
from tests.support.waiting import until


async def test_a_change_reaches_the_other_host_and_it_is_told_how_it_goes(redis_server: RedisServer) -> None:
    ledgers = [Ledger(sample_settings()) for _ in range(2)]
    streams = [Events(), Events()]
    hosts = [Hosts(ledger, (), events) for ledger, events in zip(ledgers, streams, strict=True)]
    assert hosts[0].shown() is None
    for one in hosts:
        await one.share(RedisSettings.model_validate(PATIENT_REDIS | {"url": redis_server.url}))
    await ledgers[0].change({"memory": {"size": 5000}}, Author("me"))
    await until(lambda: ledgers[1].settings.memory.size == 5000)
    shown = hosts[1].shown()
    assert (shown["up"], shown["revision"], shown["note"]) == (True, 1, "")
    assert [event.kind for event in streams[1].subscribe(f"{streams[1].run}-0").missed] == ["shared"]
    await hosts[0].purged(b'{"all": true}')
    for one in hosts:
        await one.share(RedisSettings())
        assert (one.shown(), one.notices()) == (None, [])
        await one.purged(b"{}")
        await one.stop()
    assert repr(hosts[0]) == "<Hosts None>"
