import json
from dataclasses import dataclass

import pytest
from yarl import URL

from rpcaccel.config.secrets import Secret
from rpcaccel.dataplane.upstream.http_messages import body_text, request_head, request_headers, traced_head


@dataclass
class NodeCall:
    """Implements the port of that name."""

    method: str
    params: bytes


def test_params_go_out_exactly_as_they_came() -> None:
    text = body_text(7, [NodeCall("hmyv2_getBalance", b"[ 1e28,  1.50 ]")])
    assert text == b'{"jsonrpc":"2.0","id":7,"method":"hmyv2_getBalance","params":[ 1e28,  1.50 ]}'


def test_a_method_name_cannot_break_out_of_its_text() -> None:
    name = 'a","params":[],"x":"ü\n'
    assert json.loads(body_text(1, [NodeCall(name, b"[]")])) == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": name,
        "params": [],
    }


def test_several_calls_are_a_batch_whose_ids_count_up() -> None:
    calls = [NodeCall("a", b"[1]"), NodeCall("b", b"{}")]
    assert body_text(8, calls) == (
        b'[{"jsonrpc":"2.0","id":8,"method":"a","params":[1]},{"jsonrpc":"2.0","id":9,"method":"b","params":{}}]'
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_compression_is_not_asked_for_on_this_machine(host: str) -> None:
    assert request_headers(URL(f"http://{host}:9500"), {})["accept-encoding"] == "identity"


@pytest.mark.parametrize("host", ["10.0.0.7", "api.s0.t.hmny.io"])
def test_compression_is_asked_for_over_a_network(host: str) -> None:
    assert request_headers(URL(f"https://{host}"), {})["accept-encoding"] == "gzip"


def test_the_operators_headers_win() -> None:
    headers = request_headers(
        URL("http://u:p@10.0.0.7"), {"Accept-Encoding": Secret("br"), "Authorization": Secret("X")}
    )
    assert (headers["accept-encoding"], headers["authorization"]) == ("br", "X")


def test_credentials_of_the_address_become_an_authorization_header() -> None:
    assert request_headers(URL("http://Aladdin:open%20sesame@h"), {})["authorization"] == (
        "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    )
    assert request_headers(URL("http://token@h"), {})["authorization"] == "Basic dG9rZW46"


def test_the_head_says_where_and_what_and_the_host_header_comes_first() -> None:
    head = request_head(URL("http://joe:pw@10.0.0.7:9500/v3/key?x=1#f"), {"X-Key": Secret("k")})
    assert head.split(b"\r\n") == [
        b"POST /v3/key?x=1 HTTP/1.1",
        b"Host: 10.0.0.7:9500",
        b"content-type: application/json",
        b"accept-encoding: gzip",
        b"user-agent: rpcaccel",
        b"authorization: Basic am9lOnB3",
        b"x-key: k",
        b"",
    ]


@pytest.mark.parametrize(
    ("url", "host"),
    [("http://h", "h"), ("https://h:443", "h"), ("https://h:80", "h:80"), ("http://[::1]:9500/", "[::1]:9500")],
)
def test_the_host_header_holds_the_port_where_it_is_not_the_usual_one(url: str, host: str) -> None:
    assert f"\r\nHost: {host}\r\n".encode() in request_head(URL(url), {})


def test_a_host_header_of_the_operator_is_the_only_one() -> None:
    head = request_head(URL("http://h/"), {"HOST": Secret("rpc.example")})
    assert head.lower().count(b"host:") == 1
    assert b"\r\nHost: rpc.example\r\n" in head


def test_a_traced_call_tells_its_own_span_and_no_other() -> None:
    head = request_head(URL("http://h/"), {"TraceParent": Secret("00-x-y-01"), "x-traceparent": Secret("1")})
    assert b"\r\ntraceparent: 00-x-y-01\r\n" in head
    traced = traced_head(head, "00-a-b-01")
    assert traced.endswith(b"\r\n")
    assert [line for line in traced.split(b"\r\n") if b"traceparent" in line] == [
        b"x-traceparent: 1",
        b"traceparent: 00-a-b-01",
    ]
