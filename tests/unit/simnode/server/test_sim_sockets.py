"""The WebSocket side of a simulated node, on real sockets: calls, pushes, and what ends a connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rpcaccel.simnode.chain.blocks import ChainSpec
from rpcaccel.simnode.chain.shared_sends import SharedSends
from rpcaccel.simnode.chain.sim_chain import ByClock, SimChain
from rpcaccel.simnode.server.factories import ethereum_chain, harmony_chain, knobs
from rpcaccel.simnode.server.sim_server import SimNode
from rpcaccel.simnode.server.sim_sockets import framed
from tests.support.manual_clock import ManualClock
from tests.support.wallet import signed

Socket = aiohttp.ClientWebSocketResponse
Open = Callable[[SimNode], Awaitable[Socket]]


@pytest.fixture
async def opened(session: aiohttp.ClientSession) -> Open:
    """`await opened(node)`: a WebSocket to a node, with its bounds of time."""

    async def open_one(node: SimNode) -> Socket:
        return await session.ws_connect(node.url, compress=15)

    return open_one


@asynccontextmanager
async def dense(kind: str, **positions: Any) -> AsyncIterator[SimNode]:
    """A node of a chain with many logs."""
    chain = harmony_chain(178, density=8) if kind == "harmony" else ethereum_chain(178, density=8)
    async with SimNode(chain, knobs=knobs(**positions)) as node:
        yield node


async def heard(socket: Socket) -> Any:
    """The next message, decoded."""
    return json.loads((await socket.receive(timeout=10)).data)


async def asked(socket: Socket, method: str, *params: Any) -> Any:
    """The result of a call, or its error as (code, message), when nothing else is sent meanwhile."""
    await socket.send_str(json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": list(params)}))
    reply = await heard(socket)
    return reply["result"] if "result" in reply else (reply["error"]["code"], reply["error"]["message"])


async def pushed(socket: Socket, count: int) -> list[Any]:
    """The results of the next notifications."""
    return [(await heard(socket))["params"]["result"] for _ in range(count)]


async def test_calls_and_batches_are_answered_in_text_whatever_they_came_in(served: SimNode, opened: Open) -> None:
    socket = await opened(served)
    await socket.send_bytes(b'{"id":1.50,"method":"eth_blockNumber"}')
    first = await socket.receive()
    assert (first.type, first.data) == (aiohttp.WSMsgType.TEXT, '{"jsonrpc":"2.0","id":1.50,"result":"0xb2"}\n')
    await socket.send_str('[{"id":1,"method":"eth_chainId"},{"method":"eth_chainId"},1]')
    assert [reply["id"] for reply in await heard(socket)] == [1, None]
    await socket.send_str("[]")
    assert (await heard(socket))["error"]["message"] == "empty batch"
    assert (socket.compress, served.counts.sockets, served.counts.batches) == (0, 1, 2)


async def test_answers_overtake_one_another_where_the_knob_says_so(served: SimNode, opened: Open) -> None:
    served.knobs.overtake = True
    socket = await opened(served)
    for number in range(50):
        await socket.send_str(json.dumps({"id": number, "method": "eth_blockNumber"}))
    ids = [(await heard(socket))["id"] for _ in range(50)]
    assert sorted(ids) == list(range(50)) != ids


def test_harmony_sends_long_messages_in_fragments_and_geth_in_one_frame() -> None:
    assert framed(b"x" * 1024, harmony=True)[:2] == b"\x81\x7e"
    two = framed(b"x" * 1453, harmony=True)
    assert (two[0], two[2:4], two[1028:1032]) == (0x01, b"\x04\x00", b"\x80\x7e\x01\xad")
    one = framed(b"x" * 166302, harmony=True)
    assert (one[0], one[1], one[-2:]) == (0x01, 127, b"\x80\x00")
    assert framed(b"x" * 166302, harmony=False)[0] == 0x81
    assert framed(b"x" * 125, harmony=False)[:2] == b"\x81\x7d"


@pytest.mark.parametrize("space", ["eth", "hmy"])
async def test_a_harmony_node_pushes_its_own_header(space: str, served: SimNode, opened: Open) -> None:
    socket = await opened(served)
    token = await asked(socket, f"{space}_subscribe", "newHeads")
    served.chain.advance(2)
    first, second = await heard(socket), await heard(socket)
    assert (first["method"], first["params"]["subscription"]) == (f"{space}_subscription", token)
    header = first["params"]["result"]
    assert list(header) == [
        *("parentHash", "sha3Uncles", "nonce", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom"),
        *("difficulty", "number", "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "hash"),
        *("viewID", "epoch", "shardID"),
    ]
    block = await served.ask("eth_getBlockByNumber", "0xb3", False)
    differing = {name for name in header if header[name] != block.get(name)}
    assert differing == {"sha3Uncles", "miner", "viewID", "epoch", "shardID"}
    assert (header["viewID"], header["shardID"]) == (179, 0)
    assert second["params"]["result"]["parentHash"] == header["hash"]
    assert await asked(socket, "foo_unsubscribe", token) is True
    assert await asked(socket, f"{space}_unsubscribe", token) == (-32000, "subscription not found")
    assert (served.counts.pushed, served.sockets.open, served.sockets.subscriptions) == (2, 1, 0)


async def test_geth_pushes_24_members_and_null_for_forks_to_come(opened: Open) -> None:
    async with dense("ethereum") as node:
        socket = await opened(node)
        await asked(socket, "eth_subscribe", "newHeads")
        node.chain.advance()
        (header,) = await pushed(socket, 1)
        assert len(header) == 24
        assert header["slotNumber"] is None
        block = await node.ask("eth_getBlockByNumber", "0xb3", False)
        assert all(value == block[name] for name, value in header.items() if value is not None)


@pytest.mark.parametrize("kind", ["harmony", "ethereum"])
async def test_logs_are_pushed_one_by_one_and_equal_those_of_the_block(kind: str, opened: Open) -> None:
    async with dense(kind) as node:
        contract = "0x" + node.chain.generator.contract.hex()
        socket = await opened(node)
        await asked(socket, "eth_subscribe", "logs", {"address": contract.upper().replace("0X", "0x")})
        await asked(socket, "eth_subscribe", "logs", {"address": "0x" + "11" * 20})
        await asked(socket, "eth_subscribe", "logs", {"topics": [[], None, [], None]})
        await asked(socket, "eth_subscribe", "logs", {"fromBlock": "0x1", "toBlock": "0x2"})
        node.chain.advance(3)
        method = "hmy_getLogs" if kind == "harmony" else "eth_getLogs"
        expected = await node.ask(method, {"fromBlock": "0xb3", "toBlock": "0xb5"})
        assert len({log["blockNumber"] for log in expected}) == 2
        assert await pushed(socket, len(expected)) == expected
        by_hash = [await node.ask(method, {"blockHash": log["blockHash"]}) for log in (expected[0], expected[-1])]
        assert [log for logs in by_hash for log in logs] == expected


async def test_the_proposer_gives_false_hashes_in_pushed_and_in_asked_logs(opened: Open) -> None:
    async with dense("harmony", false_hashes=True) as node:
        socket = await opened(node)
        await asked(socket, "eth_subscribe", "logs", {})
        node.chain.advance(2)
        expected = await node.ask("hmy_getLogs", {"fromBlock": "0xb3", "toBlock": "0xb4"})
        assert await pushed(socket, len(expected)) == expected
        assert len({log["blockHash"] for log in expected}) == len({log["transactionHash"] for log in expected})
        real = (await node.ask("eth_getBlockByNumber", "0xb3", False))["hash"]
        assert real not in {log["blockHash"] for log in expected}


async def test_geth_tells_the_new_head_alone_and_takes_back_the_old_logs_first(opened: Open) -> None:
    async with dense("ethereum") as node:
        node.chain.advance()
        span = {"fromBlock": "0xb2", "toBlock": "0xb3"}
        old = await node.ask("eth_getLogs", span)
        socket = await opened(node)
        await asked(socket, "eth_subscribe", "newHeads")
        await asked(socket, "eth_subscribe", "logs", {})
        node.chain.reorg(2)
        new = await node.ask("eth_getLogs", span)
        head, *logs = await pushed(socket, 1 + len(old) + len(new))
        assert (head["number"], len(old) > 2) == ("0xb3", True)
        assert logs == [{**log, "removed": True} for log in old] + new
        assert {log["blockHash"] for log in old} & {log["blockHash"] for log in new} == set()


async def test_a_node_that_falls_back_says_nothing_and_repeats_nothing(served: SimNode, opened: Open) -> None:
    socket = await opened(served)
    await asked(socket, "eth_subscribe", "newHeads")
    served.knobs.lag = 3
    await asked(socket, "eth_blockNumber")
    served.knobs.lag = 0
    served.knobs.stall = True
    served.chain.advance()
    await asked(socket, "eth_blockNumber")
    served.knobs.stall = False
    (header,) = await pushed(socket, 1)
    assert header["number"] == "0xb3"


async def test_blocks_come_by_the_clock_as_late_as_the_node_and_its_pushes_are(opened: Open) -> None:
    clock = ManualClock()
    chain = SimChain(ChainSpec(genesis=0.0), heads=ByClock(genesis=0.0, block_time=2.0, seconds=clock.now))
    async with SimNode(chain, clock=clock, knobs=knobs(skew=0.5, push_delay="250ms")) as node:
        socket = await opened(node)
        await asked(socket, "eth_subscribe", "newHeads")
        await waiting(clock, 1)
        clock.advance(2.4)  # the clock began at 1000 s, where the node's newest block is 499
        await asked(socket, "eth_blockNumber")
        await waiting(clock, 2)
        clock.advance(0.4)
        await waiting(clock, 2)
        clock.advance(1.9)
        assert [int(header["number"], 16) for header in await pushed(socket, 2)] == [500, 501]


async def waiting(clock: ManualClock, timers: int) -> None:
    """Return once so many timers are set; a failure when that takes 10 s."""
    async with asyncio.timeout(10):
        while clock.waiting < timers:
            await asyncio.sleep(0)


async def test_pending_transactions_are_told_once_by_the_nodes_own_hash(served: SimNode, opened: Open) -> None:
    socket = await opened(served)
    await asked(socket, "eth_subscribe", "newPendingTransactions")
    sent = await served.ask("eth_sendRawTransaction", signed(1_666_700_000))
    (told,) = await pushed(socket, 1)
    assert told == (await served.ask("hmyv2_pendingTransactions"))[0]["hash"] != sent
    served.chain.advance()
    again = await served.ask("eth_sendRawTransaction", signed(1_666_700_000, nonce=1))
    (told,) = await pushed(socket, 1)
    assert (await served.ask("hmyv2_getTransactionByHash", told))["ethHash"] == again


async def test_geth_tells_pending_transactions_by_hash_or_whole_once_gossip_brought_them(opened: Open) -> None:
    clock, chain = ManualClock(), ethereum_chain(178)
    async with SimNode(chain, name="far", clock=clock, knobs=knobs(gossip=2)) as far:
        socket = await opened(far)
        await asked(socket, "eth_subscribe", "newPendingTransactions")
        await asked(socket, "eth_subscribe", "newPendingTransactions", True)
        sent = await SimNode(chain, name="near").ask("eth_sendRawTransaction", signed(1337))
        await waiting(clock, 1)
        assert await asked(socket, "eth_blockNumber") == "0xb2"
        clock.advance(2.0)
        name, whole = await pushed(socket, 2)
        assert (name, whole["hash"], whole["blockHash"], whole["nonce"]) == (sent, sent, None, "0x0")


async def test_an_unparsable_message_ends_the_connection_and_its_subscriptions(opened: Open) -> None:
    for kind, code in (("harmony", 1006), ("ethereum", 1000)):
        async with dense(kind) as node:
            for sent, words in (("hello", "invalid character 'h' looking for beginning of value"), ("", ""), ("{", "")):
                socket = await opened(node)
                await asked(socket, "eth_subscribe", "newHeads")
                await socket.send_str(sent)
                if words:
                    assert (await heard(socket))["error"] == {"code": -32700, "message": words}
                ended = await socket.receive(timeout=10)
                assert ended.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
                assert (socket.close_code, node.sockets.subscriptions) == (code, 0)


@pytest.mark.parametrize("sent", ["null", "[null]"])
async def test_a_null_kills_a_harmony_node_with_all_connections_and_no_other(sent: str, opened: Open) -> None:
    async with dense("harmony") as node:
        first, second = await opened(node), await opened(node)
        await first.send_str(sent)
        for socket in (first, second):
            assert (await socket.receive(timeout=10)).type != aiohttp.WSMsgType.TEXT
    async with dense("ethereum") as node:
        socket = await opened(node)
        await socket.send_str(sent)
        reply = await heard(socket)
        assert (reply[0] if sent[0] == "[" else reply)["error"]["code"] == -32600
        assert await asked(socket, "eth_blockNumber") == "0xb2"


async def test_a_message_over_the_bound_is_refused(served: SimNode, opened: Open) -> None:
    socket = await opened(served)
    with suppress(ConnectionError):  # the node does not read it to its end
        await socket.send_str(" " * (5 << 20) + "{}")
    assert (await socket.receive(timeout=10)).type != aiohttp.WSMsgType.TEXT
    assert not served.counts.calls


async def test_an_upgrade_gets_what_a_node_without_websockets_answers(
    served: SimNode, session: aiohttp.ClientSession
) -> None:
    for state, status in (("off", 200), ("refused", 403)):
        served.knobs.turn({"websocket": state})
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(served.url)
        assert caught.value.status == status
    assert served.counts.view()["refused"] == 2
    async with dense("ethereum") as node:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(node.url + "/ws")
        assert caught.value.status == 404


@pytest.mark.parametrize(
    ("faults", "numbers"),
    [
        ({"duplicate": 1.0}, [179, 179, 180, 180]),
        ({"disorder": 1.0}, [180, 179, 182, 181]),
    ],
)
async def test_notifications_meet_faults(
    faults: dict[str, float], numbers: list[int], served: SimNode, opened: Open
) -> None:
    served.knobs.turn({"push_faults": faults})
    socket = await opened(served)
    await asked(socket, "eth_subscribe", "newHeads")
    served.chain.advance(4)
    assert [int(header["number"], 16) for header in await pushed(socket, 4)] == numbers


async def test_a_silent_node_and_a_lost_notification_leave_the_socket_open(served: SimNode, opened: Open) -> None:
    socket = await opened(served)
    await asked(socket, "eth_subscribe", "newHeads")
    served.knobs.silent = True
    served.chain.advance()
    assert await asked(socket, "eth_blockNumber") == "0xb3"
    served.knobs.turn({"silent": False, "push_faults": {"drop": 1.0}})
    served.chain.advance()
    await served.counts.until(lambda counts: counts.faults["drop"] == 1)
    served.knobs.push_faults = {}
    served.chain.advance()
    assert [header["number"] for header in await pushed(socket, 1)] == ["0xb5"]


async def test_a_subscribe_may_go_unanswered_and_a_connection_be_cut(served: SimNode, opened: Open) -> None:
    socket = await opened(served)
    served.knobs.mute_subscribe = True
    await socket.send_str('{"id":1,"method":"eth_subscribe","params":["newHeads"]}')
    assert await asked(socket, "eth_blockNumber") == "0xb2"
    served.knobs.turn({"push_faults": {"cut": 1.0}})
    served.chain.advance()
    assert (await socket.receive(timeout=10)).type == aiohttp.WSMsgType.CLOSED
    assert (socket.close_code, served.counts.faults["cut"]) == (1006, 1)


async def test_a_node_that_is_stopped_or_killed_ends_its_websockets(opened: Open) -> None:
    for kind, way, code in (("harmony", "stop", 1006), ("ethereum", "stop", 1000), ("ethereum", "kill", 1006)):
        async with dense(kind) as node:
            socket = await opened(node)
            await asked(socket, "eth_subscribe", "newHeads")
            ending = asyncio.ensure_future(getattr(node, way)())
            await socket.receive(timeout=10)
            await ending
            assert (socket.close_code, node.sockets.open) == (code, 0)


async def test_pending_transactions_of_another_process_of_the_chain_are_told_too(opened: Open, tmp_path: Path) -> None:
    clock, spec = ManualClock(), ChainSpec(genesis=0.0)
    heads = ByClock(genesis=0.0, block_time=2.0, seconds=clock.now)
    chains = [SimChain(spec, heads=heads, shared=SharedSends(spec, tmp_path)) for _ in range(2)]
    async with SimNode(chains[0], clock=clock) as node:
        socket = await opened(node)
        await asked(socket, "eth_subscribe", "newPendingTransactions")
        await waiting(clock, 1)
        await SimNode(chains[1], clock=clock).ask("eth_sendRawTransaction", signed())
        clock.advance(0.1)
        assert await pushed(socket, 1) == [(await node.ask("hmyv2_pendingTransactions"))[0]["hash"]]
    for chain in chains:
        chain.close()
