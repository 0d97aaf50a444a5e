"""The document of a proof, as the admin API, the report on nodes and `check --deep --json` have it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, TypedDict, cast

from msgspec import Meta, structs

from rpcaccel.core.heads.proof import Proof


class ProofAgreement(TypedDict):
    """The comparison of a node's answers with those of other nodes to the same calls."""

    compared: int
    differing: int
    first: Annotated[str, Meta(description="The first difference, in a sentence; empty without one.")]


class ProofNow(TypedDict):
    """What calls in the shadow, which no client waits for, showed of a node; null is what was not found out."""

    at: Annotated[str, Meta(description="ISO 8601: when the proof ended.")]
    seconds: Annotated[float, Meta(description="Seconds that it took.")]
    calls: Annotated[int, Meta(description="Calls that the node was sent.")]
    version: Annotated[str, Meta(description="Of its software, by its own word.")]
    head: Annotated[int, Meta(description="Of the node, when the proof began.")]
    roles: Annotated[dict[str, bool], Meta(description="Whether it has a role, by its answers to calls that need it.")]
    state_from: Annotated[int | None, Meta(description="The oldest block whose state it has; 0: of every block.")]
    logs_from: Annotated[int | None, Meta(description="The oldest block whose logs it gives; 0: of every block.")]
    range_most: Annotated[
        int | None,
        Meta(description="The greatest difference of last and first block of a range of logs; null: no limit met."),
    ]
    range_tried: Annotated[int | None, Meta(description="The greatest difference that was tried.")]
    batch_most: Annotated[int | None, Meta(description="The most calls it answers in one batch; null: no limit met.")]
    batch_tried: Annotated[int | None, Meta(description="The longest batch that was tried.")]
    traces: Annotated[bool | None, Meta(description="Does it trace transactions by debug methods?")]
    agreement: ProofAgreement
    latency: Annotated[dict[str, float], Meta(description="Seconds that a call took, by method: the median.")]
    faults: Annotated[list[str], Meta(description="What could not be found out, and why.")]
    says: Annotated[list[str], Meta(description="All of it in sentences.")]


def proof_document(proof: Proof | None) -> ProofNow | None:
    """The document of a proof; None before there is one."""
    if proof is None:
        return None
    at = datetime.fromtimestamp(proof.at, UTC).isoformat(timespec="seconds")
    more = {"at": at, "agreement": structs.asdict(proof.agreement), "faults": list(proof.faults)}
    return cast(ProofNow, {**structs.asdict(proof), **more, "says": list(proof.sentences())})
