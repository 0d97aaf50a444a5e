"""What goes to a node: a call as bytes, and as few headers as will do.

Replies of nodes: JSON-RPC envelopes read, results left as the raw text they came in.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Protocol

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace
from yarl import URL

from rpcaccel.core.nodes.parking import LONGEST
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind, kind_of_status
from rpcaccel.core.wire import json_text, traceparent
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.upstream.redaction import Revealing, login

_TRACED = traceparent.HEADER.encode()
_OPERATORS = re.compile(rb"(?<=\n)%b: [^\r\n]*\r\n" % _TRACED)


class Endpoint(Protocol):
    """What a connector needs of a node's settings (config.model.NodeSettings); times in seconds."""

    @property
    def id(self) -> str: ...
    @property
    def url(self) -> Revealing: ...
    @property
    def headers(self) -> Mapping[str, Revealing]: ...
    @property
    def max_connections(self) -> int: ...
    @property
    def keepalive(self) -> float: ...
    @property
    def connect_timeout(self) -> float: ...
    @property
    def timeout(self) -> float: ...
    @property
    def warm(self) -> int: ...
    @property
    def max_answer(self) -> int: ...


def call_text(number: int, method: str, params: bytes) -> bytes:
    """A JSON-RPC call; `params` is raw JSON and stays as it is."""
    return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (number, msgspec.json.encode(method), params)


def request_headers(url: URL, own: Mapping[str, Revealing]) -> dict[str, str]:
    """The headers of every call to a node; the operator's own come last and win."""
    headers = {
        "content-type": "application/json",
        "accept-encoding": "identity" if _on_this_machine(url.host) else "gzip",
        "user-agent": "rpcaccel",
    }
    if url.user is not None:
        headers["authorization"] = f"Basic {login(url.user, url.password or '')}"
    headers.update((name.lower(), value.reveal()) for name, value in own.items())
    return headers


def request_head(url: URL, own: Mapping[str, Revealing]) -> bytes:
    """What every request to a node begins with: its first line and its headers, up to those that differ by call."""
    headers = {"Host": url.host_port_subcomponent or "", **request_headers(url, own)}
    if (host := headers.pop("host", None)) is not None:
        headers["Host"] = host
    lines = [f"POST {url.raw_path_qs} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), ""]
    return "\r\n".join(lines).encode()


def post_text(head: bytes, body: bytes, span: str = "") -> bytes:
    """A whole request; `span` is what the node is told of the trace that the call belongs to, if it belongs to one:
    then not of the operator's, since two make none (W3C Trace Context, section 3.2)."""
    if span:
        head = b"%b%b: %b\r\n" % (_OPERATORS.sub(b"", head), _TRACED, span.encode())
    return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


def _on_this_machine(host: str | None) -> bool:
    """There, bytes are cheaper than the time both sides spend on compressing them."""
    if host is None or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_COPIED_UP_TO = 65_536
"""Bytes: smaller results are copied out of the body; larger ones stay a view of it, since memory for two is dear."""
_NULL = b"null"
_SPACE = b" \t\r\n"
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_TITLE_WITHIN = 4096
"""Bytes: a search through all of a long page without a title could take very long."""
_GLIMPSE = 80
_STATUS_WORDS: dict[FailureKind, str] = {
    FailureKind.HTTP_STATUS: "the node failed",
    FailureKind.RATE_LIMITED: "the node limits our rate",
    FailureKind.UNAUTHORIZED: "the node does not let us in",
    FailureKind.MISCONFIGURED: "there is no JSON-RPC at this URL",
    FailureKind.CALL_REFUSED: "the node does not take this call",
}
_WHATEVER_IT_SAYS = frozenset({FailureKind.RATE_LIMITED, FailureKind.UNAUTHORIZED})
"""What a status means even beside a JSON-RPC error for this call."""


class Envelope(Struct, gc=False):
    """A JSON-RPC reply with its members as raw text; an empty one is a member that is not there."""

    id: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


_ENVELOPE = msgspec.json.Decoder(Envelope)
_BATCH = msgspec.json.Decoder(list[Envelope])


def _envelope(text: bytes | Raw) -> Envelope:
    """One envelope, however deep the values of its members nest. Raises what jsontext and msgspec raise."""
    try:
        return _ENVELOPE.decode(text)
    except RecursionError:
        found = json_text.members(text)
        return Envelope(**{name: found[name] for name in Envelope.__struct_fields__ if name in found})


def _envelopes(text: bytes) -> list[Envelope]:
    try:
        return _BATCH.decode(text)
    except RecursionError:
        return [_envelope(item) for item in json_text.items(text)]


class HttpReply(Struct):
    """What came back over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed: float
    """Seconds from the beginning of the attempt to the last byte."""


def read_reply(reply: HttpReply, number: int) -> Answer | Failure:
    """The answer to the call with id `number`; whatever is not one is a Failure."""
    if not json_text.is_utf8(reply.body):
        return _not_json_rpc("text that is not UTF-8")
    try:
        envelope = _envelope(reply.body)
    except (msgspec.DecodeError, json_text.NotJson):
        return _not_json_rpc(_what_it_is(reply.body))
    except json_text.TooDeep as error:
        return _not_json_rpc(f"a text that is {error}")
    return _read(envelope, b"%d" % number, reply)


def read_batch(reply: HttpReply, numbers: Sequence[int]) -> list[Answer | Failure]:
    """The answers to a batch, in the order of `numbers` (at least one). A missing item is a Failure of that item
    alone; one error for all of them is a Failure of each that carries the error."""
    try:
        envelopes = _envelopes(reply.body) if json_text.is_utf8(reply.body) else None
    except (msgspec.DecodeError, json_text.NotJson, json_text.TooDeep):
        envelopes = None
    if envelopes is None:
        return _read_lone(reply, numbers)
    by_id: dict[bytes, Envelope] = {}
    for envelope in envelopes:
        by_id.setdefault(bytes(envelope.id), envelope)
    answers: list[Answer | Failure] = []
    for number in numbers:
        text = b"%d" % number
        found = by_id.get(text)
        if found is None:
            answers.append(Failure(FailureKind.WRONG_ID, "the node left this call of a batch unanswered"))
        else:
            answers.append(_read(found, text, reply))
    return answers


def weigh(reply: HttpReply, answer: Answer | Failure) -> Answer | Failure:
    """What the body says, seen together with the HTTP status: a refusal of the rate or of us is one whatever the
    body says, any other bad status is only one when the body holds no JSON-RPC error for this call."""
    if 200 <= reply.status < 300:
        return answer
    kind = kind_of_status(reply.status)
    if isinstance(answer, Answer) and answer.error is not None and kind not in _WHATEVER_IT_SAYS:
        return replace(answer, retry_after=retry_after(reply.headers))
    return _refused(kind, _STATUS_WORDS[kind], reply, answer)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by a Retry-After header, in seconds or as a date (RFC 9110 section 10.2.3), no more than any
    rest of a node takes. None where it names none: "now", or a date that is over, is no time to wait either, and who
    took it for one would ask again at once."""
    told = headers.get("Retry-After", "").strip()
    if told.replace(".", "", 1).isdecimal():
        return min(float(told), LONGEST) or None
    try:
        until = parsedate_to_datetime(told)
        # Counted from the node's own date where it tells it: its clock and ours need not agree.
        here = headers.get("Date")
        since = parsedate_to_datetime(here).timestamp() if here else time.time()
        return min(max(0.0, until.timestamp() - since), LONGEST) or None
    except (ValueError, TypeError, OverflowError):
        return None


def _refused(kind: FailureKind, text: str, reply: HttpReply, answer: Answer | Failure) -> Failure:
    error = answer.error
    said = glimpse(error) if error is not None else _what_it_is(reply.body)
    told = f"{text}: HTTP {reply.status}, {said}"
    return Failure(kind, told, error=error, retry_after=retry_after(reply.headers))


def _read_lone(reply: HttpReply, numbers: Sequence[int]) -> list[Answer | Failure]:
    """One object for a whole batch: the answer to a batch of one, or a refusal of the batch."""
    answer = read_reply(reply, numbers[0])
    if len(numbers) > 1 and isinstance(answer, Answer):
        answer = Failure(FailureKind.UNKNOWN, "the node refused a batch as a whole", error=answer.error)
    return [answer for _ in numbers]


def _read(envelope: Envelope, number: bytes, reply: HttpReply) -> Answer | Failure:
    error, told = bytes(envelope.error), bytes(envelope.id)
    if error and error != _NULL:
        if not error.startswith(b"{"):
            return _not_json_rpc(f"an error that is no object, {glimpse(error)}")
        # A node that could not read the call's id answers with null (JSON-RPC 2.0 section 5).
        return _answer(reply, error=error) if told in {number, _NULL, b""} else _wrong_id(told, number)
    result = memoryview(envelope.result)
    if not result:
        return _not_json_rpc("neither a result nor an error")
    if told != number:
        return _wrong_id(told, number)
    return _answer(reply, result=bytes(result) if len(result) <= _COPIED_UP_TO else result)


def _answer(reply: HttpReply, *, result: bytes | memoryview | None = None, error: bytes | None = None) -> Answer:
    return Answer(result=result, error=error, http_status=reply.status, elapsed=reply.elapsed)


def _wrong_id(told: bytes, number: bytes) -> Failure:
    said = glimpse(told) or "none"
    return Failure(FailureKind.WRONG_ID, f"the node answered another call: id {said} instead of {number.decode()}")


def _not_json_rpc(what: str) -> Failure:
    return Failure(FailureKind.NOT_JSON_RPC, f"the node did not answer in JSON-RPC: {what}")


def _what_it_is(body: bytes) -> str:
    start = body.lstrip(_SPACE)
    if not start:
        return "an empty body"
    if start.startswith(b"<"):
        title = _TITLE.search(start[:_TITLE_WITHIN])
        return f"an HTML page ({glimpse(title[1])})" if title else "an HTML page"
    return glimpse(start)


def glimpse(body: bytes) -> str:
    """The beginning of a foreign text, fit for a log line."""
    text = body[: _GLIMPSE * 4].decode("utf-8", "replace")
    line = printable(" ".join(text.split()))
    return line if len(line) <= _GLIMPSE else f"{line[:_GLIMPSE]}…"
