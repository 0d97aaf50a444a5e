"""What is known about a network's chain at one moment. Every plan is made at a snapshot."""

from __future__ import annotations

from msgspec import Struct


class ChainSnapshot(Struct, frozen=True, kw_only=True):
    """The chain of one network at one moment. A new head makes a new snapshot."""

    serial: int = 0
    """Increases with every change of another field; a plan made at another serial is stale."""
    head: int = -1
    """The served head (architecture section 5); -1 until a node has reported one."""
    best: int = -1
    """The highest head of any node on the right chain: no node has a block above it."""
    final: int = -1
    """The highest final block; equals `head` where blocks are final at once."""
    finalized: int = -1
    """The block that the `finalized` tag names; -1 when the chain has no such tag or the block is not known yet."""
    safe: int = -1
    """The block that the `safe` tag names; -1 likewise. It is not below `finalized`, and it may be replaced."""
    doubt: int = 0
    """Blocks by which a hidden machine (architecture section 5) may lag or differ without the probes noticing."""
    fork_epoch: int = 0
    """Increases when a reorganisation is seen."""
    epoch: int = -1
    """A lower bound of the current epoch; -1 while unknown."""
    eth_chain_id: int = -1
    """The chain id; -1 until a node was checked or the settings state it."""
    network_id: int = -1
    """The chain's own id where it differs from the eth chain id (Harmony: 1, 2, …); -1 while unknown."""

    genesis: str | None = ""
    """The hash of block 0 (0x and 64 digits); empty when no node tells it, None when no node was asked yet."""
    block_one: str | None = ""
    """The hash of block 1, once it is final; empty when no node tells it, None when no node was asked since."""

    @property
    def settled(self) -> int:
        """The highest settled block (architecture section 5): hidden machines answer alike up to it."""
        return min(self.final, self.head - self.doubt)

    @property
    def known(self) -> bool:
        """Is it certain which chain this is? Until then nothing is kept, because the key could be wrong."""
        return self.eth_chain_id >= 0 and self.genesis is not None and self.block_one is not None
