"""Simulated chains that share by a file what clients send to one of them, as processes do."""

from __future__ import annotations

import os
import resource
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.simnode.chain.blocks import ChainSpec
from rpcaccel.simnode.chain.raw_tx import read
from rpcaccel.simnode.chain.shared_sends import MAX_SHARED_BYTES, SECONDS_TO_HEAR, NotShared, SharedSends
from rpcaccel.simnode.chain.sim_chain import ByClock, SimChain
from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.manual_clock import ManualClock
from tests.support.wallet import SENDER, signed

SPEC = ChainSpec(genesis=0.0)
"""A block every 2 s; the clocks of these tests begin in the middle of block 50."""
TRANSFERS = [signed(nonce=nonce, value=7 + nonce) for nonce in range(6)]
OTHER = signed(value=8)
"""A transfer that would replace the first one."""
SEEN = 4
"""Newest blocks that are read at each look."""

Open = Callable[[], SimNode]


def opened(folder: Path, clock: ManualClock, stack: ExitStack) -> SimNode:
    """A node of a chain object of its own, as another process would have it."""
    heads = ByClock(genesis=SPEC.genesis, block_time=SPEC.block_time, seconds=clock.now)
    chain = SimChain(SPEC, heads=heads, shared=SharedSends(SPEC, folder))
    stack.callback(chain.close)
    return SimNode(chain, clock=clock)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(101.0)


@pytest.fixture
def another(tmp_path: Path, clock: ManualClock) -> Iterator[Open]:
    with ExitStack() as stack:
        yield lambda: opened(tmp_path, clock, stack)


async def facts(node: SimNode) -> dict[int, Any]:
    """All that a node shows of each of its newest blocks."""
    head = int(await node.ask("eth_blockNumber"), 16)
    shown = {}
    for number in range(head - SEEN + 1, head + 1):
        block = await node.ask("eth_getBlockByNumber", hex(number), True)
        receipts = [await node.ask("eth_getTransactionReceipt", tx["hash"]) for tx in block["transactions"]]
        balance = await node.ask("eth_getBalance", SENDER, hex(number))
        shown[number] = (block, receipts, balance, await node.ask("eth_getTransactionCount", SENDER, hex(number)))
    return shown


SEND = st.tuples(st.just("send"), st.integers(0, 1), st.none())
AGAIN = st.tuples(st.just("again"), st.integers(0, 1), st.none())
LOOK = st.tuples(st.just("look"), st.integers(0, 1), st.none())
WAIT = st.tuples(st.just("wait"), st.none(), st.integers(1, 10).map(lambda quarters: quarters / 4))


@given(st.lists(SEND | AGAIN | LOOK | WAIT, max_size=24))
async def test_a_block_is_the_same_at_every_node_from_the_moment_it_is_shown(steps: list[tuple[str, Any, Any]]) -> None:
    clock, known, sent = ManualClock(101.0), dict[int, Any](), list[str]()

    async def look(node: SimNode) -> None:
        for number, shown in (await facts(node)).items():
            assert known.setdefault(number, shown) == shown

    with TemporaryDirectory() as folder, ExitStack() as stack:
        nodes = [opened(Path(folder), clock, stack) for _ in range(2)]
        for step, at, value in steps:
            if step == "wait":
                clock.advance(value)
            elif step == "look":
                await look(nodes[at])
            elif step == "send" and len(sent) < len(TRANSFERS):
                sent.append(TRANSFERS[len(sent)])
                name = await nodes[at].ask("eth_sendRawTransaction", sent[-1])
                tx = nodes[at].chain.sent.by_hash[bytes.fromhex(name[2:])]
                assert tx.number * SPEC.block_time >= clock.now() + SECONDS_TO_HEAR
            elif sent:
                with pytest.raises(RpcError, match=r"known transaction|already finalized"):
                    await nodes[at].ask("eth_sendRawTransaction", sent[-1])
        clock.advance(SPEC.block_time * SEEN / 2)
        for node in (*nodes, opened(Path(folder), clock, stack)):
            await look(node)
            assert await node.ask("eth_getTransactionCount", SENDER, "latest") == hex(len(sent))


async def test_what_waits_at_one_node_waits_at_the_others_and_is_not_replaced_there(
    another: Open, clock: ManualClock
) -> None:
    one, other = another(), another()
    clock.advance(0.75)  # the next block begins too soon to be told of, so that the transfer stands in block 52
    name = await one.ask("eth_sendRawTransaction", TRANSFERS[0])
    assert (await other.ask("eth_getTransactionByHash", name))["blockHash"] is None
    assert await other.ask("eth_getTransactionCount", SENDER, "pending") == "0x1"
    with pytest.raises(RpcError, match="replacement transaction underpriced"):
        await other.ask("eth_sendRawTransaction", OTHER)
    clock.advance(2.25)
    assert (await other.ask("eth_getTransactionReceipt", name))["blockNumber"] == hex(52)


def test_a_chain_that_takes_a_transaction_knows_all_that_the_others_took_before(another: Open) -> None:
    one, other = another().chain, another().chain
    for nonce, chain in enumerate((one, other, one)):
        with chain.sending():
            assert len(chain.sent.recent) == nonce
            chain.add(read(bytes.fromhex(TRANSFERS[nonce][2:])))
    other.catch_up()
    assert list(one.sent.recent) == list(other.sent.recent)


async def test_what_was_sent_is_kept_until_the_last_process_of_the_chain_ends(another: Open, tmp_path: Path) -> None:
    one, other = another(), another()
    await one.ask("eth_sendRawTransaction", TRANSFERS[0])
    one.chain.close()
    again = another()
    assert len(again.chain.sent.recent) == 1, "read before the node serves, since a long file takes seconds"
    assert await again.ask("eth_getTransactionCount", SENDER, "pending") == "0x1"
    assert "bytes read" in repr(again.chain.shared)
    for node in (again, other):
        node.chain.close()
    assert [files for _, _, files in os.walk(tmp_path)] == [[], []]
    assert await another().ask("eth_getTransactionCount", SENDER, "pending") == "0x0"


def test_other_chains_share_nothing_and_nobody_else_can_read_what_is_sent(tmp_path: Path) -> None:
    shared = [SharedSends(spec, tmp_path) for spec in (SPEC, ChainSpec(genesis=0.0, seed=2))]
    with shared[0].locked():
        shared[0].append(7, b"\x01\x02")
    assert (shared[0].fresh(), shared[1].fresh()) == ([], [])
    again = SharedSends(SPEC, tmp_path)
    assert again.fresh() == [(7, b"\x01\x02")]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (again.place, again.place / "sends")]
    assert modes == [0o700, 0o600]
    for one in (*shared, again):
        one.close()


def test_a_folder_that_others_can_reach_is_refused(tmp_path: Path) -> None:
    shared = SharedSends(SPEC, tmp_path)
    shared.close()
    shared.place.chmod(0o755)
    with pytest.raises(NotShared, match=rf"{shared.place}: it belongs to another user, or is open to others"):
        SharedSends(SPEC, tmp_path)
    shared.place.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    shared.place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotShared, match="Not a directory"):
        SharedSends(SPEC, tmp_path)


async def test_a_send_that_the_others_cannot_be_told_is_refused_with_the_reason(another: Open) -> None:
    node = another()
    assert node.chain.shared is not None
    shutil.rmtree(node.chain.shared.place)
    with pytest.raises(RpcError, match="was removed while nodes ran"):
        await node.ask("eth_sendRawTransaction", TRANSFERS[0])
    assert await node.ask("eth_getTransactionCount", SENDER, "pending") == "0x0"


def test_the_file_is_bounded(tmp_path: Path) -> None:
    shared, large = SharedSends(SPEC, tmp_path), bytes(1 << 20)
    for _ in range(7):
        shared.append(7, large)
    with pytest.raises(NotShared, match=r"it is full \(16 MB\); end all nodes of the chain"):
        shared.append(7, large)
    assert MAX_SHARED_BYTES - (3 << 20) < os.stat(shared.place / "sends").st_size <= MAX_SHARED_BYTES
    shared.close()


@pytest.mark.parametrize(("room", "reason"), [(40, "there is no space left"), (0, "File too large")])
def test_a_line_that_cannot_be_written_whole_is_taken_back(tmp_path: Path, room: int, reason: str) -> None:
    shared, limits = SharedSends(SPEC, tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    shared.append(7, bytes(50))
    written = os.stat(shared.place / "sends").st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (written + room, limits[1]))
    try:
        with pytest.raises(NotShared, match=reason):
            shared.append(8, bytes(50))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    shared.append(9, b"\x01")
    other = SharedSends(SPEC, tmp_path)
    assert other.fresh() == [(7, bytes(50)), (9, b"\x01")]
    for one in (shared, other):
        one.close()
