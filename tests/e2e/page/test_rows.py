"""Many nodes and methods as rows: heads stay in sight, nodes stand below their network, and each has a menu."""

import re
import time

import pytest
from playwright.async_api import Locator, Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.stats.snapshot import NodeView
from tests.e2e.page.conftest import Start
from tests.e2e.page.tuning import TOP, act, apply, in_force, weight
from tests.support.browser import Visitor, resize
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl, sample_settings
from tests.support.sample_view import NETWORK, SampleView

NETWORKS = (NETWORK, "harmony-s1", "ethereum-mainnet")


class Fleets(SampleView):
    """Three networks of ten nodes, and three hundred methods."""

    def __init__(self) -> None:
        super().__init__()
        self.crowd(nodes=30, methods=300)
        self.networks = list(NETWORKS)
        self.node_list = [
            NodeView(network=NETWORKS[number // 10], id=f"n{number}", state="serving", eligible=number != 3)
            for number in range(30)
        ]


@shared
async def fleets(start: Start) -> Admin:
    view = Fleets()
    nodes = {
        name: [f"http://{node.id}.example,id={node.id}" for node in view.node_list if node.network == name]
        for name in NETWORKS
    }
    control = SampleControl(sample_settings(networks={name: {"nodes": found} for name, found in nodes.items()}))
    return await start(view, control, clock=time.monotonic)


@shared
async def page(visitor: Visitor, admin: Admin) -> Page:
    return await visitor.open(admin.address, "nodes")


async def below(head: Locator, frame: Locator) -> float:
    """Pixels from what covers the top of the window to a head."""
    return float(await head.evaluate(TOP)) - float(
        await frame.evaluate("frame => frame.getBoundingClientRect().bottom")
    )


async def test_heads_stay_in_sight_and_nothing_is_cut(fleets: Admin, visitor: Visitor) -> None:
    page = await visitor.open(fleets.address)
    for shows, rows in (("nodes", 30), ("methods", 300)):
        await page.evaluate(f"location.hash = '#/{shows}'")
        table = page.get_by_role("region", name=shows.capitalize())
        await expect(table.locator("tr.row")).to_have_count(rows)
        for width in (800, 1366, 1920):
            await page.evaluate("scrollTo(0, 0)")
            await resize(page, width)
            await expect(table).to_have_class(re.compile("fits"))
            assert await page.evaluate("document.documentElement.scrollWidth") <= width, (shows, width)
            assert await table.locator("tr.row").first.evaluate("row => row.offsetHeight") < 40, (shows, width)
            await page.evaluate("scrollTo(0, 900)")
            assert abs(await below(table.locator("thead th").first, page.locator(".strip"))) < 2, (shows, width)
            await expect(table.locator("thead th").first).to_be_in_viewport(ratio=1)


async def test_nodes_stand_below_their_network_with_its_head_and_balancer_and_a_menu_at_the_end_is_seen_whole(
    fleets: Admin, visitor: Visitor
) -> None:
    page = await visitor.open(fleets.address, "nodes", width=800)
    opener = page.get_by_role("button", name="Actions for node n19")
    await opener.evaluate("button => button.scrollIntoView({ block: 'end' })")
    await opener.click()
    await expect(page.get_by_role("menu")).to_be_in_viewport(ratio=1)
    await page.mouse.click(2, 2)
    await expect(page.get_by_role("menu")).to_have_count(0)

    await resize(page, 1440)
    heads = page.locator("tr.group")
    await expect(heads).to_have_count(3)
    await expect(heads.nth(0)).to_contain_text(f"{NETWORK}▲9 of 10 take calls · head 61\u202f204\u202f811")
    await expect(heads.nth(1)).to_contain_text("harmony-s1●10 of 10 take calls")
    await page.get_by_label("balancer of harmony-s1").select_option("consistent_hash")
    await expect(page.get_by_label("hash key of harmony-s1")).to_be_visible()
    await expect(page.locator(".bar")).to_contain_text("harmony-s1: balancer smooth weighted → consistent hash")
    nodes = page.get_by_role("region", name="Nodes", exact=True)
    await page.get_by_role("button", name="Node", exact=True).click()
    order = await nodes.locator("tr.group, tr.row").evaluate_all("all => all.map((one) => one.className)")
    assert order == ["group", *["row"] * 10] * 3  # sorted within each network
    await page.get_by_label("Filter nodes").fill("n25")
    await expect(heads).to_have_count(1)
    await expect(heads).to_contain_text("ethereum-mainnet")


@pytest.mark.smoke
async def test_what_can_be_done_to_a_node_is_in_a_menu_for_the_keyboard_too(page: Page, control: SampleControl) -> None:
    opener = page.get_by_role("button", name="Actions for node b")
    items = page.get_by_role("menuitem")
    await opener.focus()
    await page.keyboard.press("ArrowDown")
    await expect(opener).to_have_attribute("aria-expanded", "true")
    await expect(items.nth(0)).to_be_focused()
    for key, focused in (("ArrowDown", 1), ("End", 3), ("ArrowDown", 0), ("ArrowUp", 3), ("Home", 0)):
        await page.keyboard.press(key)
        await expect(items.nth(focused)).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(items).to_have_count(0)
    await expect(opener).to_be_focused()
    await page.keyboard.press("Enter")
    for focused in (0, 1, 2):
        await expect(items.nth(focused)).to_be_focused()
        await page.keyboard.press("ArrowDown" if focused < 2 else "Enter")
    await expect(page.locator(".bar")).to_contain_text("node b: weight 1 → 0")
    await apply(page)
    assert in_force(control, "b") == 0
    await act(page, "b", "Uncordon")
    await expect(weight(page, "b")).to_have_value("1")
    await act(page, "c", "Remove")
    await expect(weight(page, "c")).to_be_disabled()
    await act(page, "c", "Do not remove")
    await expect(weight(page, "c")).to_be_enabled()


async def test_a_row_opens_wherever_it_is_clicked_but_for_its_controls_or_by_a_probe_and_callers_mistakes_are_not_red(
    page: Page,
) -> None:
    row = page.locator("tr.row", has=page.get_by_role("button", name="a", exact=True))
    detail = page.locator("tr.detail:visible")
    await row.locator("td").nth(2).click()
    await expect(detail).to_have_count(1)
    await weight(page, "a").click()
    await expect(detail).to_have_count(1)
    await row.get_by_role("button", name="a", exact=True).click()
    await expect(detail).to_have_count(0)
    await row.locator(".line").evaluate("line => { getSelection().selectAllChildren(line); line.click(); }")
    await expect(detail).to_have_count(0)  # somebody marked text
    await act(page, "a", "Probe now")
    await expect(detail).to_contain_text("head 7 in")

    many = {"errors": 3, "client_errors": 120, "failed": 2, "failures": {"timeout": 2, "revert": 90}}
    assert await page.evaluate(FIGURES, many) == [["3 · 120 by callers", "3"], ["2", "2"]]
    none = {"errors": 0, "client_errors": 0, "failed": 0, "failures": {"timeout": 7}}
    assert await page.evaluate(FIGURES, none) == [["0", ""], ["0", ""]]


FIGURES = """async ({ errors, client_errors, failed, failures }) => {
    const { methodTable } = await import("/src/views/method_table.js");
    const { figures } = await import("/src/views/node_table.js");
    const shown = (columns, row) => {
        const column = columns.find(({ title }) => ["Errors", "Failed"].includes(title));
        const cell = document.createElement("div");
        cell.append(...[column.cell(row)].flat());
        return [cell.textContent, cell.querySelector(".isbad")?.textContent ?? ""];
    };
    return [shown(methodTable(false).columns, { errors, client_errors }), shown(figures(), { failed, failures })];
}"""
