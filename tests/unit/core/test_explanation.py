"""Whether an answer would be kept, in words."""

from __future__ import annotations

import pytest

from rpcaccel.core.explanation import because, keeping, proving
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import UNKNOWN_RULE, CacheClass, Rule, ShownContent
from rpcaccel.core.proof.forms import HashedHeader, ProofForm
from rpcaccel.core.proof.known_chain import SeenForms

VIEW = ChainSnapshot(head=100, final=100, eth_chain_id=1)


def said(
    view: ChainSnapshot = VIEW, *, rule: Rule | None = None, shared: bool = False, disk: bool = False, **fields: object
) -> str:
    cache = fields.pop("cache", CacheClass.BY_NUMBER)
    rule = rule or Rule(method="m", cache=cache)  # type: ignore[arg-type]
    plan = Plan(network="n", method="m", rule=rule, params=b"[]", asked=b"[]", cache=cache, **fields)  # type: ignore[arg-type]
    return "; ".join(keeping(plan, view, 2.0, 1000, shared=shared, disk=disk))


def test_a_lasting_answer_says_how_long_in_each_tier_and_what_would_prevent_it() -> None:
    rule = Rule(method="m", cache=CacheClass.BY_NUMBER, skip=("null",))
    text = said(rule=rule, shared=True, key=b"k", shared_keys=(b"k",), final=True, block=7, min_head=8, depth=1)
    assert "in memory as long as there is room, in Redis for 86400 s" in text
    assert "had not reached block 8" in text
    assert "kept until" not in text
    assert "not kept: null" in text
    assert "longer than 1 kB" in text


def test_an_answer_that_never_expires_is_kept_on_the_disk_as_well() -> None:
    text = said(rule=Rule(method="m", cache=CacheClass.BY_NUMBER), disk=True, key=b"k", final=True, block=7)
    assert "in memory as long as there is room, on the disk as long as there is room" in text
    aged = Rule(method="m", cache=CacheClass.BY_NUMBER, max_age=9.0)
    assert "disk" not in said(rule=aged, disk=True, key=b"k", final=True, block=7)


def test_an_answer_of_the_head_goes_with_the_head() -> None:
    assert "until the block after 100" in said(cache=CacheClass.HEAD, head_key=b"h")
    assert "in memory for 30 s" in said(cache=CacheClass.HEAD, key=b"k", head_key=b"h")


DOUBTING = ChainSnapshot(head=100, final=100, eth_chain_id=1, doubt=30)


@pytest.mark.parametrize(
    ("rule", "fields", "text"),
    [
        ({}, {"block": 90}, "null, an empty one (its block is not 30 blocks under the head yet, and a machine"),
        ({}, {"block": 70}, "null"),
        ({"split": "logs"}, {"block": 90}, "its block is not 30 blocks under the head yet, and"),
        ({"cache": CacheClass.FOREVER}, {}, "null, one whose block is not final yet, an empty one"),
        ({"skip": ("0x", "not-mined")}, {"block": 70}, 'null, "0x"; not kept while the transaction is in no block'),
    ],
)
def test_what_is_kept_until_the_next_head_alone_is_told_by_what_this_call_asks_for(
    rule: dict[str, object], fields: dict[str, object], text: str
) -> None:
    """No answer is said to be kept for good at a depth that the block has not, or never will be known to have."""
    made = Rule(method="m", **{"cache": CacheClass.BY_NUMBER, **rule})  # type: ignore[arg-type]
    found = said(DOUBTING, rule=made, cache=made.cache, key=b"k", head_key=b"h", **fields)
    assert f"kept until the block after 100 at the most: {text}" in found
    assert found.count("kept until") == 1
    assert ("a whole answer is kept in memory" in found) == ("split" not in rule)
    if fields.get("block") == 70:
        assert "machine" not in found


def test_a_class_that_is_not_that_of_the_rule_says_what_of_the_call_makes_it_so() -> None:
    rule = Rule(method="m", cache=CacheClass.BY_NUMBER, why="a block never changes")

    def why(cache: CacheClass, **fields: object) -> str:
        return because(Plan(network="n", method="m", rule=rule, params=b"[]", asked=b"[]", cache=cache, **fields))  # type: ignore[arg-type]

    told = "its rule says: a block never changes"
    assert why(CacheClass.BY_NUMBER) == why(CacheClass.FOREVER) == "a block never changes"
    assert why(CacheClass.NEVER, pending=True) == f"its block is not made yet; {told}"
    assert why(CacheClass.NEVER) == f"the call is outside its rule; {told}"
    assert why(CacheClass.HEAD, block=7) == f"it asks about the newest block; {told}"
    assert why(CacheClass.HEAD) == f"its block may leave the branch; {told}"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"cache": CacheClass.NEVER, "pending": True}, "not kept: its block is not made yet"),
        ({"rule": UNKNOWN_RULE, "cache": CacheClass.NEVER}, "no rule names this method"),
        ({"rule": Rule(method="m", cache=CacheClass.NEVER, kind="send")}, "the method is a send"),
        ({"cache": CacheClass.NODE}, "differs by node"),
        ({"cache": CacheClass.NEVER, "note": "params are named"}, "not kept: params are named"),
        ({"view": ChainSnapshot()}, "which chain this is"),
        ({"view": ChainSnapshot(eth_chain_id=1)}, "told its head"),
        ({"local": b"1"}, "the proxy answers it itself"),
    ],
)
def test_what_is_not_kept_says_why(fields: dict[str, object], text: str) -> None:
    assert text in said(**fields)  # type: ignore[arg-type]


WHOLE = ProofForm(header=HashedHeader(members=("parentHash",)), transactions=("0x0",))


@pytest.mark.parametrize(
    ("shows", "form", "text"),
    [
        ("block", WHOLE, "proved by the hash of its block"),
        ("block", ProofForm(), "judged against the call and the served branch; the chain's headers cannot be rebuilt"),
        ("transaction", WHOLE, "proved by its hash"),
        ("transaction", ProofForm(), "the chain's transactions cannot be rebuilt"),
        ("receipt", ProofForm(), "judged against the call and the served branch, and by the bloom of its logs"),
        ("state", WHOLE, "proved by the state root of its block"),
        ("state", ProofForm(), "not proved: the chain's headers cannot be rebuilt"),
        ("", WHOLE, "not proved: no rule tells what of its answers is hashed"),
    ],
)
def test_how_an_answer_is_judged_follows_from_what_it_shows_and_what_the_chain_hashes(
    shows: ShownContent, form: ProofForm, text: str
) -> None:
    assert proof(shows, form, block=7).endswith(text)


def test_an_answer_that_is_not_judged_says_why_and_one_without_a_node_says_nothing() -> None:
    assert proof("block", WHOLE, proves=False) == "not proved: the settings switch it off (prove)"
    seen = SeenForms()
    seen.is_unknown("header with 2 later members in m")
    seen.is_unknown("header with 3 later members in another")
    said = "nodes agree that the chain hashes a header with 2 later members in m in another way than this program knows"
    assert proof("block", WHOLE, unknown=seen.unknown_of("m")).endswith(said)
    assert proof("block", WHOLE, pending=True) == "not proved: the block is not made yet"
    assert proof("state", WHOLE) == "not proved: the call names its block by neither number nor hash"
    assert proof("block", WHOLE, local=b"1") == ""


def test_where_all_is_to_be_proved_it_is_said_by_what() -> None:
    assert proof("logs", WHOLE, fully=True) == "proved to be complete, by the receipts of their blocks"
    assert proof("logs", ProofForm(), fully=True).endswith("which prove where there are none")
    assert proof("receipt", ProofForm(), fully=True) == proof("receipt", ProofForm())


def proof(
    shows: ShownContent,
    form: ProofForm,
    *,
    unknown: str = "",
    proves: bool = True,
    fully: bool = False,
    **fields: object,
) -> str:
    rule = Rule(method="m", cache=CacheClass.BY_NUMBER, shows=shows, fully=fully)
    plan = Plan(network="n", method="m", rule=rule, params=b"[]", asked=b"[]", cache=rule.cache, **fields)  # type: ignore[arg-type]
    return proving(plan, form, unknown, proves=proves)
