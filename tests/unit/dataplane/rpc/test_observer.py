from typing import Any

from rpcaccel.config.model import Settings
from rpcaccel.dataplane.rpc.access_log import AccessLog
from rpcaccel.dataplane.rpc.observers import Both, Observers
from rpcaccel.dataplane.rpc.tracing import Tracing

TRACED = {"endpoint": "http://127.0.0.1:1"}


def settings(**more: Any) -> Settings:
    return Settings.model_validate({"networks": {"s0": {"nodes": ["http://127.0.0.1:2"]}}, **more})


async def test_those_are_told_whom_the_settings_want_told() -> None:
    observers = Observers()
    assert observers.adopt(settings()) == (None, None)
    log, old = observers.adopt(settings(log={"slow": 1}))
    assert (type(log), old) == (AccessLog, None)
    tracing, old = observers.adopt(settings(tracing=TRACED))
    assert (type(tracing), old) == (Tracing, None)
    both, old = observers.adopt(settings(tracing=TRACED, log={"access": True}))
    assert (type(both), old) == (Both, None)
    other, old = observers.adopt(settings(tracing={**TRACED, "sample": 0.5}))
    assert (type(other), old) == (Tracing, tracing)
    nobody, last = observers.adopt(settings())
    assert (nobody, last) == (None, other)
    for closed in (old, last):
        assert isinstance(closed, Tracing)
        await closed.close()
    await observers.close()
