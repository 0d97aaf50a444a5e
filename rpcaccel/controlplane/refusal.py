"""A request of the admin side that cannot be carried out: a value on its way to an RFC 9457 answer."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


class Refusal(Exception):
    """Why, for a program (`code`) and for a person (`detail`)."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail


def read(body: bytes, kind: type[T]) -> T:
    """What a request says in its body. Raises Refusal for what is no JSON of this kind, whatever it is."""
    try:
        return msgspec.json.decode(body, type=kind)
    except RecursionError:
        raise Refusal(400, "not-json", "it is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(400, "not-json", str(error)) from None
