"""What is known of a network at one moment: the view every plan is made at."""

from __future__ import annotations

from msgspec import Struct


class ChainSnapshot(Struct, frozen=True, kw_only=True):
    """One network at one moment. A new head is a new view."""

    serial: int = 0
    """Grows with every change of any other field; plans made at another serial are made anew."""
    head: int = -1
    """The served head (architecture section 5); -1 until a node has told one."""
    best: int = -1
    """The highest head of any node of the right chain: a block above it is nobody's yet."""
    final: int = -1
    """The highest block that can no longer change; equals `head` where blocks are final at once."""
    finalized: int = -1
    """The block the `finalized` tag stands for; -1 where the chain has no such tag or it is not known yet."""
    doubt: int = 0
    """Blocks by which a machine hidden behind a node's URL may be behind, unnoticed by probes, or on another branch."""
    fork_epoch: int = 0
    """Grows when a reorganisation was seen."""
    epoch: int = -1
    """A lower bound of the current epoch; -1 while unknown."""
    eth_chain_id: int = -1
    """-1 until a node was checked or the configuration states it."""
    network_id: int = -1
    """The chain's own id where it differs from the eth chain id (Harmony: 1, 2, …); -1 while unknown."""

    genesis: str | None = ""
    """The hash of block 0 (0x and 64 digits); empty: no node tells one; None: none was asked yet."""

    @property
    def settled(self) -> int:
        """The highest final block about which every machine that answers for a node says the same."""
        return min(self.final, self.head - self.doubt)

    @property
    def known(self) -> bool:
        """Is it certain which chain this is? Before that nothing is kept: it could be kept under a wrong name."""
        return self.eth_chain_id >= 0 and self.genesis is not None
