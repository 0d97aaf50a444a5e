"""The page where it is hard: answers that come late or are none, a view opened on held figures, lists that change under
a choice."""

import pytest
from playwright.async_api import expect

from rpcaccel.controlplane.admin import Admin
from rpcaccel.core.rules import CacheClass
from rpcaccel.core.tally import Source
from tests.browser import Visitor
from tests.sample_view import NETWORK, SampleView

pytestmark = pytest.mark.e2e


async def test_a_method_chosen_to_be_purged_stays_chosen_when_another_is_called(
    visitor: Visitor, admin: Admin, view: SampleView
) -> None:
    page = await visitor.open(admin.address, "cache")
    method = page.get_by_label("Method")
    await method.select_option("hmyv2_getBlocks")
    view.tally.know(["eth_aaa"])
    view.tally.cell(NETWORK, "eth_aaa", CacheClass.HEAD).done(Source.MEMORY, 1e-5, 10)
    await expect(method.locator("option").first).to_have_text("eth_aaa", timeout=15_000)
    await expect(method).to_have_value("hmyv2_getBlocks")
