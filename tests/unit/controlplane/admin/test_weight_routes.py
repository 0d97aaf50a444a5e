"""The report and the suggested weights over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from rpcaccel.controlplane.admin.admin_routes import ROUTES, describe
from rpcaccel.core.agreement.cases import Case, CaseAnswer
from tests.support.described_answers import problems
from tests.support.running_admin import FROM_PAGE, running_admin
from tests.support.sample_control import SampleControl
from tests.support.sample_view import NETWORK, SampleView

WEIGHTS = f"/api/v1/networks/{NETWORK}/weights"
REPORT = "/api/v1/nodes/report"
HEADERS = {**FROM_PAGE, "If-Match": "*"}
LOAD = 20.0
"""Of the sample view: enough calls in five seconds that weights are suggested."""


@pytest.fixture
def control() -> SampleControl:
    return SampleControl()


@pytest.fixture
def view() -> SampleView:
    return SampleView()


@pytest.fixture
async def client(control: SampleControl, view: SampleView) -> AsyncIterator[aiohttp.ClientSession]:
    async with running_admin(control, view, headers=HEADERS, interval=3600) as (admin, session):
        for _ in range(5):
            view.advance(1.0, load=LOAD)
            admin.sample()
        yield session


async def answer(client: aiohttp.ClientSession, method: str, path: str, body: Any = None, **more: Any) -> Any:
    async with client.request(method, path, json=body, **more) as reply:
        return reply.status, await reply.json(content_type=None)


async def suggested(client: aiohttp.ClientSession) -> dict[str, int]:
    _, told = await answer(client, "GET", REPORT)
    return {one["id"]: one["suggested_weight"]["value"] for one in told["nodes"] if one["suggested_weight"]}


@pytest.mark.parametrize("over", ["", "?over=hour", "?over=day"])
async def test_a_report_is_answered_as_it_is_described(
    client: aiohttp.ClientSession, control: SampleControl, over: str
) -> None:
    answers = tuple(CaseAnswer(node=name, head=head, text="1", size=1) for name, head in (("a", 9), ("b", None)))
    control.cases.append(
        Case(network=NETWORK, method="m", params="[]", at=1.0, difference="d", answers=answers, minority=("b",))
    )
    status, told = await answer(client, "GET", REPORT + over)
    assert status == 200
    assert problems(describe(ROUTES, lambda _: None), "GET", REPORT, told) == []
    assert [node["id"] for node in told["nodes"]] == ["a", "b", "c"]
    assert [answer["head"] for answer in told["cases"][0]["answers"]] == [9, None]
    assert told["over"] == (over.partition("=")[2] or "hour")


async def test_another_range_is_refused_with_what_was_expected(client: aiohttp.ClientSession) -> None:
    status, told = await answer(client, "GET", f"{REPORT}?over=week")
    assert (status, told["detail"]) == (422, "over: found 'week', expected hour or day")


async def test_suggested_weights_are_applied_as_one_change_and_undone_with_one(
    client: aiohttp.ClientSession, control: SampleControl
) -> None:
    wanted = await suggested(client)
    assert wanted.keys() == {"a", "b"}  # c is alone in its tier
    status, told = await answer(client, "POST", WEIGHTS)
    assert (status, told["revision"], told["change"]["by"]) == (200, 2, "local")
    assert told["change"]["why"].startswith("suggested by the last hour: the mean would have been ")
    nodes = {node.id: node.weight for node in control.ledger.settings.networks[NETWORK].nodes}
    assert {id: nodes[id] for id in wanted} == wanted
    status, told = await answer(client, "POST", "/api/v1/settings/undo")
    assert (status, told["revision"]) == (200, 3)
    assert [node.weight for node in control.ledger.settings.networks[NETWORK].nodes] == [5, 1, 1]


async def test_what_was_shown_is_what_is_applied(client: aiohttp.ClientSession, control: SampleControl) -> None:
    status, told = await answer(client, "POST", WEIGHTS, {"weights": {"a": 7, "b": 2}})
    assert (status, told["change"]["why"]) == (200, "by hand, in place of the weights that the last hour suggests")
    assert [node.weight for node in control.ledger.settings.networks[NETWORK].nodes] == [7, 2, 1]


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "detail"),
    [
        (WEIGHTS, {"weights": {"d": 7}}, {}, 422, "weights: no weight is suggested for 'd'"),
        (WEIGHTS, {"weights": {"a": 0}}, {}, 400, None),
        (WEIGHTS, {"weight": {}}, {}, 400, None),
        (WEIGHTS, None, {"If-Match": '"9"'}, 412, None),
        ("/api/v1/networks/nowhere/weights", None, {}, 404, "no network is called 'nowhere'"),
    ],
)
async def test_what_cannot_be_applied_is_refused(
    client: aiohttp.ClientSession, control: SampleControl, path: str, body: Any, headers: Any, status: int, detail: Any
) -> None:
    found, told = await answer(client, "POST", path, body, headers=headers)
    assert found == status, told
    assert detail is None or told["detail"] == detail
    assert control.ledger.revision == 1


async def test_nothing_is_applied_where_nothing_is_suggested(control: SampleControl) -> None:
    async with running_admin(control, headers=HEADERS) as (_, client):
        status, told = await answer(client, "POST", WEIGHTS)
    assert status == 409
    assert told["detail"].startswith(f"no weights are suggested for {NETWORK}: too early to compare: ")
