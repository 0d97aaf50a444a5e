"""How far the job may go."""

from __future__ import annotations

import pytest

from rpcaccel.warming import reach


class Chain:
    """A chain whose blocks up to `final` are kept."""

    def __init__(self, final: int) -> None:
        self.final = final
        self.asked = 0

    async def kept(self, block: int) -> bool:
        assert block >= 0
        self.asked += 1
        return block <= self.final


@pytest.mark.parametrize("head", [0, 1, 2, 150, 1_000_000])
@pytest.mark.parametrize("behind", [0, 1, 2, 3, 64, 900, 999_999])
async def test_the_newest_block_that_is_kept_is_found_by_few_questions(head: int, behind: int) -> None:
    chain = Chain(max(head - behind, -1))
    assert await reach.newest_kept(chain.kept, head) == chain.final
    assert chain.asked <= 45


def test_the_newest_half_hour_is_in_doubt() -> None:
    assert reach.in_doubt(1800.0, 2.0) == 901
    assert reach.in_doubt(0.0, 2.0) == 1
