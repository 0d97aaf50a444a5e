"""Lines of a TOML file."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomlkit
from hypothesis import example, given
from hypothesis import strategies as st

from rpcaccel.config.toml_file import ValuePath, lines_of

TEXT = '''# a comment with [brackets] = and "quotes"
listen = "127.0.0.1:8888"  # another
admin.listen = ":1"
[memory]
size = "1MB"

[redis]
url = """
redis://
 [not.a.table]
"""
  [networks."harmony-s0"]
  nodes = [
    "https://a,weight=2", # one
    { id = "b", url = "https://b", headers = { X = "1" } },
    [1.5, 2024-01-01 00:00:00.5Z],
  ]
[[networks.harmony-s0.routes]]
tag = 'a'
[[networks.harmony-s0.routes]]
methods = [ "a",
"b" ]
[networks.harmony-s0.routes.more]
a.b.c = 1
'''
NETWORK: ValuePath = ("networks", "harmony-s0")


def test_each_key_table_and_member_has_the_line_where_it_stands() -> None:
    assert lines_of(TEXT) == {
        ("listen",): 2,
        ("admin",): 3,
        ("admin", "listen"): 3,
        ("memory",): 4,
        ("memory", "size"): 5,
        ("redis",): 7,
        ("redis", "url"): 8,
        ("networks",): 12,
        NETWORK: 12,
        (*NETWORK, "nodes"): 13,
        (*NETWORK, "nodes", 0): 14,
        (*NETWORK, "nodes", 1): 15,
        (*NETWORK, "nodes", 1, "id"): 15,
        (*NETWORK, "nodes", 1, "url"): 15,
        (*NETWORK, "nodes", 1, "headers"): 15,
        (*NETWORK, "nodes", 1, "headers", "X"): 15,
        (*NETWORK, "nodes", 2): 16,
        (*NETWORK, "nodes", 2, 0): 16,
        (*NETWORK, "nodes", 2, 1): 16,
        (*NETWORK, "routes"): 18,
        (*NETWORK, "routes", 0): 18,
        (*NETWORK, "routes", 0, "tag"): 19,
        (*NETWORK, "routes", 1): 20,
        (*NETWORK, "routes", 1, "methods"): 21,
        (*NETWORK, "routes", 1, "methods", 0): 21,
        (*NETWORK, "routes", 1, "methods", 1): 22,
        (*NETWORK, "routes", 1, "more"): 23,
        (*NETWORK, "routes", 1, "more", "a"): 24,
        (*NETWORK, "routes", 1, "more", "a", "b"): 24,
        (*NETWORK, "routes", 1, "more", "a", "b", "c"): 24,
    }


def test_a_table_without_a_header_of_its_own_is_where_the_first_one_below_it_is() -> None:
    assert lines_of("\n[network.x]\n[network.y]\n")["network",] == 2


@pytest.mark.parametrize(
    "text",
    [
        '"a\\"]" = 1\n"\\u0062" = """x\\"""y"""\nc = """"quoted""""\n',
        "'a.b'.c = '''\n[x]\n'''\nd = -1.5e3\ne = inf\n",
        "a = [[], [ [ ] ], {}]\nb = [\n\n# c\n1,\n# d\n]\n",
        "\r\n[a]\r\nb = 1\r\n",
        "",
    ],
)
def test_every_value_that_is_read_has_a_line(text: str) -> None:
    assert paths_of(tomllib.loads(text)) <= set(lines_of(text))


def paths_of(value: Any, path: ValuePath = ()) -> set[ValuePath]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return set().union(*({(*path, key), *paths_of(inner, (*path, key))} for key, inner in members))


VALUES = st.recursive(
    st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=5))
def test_every_value_of_a_document_that_was_written_down_has_a_line_of_it(document: dict[str, Any]) -> None:
    text = tomlkit.dumps(document)
    lines = lines_of(text)
    read = tomllib.loads(text)
    # A table without values of its own may have no header: what is in it says where it is.
    assert {path for path in paths_of(read) if not isinstance(at(read, path), dict)} <= set(lines)
    assert set(lines.values()) <= set(range(1, text.count("\n") + 2))


def at(value: Any, path: ValuePath) -> Any:
    for part in path:
        value = value[part]
    return value


@example('"\\1"')
@given(st.text("[]{}=\"'.,\n\\ab1 #", max_size=60))
def test_any_text_has_an_answer(text: str) -> None:
    assert isinstance(lines_of(text), dict)
