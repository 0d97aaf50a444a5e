"""First steps on the page of a proxy that was started without nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Page, Route, expect

from rpcaccel.config.load import load
from rpcaccel.config.secrets import hash_password
from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_nodes
from tests.e2e.page.conftest import Start
from tests.e2e.page.tuning import PASSWORD, log_in
from tests.support.browser import Visitor
from tests.support.fixtures import shared
from tests.support.running import LOCAL, Running, found, until
from tests.support.sample_control import SampleControl, sample_settings
from tests.support.sample_view import SampleView
from tests.support.services import Program

DOWN = "http://127.0.0.1:1"


def without_nodes(**more: object) -> SampleControl:
    return SampleControl(sample_settings(**more).model_copy(update={"networks": {}}))


async def tried(page: Page, *nodes: str) -> None:
    """Name the nodes and press Try."""
    await page.get_by_label("Nodes, one a line").fill("\n".join(nodes))
    await page.get_by_role("button", name="Try", exact=True).click()
    await expect(page.locator(".found")).to_be_visible()


@shared
async def admin(start: Start) -> Admin:
    view = SampleView()
    view.networks = []
    return await start(view, without_nodes())


@pytest.mark.smoke
async def test_nodes_are_tried_served_and_kept_in_a_file_over_the_real_program(
    visitor: Visitor, new_program: Callable[..., Program], http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async with harmony_nodes(2) as (a, b):
        proxy = await found(new_program("serve", *LOCAL), http)
        refused = await proxy.call("hmyv2_blockNumber")
        assert (refused.status, "there are no nodes yet" in refused.error["message"]) == (503, True)

        page = await visitor.open(proxy.admin.removeprefix("http://"), "nodes")  # which has nothing to show
        await tried(page, f"{a.url}/s3cret,id=own", b.url, f"{DOWN},id=down")
        await expect(page.locator("form .said")).to_contain_text("2 of 3 nodes are right")
        rows = page.locator(".found tbody tr")
        await expect(rows.nth(0)).to_contain_text("harmony-s0")
        await expect(rows.nth(2)).to_contain_text("no connection to")
        for row, checked in enumerate((True, True, False)):
            await expect(rows.nth(row).get_by_role("checkbox")).to_be_checked(checked=checked)

        await page.get_by_label("Weight of node own").fill("0")
        await rows.nth(1).get_by_role("checkbox").uncheck()
        await page.get_by_role("button", name="Serve", exact=True).click()
        visitor.expected = ["422"]
        await expect(page.locator("form .said")).to_contain_text("a node with a weight above 0")
        await page.get_by_label("Weight of node own").fill("3")
        async with page.expect_download() as download:
            await page.get_by_role("button", name="Download rpcaccel.toml").click()
        await (await download.value).save_as(tmp_path / "rpcaccel.toml")
        (node,) = load(tmp_path / "rpcaccel.toml", environ={}).networks["harmony-s0"].nodes
        assert (node.id, node.url.reveal(), node.weight) == ("own", f"{a.url}/s3cret", 3)

        await page.get_by_role("button", name="Serve", exact=True).click()
        await expect(page.locator("main")).to_contain_text("harmony-s0 is served now.")
        await expect(page.locator("main")).to_contain_text("rpcaccel serve --config rpcaccel.toml")
        await proxy.ready()
        assert (await proxy.call("hmyv2_blockNumber")).result == a.head

        await page.get_by_role("button", name="Undo", exact=True).click()
        await expect(page.get_by_label("Nodes, one a line")).to_have_value(
            f"{a.url}/s3cret,id=own\n{b.url}\n{DOWN},id=down"
        )
        await until("no nodes again", lambda: unserved(proxy))


async def unserved(proxy: Running) -> bool:
    return (await proxy.call("hmyv2_blockNumber")).status == 503


async def test_where_no_node_says_what_it_is_nothing_can_be_served_and_a_bad_text_is_told_by_its_place(
    visitor: Visitor, admin: Admin
) -> None:
    page = await visitor.open(admin.address)
    await tried(page, f"{DOWN}/down")
    await expect(page.locator("form .said")).to_contain_text("0 of 1 node is right. None says what it")
    await expect(page.locator(".found td").nth(3)).to_have_text("–")  # its network would be a guess
    await page.get_by_role("checkbox").check()
    await expect(page.get_by_role("button", name="Serve", exact=True)).to_be_disabled()
    await expect(page.get_by_role("button", name="Download rpcaccel.toml")).to_be_disabled()
    await page.get_by_label("or public endpoints").select_option("harmony")
    await expect(page.get_by_label("Nodes, one a line")).to_have_value("harmony")
    await expect(page.locator(".found")).to_have_count(0)  # it was about other nodes


async def test_who_may_only_look_is_asked_for_no_nodes(visitor: Visitor, start: Start) -> None:
    account = {"password": hash_password(PASSWORD, log_n=4).reveal(), "role": "read"}
    control, view = without_nodes(admin={"accounts": {"guest": account}}), SampleView()
    view.networks = []
    admin = await start(view, control, settings=lambda: control.ledger.settings.admin)
    page = await visitor.open(admin.address)
    await log_in(page, "guest")
    await expect(page.locator("main")).to_contain_text("You may look, not change: your role is “read”.")
    await expect(page.get_by_role("textbox")).to_have_count(0)


async def test_who_logs_in_after_somebody_else_has_none_of_their_keys(visitor: Visitor, start: Start) -> None:
    accounts = {
        name: {"password": hash_password(PASSWORD, log_n=4).reveal(), "role": role}
        for name, role in (("guest", "read"), ("ops", "admin"))
    }
    control, view = without_nodes(admin={"accounts": accounts}), SampleView()
    view.networks = []
    admin = await start(view, control, settings=lambda: control.ledger.settings.admin)
    page = await visitor.open(admin.address, "start")
    await log_in(page, "ops")
    await tried(page, f"{DOWN}/s3cret")
    await page.get_by_role("button", name="Log out").click()
    await log_in(page, "ops")
    await expect(page.get_by_label("Nodes, one a line")).to_have_value("")


async def test_what_an_attempt_that_failed_has_left_is_not_served_by_the_next(
    visitor: Visitor, new_program: Callable[..., Program], http: aiohttp.ClientSession
) -> None:
    proxy = await found(new_program("serve", *LOCAL), http)
    page = await visitor.open(proxy.admin.removeprefix("http://"))
    sent: list[Any] = []

    async def lose(route: Route) -> None:
        if route.request.method != "PATCH" or "dry_run" in route.request.url:
            await route.continue_()
            return
        sent.append(route.request.post_data_json)
        await route.abort()

    await page.route("**/api/v1/settings*", lose)
    visitor.expected = ["ERR_FAILED", "ERR_CONNECTION_REFUSED"]
    async with harmony_nodes(1) as (a,), ethereum_nodes(1) as (b,):
        await tried(page, a.url, b.url)
        await page.get_by_role("button", name="Serve", exact=True).click()
        await expect(page.locator("body")).to_contain_text("The server did not answer")
        await page.locator(".found tbody tr").nth(1).get_by_role("checkbox").uncheck()
        await page.get_by_role("button", name="Serve", exact=True).click()
        await until("sent twice", lambda: resolved(len(sent) == 2))
    assert [sorted(one["networks"]) for one in sent] == [["ethereum", "harmony-s0"], ["harmony-s0"]]


async def resolved(value: bool) -> bool:
    return value
