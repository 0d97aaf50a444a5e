"""Splits a JSON text into the raw texts of its members or items, however deeply these nest; checks for UTF-8.

msgspec splits a text much faster, but it is recursive and stops at Python's recursion limit (about 1,000 levels), while
a trace of the 1,024 nested calls that the EVM allows has twice as many. The texts at which msgspec stops are split here
by a loop over regular expressions that follow the grammar of RFC 8259, at about 50 MB of ordinary text a second. Values
beside a nested array or object are scanned up to three times: a text of many short ones takes a second for each 3 to
9 MB.
"""

from __future__ import annotations

import codecs
import re

import msgspec
from msgspec import Raw

from rpcaccel.core.stepwise import Steps, at_once

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The exceptions that msgspec raises for a foreign text: malformed, of an unexpected form, not UTF-8 where a string is
decoded, or nested too deeply."""
MOST_STEPS = 50_000
"""Brackets that are followed in one text: this many take a fortieth of a second by themselves, and up to three quarters
of a second with the worst values between them."""
MAX_TEXT_BYTES = 16 << 20
"""Bytes of the longest text that is split here."""
_STEP = 8
"""Brackets that are followed in one step; between two of them may stand some hundred values."""
_SLICE = 1 << 16
"""Bytes that are checked at once: decoding a whole long text would take up to four times its memory."""


class NotJson(ValueError):
    """The text is not JSON, or not the object or array that was expected."""


class TooDeep(ValueError):
    """The text is nested too deeply or too often, or is too long, to be split."""


def unmarked(text: bytes) -> bytes:
    """The text without a byte order mark in front, which some programs write and parsers may ignore (RFC 8259 section
    8.1)."""
    return text.lstrip(b" \t\r\n").removeprefix(codecs.BOM_UTF8)


def is_utf8(text: bytes) -> bool:
    """Is the text valid UTF-8? Pure ASCII, the usual case, is recognised at memory speed."""
    return text.isascii() or at_once(utf8_steps(text))


def utf8_steps(text: bytes) -> Steps[bool]:
    """Is the text, which may be long, valid UTF-8?"""
    if text.isascii():
        return True
    view, at = memoryview(text), 0
    try:
        while at < len(view):
            yield
            end = at + _SLICE
            _, read = codecs.utf_8_decode(view[at:end], "strict", end >= len(view))
            at += read
    except UnicodeDecodeError:
        return False
    return True


def members(text: bytes | Raw, most: int = MOST_STEPS) -> dict[str, Raw]:
    """The members of an object, by name; of a repeated name the last one, as msgspec does.

    Args:
        text: JSON in UTF-8.
        most: brackets to follow at the most.

    Raises:
        NotJson: the text is not one JSON object.
        TooDeep: there are more brackets, or the text is longer than MAX_TEXT_BYTES.
    """
    return at_once(member_steps(text, most))


def member_steps(text: bytes | Raw, most: int = MOST_STEPS, *, once: bool = False) -> Steps[dict[str, Raw]]:
    """The members of an object that may be long; arguments and exceptions as for `members`. `once`: no name may be
    repeated."""
    scan = _Scan(text, most)
    found: dict[str, Raw] = {}
    scan.skip(_BRACE)
    if scan.skips(_END_OF_OBJECT):
        return found
    while True:
        name = msgspec.json.decode(scan.skip(_NAME), type=str)
        if once and name in found:
            raise NotJson("a name is repeated")
        found[name] = yield from scan.value()
        if scan.skips(_END_OF_OBJECT):
            return found
        scan.skip(_COMMA)


def items(text: bytes | Raw, most: int = MOST_STEPS) -> list[Raw]:
    """The items of an array; arguments and exceptions as for `members`."""
    return at_once(item_steps(text, most))


def item_steps(text: bytes | Raw, most: int = MOST_STEPS) -> Steps[list[Raw]]:
    """The items of an array that may be long; arguments and exceptions as for `members`."""
    scan = _Scan(text, most)
    found: list[Raw] = []
    scan.skip(_BRACKET)
    if scan.skips(_END_OF_ARRAY):
        return found
    while True:
        found.append((yield from scan.value()))
        if not len(found) % _STEP:  # between flat items stands no bracket that is followed
            yield
        if scan.skips(_END_OF_ARRAY):
            return found
        scan.skip(_COMMA)


_SPACE = rb"[ \t\r\n]*+"
_HEX = rb"[0-9a-fA-F]"
_ESCAPE = rb'\\(?:["\\/bfnrt]|u(?:(?![dD][89a-fA-F])%b{4}|[dD][89abAB]%b{2}\\u[dD][c-fC-F]%b{2}))' % ((_HEX,) * 3)
_CHARACTERS = rb'[^"\\\x00-\x1f]*+'
_STRING = rb'"%b(?:%b%b)*+"' % (_CHARACTERS, _ESCAPE, _CHARACTERS)
_NUMBER = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_SCALAR = rb"(?:%b|%b|true|false|null)" % (_STRING, _NUMBER)
_MEMBER_NAME = _STRING + _SPACE + b":" + _SPACE


def _few(one: bytes) -> bytes:
    return rb"%b(?:%b%b(?:,%b%b%b){0,63}+)?+" % (_SPACE, one, _SPACE, _SPACE, one, _SPACE)


_FLAT = rb"(?:%b|\[%b\]|\{%b\})" % (_SCALAR, _few(_SCALAR), _few(_MEMBER_NAME + _SCALAR))
"""A scalar, or a short array or object of scalars alone."""


def _inside(name: bytes, end: bytes) -> re.Pattern[bytes]:
    """A pattern for values up to the end of their array or object, up to a nested one, or up to a comma.

    Repetitions are bounded, because `re` needs memory for each.
    """
    flat = name + _FLAT + _SPACE
    return re.compile(rb"%b(?:%b,%b){0,500}+(?:%b[,%b]|%b[\[{])" % (_SPACE, flat, _SPACE, flat, end, name))


_BRACE = re.compile(_SPACE + rb"()\{")
_BRACKET = re.compile(_SPACE + rb"()\[")
_COMMA = re.compile(_SPACE + rb"(),")
_NAME = re.compile(rb"%b(%b)%b:" % (_SPACE, _STRING, _SPACE))
_END_OF_OBJECT = re.compile(rb"%b\}%b\Z" % (_SPACE, _SPACE))
_END_OF_ARRAY = re.compile(rb"%b\]%b\Z" % (_SPACE, _SPACE))
_VALUE = re.compile(rb"%b(?:%b|[\[{])" % (_SPACE, _FLAT))
_ANY_SPACE = re.compile(_SPACE)
_COMMA_CODE = ord(",")
_ENDS = {ord("["): ord("]"), ord("{"): ord("}")}
_INSIDE = {ord("]"): _inside(b"", rb"\]"), ord("}"): _inside(_MEMBER_NAME, b"}")}
_OPENINGS = re.compile(rb"(?:(?:\[|\{%b%b)%b(?=[\[{](?!%b[\]}])))*+[\[{]" % (_SPACE, _MEMBER_NAME, _SPACE, _SPACE))
_ENDINGS = re.compile(rb"[\]}]++")
_STRINGS = re.compile(_STRING)
_CLOSING = bytes.maketrans(b"[{", b"]}")
_NO_BRACKET = bytes(sorted({*range(256)} - {*b"[{"}))
_RUN = 4
"""Brackets that end something, one behind the other, from which they are compared together."""
_BEHIND = {ord("]"): re.compile(_SPACE + rb"[,\]]"), ord("}"): re.compile(_SPACE + rb"[,}]")}


class _Scan:
    """A position in a text, moved forward by patterns that are expected there."""

    __slots__ = ("_at", "_left", "_text", "_view")

    def __init__(self, text: bytes | Raw, most: int) -> None:
        self._view = memoryview(text)
        if len(self._view) > MAX_TEXT_BYTES:
            raise TooDeep(f"deeply nested and longer than {MAX_TEXT_BYTES} bytes")
        self._text = bytes(text)
        self._at = 0
        self._left = most

    def skip(self, what: re.Pattern[bytes]) -> bytes:
        """Move past `what` and return its first group. Raises NotJson when it does not match here."""
        found = what.match(self._text, self._at)
        if found is None:
            raise NotJson(f"unexpected text at byte {self._at}")
        self._at = found.end()
        return found[1]

    def skips(self, what: re.Pattern[bytes]) -> bool:
        """Move past `what` if it matches here; return whether it did."""
        found = what.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found is not None

    def value(self) -> Steps[Raw]:
        """Move past the value at this position and return its text."""
        self._at = start = self._match(_ANY_SPACE)
        end = self._match(_VALUE)
        self._at = end
        if end == start + 1 and (closing := _ENDS.get(self._text[start])) is not None:
            yield from self._leave(closing)
        return Raw(self._view[start : self._at])

    def _leave(self, end: int) -> Steps[None]:
        """Move past the end of the array or object that was just entered."""
        ends = bytearray((end,))
        while ends:
            if not self._left % _STEP:
                yield
            self._at = self._match(_INSIDE[ends[-1]])
            last = self._text[self._at - 1]
            if last in _ENDS:
                ends += self._openings()
                continue
            while last != _COMMA_CODE:
                ends.pop()
                if not ends:
                    return
                if self._closes(ends):
                    last = self._text[self._at - 1]
                    continue
                if not self._left % _STEP:
                    yield
                self._at = self._match(_BEHIND[ends[-1]])
                last = self._text[self._at - 1]

    def _openings(self) -> bytes:
        """Move past the brackets that open one within the other, the first of which was just passed; return those that
        close them."""
        start = self._at - 1
        found = _OPENINGS.match(self._text, start)
        assert found is not None  # the first one at least
        self._at = found.end()
        run = _STRINGS.sub(b"", self._text[start : self._at]).translate(_CLOSING, _NO_BRACKET)
        self._spend(len(run) - 1)
        return run

    def _closes(self, ends: bytearray) -> bool:
        """Move past the brackets that end what is open, leaving the last of these in `ends`; False when there are few,
        or others."""
        found = _ENDINGS.match(self._text, self._at)
        run = b"" if found is None else found[0][: len(ends)]
        if len(run) < _RUN or run != ends[: -len(run) - 1 : -1]:
            return False
        self._at += len(run)
        self._spend(len(run))
        del ends[len(ends) - len(run) + 1 :]
        return True

    def _spend(self, brackets: int) -> None:
        """Count brackets. Raises TooDeep after too many."""
        self._left -= brackets
        if self._left < 0:
            raise TooDeep("nested too deeply, or in too many places")

    def _match(self, what: re.Pattern[bytes]) -> int:
        """The end of `what` at this position. Raises NotJson when it does not match, TooDeep after too many matches."""
        self._spend(1)
        found = what.match(self._text, self._at)
        if found is None:
            raise NotJson(f"unexpected text at byte {self._at}")
        return found.end()
