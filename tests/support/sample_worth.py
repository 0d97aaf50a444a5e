"""Made-up examinations of nodes and cases of disagreement, for the admin side and the page."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rpcaccel.controlplane.stats.snapshot import NodeView, Notice
from rpcaccel.core.agreement.cases import Case, CaseAnswer
from rpcaccel.core.heads.examination import Examination, PeerAgreement
from rpcaccel.core.nodes.limits import QuotaUse
from tests.support.sample_view import NETWORK, SampleView

HEAD = 61_204_000
AT = 1_800_000_000.0
RIGHT, WRONG = '{"balance":"0x2a"}', '{"balance":"0x29"}'


def well_examined(**more: Any) -> Examination:
    """The examination of a node that keeps the newest states alone, and agrees with the others."""
    found: dict[str, Any] = {
        "seconds": 1.53,
        "calls": 98,
        "version": "Harmony (C) 2023. harmony, version v8507",
        "roles": {"explorer": True, "observer": True},
        "state_from": HEAD - 127,
        "logs_from": 0,
        "range_most": 1023,
        "range_tried": 4096,
        "batch_tried": 64,
        "traces": False,
        "agreement": PeerAgreement(compared=12),
        "latency": {"hmyv2_getBlocks": 0.0412, "hmyv2_blockNumber": 0.0183, "hmyv2_call": 0.0206},
    }
    return Examination(at=AT, head=HEAD, **{**found, **more})


def poorly_examined() -> Examination:
    """The examination of a node that gave another answer than the others, and of which not everything was found out."""
    agreement = PeerAgreement(compared=9, differing=1, first="balance: 0x29, not 0x2a as node a says")
    faults = ("how far back its logs reach was not found out: no answer within 10 s",)
    unknown: dict[str, Any] = {"logs_from": None, "range_most": None, "range_tried": None, "traces": None, "roles": {}}
    return well_examined(state_from=HEAD + 1, batch_most=1, agreement=agreement, faults=faults, latency={}, **unknown)


def sample_case(**more: Any) -> Case:
    """Nodes a and c contradict b about a balance."""
    said = (("b", WRONG), ("a", RIGHT), ("c", RIGHT))
    answers = tuple(CaseAnswer(node=node, head=HEAD, text=text, size=len(text)) for node, text in said)
    about: dict[str, Any] = {
        "method": "hmyv2_getBalanceByBlockNumber",
        "params": '["one1a0x4d", 61200000]',
        "block": 61_200_000,
        "difference": 'balance: "0x29" of b, "0x2a" of a',
        "answers": answers,
        "minority": ("b",),
    }
    return Case(network=NETWORK, **{"at": AT, **about, **more})


def sample_cases() -> list[Case]:
    """Two cases in which a node was contradicted, one that nobody could decide, with an answer that is cut short, and
    a false answer."""
    long = '[{"address":"0x5a","data":"' + "0" * 1973
    logs = (
        CaseAnswer(node="a", head=HEAD, text=long, size=412_000),
        CaseAnswer(node="b", head=None, text="[]", size=2),
    )
    return [
        sample_case(at=AT + 60),
        sample_case(),
        sample_case(
            at=AT - 86_400,
            method="hmyv2_getLogs",
            params='[{"fromBlock":"0x3a5d840","toBlock":"0x3a5d8a4"}]',
            block=None,
            difference="a has 31 elements, b has none",
            answers=logs,
            minority=(),
        ),
        sample_case(
            at=AT - 90_000,
            method="hmyv2_getBlockByNumber",
            params="[61100000,{}]",
            block=61_100_000,
            difference="it has another hash of block 61100000 than the branch that is served",
            answers=(CaseAnswer(node="c", head=HEAD, text='{"hash":"0xbad"}', size=16),),
            minority=("c",),
            disproved=True,
        ),
    ]


def compared(view: SampleView) -> None:
    """Let the answers of nodes a and b be compared, and one of c be false."""
    good, bad = view.tally.node(NETWORK, "a"), view.tally.node(NETWORK, "b")
    good.compared, good.undecided = 512, 1
    bad.compared, bad.minority, bad.undecided, bad.false_hashes = 31, 2, 1, 3
    view.tally.node(NETWORK, "c").disproved = 1


def suspect(view: SampleView) -> None:
    """Let node b be contradicted more often than by chance, and attention say so."""
    said = (
        f"node {NETWORK}/b was contradicted by two others in 2 of 31 compared answers, last in one to "
        "hmyv2_getBalanceByBlockNumber: look at the cases in the report on nodes"
    )
    view.notices.append(Notice("bad", f"{NETWORK}/b", said))
    view.node_list[1] = replace(view.node_list[1], suspect=True)


def examine(view: SampleView) -> None:
    """Let node a be examined, b with faults, c not yet, and a new node d be on its way."""
    why = "calls in the shadow show what it has and whether it is right: it gets calls once that has ended"
    for at, examination in ((0, well_examined()), (1, poorly_examined())):
        view.node_list[at] = replace(view.node_list[at], examination=examination)
    view.node_list.append(
        NodeView(network=NETWORK, id="d", address="d.example:443", eligible=False, state="examining", why=why, since=4)
    )


def limited(view: SampleView) -> None:
    """Give node b a quota that it will overrun at its pace."""
    use = QuotaUse(window="day", used=90_000, limit=100_000, since=AT, renews=AT + 40_000, runs_out=AT + 900)
    view.node_list[1] = replace(view.node_list[1], quota=(use,))
