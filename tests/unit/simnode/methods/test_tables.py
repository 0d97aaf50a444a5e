from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.simnode.methods.registry import ETHEREUM, HARMONY
from rpcaccel.simnode.server.sim_server import SimNode

SEED = (
    "hmyv2_blockNumber hmyv2_getBlockSigners hmyv2_getBlocks hmyv2_getBalanceByBlockNumber "
    "hmyv2_getValidatorInformation hmyv2_call net_peerCount hmyv2_getNodeMetadata "
    "hmyv2_getCurrentTransactionErrorSink hmyv2_getCurrentUtilityMetrics"
)


def test_a_harmony_node_serves_what_the_real_one_registers() -> None:
    assert len(HARMONY.methods) > 280
    assert set(SEED.split()) <= set(HARMONY.methods)
    for absent in ("eth_feeHistory", "web3_sha3", "hmyv2_getLogs", "hmyv2_newFilter", "eth_maxPriorityFeePerGas"):
        assert absent not in HARMONY
    assert "eth_feeHistory" in ETHEREUM
    assert "eth_getBlockSigners" in HARMONY
    assert "eth_getBlockSigners" not in ETHEREUM


@pytest.mark.parametrize("space", ["hmy", "hmyv2", "eth"])
async def test_every_method_without_arguments_answers_in_every_namespace(space: str, node: SimNode) -> None:
    names = [
        name for name, (method, _) in HARMONY.methods.items() if not method.readers and name.startswith(space + "_")
    ]
    answers: dict[str, Any] = {name: await node.ask(name) for name in names}
    assert len(answers) > 25


async def test_numbers_are_bare_in_hmyv2_and_hex_elsewhere(node: SimNode) -> None:
    assert await node.ask("hmyv2_gasPrice") == 100_000_000_178
    assert await node.ask("hmy_gasPrice") == await node.ask("eth_gasPrice") == hex(100_000_000_178)
