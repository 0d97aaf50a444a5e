"""The bytes of notifications, byte for byte as nodes send them: no spaces, no id, the members in this order.

A notification is two parts: the opening, which is one subscription's own, and the rest, which all subscriptions share.
"""

from __future__ import annotations


def opening(namespace: str, subscription: str) -> bytes:
    """What stands before the result in every notification of one subscription."""
    return (
        f'{{"jsonrpc":"2.0","method":"{namespace}_subscription","params":{{"subscription":"{subscription}","result":'
    ).encode()


def rest(result: bytes) -> bytes:
    """The result (raw JSON text), and what stands behind it in every notification."""
    return result + b"}}"
