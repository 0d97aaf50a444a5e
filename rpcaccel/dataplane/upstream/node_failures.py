"""What goes wrong with a request to a node, as a Failure that names the node and none of its secrets.

The only file of the data plane that knows aiohttp's client errors: foreign exceptions are translated here, once.
"""

from __future__ import annotations

import os

import aiohttp
from msgspec.structs import replace

from rpcaccel.config.value_types import format_size
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind
from rpcaccel.core.wire.http_reply import RATIO, HttpReplyReader, MalformedReply, TooLong
from rpcaccel.dataplane.upstream.connector import ConnectTrace
from rpcaccel.dataplane.upstream.http_messages import HttpReply, weigh
from rpcaccel.dataplane.upstream.redaction import Secrecy

TROUBLE = (aiohttp.ClientError, OSError, UnicodeError)
"""What taking a connection raises; UnicodeError comes from the IDNA encoding of a name that is none."""
_BEFORE_SENDING = {
    "start": (FailureKind.CONNECT, "no connection to"),
    "queued": (FailureKind.BUSY, "no free connection to"),
    "dns": (FailureKind.DNS, "no address for the name in"),
    "connect": (FailureKind.CONNECT, "no connection to"),
}
"""By phase: what trouble means as long as there was no socket, so that nothing was sent."""


class RedirectedError(aiohttp.ClientError):
    """A node answered with a redirect where none is followed: the headers that are sent hold the node's keys."""


class NodeFailures:
    """Makes the failures of requests to one node."""

    __slots__ = ("_id", "_max_answer", "_secrecy", "_shown")

    def __init__(self, id: str, shown: str, secrecy: Secrecy, max_answer: int) -> None:
        self._id = id
        self._shown = shown
        self._secrecy = secrecy
        self._max_answer = max_answer

    def __repr__(self) -> str:
        return f"<failures of {self._id}>"

    def make(self, kind: FailureKind, text: str, *, sent: bool = True) -> Failure:
        """A failure whose text holds no secret."""
        return Failure(kind, text, sent=sent, node=self._id)

    def unforeseen(self, error: Exception) -> Failure:
        """The failure of a request that met a bug."""
        return self.make(FailureKind.UNKNOWN, f"the call failed in an unforeseen way: {type(error).__name__}")

    def unanswered(self, *, reused: bool) -> Failure:
        """The failure of a request whose connection ended before any byte of a reply."""
        if reused:
            return self.make(FailureKind.RESET_BEFORE_REPLY, "the node had closed a connection it kept open for us")
        return self.make(FailureKind.BROKEN_REPLY, "the node closed a new connection without an answer")

    def broken(self, reply: HttpReplyReader, trouble: Exception, timeout: float, *, reused: bool) -> Failure:
        """The failure of a request that was written and got no whole reply within `timeout` seconds.

        Args:
            reply: what came of the reply.
            reused: was the connection used before?
        """
        if isinstance(trouble, TimeoutError):
            what = "only a part of the answer came" if reply.status else "no answer"
            return self.make(FailureKind.TIMEOUT, f"{what} within {timeout:g} s")
        if isinstance(trouble, TooLong):
            packed, bound = f"packed so that each byte makes more than {RATIO}", format_size(self._max_answer)
            why = packed if trouble.packed else f"longer than {bound}"
            return self.make(FailureKind.OVERSIZED, f"the node's answer is {why}: it was cut off")
        if isinstance(trouble, MalformedReply):
            return self.make(FailureKind.BROKEN_REPLY, "what the node answered is not HTTP")
        if reply.status:
            return self.make(FailureKind.BROKEN_REPLY, "the connection broke off in the middle of the answer")
        if reply.begun:
            return self.make(FailureKind.BROKEN_REPLY, "the connection broke off in the headers of the answer")
        return self.unanswered(reused=reused)

    def translated(self, error: Exception, attempt: ConnectTrace, limits: aiohttp.ClientTimeout) -> Failure:
        """The failure of a request whose connection could not be opened or taken out of the pool."""
        if attempt.phase not in _BEFORE_SENDING:
            return self.unanswered(reused=attempt.reused)
        kind, text = _BEFORE_SENDING[attempt.phase]
        if isinstance(error, TimeoutError):
            seconds = min(limits.connect or 0.0, limits.total or 0.0)
            return self.make(kind, f"{text} {self._shown} within {seconds:g} s", sent=False)
        if isinstance(error, aiohttp.ClientConnectorDNSError | UnicodeError):
            return self.make(FailureKind.DNS, f"no address for the name in {self._shown}", sent=False)
        if isinstance(error, aiohttp.ClientSSLError):
            why = getattr(error.__cause__, "verify_message", None) or getattr(error.__cause__, "reason", None)
            return self.make(FailureKind.TLS, f"no TLS with {self._shown}: {why or 'handshake failed'}", sent=False)
        cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        return self.make(FailureKind.CONNECT, f"no connection to {self._shown}: {_system_words(cause)}", sent=False)

    def weighed(self, reply: HttpReply, answer: Answer | Failure) -> Answer | Failure:
        """What an answer means together with the HTTP status. A failure names the node; secrets that a node's error or
        the failure's text may have echoed are hidden."""
        answer = weigh(reply, answer)
        if answer.error is not None:
            answer = replace(answer, error=self._secrecy.error(answer.error))
        if isinstance(answer, Answer):
            return answer
        hide = self._secrecy.text
        return replace(answer, text=hide(answer.text), said=hide(answer.said), node=self._id)


def not_upgraded(error: Exception, seconds: float) -> str:
    """Why a WebSocket was not opened within `seconds`, in words that follow "its WebSocket" and hold no secret."""
    if isinstance(error, TimeoutError):
        return f"does not answer within {seconds:g} s"
    if isinstance(error, aiohttp.WSServerHandshakeError):
        return f"answers HTTP {error.status} to the upgrade"
    if isinstance(error, RedirectedError):
        return "answers with a redirect"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return f"cannot be connected to: {_system_words(cause)}"


def _system_words(cause: BaseException) -> str:
    """Why a socket could not be opened; the event loop's own text holds the address once more."""
    number = getattr(cause, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number).lower()
    return getattr(cause, "strerror", None) or type(cause).__name__
