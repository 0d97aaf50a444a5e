"""The served branch as subscribers are told of it: which blocks are to be fetched next, and which are to be sent.

The **window** holds the newest blocks that were sent (and some before them, for comparison), each linked to the one
before by its parent hash. The **aim** is the served head as it was told last. Blocks that are known and not on the
branch wait in a pool until a path of parent hashes leads from the aim down to the window: then all blocks of the window
above the fork are abandoned, oldest first, and those of the path are appended. So nothing is sent that does not link.

- A block more than one below the aim is fetched by number, BLOCKS_AT_ONCE at once. It is used only if it is on the
  path.
- When a block of the path is missing, it is fetched by its hash. This is how a reorganisation is followed down.
- Where the hash of the aim is not known, a block by number that links to the tip is the next block. If it does not
  link, the path is walked down from the hash of the highest one that was fetched with it.
- Where blocks are final at once, a block that does not link is a node's fault: it is asked for again, BLOCK_TRIES
  times.
- A header that a node pushed takes the place of a fetch only while nothing speaks against it. What was fetched comes
  first: where it differs, or where the parent that was pushed cannot be had, the block itself is fetched. No block is
  abandoned for a header that was only pushed, and of two that were pushed for one place none is taken.
- A height may have no block (Filecoin's null rounds). Nodes that lack a block by its number do not show that there is
  none: the next block shows it, when it was fetched and its parent is the block below the gap. A header that was only
  pushed proves no gap.
- When the served head moves before the blocks of the last aim have come, both are pursued: a head that was served may
  be sent, and a chain that is faster than its nodes would otherwise never be caught up with.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from rpcaccel.core.live.block import LiveBlock
from rpcaccel.core.live.window import BlockPool, BlockWindow, PushedHeaders

WINDOW_BLOCKS = 128
"""Blocks that are remembered: a deeper reorganisation cannot be followed."""
WINDOW_BYTES = 8 * 1024 * 1024
"""Bytes of the headers in the window, and in the pool, from which the oldest are forgotten."""
BLOCKS_AT_ONCE = 16
"""Blocks that are fetched at once."""
FAR_BLOCKS = 64
"""Blocks above the tip from which an aim is far: the blocks between are then sent chunk by chunk, as they link."""
ROOT_BLOCKS = 16
"""Blocks of the window that are fetched below the first one, so that a reorganisation soon after can be followed."""
BLOCK_TRIES = 4
"""Times that a block may be lacked, or not fit, until the branch is given up."""
_MAX_POOL_BLOCKS = 256
"""Blocks that wait: enough for all of a path that is not far, with as many of other branches."""

MAX_EMPTY_HEIGHTS = 1024
"""Heights in a row that are passed over at the most because no node has a block there."""

RESTARTED = "the chain was reorganised further back than is remembered: subscribe again"


class Want(Struct, frozen=True, gc=False):
    """A block that is to be fetched."""

    number: int
    """Where the hash is that of a parent, the block may be a lower one: heights between may have none."""
    hash: str = ""
    """Empty: the block is fetched by its number."""


class Appended(Struct, frozen=True, gc=False):
    """A block is the new tip of the branch."""

    block: LiveBlock
    announced: bool
    """Did a node push the header?"""


class Abandoned(Struct, frozen=True, gc=False):
    """A block is no longer on the branch."""

    block: LiveBlock
    sent: bool
    """Was the block appended before? It was not where it is older than the first block that was followed."""
    low: int
    """The lowest height at which the branch may have another block now."""


BranchMove = Appended | Abandoned


class FollowedBranch:
    """The branch of one network, from the block on at which the first subscriber joined.

    Args:
        number, block_hash: that block; without a hash, the block that a node has under the number.
        final_at_once: no block of the chain is ever replaced.
    """

    def __init__(
        self,
        number: int,
        block_hash: str = "",
        *,
        final_at_once: bool,
        most: int = WINDOW_BLOCKS,
        most_bytes: int = WINDOW_BYTES,
    ) -> None:
        self.lost = ""
        """Why the branch cannot be followed any further; empty while it can."""
        self._start = Want(number, block_hash)
        self._final_at_once = final_at_once
        self._most = most
        self._window = BlockWindow(most, most_bytes, ROOT_BLOCKS)
        self._unsent: set[str] = set()
        """Blocks of the window that were never appended: the first one, and those below."""
        self._pool = BlockPool(_MAX_POOL_BLOCKS, most_bytes, FAR_BLOCKS + BLOCKS_AT_ONCE)
        self._announced = PushedHeaders()
        self._numbered: dict[int, str] = {}
        """The hashes of the blocks that were got by number since the tip moved, by number."""
        self._empty: set[int] = set()
        """The heights above the tip at which a node had no block since the tip moved."""
        self._aim = self._goal = self._start
        """The goal is the aim, an older aim that is not reached yet, or a block on the way to an aim that is far."""
        self._floor = max(0, number if final_at_once else number - ROOT_BLOCKS)
        self._lacked = 0
        """Times in a row that the first block or the one below the window was lacked."""
        self._clashes = 0
        """Times in a row that a block did not fit on a chain whose blocks are final at once."""

    def __repr__(self) -> str:
        held = f"{self.first.number}..{self.tip.number}" if self._window else "nothing"
        return f"<FollowedBranch {held}, aim {self._aim.number}>"

    # -- what is known ------------------------------------------------------------------------------------------------

    @property
    def begun(self) -> bool:
        """Is the first block known?"""
        return bool(self._window)

    @property
    def first(self) -> LiveBlock:
        """The oldest block of the window."""
        return self._window.first

    @property
    def tip(self) -> LiveBlock:
        """The newest block of the branch."""
        return self._window.tip

    @property
    def lowest(self) -> int:
        """The number of the oldest block of the window, or of the first block before that is known."""
        return self.first.number if self.begun else self._start.number

    @property
    def highest(self) -> int:
        """The number of the newest block of the branch, or of the first block before that is known."""
        return self.tip.number if self.begun else self._start.number

    @property
    def aimed(self) -> Want:
        """The served head that was told last."""
        return self._aim

    def holds(self, number: int, block_hash: str) -> bool:
        """Is this block on the branch, as far as the window and the parent of its first block tell?"""
        if self.begun and number < self.first.number:
            return block_hash == self.first.parent
        return self._window.number_of(block_hash) == number

    def after(self, number: int, most: int) -> list[LiveBlock]:
        """At most `most` blocks of the window after this number, oldest first."""
        return self._window.after(number, most)

    def reach(self, number: int) -> bool:
        """Extend the window down to this block. False while there is more to fetch; True also when no more can be
        had."""
        self._floor = min(self._floor, max(0, number))
        return self.begun and not self._roots()

    # -- what comes in ------------------------------------------------------------------------------------------------

    def aim(self, number: int, block_hash: str = "") -> None:
        """Take the served head."""
        self._aim = Want(number, block_hash)
        if self.begun:
            if self._comparable(self._aim):
                self._floor = min(self._floor, number)
            if self.reached(self._goal):
                self._choose()

    def announce(self, block: LiveBlock) -> None:
        """Take a header that a node pushed."""
        known = self._known(block.hash)
        if known is not None and not known.stands_as(block):
            self._announced.doubt(block.hash)
        else:
            self._announced.add(block)

    def take(self, want: Want, block: LiveBlock) -> None:
        """Take a fetched block: the one that was wanted."""
        pushed = self._announced.get(block.hash)
        if pushed is not None and not pushed.stands_as(block):
            self._announced.doubt(block.hash)
        if not self.begun:
            self._window.extend(block)
            self._unsent.add(block.hash)
            self._lacked = 0
            self._choose()
            return
        if not want.hash:
            if want.number in self._empty:
                self._empty.discard(want.number)
                self._choose()  # with the foot lower, the aim may be far
            self._numbered[want.number] = block.hash
        if not self.holds(block.number, block.hash) or block.number < self.first.number:
            self._pool.add(block)
        self._take_roots()

    def failed(self, want: Want, *, lacked: bool) -> None:
        """Note that a block could not be had; `lacked`: a node answered that it has no such block, or another one."""
        for block in [one for one in self._announced if one.parent == want.hash]:
            self._announced.doubt(block.hash)  # nobody has the parent that was pushed
        if not lacked:
            return
        if self.begun and want != self._root:
            if not want.hash and want.number > self.tip.number and len(self._empty) < MAX_EMPTY_HEIGHTS:
                self._empty.add(want.number)
            self._choose()
            return
        self._lacked += 1
        if not self.begun and self._lacked >= 2 * BLOCK_TRIES:
            self.lost = RESTARTED

    # -- what follows -------------------------------------------------------------------------------------------------

    def moves(self) -> list[BranchMove]:
        """What is to be sent now. Sets `lost` when it can never be known."""
        moves: list[BranchMove] = []
        while self.begun and not self.lost:
            made = self._moves_to(self._aim) or self._moves_to(self._goal)
            if not made:
                break
            moves += made
            self._choose()
        return moves

    def wants(self) -> list[Want]:
        """The blocks to fetch now, the most urgent first."""
        if self.lost:
            return []
        if not self.begun:
            return [self._start]
        wanted: dict[Want, None] = {}
        for target in dict.fromkeys((self._goal, self._aim)):
            if not self.reached(target) and target.number - self._foot <= FAR_BLOCKS:
                wanted |= dict.fromkeys(self._missing(target))
        if not wanted:
            wanted |= dict.fromkeys(self._roots())
        return list(wanted)[: 2 * BLOCKS_AT_ONCE]

    def _choose(self) -> None:
        """Pursue the aim, or a block on the way to an aim that is far."""
        far = self._aim.number - self._foot > FAR_BLOCKS
        goal = Want(self._foot + BLOCKS_AT_ONCE) if far else self._aim
        further = not (goal.hash or self._goal.hash) and goal.number > self._goal.number
        if goal != self._goal and not further:
            self._numbered.clear()
        self._goal = goal

    def _passed(self, number: int, last: int | None = None) -> int:
        """The highest height, at most `last`, up to which no node had a block above this one."""
        while number + 1 in self._empty and number != last:
            number += 1
        return number

    @property
    def _foot(self) -> int:
        """The height above which the next block is looked for: that of the tip, or of the last one without a block."""
        return self._passed(self.tip.number)

    def reached(self, target: Want) -> bool:
        """Is the target on the branch? A lower number is, unless its hash says otherwise. A block below the window is
        taken for one of the branch when the window cannot be extended down to it."""
        if target.hash and not self._final_at_once:
            if self.holds(target.number, target.hash):
                return True
            return target.number < self.first.number - 1 and not self._comparable(target)
        return target.number <= self.tip.number

    def _comparable(self, target: Want) -> bool:
        """Can the window be extended down to a target, to see by its hash whether it is on the branch?"""
        if not target.hash or self._final_at_once or self._root is None or self._lacked >= BLOCK_TRIES:
            return False
        return self.tip.number - target.number < self._most

    def _moves_to(self, target: Want) -> list[BranchMove]:
        """The moves to a target that is linked to the window; [] when it is reached, or a block is missing."""
        if self.reached(target):
            return []
        if not target.hash or self._final_at_once:
            linked, clash = self._climb(target)
            if clash and self._final_at_once and self._clash(clash, linked):
                return []
            if linked and (self._final_at_once or self._passed(linked[-1].number, target.number) == target.number):
                return self._go(self.tip.number, linked)
            highest = min(self._foot + BLOCKS_AT_ONCE, target.number)
            while highest in self._empty:
                highest -= 1
            if clash and target == self._goal and highest in self._numbered:
                self._goal = Want(highest, self._numbered[highest])
                return self._moves_to(self._goal)
            return []
        fork, path = self._walk(target)
        if self.lost or isinstance(path, Want):
            return []
        return self._go(fork, path)

    def _climb(self, target: Want) -> tuple[list[LiveBlock], int]:
        """The known blocks that link to the tip one after the other, up to a target, and the number of the first block
        that was got by number and does not link (0: none, or a block below it may be missing on a chain whose blocks
        are final at once)."""
        # Without a hash, a known child may be a block that was abandoned.
        children = self._children() if self._final_at_once or target.hash else {}
        linked: list[LiveBlock] = []
        last = self.tip
        while last.number < target.number:
            number = last.number + 1
            told = self._numbered.get(number)
            block = children.get(last.hash) if told is None else self._known(told)
            if block is None or block.number != number:
                self._numbered.pop(number, None)  # the pool had no room for it
                block = self._above(number, target.number)
                if block is None or (self._final_at_once and block.parent != last.hash):
                    return linked, 0
            if block.parent != last.hash:
                return linked, block.number
            linked.append(block)
            last = block
        return linked, 0

    def _above(self, number: int, last: int) -> LiveBlock | None:
        """The next block that was got by number above this height and others below `last` at which no node had one."""
        above = self._passed(number - 1, last - 1) + 1
        block = self._pool.get(self._numbered.get(above, "")) if above > number else None
        return block if block is not None and block.number == above else None

    def _children(self) -> dict[str, LiveBlock | None]:
        """The known block on each block, by the hash of the lower one."""
        children: dict[str, LiveBlock | None] = {}
        for block in self._announced:
            children[block.parent] = None if block.parent in children else block
        return children | {block.parent: self._known(block.hash) for block in self._pool}

    def _clash(self, number: int, linked: list[LiveBlock]) -> bool:
        """Forget what does not fit on a chain whose blocks are final at once: it is asked for again. That is a block of
        those below that was only pushed, for which True is returned, else the one that was got by number."""
        pushed = [block.hash for block in linked if block.hash not in self._pool]
        for block_hash in pushed or [block.hash for block in self._announced if block.parent == self.tip.hash]:
            self._announced.doubt(block_hash)
        if pushed:
            return True
        self._pool.drop(self._numbered.pop(number))
        self._clashes += 1
        if self._clashes >= BLOCK_TRIES:
            self.lost = RESTARTED
        return False

    def _walk(self, target: Want) -> tuple[int, list[LiveBlock] | Want]:
        """The number of the fork, and the blocks above it up to a target; or the missing block in their place. Sets
        `lost` when there is no fork in the window."""
        path: list[LiveBlock] = []
        number, block_hash = target.number, target.hash
        while (fork := self._fork(number, block_hash, path)) is None:
            if number < self.first.number:
                root = self._root
                if root is None or self._lacked >= BLOCK_TRIES:
                    self.lost = RESTARTED
                    return 0, []
                return 0, root
            block = self._known(block_hash)
            if block is None or block.number > number or (block.number < number and not path):
                return 0, Want(number, block_hash)
            path.append(block)
            number, block_hash = block.number - 1, block.parent
        if fork < self.tip.number or (path and path[0].number - fork > len(path)):
            for block in path:
                if block.hash not in self._pool:
                    self._announced.doubt(block.hash)
                    return 0, Want(block.number, block.hash)
        return fork, path[::-1]

    def _fork(self, number: int, block_hash: str, path: list[LiveBlock]) -> int | None:
        """The number of the block with this hash, at this height or below, if it is on the branch. Below the window it
        is not known exactly. Without a path the block is the target, whose number is known."""
        found = self._window.number_of(block_hash)
        if found is None and block_hash == self.first.parent:
            found = min(number, self.first.number - 1)
        return found if found is not None and (found == number or (path and found < number)) else None

    def _missing(self, target: Want) -> Iterable[Want]:
        """The blocks that are missing on the way to a target."""
        linked, _ = self._climb(target)
        below = target.number
        if target.hash and not self._final_at_once:
            _, missing = self._walk(target)
            if not isinstance(missing, Want):
                return
            yield missing
            if missing == self._root:
                yield from self._roots()
                return
            below = missing.number - 1
        first = (linked[-1] if linked else self.tip).number + 1
        heights = (number for number in range(first, below + 1) if number not in self._empty)
        yield from (Want(number) for number in islice(heights, BLOCKS_AT_ONCE) if number not in self._numbered)
        again = sorted(number for number in self._empty if number <= below)
        yield from map(Want, [*again[: BLOCKS_AT_ONCE - 1], *again[-1:]])  # a node may have been behind

    def _go(self, fork: int, path: list[LiveBlock]) -> list[BranchMove]:
        """Leave the blocks above the fork, and append those of a path."""
        moves: list[BranchMove] = []
        low = min(fork + 1, *(block.number for block in path[:1]))
        for block in self._window.leave(fork):
            moves.append(Abandoned(block, sent=block.hash not in self._unsent, low=low))
            self._unsent.discard(block.hash)
            self._pool.add(block)
        for block in path:
            moves.append(Appended(block, announced=block.hash in self._announced))
            self._window.extend(block)
            self._pool.drop(block.hash)
        self._numbered.clear()
        self._empty.clear()
        self._clashes = 0
        self._trim()
        return moves

    def _known(self, block_hash: str) -> LiveBlock | None:
        """A block that is not on the branch; as it was pushed, rather than as it was fetched."""
        return self._announced.get(block_hash) or self._pool.get(block_hash)

    def _trim(self) -> None:
        for block in self._window.trim():
            self._unsent.discard(block.hash)
            self._floor = self.first.number

    # -- below the window ---------------------------------------------------------------------------------------------

    @property
    def _root(self) -> Want | None:
        """The block below the window; None when the window may hold no more."""
        if self._window.full or self.first.number <= 0:
            return None
        return Want(self.first.number - 1, self.first.parent)

    def _roots(self) -> list[Want]:
        """Blocks below the window that are wanted for comparison."""
        root = self._root
        if root is None or self._lacked >= BLOCK_TRIES or root.number < self._floor:
            return []
        numbers = range(max(self._floor, root.number - BLOCKS_AT_ONCE + 1), root.number)
        return [root, *(Want(number) for number in numbers if number not in self._numbered)]

    def _take_roots(self) -> None:
        """Put known blocks below the window into it."""
        while (root := self._root) is not None and (block := self._pool.get(root.hash)) is not None:
            if block.number > root.number:
                return
            self._window.extend(block, below=True)
            self._unsent.add(block.hash)
            self._pool.drop(block.hash)
            self._lacked = 0
