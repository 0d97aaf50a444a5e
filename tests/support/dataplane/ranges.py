"""Ranges asked of a proxy and of a witness, step by step: random ranges, options, heads, forks, limits."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcaccel.simnode.server.envelope import RequestItem
from rpcaccel.simnode.server.factories import ethereum_chain, harmony_chain, running
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.proxy import proxying

HEAD = 90
NOT_FINAL = 30
CONTRACT = harmony_chain().generator.contract
SENDER = ethereum_chain(HEAD).generator.accounts[0]

numbers = st.integers(0, HEAD + 15)
ends = st.one_of(
    numbers, numbers.map(hex), numbers.map(str), st.sampled_from(["latest", "earliest", "pending", -1, "0x0026"])
)
switches = st.dictionaries(st.sampled_from(["withSigners", "fullTx", "inclStaking", "inclTx"]), st.booleans())
options = st.one_of(switches, switches, switches, st.sampled_from([None, True, {"fullTx": 1}]))
blocks = st.tuples(
    st.sampled_from(["hmy_getBlocks", "hmyv2_getBlocks", "eth_getBlocks"]), st.tuples(ends, ends, options)
)
bounds = st.one_of(numbers.map(hex), st.sampled_from(["latest", "earliest", "0x0026", "pending", None, 5]))
criteria = st.fixed_dictionaries(
    {"fromBlock": bounds, "toBlock": bounds},
    optional={
        "address": st.sampled_from(["0x" + CONTRACT.hex(), ["0x" + CONTRACT.hex()], "0x" + "00" * 20, []]),
        "topics": st.sampled_from([[], [None], ["0x" + "11" * 32], [None, ["0x" + "11" * 32]]]),
    },
)
logs = st.tuples(st.just("eth_getLogs"), criteria.map(lambda one: (one,)))
traces = st.tuples(
    st.just("trace_filter"),
    st.fixed_dictionaries(
        {"fromBlock": numbers.map(hex), "toBlock": st.one_of(numbers.map(hex), st.just("latest"))},
        optional={
            "fromAddress": st.sampled_from([[], ["0x" + SENDER.hex()], ["0x" + "00" * 20]]),
            "count": st.integers(1, 9),
        },
    ).map(lambda one: (one,)),
)
ways = st.fixed_dictionaries(
    {
        "segment": st.sampled_from([1, 7, 16, 128]),
        "divide_from": st.sampled_from([1, 10, 256]),
        "max_pieces": st.sampled_from([64, 256]),
    }
)
moves = st.sampled_from(["advance", "reorg", "purge"])
limits = st.sampled_from([{}, {}, {"logs_range": 9}, {"logs_results": 3}])


async def play(kind: str, steps: list[Any], way: dict[str, int], size: int, limit: dict[str, Any]) -> None:
    """Ask proxy and witness for the same, step by step."""
    reorganises = kind == "ethereum"
    chain = ethereum_chain(HEAD) if reorganises else harmony_chain(HEAD)
    witness = SimNode(chain, name="witness")
    epoch = 0
    net = {"chain": kind, "ranges": way}
    async with running(chain, 2, **limit) as nodes, proxying(nodes, net=net, memory={"size": size}) as proxy:
        for step in ["see", *steps]:
            if step == "advance":
                chain.advance(5)
            elif step == "reorg" and reorganises:
                chain.reorg(NOT_FINAL // 2)
                epoch += 1
            if isinstance(step, str):
                proxy.see(final=chain.head - NOT_FINAL if reorganises else chain.head, fork_epoch=epoch)
                continue
            method, params = step
            text = orjson.dumps(params)
            body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (method.encode(), text)
            told = await proxy.post(body)
            expected = await witness.brain.reply(RequestItem(method, text, b"1"))
            if limit and b"-32005" in told.body:
                continue  # what is not final is not divided, so such a refusal may be passed on
            assert told.body == expected, (method, params, told.cache)


STORIES = {
    "harmony": (st.one_of(blocks, blocks, logs, moves), st.just({})),
    "ethereum": (st.one_of(logs, logs, traces, moves), limits),
}
"""What happens over a chain that is final at once, and over one that forks, of nodes with limits of their own."""


def ask_nodes(kind: str, examples: int) -> None:
    """So many stories over a chain of this kind."""
    steps, bounded = STORIES[kind]

    @settings(max_examples=examples)
    @given(st.lists(steps, min_size=3, max_size=14), ways, st.sampled_from([30_000, 50_000_000]), bounded)
    def told(steps: list[Any], way: dict[str, int], size: int, limit: dict[str, int]) -> None:
        asyncio.run(play(kind, steps, way, size, limit))

    told()
