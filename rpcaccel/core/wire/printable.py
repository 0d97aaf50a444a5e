"""Texts that strangers wrote, as they may stand in a log, on a terminal or in a sentence of ours.

A node's error message, a client's method name or a server's reason phrase may hold line breaks, which forge lines of a
log, escape sequences, which command a terminal, and signs that turn the direction of writing, which make a text read as
another one. Whatever prints such a text passes it through here.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with each character that is not printed as itself spelt as a Python escape, such as `\\n` or `\\x1b`.

    Spelt so are control characters, line and paragraph separators, format characters (which set the direction of
    writing), spaces other than the ordinary one, surrogates, and characters that Unicode does not assign.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
