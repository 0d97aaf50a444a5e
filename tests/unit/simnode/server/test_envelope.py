from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.simnode.server.envelope import DropConnection, RequestItem, parse

values = st.none() | st.booleans() | st.integers(-(1 << 63), 1 << 63) | st.text(max_size=20)


@given(values, st.lists(values, max_size=4))
def test_id_and_params_stay_the_bytes_that_were_sent(call_id: object, params: object) -> None:
    sent_id, sent_params = msgspec.json.encode(call_id), msgspec.json.encode(params)
    body = b'{ "params" :%b , "id": %b, "other":1,"method":"m" }' % (sent_params, sent_id)
    assert parse(body).calls == [RequestItem("m", sent_params, sent_id)]


@given(st.binary())
def test_no_body_does_worse_than_a_parse_error_or_a_dropped_connection(body: bytes) -> None:
    try:
        parse(body)
    except (msgspec.DecodeError, DropConnection):
        return
