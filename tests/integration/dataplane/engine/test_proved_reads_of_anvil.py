"""Reads that must be proved say what a real EVM node says, which proves it; beside it stands a node that lies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.dataplane.saying import Said, all_saying
from tests.support.proof_chain import ABSENT, WALLET, ProofChain
from tests.support.proxy import proxying

NET = {"chain": "ethereum", "rules": {"eth_get*": {"prove": True}}, "agreement": {"share": 0}}


@pytest.fixture(scope="module", params=["london", "prague"])
def chain(request: pytest.FixtureRequest) -> Iterator[ProofChain]:
    with ProofChain(request.param) as chain:
        chain.grow()
        yield chain


def forwarding(chain: ProofChain, lie: Callable[[str, Any], Any] = lambda _method, result: result) -> Said:
    """What the real node says, changed by `lie`."""
    return lambda method, params: (
        b'"result":%b' % json.dumps(lie(method, chain.ask(method, *json.loads(params)))).encode()
    )


def richer(method: str, result: Any) -> Any:
    return {**result, "balance": hex(int(result["balance"], 16) + 1)} if method == "eth_getProof" else result


async def test_every_read_is_what_the_node_itself_says_and_proved_by_its_block(chain: ProofChain) -> None:
    reads: list[tuple[str, ...]] = [
        (method, address)
        for method in ("eth_getBalance", "eth_getTransactionCount", "eth_getCode")
        for address in (WALLET.address, chain.contract, ABSENT, ABSENT[:-1] + "3", "0x" + "ee" * 20)
    ]
    reads += [("eth_getStorageAt", chain.contract, place) for place in ("0x0", "0x1", "0x" + "77" * 32)]
    reads.append(("eth_getStorageAt", ABSENT, "0x0"))
    async with all_saying(forwarding(chain, richer), forwarding(chain)) as nodes, proxying(nodes, net=NET) as proxy:
        for node in nodes:
            node.head = 3
        proxy.see()
        for block in ("0x1", "0x2", "0x3", "latest"):
            hash = chain.ask("eth_getBlockByNumber", block, False)["hash"]
            for method, *params in reads:
                reply = await proxy.call(method, *params, block)
                assert reply.result == chain.ask(method, *params, block), (method, params, block)
                assert reply.headers["X-Rpcaccel-Proved"] == hash
        kept = [await proxy.call(*read, "0x3") for read in reads]
        assert {(reply.cache, reply.headers["X-Rpcaccel-Proved"]) for reply in kept} == {("memory", hash)}
