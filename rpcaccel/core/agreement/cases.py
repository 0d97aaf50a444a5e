"""Cases of disagreement: what nodes answered differently about final data, or falsely, and which of them was wrong.

Workers make the cases and the supervisor keeps the newest ones, bounded in number and in bytes, and judges a node by
them: one wrong answer may be chance, several of few compared ones are not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from math import exp
from typing import Annotated

from msgspec import Meta, Struct

MAX_CASE_CHARACTERS = 2000
"""Characters kept of an answer, and of the params."""
MAX_CASES_BYTES = 4 << 20
"""Bytes of the texts of all cases of a program."""
CHANCE = 0.001
"""Share (0..1) of compared answers in which a good node may be contradicted: by a bit that flipped, a database that was
repaired, a rule of this proxy that is wrong."""
MAX_CHANCE = 0.001
"""Probability (0..1) below which a number of contradicted answers is not taken for chance. A node is judged anew with
each case, so that a good node is taken for a wrong one somewhat more often than that."""
JUDGED_SECONDS = 3600.0
"""Seconds for which a case counts when a node is judged."""
MIN_CASES = 2
"""Cases without which no node is suspected."""


class CaseAnswer(Struct, frozen=True, kw_only=True):
    """What a node answered in a case of disagreement."""

    node: str
    head: Annotated[int | None, Meta(description="The node's head when it was asked.")]
    text: Annotated[str, Meta(description="The result as JSON text, cut short and printable.")]
    size: Annotated[int, Meta(description="Bytes of the whole result.")]


class CaseFacts(Struct, frozen=True, kw_only=True):
    """Nodes gave different answers to one call about final data. Texts are cut to MAX_CASE_CHARACTERS characters."""

    network: str
    method: str
    params: Annotated[str, Meta(description="JSON text, cut short and printable.")]
    block: Annotated[int | None, Meta(description="The block that the call is about.")] = None
    at: Annotated[float, Meta(description="Seconds since 1970.")]
    difference: Annotated[str, Meta(description="The first difference in words.")]
    answers: tuple[CaseAnswer, ...]
    minority: Annotated[
        tuple[str, ...], Meta(description="Nodes that two others, which agree, contradict; empty: nobody could decide.")
    ] = ()
    disproved: Annotated[
        bool, Meta(description="The one answer contradicts the call or the hash of its block: no other node was asked.")
    ] = False


class Case(CaseFacts, frozen=True, kw_only=True, tag=True):
    """A case as a worker tells it."""

    wrong: tuple[str, ...] = ()
    """The keys under which the answer of the first node may have been kept, when that node was contradicted."""

    @property
    def size(self) -> int:
        """About the bytes that the texts of the case take."""
        return len(self.params) + len(self.difference) + sum(len(answer.text) for answer in self.answers)


class CaseLog:
    """The newest cases of all networks."""

    __slots__ = ("_bytes", "_cases")

    def __init__(self) -> None:
        self._cases: deque[Case] = deque()
        self._bytes = 0

    def __repr__(self) -> str:
        return f"<log of {len(self._cases)} cases, {self._bytes} B>"

    def __iter__(self) -> Iterator[Case]:
        """The cases, the newest first."""
        return reversed(self._cases)

    def add(self, case: Case, keep: int) -> None:
        """Keep a case, and of its network the newest `keep` cases."""
        self._cases.append(case)
        self._bytes += case.size
        of_network = [one for one in self._cases if one.network == case.network]
        for old in of_network[: max(0, len(of_network) - keep)]:
            self._drop(old)
        while self._bytes > MAX_CASES_BYTES:
            self._drop(self._cases[0])

    def against(self, network: str, node: str, since: float) -> list[Case]:
        """The cases since a time (seconds since 1970) in which the node was contradicted, the newest first; of several
        about one call, the newest."""
        found: dict[tuple[str, str], Case] = {}
        for one in self:
            if one.network == network and node in one.minority and one.at >= since:
                found.setdefault((one.method, one.params), one)
        return list(found.values())

    def keep_only(self, networks: Iterable[str]) -> None:
        """Forget the cases of all other networks."""
        known = set(networks)
        for old in [one for one in self._cases if one.network not in known]:
            self._drop(old)

    def _drop(self, case: Case) -> None:
        for at, one in enumerate(self._cases):
            if one is case:
                del self._cases[at]
                self._bytes -= case.size
                return


def is_suspect(compared: int, contradicted: int) -> bool:
    """Was a node contradicted more often than by chance?

    The number of contradicted ones among `compared` answers of a good node follows a Poisson distribution with the mean
    CHANCE * compared. A node is suspected when so many, or more, are less probable than MAX_CHANCE.
    """
    if contradicted < MIN_CASES:
        return False
    mean = CHANCE * max(compared, contradicted)
    term, below = exp(-mean), 0.0
    for count in range(contradicted):
        below += term
        term *= mean / (count + 1)
        if term < 1e-18 and count > mean:
            break
    return 1.0 - below < MAX_CHANCE
