"""What tests that tune on the page have in common: fields, the bar at the bottom, and somebody who may only look."""

from __future__ import annotations

from playwright.async_api import Locator, Page, expect

from rpcaccel.config.secrets import hash_password
from rpcaccel.controlplane.admin.admin_app import Admin
from tests.e2e.page.conftest import Start
from tests.support.browser import Visitor
from tests.support.sample_control import SampleControl, sample_settings
from tests.support.sample_view import NETWORK, SampleView

TOP = "element => element.getBoundingClientRect().top"
PASSWORD = "open sesame"


def field(within: Page | Locator, name: str) -> Locator:
    """The text field of a setting."""
    return within.get_by_role("textbox", name=name, exact=True)


def weight(page: Page, node: str) -> Locator:
    """The weight of a node, as a number."""
    return page.get_by_label(f"Weight of node {node}, as a number")


def in_force(control: SampleControl, node: str) -> int:
    """The weight that a node has."""
    return next(one.weight for one in control.ledger.settings.networks[NETWORK].nodes if one.id == node)


async def apply(page: Page) -> None:
    """Apply what is collected, and wait until it is in force."""
    await page.get_by_role("button", name="Apply", exact=True).click()
    await expect(page.locator(".bar")).to_contain_text("worker has it")


async def act(page: Page, node: str, action: str) -> None:
    """Choose what is to be done to a node from its menu."""
    await page.get_by_role("button", name=f"Actions for node {node}", exact=True).click()
    await page.get_by_role("menuitem", name=action).click()


async def opened(page: Page, node: str) -> Locator:
    """The opened row of a node in Nodes."""
    await page.get_by_role("button", name=node, exact=True).click()
    return page.locator("tr.detail:visible")


async def log_in(page: Page, user: str, password: str = PASSWORD) -> None:
    """Fill in the form of a page that asks who looks."""
    await page.get_by_label("User").fill(user)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Log in").click()


async def reader(start: Start, visitor: Visitor, shows: str) -> Page:
    """A view that asks who looks; `guest` may read, with PASSWORD."""
    account = {"password": hash_password(PASSWORD, log_n=4).reveal(), "role": "read"}
    control = SampleControl(sample_settings(admin={"accounts": {"guest": account}}))
    view = SampleView()
    admin = await start(view, control, settings=lambda: control.ledger.settings.admin)
    busy(view, admin)
    return await visitor.open(admin.address, shows)


def busy(view: SampleView, admin: Admin, seconds: int = 5) -> None:
    """So much traffic that other weights are suggested."""
    for _ in range(seconds):
        view.advance(1.0, load=20.0)
        admin.sample()
