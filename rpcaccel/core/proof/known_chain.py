"""What is known of a chain where answers are judged: hashes of blocks, and forms that came out right.

Hashes of blocks are certain on the branch that most of the nodes' weight serves. The control plane tells the hash of
each served head. A proved header adds that of its parent, and the nodes that hold most of the weight can be asked for
that of a final block. A reorganisation makes uncertain what is not final.

A hash that comes out differently shows that a member is false, or that the chain hashes something else than this
program knows: a fork added a member, or the chain is of a kind of its own. A form, such as the members that a header
has, that came out right for one served block and for a later one does so for all blocks between them. Elsewhere a
second node is asked: where it proves its answer, the first one was false, and where it shows the same, the chain hashes
so.
"""

from __future__ import annotations

from typing import Literal

MAX_BLOCK_HASHES = 8192
"""Hashes that are kept for a network, some 300 bytes each; the one added first is dropped first."""


class BlockHashes:
    """The hashes of one network's blocks, by number, in lower case."""

    __slots__ = ("_hashes", "_numbers", "_serial", "forgotten")

    def __init__(self) -> None:
        self._hashes: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._serial = (0, -1, 0)
        self.forgotten = 0
        """How often blocks were forgotten: what was asked before may be of a branch that was left since."""

    def __repr__(self) -> str:
        return f"<{len(self._hashes)} block hashes>"

    def of(self, number: int) -> str:
        """The hash of a block; empty when it is not known."""
        return self._hashes.get(number, "")

    def number_of(self, hash: str) -> int:
        """The number of the block with this hash; -1 when it is not known."""
        return self._numbers.get(hash, -1)

    def add(self, number: int, hash: str) -> None:
        """Take the hash of a block on the served branch."""
        if self._hashes.get(number, hash) != hash:
            self.forget(number)
        self._hashes[number] = hash
        self._numbers[hash] = number
        if len(self._hashes) > MAX_BLOCK_HASHES:
            self._drop(next(iter(self._hashes)))

    def served(self, head: int, hash: str, final: int, fork_epoch: int, doubted: int) -> None:
        """Take the head that is served now. What a reorganisation may have replaced is forgotten.

        Args:
            hash: empty where nobody told it.
            final: the highest final block.
            doubted: the fork epoch since which final blocks are in doubt; -1: never.
        """
        epoch, doubts, final_before = self._serial
        if doubted != doubts:
            self.forget(0)
        elif fork_epoch != epoch:
            self.forget(min(final, final_before) + 1)  # the fork is above what was final before it
        self._serial = (fork_epoch, doubted, final)
        if hash:
            self.add(head, hash.lower())

    def forget(self, first: int) -> None:
        """Forget the blocks from this number on."""
        self.forgotten += 1
        for number in [number for number in self._hashes if number >= first]:
            self._drop(number)

    def _drop(self, number: int) -> None:
        self._numbers.pop(self._hashes.pop(number), None)


Familiarity = Literal["certain", "unknown", "new"]
"""What a hash that comes out differently means. "certain": the answer is false. "unknown": the chain hashes this form
otherwise. "new": another node is to be asked."""


class SeenForms:
    """The forms that the blocks of one network had. There are as many as this program knows, some twenty."""

    __slots__ = ("_proved", "_unknown")

    def __init__(self) -> None:
        self._proved: dict[str, tuple[int, int]] = {}
        """The lowest and the highest block at which a form came out right."""
        self._unknown: set[str] = set()

    def __repr__(self) -> str:
        return f"<forms: {', '.join(self._proved) or 'none'} proved, {', '.join(self._unknown) or 'none'} unknown>"

    def held(self, form: str, number: int) -> None:
        """Note that a hash of this form came out right at a block."""
        lowest, highest = self._proved.get(form, (number, number))
        self._proved[form] = min(lowest, number), max(highest, number)
        self._unknown.discard(form)

    def familiarity(self, form: str, number: int) -> Familiarity:
        """What it means that a hash of this form does not come out right at a block."""
        lowest, highest = self._proved.get(form, (1, 0))
        if lowest <= number <= highest:
            return "certain"
        return "unknown" if form in self._unknown else "new"

    def is_unknown(self, form: str) -> None:
        """Note that nodes agree about an answer of this form whose hash does not come out right."""
        self._unknown.add(form)

    def unknown_of(self, method: str) -> str:
        """The forms of a method's answers that the chain hashes in an unknown way, in words; empty: none."""
        return " and a ".join(sorted(form for form in self._unknown if form.endswith(f" in {method}")))
