"""Chooses the branch to serve from the block hashes that nodes report, and finds the nodes that are on it.

A node on an abandoned branch answers wrongly without an error, as a lagging node does. It must be recognised before a
call is sent to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rpcaccel.core.heads.chain_view import ChainView, shows_one_branch

_Told = list[tuple[ChainView, dict[int, str]]]
"""Nodes with the block hashes that they reported, or that follow from those."""


def lead(views: Sequence[ChainView], served: Mapping[int, str]) -> tuple[dict[int, str], list[ChainView]]:
    """The branch that holds most of the weight (hashes by block number), and the nodes known to be on it.

    A tie is won by the served branch. Where that is not known, because a node has just left it, the branch of a node
    that was on it so far wins: a node on a branch that had been abandoned tells nothing about where the others went.
    Among several such branches, the one wins that a node turned to last.

    Args:
        served: the hashes of the branch that was served so far; empty when a node left it.
    """
    along: _Told = [(view, view.hashes) for view in views]
    if _at_odds(view.hashes for view in views):
        along = _implied(along)
    branch: dict[int, str] = {}
    # From the oldest block on: a node that left the branch has no vote on later blocks.
    for number in sorted({number for _, told in along for number in told}):
        heaviest = _heaviest(along, number, served.get(number))
        if heaviest is not None:
            branch[number] = heaviest
            along = [(view, told) for view, told in along if told.get(number, heaviest) == heaviest]
    along = _together(along)
    shown = {number for _, told in along for number in told}
    return {number: told for number, told in branch.items() if number in shown}, [view for view, _ in along]


def _at_odds(hashes: Iterable[Mapping[int, str]]) -> bool:
    """Do any two of the nodes report different hashes of one block?"""
    known: dict[int, str] = {}
    return any(known.setdefault(number, told) != told for one in hashes for number, told in one.items())


def _implied(views: _Told) -> _Told:
    """Add implied hashes: nodes that share a block share all blocks below it."""
    full = [(view, dict(told)) for view, told in views]
    grown = True
    while grown:
        grown = False
        for _, mine in full:
            for _, other in full:
                common = max((number for number, told in mine.items() if other.get(number) == told), default=-1)
                news = {number: told for number, told in other.items() if number < common and number not in mine}
                mine.update(news)
                grown = grown or bool(news)
    return full


def _heaviest(views: _Told, number: int, served: str | None) -> str | None:
    """The hash of a block that holds most of the weight; None when no node reported one."""
    holders: dict[str, _Told] = {}
    for view, told in views:
        if (one := told.get(number)) is not None:
            holders.setdefault(one, []).append((view, told))
    return max(holders, key=lambda one: _standing(holders[one], served=one == served), default=None)


def _together(views: _Told) -> _Told:
    """The nodes shown to be on one branch; of several such groups, the one with the most weight.

    As long as no node has left a branch, or was found on another one, all nodes are on one branch.
    """
    if not any(view.turned or view.sure is not None for view, _ in views):
        return views
    turned_at = max(view.turned_at for view, _ in views)
    groups: list[_Told] = []
    for view, told in views:
        members: _Told = [(view, told)]
        for group in groups[:]:
            if any(shows_one_branch(view, told, *other, turned_at) for other in group):
                groups.remove(group)
                members += group
        groups.append(members)
    return max(groups, key=_standing)


def _standing(views: _Told, *, served: bool = False) -> tuple[float, bool, bool, int]:
    """The weight of nodes; then what wins a tie, in this order: their block is `served`, one of them was on the served
    branch so far, one of them turned last."""
    return (
        sum(view.weight for view, _ in views),
        served,
        any(view.sure is None for view, _ in views),
        max(view.turned for view, _ in views),
    )
