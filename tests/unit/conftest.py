"""Fixtures of tests in more than one folder."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.webhook_receiver import WebhookReceiver, receiving_webhooks


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with receiving_webhooks() as receiver:
        yield receiver
