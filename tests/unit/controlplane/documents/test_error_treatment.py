"""What would be done with an error, and by whose rule; collected errors go all the way to the control plane."""

from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.config.model import NetworkSettings
from rpcaccel.controlplane.documents.error_documents import ErrorQuestion, treatment
from rpcaccel.core.replies.unknown_errors import together
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.described_answers import sent
from tests.support.proxy import proxying

HOLIDAY = {"kind": "rate-limited", "contains": ["holiday"]}


def treated(message: str, *, rules: tuple[dict[str, Any], ...] = (), own: tuple[dict[str, Any], ...] = ()) -> Any:
    networks = {"s0": NetworkSettings.model_validate({"nodes": ["http://a"], "error_rules": own})}
    return sent(treatment(ErrorQuestion("s0", message, rules=rules), networks))


def test_it_says_whose_rule_decides() -> None:
    assert treated("On holiday 7")["by"] == "nobody"
    assert treated("On holiday 7", own=(HOLIDAY,))["by"] == "settings"
    tried = treated("On holiday 7", own=(HOLIDAY,), rules=({"kind": "pruned", "starts": ["on"]},))
    assert (tried["by"], tried["kind"], tried["folded"]) == ("tried", "pruned", "On holiday #")
    known = treated("missing trie node abc")
    assert (known["by"], known["kind"], known["retry"], known["breaker"]) == (
        "chain",
        "pruned",
        "if-repeatable",
        "ignore",
    )


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (({"kind": "pruned"},), "rules[0]: Value error, codes, statuses"),
        ((HOLIDAY, {"kind": "made up", "codes": [1]}), "rules[1].kind: "),
    ],
)
def test_a_rule_that_is_none_is_named(rules: tuple[dict[str, Any], ...], said: str) -> None:
    with pytest.raises(ValueError, match="rules") as caught:
        treated("x", rules=rules)
    assert str(caught.value).startswith(said)


async def test_an_error_nobody_knows_is_collected_and_goes_once_it_is_classed() -> None:
    async with harmony_nodes(2) as nodes, proxying(nodes) as proxy:
        for node in nodes:
            node.knobs.turn({"faults": {"error": 1.0}, "error_text": "shard 9 is on holiday"})
        reply = await proxy.call("hmyv2_getBlockByNumber", 26, {})
        assert reply.error["message"] == "shard 9 is on holiday"
        (error,) = together([proxy.worker.report().unclassed])
        assert (error.text, error.method, error.count) == ("shard # is on holiday", "hmyv2_getBlockByNumber", 2)
        document = proxy.worker._settings.model_dump(context={"reveal": True})
        document["networks"]["harmony-s0"]["error_rules"] = [HOLIDAY]
        proxy.worker.adopt(type(proxy.worker._settings).model_validate(document), 2)
        assert proxy.worker.report().unclassed == ()
        limited = await proxy.call("hmyv2_getBlockByNumber", 27, {})
        assert (limited.status, limited.error["code"]) == (429, -32005)
        assert proxy.worker.report().unclassed == ()
