"""Hosts on the page: what each does, who is behind, no room where nobody shares, and no trust in what others tell."""

from __future__ import annotations

from msgspec.structs import replace
from playwright.async_api import Locator, Page, expect

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.hosts.host_report import HostReport
from tests.e2e.page.conftest import Start
from tests.support.browser import Visitor
from tests.support.fixtures import shared
from tests.support.sample_control import SampleControl
from tests.support.sample_hosts import OTHERS, WELL, meet
from tests.support.sample_view import SampleView


@shared
async def admin(start: Start, view: SampleView, control: SampleControl) -> Admin:
    return await start(view, control, seconds=10)


def hosts(page: Page) -> Locator:
    """The section, seen or not."""
    return page.locator("section", has=page.get_by_role("heading", name="Hosts", include_hidden=True))


def row(page: Page, name: str) -> Locator:
    """The row of a host."""
    return hosts(page).locator("tr.row", has=page.get_by_role("button", name=name, exact=True))


async def test_each_host_is_a_row_with_its_state_and_all_together_are_one(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    meet(control, OTHERS)
    page = await visitor.open(admin.address)
    await expect(hosts(page).locator("tr.row")).to_have_count(7)
    await expect(hosts(page).locator(".head")).to_contain_text("2 of 6 hosts well · together 6.59k/s")
    names = await hosts(page).locator("tr.row td:first-child").all_inner_texts()
    assert names == ["proxy-a (this one)", "proxy-b", "proxy-c", "proxy-d", "proxy-e", "proxy-e", "5 together"]
    states = await hosts(page).locator("tr.row .state").all_inner_texts()
    assert [text[1:] for text in states] == ["well", "well", "behind", "not heard", "another version", "draining"]
    await expect(row(page, "proxy-c")).to_contain_text("what other hosts changed is not in force on it: networks")
    await expect(row(page, "proxy-d")).to_contain_text("not heard · last heard 60 s ago; it was killed")
    await expect(row(page, "proxy-d").locator("td[data-title='Calls']")).to_have_text("–")
    await expect(row(page, "proxy-b").locator("td[data-title='Calls']")).to_have_text("1.71k/s")
    await expect(row(page, "proxy-b").locator("td[data-title='Hit ratio']")).to_have_text("97.2\u202f%")
    link = row(page, "proxy-b").get_by_role("link", name="The page of proxy-b")
    await expect(link).to_have_attribute("href", "http://10.0.0.8:8889/")
    await expect(link).to_have_attribute("rel", "noopener noreferrer")
    await expect(hosts(page).get_by_role("link")).to_have_count(2)
    await row(page, "proxy-b").get_by_role("button", name="proxy-b").click()
    await expect(hosts(page).locator("tr.detail:visible")).to_contain_text("up for1\u202fh 1\u202fmin")
    await expect(hosts(page).locator("tr.detail:visible")).to_contain_text("harmony-s061\u202f204\u202f840")

    meet(control, {"ff": replace(WELL, name="proxy-f-late"), **OTHERS})
    await row(page, "proxy-f-late").get_by_role("button").click()
    await expect(hosts(page).locator(".reason").last).to_contain_text("28 blocks behind that of the others")


async def test_without_redis_there_is_nothing_without_others_a_line_and_what_they_tell_is_text_alone(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    page = await visitor.open(admin.address)
    await expect(page.get_by_role("heading", name="Busiest methods")).to_be_visible()
    await expect(hosts(page)).to_be_hidden()
    meet(control, {})
    await page.reload()
    await expect(hosts(page).locator(".head")).to_contain_text("no other host shares this Redis")
    await expect(hosts(page).get_by_role("region")).to_be_hidden()
    assert await hosts(page).evaluate("section => section.offsetHeight") < 60

    wild = "<img src=x onerror=alert(1)>"
    told = HostReport(name=wild, version=wild, page="javascript:alert(1)", refusal=wild, heads={wild: 1})
    meet(control, {"<b>": told})
    await expect(row(page, wild)).to_contain_text(f"not in force on it: {wild}")
    await row(page, wild).get_by_role("button").click()
    await expect(hosts(page).locator("tr.detail:visible")).to_contain_text(wild)
    await expect(hosts(page).locator("img, a")).to_have_count(0)


async def test_of_many_hosts_those_to_look_at_and_the_busiest_are_shown_and_while_redis_is_away_the_last_figures(
    visitor: Visitor, admin: Admin, control: SampleControl
) -> None:
    crowd = {f"run-{number}": replace(WELL, name=f"pod-{number}", calls=number) for number in range(40)}
    meet(control, {**crowd, "bb": OTHERS["bb"]})
    page = await visitor.open(admin.address)
    await expect(hosts(page).locator("tr.row")).to_have_count(13)
    names = await hosts(page).locator("tr.row td:first-child").all_inner_texts()
    assert names[:3] == ["proxy-a (this one)", "proxy-c", "pod-39"]
    await hosts(page).get_by_role("button", name="Show all 42").click()
    await expect(hosts(page).locator("tr.row")).to_have_count(43)
    await hosts(page).get_by_role("button", name="Those to look at").click()
    await expect(hosts(page).locator("tr.row")).to_have_count(13)

    meet(control, {"aa": OTHERS["aa"]})
    control.now += 40
    control.book.lose("no answer in time", control.now)
    await expect(hosts(page).locator(".head")).to_contain_text("Redis is away (no answer in time)")
    await expect(row(page, "proxy-b")).to_contain_text("not known · last heard 40\u202fs ago")
    await expect(hosts(page).locator("tr.row").last).to_contain_text("1 heard")
