"""The messages to and from nodes: requests as bytes with few headers, and replies as answers or failures.

JSON-RPC envelopes are read, results stay the raw text that came.
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

from rpcaccel.config.secrets import Secret
from rpcaccel.core.nodes.parking import MAX_REST_SECONDS
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind, kind_of_status
from rpcaccel.core.stepwise import Steps
from rpcaccel.core.wire import json_text, traceparent
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.upstream.redaction import login

_TRACED = traceparent.TRACEPARENT.encode()
_OPERATORS = re.compile(rb"(?<=\n)%b: [^\r\n]*\r\n" % _TRACED)


class NodeCall(Protocol):
    """A call that a request to a node carries."""

    @property
    def method(self) -> str: ...
    @property
    def params(self) -> bytes:
        """Raw JSON text, which stays as it is."""
        ...


def body_text(first: int, calls: Sequence[NodeCall]) -> bytes:
    """The body of a request: one JSON-RPC call, or several as a batch, with ids that count up from `first`."""
    texts = []
    for number, call in enumerate(calls, first):
        method = msgspec.json.encode(call.method)
        texts.append(b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (number, method, call.params))
    return texts[0] if len(texts) == 1 else b"[%b]" % b",".join(texts)


def request_headers(url: URL, own: Mapping[str, Secret]) -> dict[str, str]:
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


def request_head(url: URL, own: Mapping[str, Secret]) -> bytes:
    """The beginning of every request to a node: the first line, and the headers that are the same for all calls."""
    headers = {"Host": url.host_port_subcomponent or "", **request_headers(url, own)}
    if (host := headers.pop("host", None)) is not None:
        headers["Host"] = host
    lines = [f"POST {url.raw_path_qs} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), ""]
    return "\r\n".join(lines).encode()


def traced_head(head: bytes, span: str) -> bytes:
    """The head of a request that tells the node the trace that its call belongs to, in the place of a trace of the
    operator's: two make none (W3C Trace Context, section 3.2)."""
    return b"%b%b: %b\r\n" % (_OPERATORS.sub(b"", head), _TRACED, span.encode())


def _on_this_machine(host: str | None) -> bool:
    """Is the host this machine? Then sending bytes costs less than the time both sides spend on compressing them."""
    if host is None or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_COPIED_UP_TO = 65_536
"""Bytes up to which a result is copied out of the body; a larger one stays a view, to spare the memory of a copy."""
_NULL = b"null"
_NOT_UTF8 = "text that is not UTF-8"
_SPACE = b" \t\r\n"
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_TITLE_WITHIN = 4096
"""Bytes of a page that are searched for a title: a search through a long page without one could take very long."""
_GLIMPSE = 80
_WORDS_WITHIN = 1_000
"""Bytes of a body that is no JSON-RPC in which the node's words are looked for."""
_STATUS_WORDS: dict[FailureKind, str] = {
    FailureKind.HTTP_STATUS: "the node failed",
    FailureKind.RATE_LIMITED: "the node limits our rate",
    FailureKind.UNAUTHORIZED: "the node does not let us in",
    FailureKind.MISCONFIGURED: "there is no JSON-RPC at this URL",
    FailureKind.CALL_REFUSED: "the node does not take this call",
}


class Envelope(Struct, gc=False):
    """A JSON-RPC reply with its members as raw text; the text of a missing member is empty."""

    id: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


_decode = msgspec.json.Decoder(Envelope).decode
_decode_batch = msgspec.json.Decoder(list[Envelope]).decode
_NOTHING = Envelope()


class _Message(Struct, gc=False):
    """What gateways write in place of JSON-RPC."""

    message: object = None
    error: object = None
    detail: object = None


_decode_message = msgspec.json.Decoder(_Message).decode
_NO_ERROR = frozenset({b"", _NULL})


class HttpReply(Struct):
    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed: float
    """Seconds from the beginning of the attempt to the last byte."""


def read_replies(
    reply: HttpReply, first: int, count: int, envelopes: list[Envelope] | None = None
) -> list[Answer | Failure]:
    """The answers to the calls with `count` ids from `first` on, in their order; whatever is not one is a Failure.

    A missing answer in a batch is a Failure of that call alone. One object for a whole batch refuses the batch: a
    Failure of each call, which carries the object's error. Raises RecursionError for a reply that nests too deeply for
    msgspec: see `reply_steps`.

    Args:
        envelopes: those in the body, where they were read already.
    """
    body = reply.body
    if envelopes is None:
        if not body.isascii():
            if not json_text.is_utf8(body):
                return [_not_json_rpc(_NOT_UTF8)] * count
            body = json_text.unmarked(body)
        try:
            envelopes = [_decode(body)] if count == 1 else _decode_batch(body)
        except msgspec.DecodeError as error:
            return [_unreadable(reply, error) if count == 1 else _refused_whole(read_replies(reply, first, 1))] * count
    by_id: dict[bytes, Envelope] = {}
    for envelope in envelopes:
        by_id.setdefault(bytes(envelope.id), envelope)
    answers: list[Answer | Failure] = []
    for number in range(first, first + count):
        wanted = b"%d" % number
        found = by_id.get(wanted) or (envelopes[0] if count == 1 else _NOTHING)
        result = memoryview(found.result)
        if result and bytes(found.id) == wanted and bytes(found.error) in _NO_ERROR:
            text = bytes(result) if len(result) <= _COPIED_UP_TO else result
            answers.append(Answer(result=text, http_status=reply.status, elapsed=reply.elapsed))
        elif found is _NOTHING:
            answers.append(Failure(FailureKind.WRONG_ID, "the node left this call of a batch unanswered"))
        else:
            answers.append(_read_error(found, wanted, reply))
    return answers


def read_usual(body: bytes, wanted: int, elapsed: float) -> Answer | None:
    """The answer in the usual reply to one call: in ASCII, with the id that is wanted, a result and no error; None:
    `read_replies` says what it is."""
    if not body.isascii():
        return None
    try:
        found = _decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    result = memoryview(found.result)
    if not result or bytes(found.error) not in _NO_ERROR or bytes(found.id) != b"%d" % wanted:
        return None
    return Answer(result=bytes(result) if len(result) <= _COPIED_UP_TO else result, elapsed=elapsed)


def reply_steps(reply: HttpReply, first: int, count: int) -> Steps[list[Answer | Failure]]:
    """As `read_replies`, for a reply that is long or nests deeply."""
    if not (yield from json_text.utf8_steps(reply.body)):
        return [_not_json_rpc(_NOT_UTF8)] * count
    yield
    body = json_text.unmarked(reply.body)
    try:
        try:
            envelopes = [_decode(body)] if count == 1 else _decode_batch(body)
        except RecursionError:
            envelopes = yield from _deep_envelopes(body, count)
    except (msgspec.DecodeError, json_text.NotJson, json_text.TooDeep) as error:
        if count == 1:
            return [_unreadable(reply, error)]
        return [_refused_whole((yield from reply_steps(reply, first, 1)))] * count
    yield
    answers = read_replies(reply, first, count, envelopes)
    for at, answer in enumerate(answers):
        if isinstance(answer, Answer) and isinstance(answer.result, memoryview):
            answers[at] = replace(answer, result=bytes(answer.result))
            yield
    return answers


def _deep_envelopes(body: bytes, count: int) -> Steps[list[Envelope]]:
    """The envelopes in a body whose values nest too deeply for msgspec. Raises what `json_text` and msgspec raise."""
    envelopes = []
    for text in [body] if count == 1 else (yield from json_text.item_steps(body)):
        try:
            envelopes.append(_decode(text))
        except RecursionError:
            found = yield from json_text.member_steps(text)
            envelopes.append(Envelope(**{name: found[name] for name in Envelope.__struct_fields__ if name in found}))
    return envelopes


def _unreadable(reply: HttpReply, error: Exception) -> Failure:
    """What a body means that is not one envelope."""
    deep = isinstance(error, json_text.TooDeep)
    return _not_json_rpc(f"a text that is {error}" if deep else _what_it_is(reply.body))


def _refused_whole(answers: list[Answer | Failure]) -> Failure:
    """What it means for a batch that its reply, read as that to one call, has this answer."""
    (whole,) = answers
    if isinstance(whole, Failure):
        return whole
    return Failure(FailureKind.UNKNOWN, "the node refused a batch as a whole", error=whole.error)


def _read_error(envelope: Envelope, wanted: bytes, reply: HttpReply) -> Answer | Failure:
    """What an envelope means that is no result of the call with the id `wanted`."""
    error, told = bytes(envelope.error), bytes(envelope.id)
    if error in _NO_ERROR:
        return (
            _wrong_id(told, wanted) if memoryview(envelope.result) else _not_json_rpc("neither a result nor an error")
        )
    if not error.startswith(b"{"):
        return _not_json_rpc(f"an error that is no object, {glimpse(error)}")
    # A node that could not read the call's id answers with null (JSON-RPC 2.0 section 5).
    if told not in {wanted, _NULL, b""}:
        return _wrong_id(told, wanted)
    return Answer(error=error, http_status=reply.status, elapsed=reply.elapsed)


def weigh(reply: HttpReply, answer: Answer | Failure) -> Answer | Failure:
    """What an answer means together with the HTTP status. A bad status is a failure unless the body is a JSON-RPC error
    for the call, whose words come first (core.replies.error_rules)."""
    if 200 <= reply.status < 300:
        return answer
    if isinstance(answer, Answer) and answer.error is not None:
        return replace(answer, retry_after=retry_after(reply.headers))
    kind = kind_of_status(reply.status)
    return _refused(kind, _STATUS_WORDS[kind], reply, answer)


def retry_after(headers: Mapping[str, str], longest: float = MAX_REST_SECONDS) -> float | None:
    """The seconds that a Retry-After header names, directly or by a date (RFC 9110 section 10.2.3), `longest` at the
    most.

    None when the header names no time in the future: a time of 0 would make the proxy ask again at once.
    """
    told = headers.get("Retry-After", "").strip()
    if told.replace(".", "", 1).isdecimal():
        return min(float(told), longest) or None
    try:
        until = parsedate_to_datetime(told)
        # Counted from the reply's own Date header if there is one: the node's clock and ours may differ.
        here = headers.get("Date")
        since = parsedate_to_datetime(here).timestamp() if here else time.time()
        return min(max(0.0, until.timestamp() - since), longest) or None
    except (ValueError, TypeError, OverflowError):
        return None


def _refused(kind: FailureKind, text: str, reply: HttpReply, answer: Answer | Failure) -> Failure:
    error = answer.error
    said = glimpse(error) if error is not None else _what_it_is(reply.body)
    told = f"{text}: HTTP {reply.status}, {said}"
    words = _words(reply.body) if 400 <= reply.status < 500 and error is None else ""
    return Failure(kind, told, error=error, said=words, retry_after=retry_after(reply.headers))


def _words(body: bytes) -> str:
    """The words of a body that is no JSON-RPC: its text, or the message in it; empty for a page."""
    start = body[:_WORDS_WITHIN].strip(_SPACE)
    if start.startswith(b"<"):
        return ""
    try:
        told = _decode_message(start)
    except (msgspec.DecodeError, RecursionError):
        return start.decode("utf-8", "replace")
    return next((one for one in (told.message, told.error, told.detail) if isinstance(one, str)), "")


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
