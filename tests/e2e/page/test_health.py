"""Health on the page: what is normal is shown as normal, and what is not says why."""

from __future__ import annotations

from msgspec.structs import replace
from playwright.async_api import expect

from rpcaccel import balancers
from rpcaccel.controlplane.admin.admin_app import Admin
from tests.support.browser import Visitor
from tests.support.sample_view import SampleView


async def test_a_node_without_the_newest_block_is_well_a_chain_has_no_shard_and_a_share_says_what_is_aimed_at(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    """A lag of a moment is no trouble, a network without shards names none, and `~` marks a share not aimed at."""
    view.node_list[2] = replace(view.node_list[2], eligible=True, state="serving", why="")
    view.lags = {"b": 1}
    page = await visitor.open(admin.address)
    await expect(page.locator("#networks .chip")).to_contain_text("3 of 3 nodes")
    nodes = page.get_by_role("region", name="Nodes", exact=True)
    lag = nodes.locator("tr", has_text="serving").nth(1).locator(".lag")
    await expect(lag).to_have_text("−1")
    await expect(lag).to_have_class("lag quiet")
    view.node_list[1] = replace(view.node_list[1], eligible=False, state="behind", why="it is 1 block behind")
    await expect(nodes.locator("tr", has_text="it is 1 block behind").locator(".lag")).to_have_class("lag iswarn")
    await expect(page.locator("#networks .chip")).to_contain_text("2 of 3 nodes")

    networks = page.get_by_role("region", name="Networks", exact=True)
    await expect(networks).to_contain_text("harmony, shard 0")
    view.chain, view.shard = "ethereum", None
    await expect(networks).to_contain_text("ethereum")
    await expect(networks).not_to_contain_text("shard")

    aim = balancers.aim("peak_ewma")
    view.node_list = [replace(node, share_aim=aim) for node in SampleView().node_list]
    await expect(nodes.get_by_title(f"The balancer aims at {aim}.").first).to_contain_text("/ ~71")
    await page.evaluate("location.hash = '#/nodes'")
    await expect(page.locator("main")).to_contain_text("5 of 6 → ~83")


async def test_a_redis_that_is_not_reached_says_why_and_what_it_removed_by_itself_is_not_known(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    redis = view.tally.tier("redis", shared=True)
    redis.up, redis.fault, redis.purged = False, "10.0.0.9:6379: it asks for a password", 7
    page = await visitor.open(admin.address, "cache")
    row = page.get_by_role("region", name="Cache tiers").locator("tr", has_text="Redis")
    await expect(row).to_contain_text("it asks for a password")
    cells = await row.locator("td, th").all_inner_texts()
    assert [cells[index].strip() for index in (11, 12, 13)] == ["–", "–", "7"]
    await page.evaluate("location.hash = '#/overview'")
    await expect(page.locator("main")).to_contain_text("redis is not reached (10.0.0.9:6379: it asks for a password)")
