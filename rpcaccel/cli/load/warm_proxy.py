"""What `rpcaccel warm` learns of the running proxy: from its admin side, or, where that tells nothing, by calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from rpcaccel.bench.load.client import ConnectionPool, Outcome
from rpcaccel.bench.load.workload import LoadCall
from rpcaccel.chains import chain_tables
from rpcaccel.cli.admin_client import AdminClient, RemoteError, known_network, meanwhile
from rpcaccel.config.model import NetworkSettings
from rpcaccel.config.resilience import QuotaSettings
from rpcaccel.warming import block_calls, warming_limits
from rpcaccel.warming.block_calls import BlockCall
from rpcaccel.warming.runner import judge
from rpcaccel.warming.warming_limits import Spare

MAIN = "main"
"""The name of the network on / where nobody tells its real one."""
IDLE = "no node takes calls now"
_MEMORY = "memory"
_OTHER = "ethereum"
"""The chain whose rules apply where nobody tells the chain, and it is not Harmony's."""
_PUT_ASIDE = frozenset({"cordoned", "drained", "wrong-chain"})
"""States of nodes that get no calls until an operator changes something."""


class ProxyFacts(Struct, frozen=True, kw_only=True):
    """A running proxy and the network that is filled."""

    network: str
    chain: str
    told: bool
    """Does the admin side answer?"""
    lasts: bool = True
    """Is there a tier beside the memory, as far as that is known?"""
    hidden_lag: float
    block_time: float
    heavy: dict[str, float] = {}
    """The most units that a call counts as, by node."""


def called(url: str, network: str) -> str:
    """The URL that calls about `network` go to; an empty name leaves it to the URL."""
    full = url if "://" in url else f"http://{url}"
    parts = urlsplit(full)
    if not network or network in parts.path.split("/"):
        return full
    return parts._replace(path=f"{parts.path.rstrip('/')}/{network}").geturl()


async def read_settings(admin: AdminClient) -> dict[str, Any]:
    """The settings of the proxy. Raises RemoteError."""
    found = await meanwhile(lambda: admin.get("settings"))
    document: dict[str, Any] = found["document"]
    return document


def told(document: dict[str, Any], url: str, network: str) -> ProxyFacts:
    """What the settings say. Raises RemoteError for a network that is not there."""
    networks = document["networks"]
    main = document["default_network"] or next(iter(networks))
    name = network or next((part for part in urlsplit(url).path.split("/") if part in networks), main)
    settings = known_network(name, networks)
    return ProxyFacts(
        network=name,
        chain=settings["chain"],
        told=True,
        lasts=bool(document["disk"]["path"] or document["redis"]["url"]),
        hidden_lag=settings["hidden_lag"],
        block_time=settings["block_time"] or chain_tables.load(settings["chain"]).block_time,
        heavy={
            name: QuotaSettings.model_validate(node["quota"]).method_costs.most
            for name, node in settings["nodes"].items()
        },
    )


class WarmedProxy:
    """The running proxy, asked by calls and over its admin side."""

    def __init__(self, pool: ConnectionPool, admin: AdminClient, timeout: float) -> None:
        """`timeout`: seconds that a call may take."""
        self._pool = pool
        self._admin = admin
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"<WarmedProxy {self._pool.target.shown}>"

    async def guessed(self, network: str) -> ProxyFacts:
        """What calls and defaults tell of the network, for want of the settings."""
        harmony = (await self._result("hmyv2_blockNumber", "[]"))[0] is not None
        chain = block_calls.HARMONY if harmony else _OTHER
        lag: float = NetworkSettings.model_fields["hidden_lag"].default
        block_time = chain_tables.load(chain).block_time
        return ProxyFacts(network=network or MAIN, chain=chain, told=False, hidden_lag=lag, block_time=block_time)

    async def newest(self, facts: ProxyFacts, calls: tuple[BlockCall, ...]) -> int:
        """The newest block about which all of these calls have answers that are kept for good. Raises RemoteError."""
        found, why = await self._result("eth_blockNumber", "[]")
        head = _number(found)
        if head is None:
            raise RemoteError(f"{self._pool.target.shown} does not tell the newest block: {why}")
        final = await self._final(facts, head)
        doubt = warming_limits.blocks_in_doubt(facts.hidden_lag, facts.block_time)
        return min(final, head - doubt) if any(call.may_be_empty for call in calls) else final

    async def _final(self, facts: ProxyFacts, head: int) -> int:
        if facts.told:
            return await warming_limits.newest_kept(lambda block: self._is_final(facts.network, block), head)
        chain = chain_tables.load(facts.chain)
        if chain.finality == "instant":
            return head
        block = (await self._result("eth_getBlockByNumber", '["finalized",false]'))[0]
        number = _number(block.get("number")) if isinstance(block, dict) else None
        doubted = head - warming_limits.blocks_in_doubt(facts.hidden_lag, facts.block_time)
        return min(head - chain.finality_depth if number is None else number, doubted)

    async def _is_final(self, network: str, block: int) -> bool:
        (params,) = BlockCall("eth_getBlockByNumber", '["{hex}",false]').texts(block)
        return bool((await self.explained(network, "eth_getBlockByNumber", params))["final"])

    async def explained(self, network: str, method: str, params: str) -> dict[str, Any]:
        """What the proxy says of a call. Raises RemoteError."""
        asked = f'{{"call":{{"method":"{method}","params":{params}}},"network":"{network}"}}'
        return await meanwhile(lambda: dict(self._admin.post("explain", asked)))

    async def not_kept(self, facts: ProxyFacts, calls: tuple[BlockCall, ...], block: int) -> dict[str, str]:
        """The methods whose answers about this block the proxy does not keep for good, with the reason, as far as the
        admin side tells. Raises RemoteError."""
        found = {}
        for call in calls if facts.told else ():
            said = await self.explained(facts.network, call.method, next(call.texts(block, block_calls.SAMPLE)))
            if said["key"] is None:
                found[call.method] = said["keeping"][0]
        return found

    async def spare(self, facts: ProxyFacts, leave: float) -> Spare:
        """What the quotas of the network's nodes allow. Raises RemoteError."""
        found = await meanwhile(lambda: self._admin.get("nodes"))
        mine = [node for node in found["nodes"] if node["network"] == facts.network]
        asked = [node for node in mine if node["state"] not in _PUT_ASIDE]
        if not any(node["eligible"] for node in asked):
            return Spare(0, IDLE)
        return warming_limits.spare(asked, facts.heavy, leave)

    async def unwritten(self) -> int:
        """The answers that found no room in the queues of the tiers behind the memory since the proxy's start. Raises
        RemoteError."""
        found = await meanwhile(lambda: self._admin.get("cache"))
        return sum(tier["dropped"] for tier in found["tiers"] if tier["name"] != _MEMORY)

    async def post(self, body: bytes) -> Outcome:
        """The outcome of a call."""
        return await self._pool.post(body, self._timeout)

    async def _result(self, method: str, params: str) -> tuple[Any, str]:
        """The decoded result of a call, None where there is none, and the reason."""
        found = judge(await self.post(LoadCall(method, params.encode()).body(1)))
        return (json.loads(found.result) if found.next == "done" else None), found.text


class AdminLooks:
    """Asks the admin side now and then while a job runs."""

    def __init__(self, proxy: WarmedProxy, facts: ProxyFacts, leave: float, behind: Callable[[int], None]) -> None:
        """`behind` is told how many more answers were not written, when the tier behind the memory does not keep up."""
        self._proxy = proxy
        self._facts = facts
        self._leave = leave
        self._behind = behind
        self._unwritten: int | None = None

    async def spare(self) -> Spare | None:
        """What the quotas allow; None while the admin side does not tell, as when the proxy restarts."""
        try:
            unwritten = await self._proxy.unwritten()
            found = await self._proxy.spare(self._facts, self._leave)
        except RemoteError:
            return None
        before, self._unwritten = self._unwritten, unwritten
        if before is not None and unwritten > before:  # a restarted proxy begins at 0
            self._behind(unwritten - before)
        return found


def _number(value: Any) -> int | None:
    try:
        return int(value, 16)
    except (TypeError, ValueError):
        return None
