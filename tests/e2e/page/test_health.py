"""Health on the page: what is normal is shown as normal, and what is not says why."""

from __future__ import annotations

from msgspec.structs import replace
from playwright.async_api import Page, expect

from rpcaccel import balancers
from rpcaccel.controlplane.admin.admin_app import Admin
from tests.support.browser import Visitor
from tests.support.sample_view import SampleView


async def overview(visitor: Visitor, admin: Admin, view: str = "overview") -> Page:
    return await visitor.open(admin.address, view)


async def test_a_node_that_lacks_the_newest_block_for_a_moment_is_shown_as_well(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    view.node_list[2] = replace(view.node_list[2], eligible=True, state="serving", why="")
    view.lags = {"b": 1}
    page = await overview(visitor, admin)
    await expect(page.locator("#networks .chip")).to_contain_text("3 of 3 nodes")
    row = page.get_by_role("region", name="Nodes", exact=True).locator("tr", has_text="serving").nth(1)
    await expect(row.locator(".lag")).to_have_text("−1")
    await expect(row.locator(".lag")).to_have_class("lag quiet")
    view.node_list[1] = replace(view.node_list[1], eligible=False, state="behind", why="it is 1 block behind")
    row = page.get_by_role("region", name="Nodes", exact=True).locator("tr", has_text="it is 1 block behind")
    await expect(row.locator(".lag")).to_have_class("lag iswarn")
    await expect(page.locator("#networks .chip")).to_contain_text("2 of 3 nodes")


async def test_a_share_that_the_balancer_does_not_aim_at_is_marked_with_what_it_aims_at(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    aim = balancers.aim("peak_ewma")
    view.node_list = [replace(node, share_aim=aim) for node in view.node_list]
    page = await overview(visitor, admin)
    wanted = page.get_by_role("region", name="Nodes", exact=True).get_by_title(f"The balancer aims at {aim}.")
    await expect(wanted.first).to_contain_text("/ ~71")
    await page.goto(f"http://{admin.address}/#/nodes")
    await expect(page.locator("main")).to_contain_text("5 of 6 → ~83")


async def test_a_chain_without_shards_is_named_without_one(visitor: Visitor, admin: Admin, view: SampleView) -> None:
    networks = (await overview(visitor, admin)).get_by_role("region", name="Networks", exact=True)
    await expect(networks).to_contain_text("harmony, shard 0")
    view.chain, view.shard = "ethereum", None
    await expect(networks).to_contain_text("ethereum")
    await expect(networks).not_to_contain_text("shard")


async def test_a_redis_that_is_not_reached_says_why_and_what_it_removed_by_itself_is_not_known(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    redis = view.tally.tier("redis", shared=True)
    redis.up, redis.fault, redis.purged = False, "10.0.0.9:6379: it asks for a password", 7
    page = await overview(visitor, admin, "cache")
    row = page.get_by_role("region", name="Cache tiers").locator("tr", has_text="Redis")
    await expect(row).to_contain_text("it asks for a password")
    cells = await row.locator("td, th").all_inner_texts()
    assert [cells[index].strip() for index in (11, 12, 13)] == ["–", "–", "7"]
    await page.goto(f"http://{admin.address}/#/overview")
    await expect(page.locator("main")).to_contain_text("redis is not reached (10.0.0.9:6379: it asks for a password)")
