"""File, environment and flags together."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rpcaccel.config.errors import ConfigError
from rpcaccel.config.load import Flag, UrlNetwork, load, load_told, node_flags
from rpcaccel.config.model import Settings
from rpcaccel.config.validate import Misfit

FILE = """
listen = "127.0.0.1:1"
[memory]
size = "1MB"
[redis]
url = "redis://:${PW}@cache"
[networks.harmony-s0]
nodes = ["https://a/${KEY}", {url = "https://b", weight = "${WEIGHT:-3}"}]
"""
ENVIRON = {"PW": "hunter2", "KEY": "hunter2"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rpcaccel.toml"
    path.write_text(FILE)
    return path


def faults_of(file: Path | None, environ: dict[str, str] | None = None, flags: list[Flag] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(file, environ=environ or {}, flags=flags or ())
    assert "hunter2" not in str(caught.value)
    return str(caught.value).splitlines()


def network(name: str, *nodes: str, shard: int = 0, chain_id: int | None = None) -> UrlNetwork:
    return UrlNetwork(name, name.partition("-")[0], shard, nodes, chain_id)


def test_flags_win_over_the_environment_over_the_file_over_defaults(file: Path) -> None:
    environ = ENVIRON | {"RPCACCEL_LISTEN": ":2", "RPCACCEL_MEMORY__SIZE": "2MB"}
    settings = load(file, environ=environ, flags=[Flag(("listen",), ":3", "--listen")])
    assert (settings.listen, settings.memory.size, settings.memory.max_entry) == ("0.0.0.0:3", 2_000_000, 8_000_000)
    assert load(file, environ=ENVIRON).listen == "127.0.0.1:1"


@pytest.mark.parametrize("written", ["false", '"false"'])
def test_the_switch_prove_of_older_files_is_read_as_examine(tmp_path: Path, written: str) -> None:
    older = tmp_path / "older.toml"
    older.write_text(f'[networks.x]\nnodes = ["https://a"]\nprove = {written}\n')
    assert load(older, environ={}).networks["x"].examine is False
    older.write_text('[networks.x]\nnodes = ["https://a"]\nprove = "perhaps"\n')
    (fault,) = faults_of(older)
    assert fault.startswith("networks.x.prove: ")


def test_references_in_the_file_are_resolved(file: Path) -> None:
    settings = load(file, environ=ENVIRON)
    first, second = settings.networks["harmony-s0"].nodes
    assert (settings.redis.url.reveal(), first.url.reveal()) == ("redis://:hunter2@cache", "https://a/hunter2")
    assert (first.id, second.weight) == ("a", 3)


def test_missing_variables_are_told_with_the_other_faults_and_once(file: Path) -> None:
    lines = faults_of(file, {"RPCACCEL_WORKERS": "0", "RPCACCEL_NO": "1"}, [Flag(("memory", "size"), "x", "--memory")])
    assert lines == [
        f"redis.url: expected the environment variable PW, which is not set ({file}, line 6)",
        f"networks.harmony-s0.nodes[0]: expected the environment variable KEY, which is not set ({file}, line 8)",
        "no: unknown key (from RPCACCEL_NO)",
        'workers: found "0", expected at least 1 (from RPCACCEL_WORKERS)',
        'memory.size: found "x", expected a size such as 262144, "256MB" or "5 MiB" (from --memory)',
    ]


def test_what_a_reference_became_is_not_shown(file: Path) -> None:
    assert faults_of(file, ENVIRON | {"WEIGHT": "hunter2"}) == [
        f'networks.harmony-s0.nodes[1].weight: found "${{WEIGHT:-3}}", expected a whole number ({file}, line 8)'
    ]


def test_urls_of_the_command_line_make_a_network_named_after_the_chain() -> None:
    settings = load(
        environ={}, flags=node_flags([network("harmony-s1", "https://a,weight=2", "https://a/x,id=x", shard=1)])
    )
    assert [(node.id, node.weight) for node in settings.networks["harmony-s1"].nodes] == [("a", 2), ("x", 1)]
    assert settings.networks["harmony-s1"].shard == 1
    assert list(load(environ={}, flags=node_flags([network("ethereum", "http://e")])).networks) == ["ethereum"]


def test_urls_replace_the_nodes_of_that_network_and_keep_the_rest_of_it(file: Path) -> None:
    settings = load(file, environ=ENVIRON, flags=node_flags([network("harmony-s0", "https://z")]))
    assert [node.id for node in settings.networks["harmony-s0"].nodes] == ["z"]
    assert settings.memory.size == 1_000_000


def test_nothing_at_all_asks_for_a_network() -> None:
    assert faults_of(None) == [
        "networks: found nothing, expected at least one network: give node URLs, or a [networks.NAME] table with nodes"
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a = [1,\nb = 3", ", line 2, column 1: is not valid TOML: "),
        (b"a = 1\na = 2\nb = 3", ", line 2, column 6: is not valid TOML: cannot overwrite a value"),
        (b"a = 1\nb = ", ", line 2, at its end: is not valid TOML: invalid value"),
        (b"a = 1\nb = '\xff'", ", line 2: is not UTF-8"),
        (b"a = " + b"[" * 5000, ": is not valid TOML"),
        (b"a = " + b"9" * 5000, ": is not valid TOML"),
    ],
)
def test_a_file_that_is_not_toml_is_told_with_its_place(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    (line,) = faults_of(path)
    assert f"{path}{said}" in line


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert faults_of(tmp_path / "none") == [f"{tmp_path / 'none'}: cannot be read: No such file or directory"]
    assert faults_of(tmp_path) == [f"{tmp_path}: cannot be read: Is a directory"]


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "bom.toml"
    path.write_bytes(b"\xef\xbb\xbf[networks.x]\nnodes = ['http://a']\n")
    assert list(load(path, environ={}).networks) == ["x"]


@given(st.binary(max_size=60) | st.text("[]{}=\"'.\n\\abn1 #", max_size=40).map(str.encode))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_settings_or_faults(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError):
        load(path, environ={})


def test_networks_of_the_command_line_keep_their_order_and_the_chain_id_that_names_them() -> None:
    named = [network("ethereum-137", "http://p", chain_id=137), network("harmony-s1", "http://h", shard=1)]
    settings = load(environ={}, flags=node_flags(named))
    assert (settings.main_network, list(settings.networks)) == ("ethereum-137", ["ethereum-137", "harmony-s1"])
    assert [part.chain_id for part in settings.networks.values()] == [137, None]


def test_each_fault_names_the_line_the_variable_or_the_flag_that_said_it(tmp_path: Path) -> None:
    file = tmp_path / "rpcaccel.toml"
    file.write_text(
        """
[admin]
listen = "nowhere"
bogus = 1

[networks.x]
nodes = [
  "https://a",
  { url = "ftp://b" },
]
[networks.x.rules.zzz]
cache = "on"
[networks.y]
nodes = ["ftp://a"]
balancer = "coin"
"""
    )
    environ = {"RPCACCEL_NETWORKS__X__NODES__A__WEIGHT": "-1", "RPCACCEL_NETWORKS__Y__NODES": "ftp://c"}
    lines = faults_of(file, environ, [Flag(("networks", "*", "balancer"), "dice", "--balancer")])
    assert {line.partition(":")[0]: line.rpartition(" (")[2].removesuffix(")") for line in lines} == {
        "admin.listen": f"{file}, line 3",
        "admin.bogus": f"{file}, line 4",
        "networks.x.nodes[1].url": f"{file}, line 9",
        "networks.x.nodes[0].weight": "from RPCACCEL_NETWORKS__X__NODES__A__WEIGHT",
        "networks.x.rules.zzz.cache": f"{file}, line 12",
        "networks.x.balancer": "from --balancer",
        "networks.y.balancer": "from --balancer",
        "networks.y.nodes[0].url": "from RPCACCEL_NETWORKS__Y__NODES",
    }


def test_what_a_judge_finds_in_right_settings_is_told_with_its_line(file: Path) -> None:
    def judge(settings: Settings) -> list[Misfit]:
        return [Misfit(("listen",), settings.listen, "another")] if settings.listen.endswith(":1") else []

    with pytest.raises(ConfigError) as caught:
        load_told(file, environ=ENVIRON, judge=judge)
    assert str(caught.value) == f"listen: found 127.0.0.1:1, expected another ({file}, line 2)"
    assert load_told(file, environ=ENVIRON | {"RPCACCEL_LISTEN": ":2"}, judge=judge).told == {
        ("listen",): "RPCACCEL_LISTEN"
    }
