"""The page over the real program and simulated nodes: what is tuned there is what the nodes feel."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Browser, expect

from rpcaccel.simnode.server.sim_server import SimNode
from tests.e2e.page.tuning import act, apply
from tests.support.browser import VIEWS, Visitor, visiting
from tests.support.fixtures import shared
from tests.support.fleet import Fleet
from tests.support.running import Running, found, until
from tests.support.services import Program

METHODS = ["hmyv2_getNodeMetadata", "hmyv2_blockNumber", "hmyv2_gasPrice", "net_peerCount"]
BALANCE = "hmyv2_getBalanceByBlockNumber"


@asynccontextmanager
async def traffic(proxy: Running) -> AsyncIterator[None]:
    """Calls that any of the nodes must answer, without pause: each asks for an address of its own."""
    stop, addresses = asyncio.Event(), count(1)

    async def client() -> None:
        while not stop.is_set():
            await proxy.call(BALANCE, f"0x{next(addresses):040x}", 5)
            await asyncio.sleep(0.01)  # a steady pace: the page and the program need the processor as well

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(client())
        try:
            yield
        finally:
            stop.set()


@pytest.fixture
def nodes(fleet: Fleet) -> Sequence[SimNode]:
    return fleet.nodes


@pytest.fixture
def proxy(fleet: Fleet) -> Running:
    return fleet.proxy


@shared
async def visitor(browser: Browser, proxy: Running) -> AsyncIterator[Visitor]:  # noqa: ARG001 -- closed before it
    async with visiting(browser) as visitor:
        yield visitor


def address(proxy: Running) -> str:
    return proxy.admin.removeprefix("http://")


async def share(proxy: Running, node: str) -> float:
    return float((await proxy.nodes())[node]["share_got"] or 0.0)


@pytest.mark.smoke
async def test_every_view_opens_over_the_real_program_and_a_row_tells_why_its_method_misses(
    visitor: Visitor, proxy: Running
) -> None:
    for method in METHODS:
        await proxy.call(method)
    page = await visitor.open(address(proxy))
    for view in VIEWS:
        await page.evaluate(f"location.hash = '#/{view}'")
        await expect(page.locator("main h1").first).to_be_visible()
    await expect(page.locator("#networks")).to_contain_text("harmony-s0")
    await page.evaluate("location.hash = '#/methods'")
    await page.get_by_role("button", name="hmyv2_getNodeMetadata", exact=True).click()
    await expect(page.locator("tr.detail:visible")).to_contain_text("its answer differs by node")


async def test_moving_a_weight_moves_traffic_undo_brings_it_back_drain_empties_a_node_and_a_probe_tells_its_head(
    visitor: Visitor, proxy: Running, nodes: Sequence[SimNode]
) -> None:
    name, drained = nodes[0].name, nodes[1].name
    page = await visitor.open(address(proxy), "nodes")
    async with traffic(proxy):
        await page.get_by_label(f"Weight of node {name}, as a number").fill("8")
        await expect(page.locator(".tune").first).to_contain_text("8 of 10")
        await apply(page)
        await until("eight tenths of the traffic", lambda: above(proxy, name, 0.7))
        await page.get_by_role("button", name="Undo", exact=True).click()
        await until("a third of the traffic", lambda: below(proxy, name, 0.4))

        await until("some traffic", lambda: above(proxy, drained, 0.1))
        await act(page, drained, "Drain")
        await apply(page)
        row = page.locator("tr.row").nth(1)
        await expect(row).to_contain_text("drained")
        await expect(row).to_contain_text("0\u202f% / 0\u202f%")
    await page.get_by_role("button", name=name, exact=True).click()
    await page.get_by_role("button", name="Probe now").click()
    await expect(page.locator("tr.detail:visible")).to_contain_text("head ")


async def above(proxy: Running, node: str, limit: float) -> bool:
    return await share(proxy, node) > limit


async def below(proxy: Running, node: str, limit: float) -> bool:
    return await share(proxy, node) < limit


async def weighs(proxy: Running, node: str, weight: int) -> bool:
    return bool((await proxy.nodes())[node]["weight"] == weight)


@pytest.mark.smoke
async def test_purge_counts_first_and_empties(visitor: Visitor, proxy: Running) -> None:
    for number in (1, 2, 3):
        await proxy.call("hmyv2_getBlockByNumber", number, {})
    page = await visitor.open(address(proxy), "cache")
    await page.get_by_label("Method").select_option("hmyv2_getBlockByNumber")
    await page.get_by_role("button", name="Count, then remove").click()
    await expect(page.locator("dialog")).to_contain_text("3 entries in memory")
    await page.locator("dialog").get_by_role("button", name="Cancel").click()
    assert (await proxy.call("hmyv2_getBlockByNumber", 1, {})).headers["X-Rpcaccel-Cache"] == "memory"
    await page.get_by_role("button", name="Count, then remove").click()
    await page.locator("dialog").get_by_role("button", name="Remove").click()
    await expect(page.locator("main")).to_contain_text("Removed: 3 entries in memory")
    assert (await proxy.call("hmyv2_getBlockByNumber", 1, {})).headers["X-Rpcaccel-Cache"] == "miss"


async def test_explain_shows_the_plan_or_why_a_call_is_never_a_hit_and_a_run_its_way_and_each_attempt(
    visitor: Visitor, proxy: Running, nodes: Sequence[SimNode]
) -> None:
    page = await visitor.open(address(proxy), "explain")
    call = page.get_by_label("A JSON-RPC call")
    await page.get_by_role("button", name="Explain", exact=True).click()
    await expect(page.locator("main")).to_contain_text("in the order they would be asked")
    await expect(page.locator("main")).to_contain_text("newest block; its rule says: a committed block never changes")
    await page.get_by_role("button", name="Run it").click()
    await expect(page.locator("main")).to_contain_text("1 attempt")
    await expect(page.locator(".waterfall")).to_contain_text("asking nodes")
    await call.fill('{"method":"hmyv2_blockNumber"}')  # without an id it would be a notification, which gets no answer
    await page.get_by_role("button", name="Run it").click()
    await expect(page.get_by_label("Its answer")).to_contain_text('"result"')
    await call.fill("{not json")
    await page.get_by_role("button", name="Explain", exact=True).click()
    await expect(page.locator("main")).to_contain_text("This is not JSON")
    await expect(page.locator(".plan", has_text="hmyv2_getBlockByNumber")).to_have_count(0)  # it was another call's
    await expect(page.locator(".waterfall")).to_have_count(0)

    for method, why in (("hmyv2_getNodeMetadata", "class node"), ("hmyv2_sendRawTransaction", "class never")):
        await call.fill(f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":[]}}')
        await page.get_by_role("button", name="Explain", exact=True).click()
        await expect(page.locator(".lead")).to_contain_text(why)
        await expect(page.locator(".plan").first).to_contain_text("not kept")

    for node in nodes[:2]:
        node.knobs.fault_methods = {BALANCE}
        node.knobs.faults = {"html": 1.0}
    addresses = count(1)

    async def failed_over() -> bool:
        asked = json.dumps([f"0x{next(addresses):040x}", 5])  # nothing is kept of it
        await call.fill(f'{{"jsonrpc":"2.0","id":1,"method":"{BALANCE}","params":{asked}}}')
        async with page.expect_response("**/api/v1/run"):
            await page.get_by_role("button", name="Run it").click()
        return await page.locator(".waterfall .failed").count() > 0

    await until("a call that took several attempts", failed_over)
    await expect(page.locator(".waterfall .attempt", has_text=f"{nodes[2].name} answered")).to_have_count(1)


async def test_a_key_made_on_the_page_lets_its_holder_in_until_it_is_disabled(visitor: Visitor, proxy: Running) -> None:
    page = await visitor.open(address(proxy), "clients")
    await page.get_by_role("button", name="Make a key").click()
    await page.get_by_label("Name of the holder").fill("alice")
    await page.get_by_role("button", name="Make", exact=True).click()
    await page.get_by_label("A key is required", exact=True).check()
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("dialog")).to_contain_text("Callers without a key are refused")
    await page.locator("dialog").get_by_role("button", name="Apply").click()
    await expect(page.locator(".bar")).to_contain_text("worker has it")
    body = b'{"jsonrpc":"2.0","id":1,"method":"hmyv2_blockNumber","params":[]}'
    key = str(await page.locator(".once code").text_content())
    assert (await proxy.post(body)).status == 401
    assert (await proxy.post(body, **{"X-Api-Key": key})).status == 200
    await expect(page.locator("tr.row", has_text="alice")).to_contain_text("ago")
    await page.get_by_role("button", name="alice", exact=True).click()
    await page.get_by_role("button", name="Disable its keys").click()
    await page.get_by_role("button", name="Apply").click()
    await page.locator("dialog").get_by_role("button", name="Apply").click()
    await expect(page.locator("tr.row", has_text="alice")).to_contain_text("disabled")
    assert (await proxy.post(body, **{"X-Api-Key": key})).status == 401


async def test_a_restarted_server_is_found_again_without_a_reload(
    browser: Browser,
    nodes: Sequence[SimNode],
    new_program: Callable[..., Program],
    http: aiohttp.ClientSession,
    free_port: Callable[[], int],
) -> None:
    listen: list[Any] = ["--listen", "127.0.0.1:0", "--admin", f"127.0.0.1:{free_port()}"]
    urls = [f"{node.url},id={node.name}" for node in nodes]
    first = await found(new_program("serve", *urls, *listen), http)
    async with visiting(browser) as visitor:
        visitor.expected = ["ERR_CONNECTION", "ERR_INCOMPLETE_CHUNKED", "ERR_EMPTY_RESPONSE"]
        page = await visitor.open(address(first), "nodes")
        await page.get_by_label(f"Weight of node {nodes[0].name}, as a number").fill("3")
        await first.end()
        await expect(page.locator("#lost")).to_contain_text("No answer from")
        second = await found(new_program("serve", *urls, *listen), http)
        await expect(page.locator("#lost")).to_be_hidden()
        await apply(page)  # what was collected is still there
        await until("the weight", lambda: weighs(second, nodes[0].name, 3))
