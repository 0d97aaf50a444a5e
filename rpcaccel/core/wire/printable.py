"""Makes foreign text safe to print in a log, on a terminal or inside a message.

A node's error message, a client's method name or a server's reason phrase may hold line breaks (which forge log lines),
escape sequences (which control a terminal) and characters that reverse the direction of writing (which disguise a
text). Whatever prints such a text passes it through `printable`.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with each unprintable character written as a Python escape, such as `\\n` or `\\x1b`.

    Unprintable are control characters, line and paragraph separators, format characters (which set the direction of
    writing), spaces other than the ordinary one, surrogates, and characters that Unicode does not assign.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
