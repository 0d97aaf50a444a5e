"""Reads from a node's refusal of a range how many blocks the node would take at once.

Numbers of logs, bytes and seconds are passed over, and so is the length of the range that was refused.
"""

from __future__ import annotations

import re

from rpcaccel.core.replies.error_rules import MAX_SEARCHED_CHARACTERS

_NUMBER = r"(?:0x[0-9a-f]+|\d+)"
_PAIR = re.compile(rf"\[\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\]|\brange:? \(?({_NUMBER}) ?(?:-|\.\.|to) ?({_NUMBER})\b")
_ABOUT_BLOCKS = re.compile(r"\b(ranges?|blocks?|span|distance|interval|epochs)\b")
_COUNT = re.compile(r"(?<![\w.,-])(\d{1,9}(?:[,_]\d{3})*)(?: ?(k|m|thousand))?\b(?![.,]?\d)")
_FACTORS = {"k": 1_000, "thousand": 1_000, "m": 1_000_000}
_LIMITING = re.compile(
    r"(\b(limit(s|ed)?|max\w*|exceed\w*|up to|at most|only|over|above|beyond|within|than|capped?|restricted|narrow)\b"
    r"|[<>])[^.;\d]{0,30}$"
)
_LIMIT_FOLLOWS = re.compile(r"[ -]?(blocks? )?(range )?(is |are )?(the )?(max|limit|allowed|at (a time|once|most))")
_OF_BLOCKS = re.compile(r"[ -]?(blocks?|ranges?|epochs)\b")
_OTHERS = r"logs?|results?|events?|entries|items|records|receipts|addresses|topics"
_OF_OTHERS = re.compile(
    rf"[ -]?({_OTHERS}|bytes?|[kmg]i?b|s|ms|sec(ond)?s?|minutes?|hours?|days?|requests?|calls?|times|%)(?!\w)"
)
_ABOUT_OTHERS = re.compile(rf"\b({_OTHERS}|response|size|time|timeout)\b")
_SAID_OF_OTHERS = re.compile(rf"\b({_OTHERS}|response|size)\b[^.\d]{{0,15}}$")


def stated_limit(message: str) -> int | None:
    """The most blocks that the node says to take at once, whatever they hold; None when the text names none."""
    text = message[:MAX_SEARCHED_CHARACTERS].lower()
    if not _ABOUT_BLOCKS.search(text):
        return None
    counts = [_blocks(text, found) for found in _COUNT.finditer(text)]
    return min((count for count in counts if count), default=None)


def is_of_blocks(message: str) -> bool:
    """Does the refusal speak of the number of blocks alone, and not of what they hold?"""
    text = message[:MAX_SEARCHED_CHARACTERS].lower()
    return bool(_ABOUT_BLOCKS.search(text)) and not _ABOUT_OTHERS.search(text)


def suggested_length(message: str, refused: int) -> int | None:
    """The blocks for which the node would answer in place of a range of `refused` blocks; None when the text does not
    say so."""
    pairs = _PAIR.finditer(message[:MAX_SEARCHED_CHARACTERS].lower())
    lengths = [_length(*(number for number in pair.groups() if number)) for pair in pairs]
    stated = stated_limit(message)
    return next((one for one in (*lengths, stated) if one is not None and 0 < one < refused), None)


def _length(first: str, last: str) -> int:
    return int(last, 0 if last.startswith("0x") else 10) - int(first, 0 if first.startswith("0x") else 10) + 1


def _blocks(text: str, found: re.Match[str]) -> int:
    """The number that was found, if it is a limit of blocks; 0 for any other number."""
    before, after = text[max(0, found.start() - 60) : found.start()], text[found.end() :]
    if _OF_OTHERS.match(after) or not (_LIMITING.search(before) or _LIMIT_FOLLOWS.match(after)):
        return 0
    if _SAID_OF_OTHERS.search(before) and not _OF_BLOCKS.match(after):
        return 0
    return int(re.sub(r"\D", "", found[1])) * _FACTORS.get(found[2] or "", 1)
