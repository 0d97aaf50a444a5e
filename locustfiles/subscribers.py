"""Subscribers to headers and logs over WebSockets: each is told every block once, in order, and in time.

    RPCACCEL_SHIFT      20      seconds that a WebSocket stays open; then its user opens another one and resumes there
    RPCACCEL_LIVE_NODE          a node's own WebSocket, such as ws://127.0.0.1:9501

The time of a live notification (`newHeads`, `logs`) is how late it came: after the node's own notification of the
block. Without RPCACCEL_LIVE_NODE it is the time since the first subscriber of this process was told of the block: how
far the subscribers are apart, which says nothing about the way from the node to the first of them. `--gate-mean` and
`--gate-p99` judge these times alone. What is sent again to one that resumes, the opening of a WebSocket and the calls
that compare are listed under names of their own, and only fail.

Whatever the options say, the gate is missed by a block or log that is missing, comes twice or out of order, by a
subscriber more than 8 blocks behind the head that calls are answered at, and by a run in which no header came or no
logs were compared with the chain's: a run must be longer than 8 blocks, or have logs in two.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import gevent
import msgspec
import websocket
from locust import constant, events, task
from locust.env import Environment
from locust.runners import MasterRunner

import workers
from common import Failed, RpcUser, failed_checks, log, needed, untimed
from live_stream import GAP, HeadSequence, LogSequence
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.config.secrets import shown_url

SHIFT = float(os.environ.get("RPCACCEL_SHIFT", "20"))
NODE = os.environ.get("RPCACCEL_LIVE_NODE", "")
BACK = 8
"""Blocks below the newest one that a subscription which resumes is sent again, in which logs may still be on their way,
and that a subscriber may be behind the chain."""
MAX_REMEMBERED = 1000
"""Blocks whose first notification is remembered."""
OVER = frozenset({1000, 1001, 1012})
"""Close codes by which a WebSocket ends in order: its user comes back."""
CHAINS_HEAD, CHAINS_LOGS = "head of the chain", "logs of the chain"
"""Names of the calls that streams are compared with."""
_told: dict[str, float] = {}
_seen: Counter[str] = Counter()
"""What the subscribers of this process were sent; in a master what those of all workers were sent."""

untimed.update(("connect", "closed", "newHeads resumed", "logs resumed", CHAINS_HEAD, CHAINS_LOGS))
needed.update(("newHeads", CHAINS_LOGS))


def lateness(name: str) -> float:
    """Milliseconds since the first notification of this block."""
    now = time.monotonic()
    if not NODE:
        _first(name, now)
    return max(0.0, now - _told.get(name, now)) * 1000


def _first(name: str, now: float) -> None:
    _told.setdefault(name, now)
    if len(_told) > MAX_REMEMBERED:
        del _told[next(iter(_told))]


class ClosedError(Exception):
    """The WebSocket was closed; the text says how."""

    def __init__(self, code: int) -> None:
        super().__init__(f"closed with {code}")
        self.code = code


class Channel:
    """One WebSocket with its subscriptions."""

    def __init__(self, url: str) -> None:
        self._socket = websocket.create_connection(url, timeout=30)
        self._kinds: dict[str, str] = {}
        self.begun = time.monotonic()

    def close(self) -> None:
        """End it without waiting for the other side."""
        self._socket.shutdown()

    def subscribe(self, *params: Any) -> None:
        """Ask for a subscription; its answer comes among the messages."""
        body = {"jsonrpc": "2.0", "id": params[0], "method": "eth_subscribe", "params": params}
        self._socket.send(json.dumps(body))

    @property
    def subscribed(self) -> int:
        """Subscriptions that were answered."""
        return len(self._kinds)

    def messages(self, until: float) -> Iterator[tuple[str, dict[str, Any], int]]:
        """Kind, result and bytes of each notification, until that time. Raises ClosedError, Failed, OSError."""
        while (left := until - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                opcode, data = self._socket.recv_data()
            except websocket.WebSocketTimeoutException:
                return
            except websocket.WebSocketConnectionClosedException:
                raise ClosedError(1006) from None
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                raise ClosedError(int.from_bytes(data[:2], "big") or 1005)
            told = json.loads(data)
            if "error" in told:
                raise Failed(f"rpc {told['error'].get('code')}")
            if "id" in told:
                self._kinds[told["result"]] = told["id"]
                continue
            yield self._kinds[told["params"]["subscription"]], told["params"]["result"], len(data)


class Subscriber(RpcUser):
    """One client with a subscription to headers and one to all logs."""

    wait_time = constant(0)

    def on_start(self) -> None:
        self.heads, self.logs = HeadSequence(), LogSequence()
        self.known = 0
        """The block up to which its logs were compared with the chain's; 0 before the first."""
        self.newest = self._chains_head() or 0
        """The newest block that it was told of; before the first the head of the chain at the beginning."""

    def on_stop(self) -> None:
        """Compare what came since the last shift, which was cut short."""
        self._compare(self._whole())
        _seen["blocks"] += self.heads.heads
        _seen["reorganisations"] += self.heads.reorganisations
        _seen["logs"] += self.logs.taken
        _seen["logs taken back"] += self.logs.removed

    @task
    def shift(self) -> None:
        """One WebSocket, from where the last one ended; then a look at whether its logs are those of the chain."""
        tip, begun = self.heads.tip, time.monotonic()
        try:
            channel = Channel(f"{self.host.rstrip('/')}{self.path}".replace("http", "ws", 1))
        except (OSError, websocket.WebSocketException) as error:
            self._fire("connect", 0.0, 0, Failed(type(error).__name__))
            gevent.sleep(1.0)
            return
        self._fire("connect", (time.monotonic() - begun) * 1000, 0, None)
        try:
            self._resume(channel, tip)
            self._listen(channel, tip or 0)
        except ClosedError as error:
            self._fire("closed", 0.0, 0, None if error.code in OVER else Failed(str(error)))
        except (Failed, OSError) as error:
            self._fire("closed", 0.0, 0, error)
        finally:
            channel.close()
        aged = time.monotonic() - channel.begun >= SHIFT  # long enough for the logs of all but the newest blocks
        self._compare(max(self._whole(), (self.heads.tip or 0) - BACK if aged else 0))

    def _resume(self, channel: Channel, tip: int | None) -> None:
        start = {} if tip is None else {"fromBlock": hex(max(0, tip - BACK))}
        if tip is not None:
            self.heads.resume(max(0, tip - BACK))
            self.logs.resume(max(0, tip - BACK))
        channel.subscribe("newHeads", *([start] if start else []))
        channel.subscribe("logs", start)

    def _listen(self, channel: Channel, tip: int) -> None:
        for kind, result, size in channel.messages(channel.begun + SHIFT):
            if kind == "newHeads":
                found, number, name = self.heads.take(result), int(result["number"], 16), result["hash"]
                if not self.known and channel.subscribed == 2:
                    self.known = number
            else:
                found, number, name = self.logs.take(result), int(result["blockNumber"], 16), result["blockHash"]
            if found:
                wrong(f"{kind}: {found}")
            self.newest = max(self.newest, number)
            replayed = number <= tip
            late = (time.monotonic() - channel.begun) * 1000 if replayed else lateness(name)
            self._fire(f"{kind} resumed" if replayed else kind, late, size, Failed(found) if found else None)

    def _whole(self) -> int:
        """The block up to which all logs must have come, since logs come in the order of blocks."""
        return (self.logs.tip or 0) - 1

    def _chains_head(self) -> int | None:
        """The head that calls are answered at; None when it was not told."""
        said = self.call(LoadCall("eth_blockNumber"), CHAINS_HEAD)
        return None if said is None else int(json.loads(said), 16)

    def _compare(self, last: int) -> None:
        """Is the newest block near the chain's, and are the chain's logs up to block `last` among those that came?"""
        head = self._chains_head()
        if head is not None and head - self.newest > BACK:
            wrong(f"newHeads: more than {BACK} blocks behind the chain")
        if not self.known or last <= self.known:
            return
        span = {"fromBlock": hex(self.known + 1), "toBlock": hex(last)}
        said = self.call(LoadCall("eth_getLogs", msgspec.json.encode([span])), CHAINS_LOGS)
        if said is None:
            return
        if missing := self.logs.missing(json.loads(said)):
            wrong(f"logs: {GAP}")
            self._fire("logs", 0.0, 0, Failed(f"{missing} missing"))
        self.known = last

    def _fire(self, name: str, milliseconds: float, size: int, error: Exception | None) -> None:
        self.environment.events.request.fire(
            request_type="WS",
            name=self.prefix + name,
            response_time=milliseconds,
            response_length=size,
            exception=error,
            context={},
        )


def wrong(what: str) -> None:
    """Miss the gate, for each kind of fault once."""
    said = f"subscribers: {what}"
    if said not in failed_checks:
        failed_checks.append(said)


@events.report_to_master.add_listener
def _tell_seen(data: dict[str, Any], **_: Any) -> None:
    data["rpcaccel_seen"] = dict(_seen)
    _seen.clear()


@events.worker_report.add_listener
def _hear_seen(data: dict[str, Any], **_: Any) -> None:
    _seen.update(data.get("rpcaccel_seen", {}))


@events.test_start.add_listener
def _begin(environment: Environment, **_: Any) -> None:
    _told.clear()
    _seen.clear()
    if NODE and not isinstance(environment.runner, MasterRunner):  # clocks are compared in the process of a subscriber
        environment.reference = gevent.spawn(_listen_to_the_node)


def _listen_to_the_node() -> None:
    """Remember when the node itself told of each block."""
    while True:
        try:
            channel = Channel(NODE)
            channel.subscribe("newHeads")
            for _, result, _ in channel.messages(float("inf")):
                _first(result["hash"], time.monotonic())
        except (OSError, websocket.WebSocketException, ClosedError, Failed) as error:
            log.warning("subscribers: %s: %s", shown_url(NODE), error)
            gevent.sleep(1.0)


@events.test_stop.add_listener
def _end(environment: Environment, **_: Any) -> None:
    if (reference := getattr(environment, "reference", None)) is not None:
        reference.kill()
    if not workers.is_worker(environment):
        log.info("subscribers: %s", ", ".join(f"{count} {what}" for what, count in _seen.items()) or "none ended")
