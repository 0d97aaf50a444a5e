from __future__ import annotations

import pytest

from rpcaccel.simnode.methods.block_args import number
from rpcaccel.simnode.methods.registry import (
    Method,
    Registry,
    RpcError,
    anything,
    call_object,
    read_params,
    string,
    text,
    uint,
)

METHOD = Method(lambda asked: b"", (number, string), 1)  # noqa: ARG005


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (b"[]", "missing value for required argument 0"),
        (b"", "missing value for required argument 0"),
        (b"null", "missing value for required argument 0"),
        (b"{}", "non-array args"),
        (b'"x"', "non-array args"),
        (b'[1,"a",2]', "too many arguments, want at most 2"),
        (b"[1,2]", "invalid argument 1: json: cannot unmarshal number into Go value of type string"),
        (b'["zz","a","b"]', 'invalid argument 0: strconv.ParseInt: parsing "zz": invalid syntax'),
    ],
)
def test_arguments_are_refused_in_the_nodes_words(params: bytes, message: str) -> None:
    with pytest.raises(RpcError) as caught:
        read_params(METHOD, params)
    assert (caught.value.code, caught.value.message) == (-32602, message)


def test_arguments_are_read_by_their_readers() -> None:
    assert read_params(METHOD, b' ["0x1a", "b"] ') == [26, "b"]
    assert read_params(METHOD, b"[26]") == [26]
    readers = Method(lambda asked: b"", (anything, uint, call_object), 3)  # noqa: ARG005
    assert read_params(readers, b'[{"a":1},"0x5",null]') == [{"a": 1}, 5, {}]
    assert read_params(readers, b'[null,"5",{"to":1}]') == [None, 5, {"to": 1}]
    for params in (b"[1,1.5,{}]", b'[1,"x",{}]', b"[1,true,{}]", b"[1,1,[]]"):
        with pytest.raises(RpcError):
            read_params(readers, params)


def test_a_function_is_served_under_each_name_in_each_namespace() -> None:
    registry = Registry()
    registry.add("one two", spaces={"a": "v1", "b": "v2"})(lambda asked: b"1")  # noqa: ARG005
    assert sorted(registry.methods) == ["a_one", "a_two", "b_one", "b_two"]
    assert "a_one" in registry
    assert registry.methods["b_two"][1] == "v2"


def test_an_error_has_data_only_when_there_is_some() -> None:
    assert RpcError(3, "no").encode() == b'{"code":3,"message":"no"}'
    assert RpcError(3, "no", "0x").encode() == b'{"code":3,"message":"no","data":"0x"}'
    assert text({"big": 10**28}) == b'{"big":10000000000000000000000000000}'
