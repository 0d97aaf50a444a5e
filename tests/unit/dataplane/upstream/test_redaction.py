"""What a node echoes of its address and headers is hidden, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from rpcaccel.config.secrets import Secret
from rpcaccel.dataplane.upstream.redaction import Secrecy, login

KEY = "0123456789abcdef"


def of(url: str, **headers: str) -> Secrecy:
    return Secrecy(URL(url), {name: Secret(text) for name, text in headers.items()})


@pytest.mark.parametrize(
    "part", [KEY, "my-key-9", "abcdefghijklmnopqrstuvwxyz", "AbCdEfGh", "zq8_xx", "1234567890123456", "%C3%BC-12-x"]
)
def test_a_part_of_a_path_or_a_query_that_may_be_a_key_is_hidden(part: str) -> None:
    for url in (f"https://h/rpc/v3/{part}", f"https://h/rpc?x={part}"):
        assert of(url).text(f"not {URL(part, encoded=True).path}!") == "not ***!"


@pytest.mark.parametrize("part", ["message", "jsonrpc", "json-rpc", "Mainnet", "ethereum-mainnet", "v3", "1666600000"])
def test_a_word_of_an_address_is_no_secret(part: str) -> None:
    for secrecy in (of(f"https://h/{part}"), of(f"https://h/v1/{part}/?network={part}&x=1")):
        assert secrecy.text(f"/{part}: {part}") == f"/{part}: {part}"
        error = json.dumps({"code": 1, part: part, "message": f"unknown {part}"}).encode()
        assert secrecy.error(error) is error


def test_what_is_named_a_key_is_one_whatever_it_looks_like() -> None:
    secrecy = of("https://h/rpc?apiKey=letmein&network=mainnet")
    assert secrecy.text("letmein to mainnet, apiKey=letmein&network=mainnet") == "*** to mainnet, ***"


def test_who_calls_and_by_which_header_is_hidden() -> None:
    secrecy = of("http://joe:hunter22@h/", authorization="Bearer 0123456789", other="top-secret")
    said = f"joe hunter22 {login('joe', 'hunter22')} 0123456789 top-secret; Bearer 0123456789"
    assert secrecy.text(said) == "*** *** *** *** ***; ***"


def test_a_short_secret_is_no_part_of_a_longer_word() -> None:
    secrecy = of("http://a:abcdef12@h")
    assert secrecy.text("a panda, a.b") == "*** panda, ***.b"
    data = b'{"code":3,"data":"0xabcdef1234"}'
    assert secrecy.error(data) is data
    assert secrecy.error(b'["abcdef12"]') == b'["***"]'


def test_a_node_without_secrets_is_quoted_as_it_is() -> None:
    secrecy, error = of("http://127.0.0.1:9500/"), b'{"code":1,"message":"/ \\u0041"}'
    assert secrecy.error(error) is error
    assert secrecy.text("/…") == "/…"
    assert repr(secrecy) == "<Secrecy, 0 secrets>"


def test_a_nodes_error_is_shown_without_the_secrets_it_echoes() -> None:
    error = b'{"code":-32000,"message":"bad key 0123456789abcdef for eth", "data":["0123456789abcdef",1.50]}'
    shown = b'{"code":-32000,"message":"bad key *** for eth", "data":["***",1.50]}'
    assert of(f"https://eth@h/{KEY}").error(error) == shown


def test_what_stands_around_a_secret_stays_as_the_node_spelt_it() -> None:
    error = rb'{ "message":"\u0041\/ 0123456789abcdef \ud83d\ude00","data":"\u0041" }'
    assert of(f"https://h/{KEY}").error(error) == error.replace(KEY.encode(), b"***")


def test_a_secret_is_found_however_its_text_is_escaped() -> None:
    secrecy = of(f"https://h/v3/{KEY}", other='say "please"')
    escaped = rb'{"message":"https:\/\/h\/v3\/\u0030123456789abcdef","data":"say \"please\" \n"}'
    assert json.loads(secrecy.error(escaped)) == {"message": "https://h***", "data": "*** \n"}


def test_a_secret_that_reads_like_a_name_or_a_number_changes_neither() -> None:
    secrecy = of("https://message:1234567@h/?key=u0041b")
    error = b'{"code":1234567,"message":"1234567 is no message","data":{"message" : "\\u0041b"}}'
    assert secrecy.error(error) == b'{"code":1234567,"message":"*** is no ***","data":{"message" : "\\u0041b"}}'


def test_a_secret_that_was_cut_off_is_hidden_as_well() -> None:
    secrecy = of(f"https://h/v3/{KEY}")
    assert secrecy.text(f"POST https://h/v3/{KEY[:-1]}…") == "POST https://h***…"
    assert secrecy.text("012…") == "012…"


JSON = st.recursive(
    st.none() | st.integers() | st.text() | st.sampled_from([KEY, f"x {KEY}", f"/{KEY}\n"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just(KEY), inner),
)


@given(said=JSON, ascii=st.booleans())
def test_what_is_shown_of_any_error_is_json_of_the_same_names_and_numbers(said: object, ascii: bool) -> None:
    def expected(value: object) -> object:
        if isinstance(value, dict):
            return {name: expected(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [expected(inner) for inner in value]
        return value.replace(f"/{KEY}", "***").replace(KEY, "***") if isinstance(value, str) else value

    try:
        error = json.dumps(said, ensure_ascii=ascii).encode()
    except UnicodeEncodeError:
        return  # a lone surrogate is no text
    shown = of(f"https://h/{KEY}").error(error)
    assert json.loads(shown) == expected(said)
