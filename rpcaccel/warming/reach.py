"""How far up the chain the job may go: only what is kept for good is worth fetching ahead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import ceil

Kept = Callable[[int], Awaitable[bool]]
"""Would the proxy keep an answer about this block for good?"""


async def newest_kept(kept: Kept, head: int) -> int:
    """The newest block up to `head` whose answers are kept for good; -1 when there is none. Blocks below one that is
    kept are kept as well."""
    step, low = 1, head
    high = head + 1
    while low >= 0 and not await kept(low):
        high, low, step = low, low - step, 2 * step
    low = max(low, -1)
    while high - low > 1:
        middle = (low + high) // 2
        if await kept(middle):
            low = middle
        else:
            high = middle
    return low


def in_doubt(hidden_lag: float, block_time: float) -> int:
    """The blocks under the head about which an empty answer is not kept for good (architecture section 5), and one for
    methods that need the block after theirs."""
    return ceil(hidden_lag / block_time) + 1 if hidden_lag else 1
