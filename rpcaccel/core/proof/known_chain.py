"""What is known of a chain where answers are judged: its blocks, and forms that came out right.

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

from msgspec import Struct

MAX_KNOWN_BLOCKS = 8192
"""Blocks near the head that are known of a network, some 1,000 bytes each; and as many older ones, so that who reads
through old blocks makes none near the head forgotten. The one added first is dropped first."""


class ProvedHeader(Struct, frozen=True, gc=False):
    """What is kept of a header that came out with the hash of its block."""

    number: int
    hash: str
    """The hash of the block, in lower case, as `parent` is that of the block before it."""
    parent: str
    time: int
    """Its timestamp (seconds since 1970)."""
    state_root: bytes
    bloom: bytes
    """The bloom of the block's logs (256 bytes)."""


class KnownBlocks:
    """Blocks of one network: the hashes of those on the served branch, by number, in lower case; and proved headers,
    which may be of any branch."""

    __slots__ = ("_hashes", "_headers", "_numbers", "_serial", "forgotten")

    def __init__(self) -> None:
        self._hashes: tuple[dict[int, str], dict[int, str]] = {}, {}
        """Of blocks near the head, and of older ones."""
        self._headers: tuple[dict[str, ProvedHeader], dict[str, ProvedHeader]] = {}, {}
        self._numbers: dict[str, int] = {}
        self._serial = (0, -1, 0)
        self.forgotten = 0
        """How often blocks were forgotten: what was asked before may be of a branch that was left since."""

    def __repr__(self) -> str:
        return f"<{sum(map(len, self._hashes))} block hashes, {sum(map(len, self._headers))} headers>"

    def of(self, number: int) -> str:
        """The hash of a block; empty when it is not known."""
        return self._hashes[0].get(number) or self._hashes[1].get(number, "")

    def number_of(self, hash: str) -> int:
        """The number of the block with this hash; -1 when it is not known."""
        return self._numbers.get(hash, -1)

    def header(self, hash: str) -> ProvedHeader | None:
        """The header of the block with this hash; None when it is not known."""
        return self._headers[0].get(hash) or self._headers[1].get(hash)

    def header_at(self, number: int) -> ProvedHeader | None:
        """The header of a block on the served branch; None when it is not known."""
        return self.header(self.of(number))

    def add_header(self, header: ProvedHeader) -> None:
        """Take a proved header."""
        same = self._headers[self._age(header.number)]
        same[header.hash] = header
        if len(same) > MAX_KNOWN_BLOCKS:
            del same[next(iter(same))]

    def add(self, number: int, hash: str) -> None:
        """Take the hash of a block on the served branch."""
        if self.of(number) not in ("", hash):
            self.forget(number)
        same = self._hashes[self._age(number)]
        same[number] = hash
        self._numbers[hash] = number
        if len(same) > MAX_KNOWN_BLOCKS:
            self._drop(same, next(iter(same)))

    def _age(self, number: int) -> int:
        """0 for a block near the head, 1 for an older one."""
        return int(number <= self._serial[2] - MAX_KNOWN_BLOCKS // 2)

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
        for same in self._hashes:
            for number in [number for number in same if number >= first]:
                self._drop(same, number)

    def _drop(self, same: dict[int, str], number: int) -> None:
        hash = same.pop(number)
        if not self.of(number):
            self._numbers.pop(hash, None)


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
