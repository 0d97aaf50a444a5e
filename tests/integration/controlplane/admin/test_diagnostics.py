"""The admin side's explain, over a worker here and over workers in processes of their own."""

from __future__ import annotations

import pytest

from rpcaccel.controlplane.admin.diagnostics import asked, explain
from rpcaccel.controlplane.workers.link import Link, LocalLink
from rpcaccel.controlplane.workers.operations import OperationRefused
from rpcaccel.controlplane.workers.process_link import ProcessLink
from rpcaccel.controlplane.workers.sockets import bind
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.described_answers import sent
from tests.support.proxy import settings_for

CALL = b'{"jsonrpc":"2.0","id":1,"method":"hmyv2_getBlockByNumber","params":[7,{}]}'


@pytest.mark.parametrize("kinds", [[LocalLink], [ProcessLink, ProcessLink]])
async def test_every_worker_is_asked_and_one_plan_is_shown(kinds: list[type[LocalLink | ProcessLink]]) -> None:
    async with harmony_nodes(1) as nodes:
        links: list[Link] = [
            kind(f"w{number}", bind("127.0.0.1:0", "listen"), lambda _hint: None)
            for number, kind in enumerate(kinds, 1)
        ]
        for link in links:
            await link.start(settings_for(nodes), 1)
        try:
            found = sent(await explain(b'{"call": %b, "network": "harmony-s0"}' % CALL, links))
            assert found["workers"] == [f"w{number}" for number in range(1, len(kinds) + 1)]
            assert (found["method"], found["network"]) == ("hmyv2_getBlockByNumber", "harmony-s0")
            assert (sent(await explain(CALL, links)))["asked"] == "[7,{}]"
            with pytest.raises(OperationRefused, match="no network is called 'nowhere'"):
                await explain(b'{"call": %b, "network": "nowhere"}' % CALL, links)
        finally:
            for link in links:
                await link.drain(1.0)
        if isinstance(links[0], ProcessLink):
            assert await links[0].explain("", "m", b"[]") is None


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "not-json"),
        (b"[1]", 400, "not-json"),
        (b'{"call": {}, "other": 1}', 400, "not-json"),
        (b'{"call": [{"method": "m"}]}', 400, "not-a-call"),
        (b'{"call": {"id": 1}}', 400, "not-a-call"),
        (b'{"method": "m"}', 404, "not-found"),
    ],
)
async def test_a_question_that_cannot_be_answered_says_why(body: bytes, status: int, code: str) -> None:
    with pytest.raises(OperationRefused) as refused:
        await explain(body, [])
    assert (refused.value.status, refused.value.code) == (status, code)


def test_a_call_alone_is_a_question_for_the_main_network() -> None:
    assert asked(CALL).network == ""
    assert bytes(asked(CALL).call) == CALL
