"""The document of a proof."""

from __future__ import annotations

from rpcaccel.controlplane.stats.proof_document import ProofNow, proof_document
from rpcaccel.core.heads.proof import PeerAgreement, Proof


def test_it_has_every_member_that_is_described_and_the_sentences() -> None:
    made = proof_document(Proof(at=60.0, head=9, state_from=0, agreement=PeerAgreement(3, 1, "x"), faults=("y",)))
    assert made is not None
    assert made.keys() == ProofNow.__annotations__.keys()
    assert (made["at"], made["faults"]) == ("1970-01-01T00:01:00+00:00", ["y"])
    assert made["agreement"] == {"compared": 3, "differing": 1, "first": "x"}
    assert made["says"][0] == "it has the state of every block"


def test_there_is_none_before_the_first_proof() -> None:
    assert proof_document(None) is None
