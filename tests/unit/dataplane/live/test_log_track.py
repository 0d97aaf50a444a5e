from __future__ import annotations

from rpcaccel.core.live.block import LiveBlock, Log
from rpcaccel.core.live.branch import WINDOW_BLOCKS
from rpcaccel.core.live.subscription import LOGS
from rpcaccel.dataplane.live.block_source import BlockSource
from rpcaccel.dataplane.live.log_track import REMEMBERED_BYTES, LogTrack
from tests.support.dataplane.live_world import LiveWorld


def block(number: int) -> LiveBlock:
    return LiveBlock(number, hex(number), hex(number - 1), b"{}")


def test_logs_that_were_too_many_to_remember_take_no_room_for_ever(world: LiveWorld) -> None:
    source = BlockSource(world.network, world.engine)
    track = LogTrack(source, world.topics, world.cell, world.clock.now, drained=lambda: None)
    log = Log("0x", (), b"x" * (REMEMBERED_BYTES // 4))
    for number in range(200, 200 + 3 * WINDOW_BLOCKS, WINDOW_BLOCKS):
        for _ in range(6):
            track.join(world.come(LOGS).subscription, [(block(number), [log])])
        track.append(block(number + WINDOW_BLOCKS), 0.0)
    last = world.come(LOGS)
    tip = block(300 + 3 * WINDOW_BLOCKS)
    track.join(last.subscription, [(tip, [log])])
    track.abandon(tip, 0.0)
    assert not last.sink.closed
