"""Who may look and who may change: a page from elsewhere may not, nor may a reader, nor who logged out."""

import asyncio
import re
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from playwright.async_api import Page, Route, expect

from rpcaccel.config.secrets import hash_password
from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.settings.ledger import Author
from tests.e2e.page.conftest import Start
from tests.e2e.page.tuning import PASSWORD, log_in, opened, reader, weight
from tests.support.browser import VIEWS, Visitor
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl, sample_settings
from tests.support.sample_view import NETWORK, SampleView

FOREIGN = """async ([admin, kind]) => {
    const purge = `http://${admin}/api/v1/purge`;
    if (kind === "form") {
        const form = document.createElement("form");
        Object.assign(form, { method: "POST", action: purge, enctype: "text/plain", target: "inside" });
        form.append(Object.assign(document.createElement("input"), { name: '{"all": true, "x', value: '": 1}' }));
        const frame = Object.assign(document.createElement("iframe"), { name: "inside" });
        document.body.append(frame, form);
        form.submit();
        return;
    }
    const proof = { "content-type": "application/json", "x-rpcaccel-request": "page" };
    const scripted = kind === "scripted";
    return fetch(purge, {
        method: "POST", credentials: "include", body: '{"all": true}',
        mode: scripted ? "cors" : "no-cors", headers: scripted ? proof : { "content-type": "text/plain" },
    }).then(() => {}, () => {});
}"""
"""What a page elsewhere can send: a form, a request that needs no leave, and one with our header."""


@pytest.fixture
def control() -> SampleControl:
    account = {"password": hash_password(PASSWORD, log_n=4).reveal(), "role": "admin"}
    return SampleControl(sample_settings(admin={"accounts": {"ops": account}}))


@shared
async def admin(start: Start, view: SampleView, control: SampleControl) -> Admin:
    accounts = {"settings": lambda: control.ledger.settings.admin}
    return await start(view, control, interval=0.2, clock=time.monotonic, **accounts)


@shared
async def foreign() -> AsyncIterator[str]:
    """A web page of somebody else, on this machine too, so that even SameSite lets the cookie travel."""

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>elsewhere</title><body>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield "{}:{}".format(*runner.addresses[0][:2])
    await runner.cleanup()


@shared
async def page(visitor: Visitor, admin: Admin) -> Page:
    """Logged in as one who may change everything."""
    visitor.expected = ["401"]
    page = await visitor.open(admin.address, "nodes")
    await log_in(page, "ops")
    await expect(page.get_by_label("Weight of node a, as a number")).to_have_value("5")
    return page


def reweighted(weight: int) -> dict[str, object]:
    return {"networks": {NETWORK: {"nodes": {"a": {"weight": weight}}}}}


async def test_a_page_from_elsewhere_cannot_change_anything_for_who_is_logged_in(
    page: Page, visitor: Visitor, admin: Admin, foreign: str, control: SampleControl
) -> None:
    visitor.expected += ["CORS", "ERR_FAILED", "40[0-9]", "ERR_BLOCKED", "frame"]
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(f"http://{foreign}/")
    for kind in ("simple", "scripted", "form"):
        asked.clear()
        if kind == "form":
            async with page.expect_response("**/api/v1/purge"):
                await page.evaluate(FOREIGN, [admin.address, kind])
        else:
            await page.evaluate(FOREIGN, [admin.address, kind])
        assert f"http://{admin.address}/api/v1/purge" in asked, kind
        assert control.purges == [], kind
    await page.goto(f"http://{admin.address}/#/nodes")
    await expect(page.get_by_label("Weight of node a, as a number")).to_have_value("5")  # still logged in


@pytest.mark.smoke
async def test_a_page_that_slept_shows_what_was_changed_meanwhile(
    page: Page, visitor: Visitor, control: SampleControl
) -> None:
    visitor.expected += ["ERR_NETWORK_IO_SUSPENDED"]
    session = await page.context.new_cdp_session(page)
    await session.send("Page.setWebLifecycleState", {"state": "frozen"})
    await control.ledger.change(reweighted(9), Author("ops", "api"))
    await session.send("Page.setWebLifecycleState", {"state": "active"})
    await expect(page.get_by_label("Weight of node a, as a number")).to_have_value("9")
    await expect(page.locator("#revision")).to_contain_text("revision 2")
    await expect(page.locator("#lost")).to_be_hidden()


async def test_without_a_stream_the_page_asks_by_itself_and_a_late_answer_leaves_what_is_typed_into_the_form(
    page: Page, visitor: Visitor, control: SampleControl
) -> None:
    """What was asked before logging out is refused after it; the form is there by then, and half filled."""
    visitor.expected += ["ERR_FAILED"]
    asked, logged_out = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        asked.set()
        await logged_out.wait()
        await route.fulfill(status=401, content_type="application/problem+json", body="{}")

    await page.route("**/api/v1/events", lambda route: route.abort())
    await page.reload()
    await expect(page.get_by_label("Weight of node a, as a number")).to_have_value("5")
    await control.ledger.change(reweighted(9), Author("ops", "api"))
    await expect(page.get_by_label("Weight of node a, as a number")).to_have_value("9")

    await page.route("**/api/v1/overview", hold)
    await asked.wait()
    await page.get_by_role("button", name="Log out ops").click()
    await page.get_by_label("User").fill("op")
    async with page.expect_response("**/api/v1/session"):  # the page asks again who is looking
        logged_out.set()
    await page.get_by_label("User").press_sequentially("s")
    await expect(page.get_by_label("User")).to_have_value("ops")


async def test_who_logs_out_leaves_nothing_to_see_or_to_apply_and_who_cannot_be_tried_is_told_when_to_try_again(
    page: Page, visitor: Visitor
) -> None:
    visitor.expected += ["429"]
    await page.get_by_label("Weight of node a, as a number").fill("9")
    await expect(page.locator(".bar")).to_be_visible()
    await page.get_by_role("button", name="Log out ops").click()
    await expect(page.get_by_label("Password")).to_be_visible()
    await expect(page.locator(".bar")).to_be_hidden()
    for shown in ("#networks", "#revision"):
        await expect(page.locator(shown)).to_have_text("")
    await expect(page.locator("#live")).to_be_hidden()
    busy = {"status": 429, "headers": {"Retry-After": "26", "Content-Type": "application/problem+json"}, "body": "{}"}

    async def refuse(route: Route) -> None:
        if route.request.method == "POST":  # the page may still be asking who is logged in, at the same address
            await route.fulfill(**busy)
        else:
            await route.continue_()

    await page.route("**/api/v1/session", refuse)
    await log_in(page, "ops")
    await expect(page.get_by_role("alert").filter(has_text="Try again in 26 s")).to_be_visible()
    await page.unroute("**/api/v1/session")
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_label("Weight of node a, as a number")).to_have_value("5")
    await expect(page.locator("#networks")).to_contain_text("nodes")
    await expect(page.locator("#live")).to_contain_text("Live")


CHANGING = re.compile("Purge|Run it|Probe now|Examine|Use these weights|Undo|Add|Make a key|Another key|Remove|Apply")
"""What the buttons say that change something."""
PRESS_ALL = """[...document.querySelectorAll("main button")].forEach((one) => one.checkVisibility() && one.click())"""


async def turn_to(page: Page, view: str) -> None:
    """Open a view."""
    await page.evaluate(f"location.hash = '#/{view}'")
    await expect(page.locator("main h1")).to_have_text(view.capitalize())


@pytest.mark.smoke
async def test_no_view_has_a_control_that_would_be_refused_and_what_a_reader_presses_is_refused_nowhere(
    visitor: Visitor, start: Start
) -> None:
    refused: list[str] = []
    page = await reader(start, visitor, "nodes")
    await log_in(page, "guest")
    await expect(page.locator("main")).to_contain_text("You may look, not change")
    page.on("response", lambda reply: refused.append(reply.url) if reply.status in (401, 403) else None)
    for view in VIEWS:
        await turn_to(page, view)
        if await page.locator("tr.row .open").count():
            await page.locator("tr.row .open").first.click()
        if view == "nodes":
            await expect(page.locator(".suggestion")).to_contain_text("By the last hour")
        await expect(page.get_by_role("button", name=CHANGING)).to_have_count(0)
        await expect(page.locator("main :is(select, input, textarea):disabled")).to_have_count(0)
    for view in VIEWS:
        await turn_to(page, view)
        if view != "explain":  # there is no proxy here that could explain
            await page.evaluate(PRESS_ALL)
    assert refused == []


async def test_a_reader_logs_in_reads_nodes_rules_and_settings_and_logs_out(visitor: Visitor, start: Start) -> None:
    visitor.expected = ["401"]  # of a wrong password
    page = await reader(start, visitor, "nodes")
    await log_in(page, "guest", "wrong")
    await expect(page.get_by_role("alert")).to_contain_text("wrong")
    await log_in(page, "guest")
    await expect(page.locator("main")).to_contain_text("You may look, not change")
    await expect(page.locator("tr.group")).to_contain_text("balancer: smooth weighted")
    await expect(page.locator(".tune b").first).to_have_text("5")
    await expect(weight(page, "a")).to_have_count(0)
    detail = await opened(page, "a")
    await expect(detail.locator(".setting", has_text="Time limit of an attempt")).to_contain_text("10 s")
    await expect(detail.locator(".setting input")).to_have_count(0)

    await turn_to(page, "methods")
    await page.get_by_role("button", name="hmyv2_call", exact=True).click()
    await expect(page.locator("tr.detail:visible")).to_contain_text("Answers are kept as the chain's rule says.")

    await turn_to(page, "settings")
    await expect(page.locator(".setting", has_text="Memory for answers")).to_contain_text("256 MB")
    assert await page.locator(".setting input, .setting select, .setting-value button:visible").count() == 0
    await expect(page.locator(".group", has_text="Nobody is told")).to_be_visible()

    await turn_to(page, "overview")
    await page.get_by_role("button", name="Log out guest").click()
    await expect(page.get_by_role("button", name="Log in")).to_be_visible()
