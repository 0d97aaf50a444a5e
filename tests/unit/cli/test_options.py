"""Arguments become settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rpcaccel import chains
from rpcaccel.cli.options import NodeSource, settings_from, source
from rpcaccel.config.errors import ConfigError


def test_urls_and_flags_make_settings() -> None:
    given = source(["https://a,weight=2"], None, "ethereum", None)
    settings = settings_from(
        given, listen=":1", admin="127.0.0.1:2", redis="redis://r", balancer="peak_ewma", memory="1MB", workers=3
    )
    assert (settings.listen, settings.admin.listen, settings.workers) == ("0.0.0.0:1", "127.0.0.1:2", 3)
    assert (settings.redis.url.reveal(), settings.memory.size) == ("redis://r", 1_000_000)
    assert settings.networks["ethereum"].balancer == "peak_ewma"
    assert settings_from(given, workers="auto").workers == len(os.sched_getaffinity(0))


def test_a_flag_not_given_leaves_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('listen = ":9"\n[networks.x]\nbalancer = "peak_ewma"\nnodes = ["http://a"]\n')
    settings = settings_from(NodeSource(file=file), listen=None, balancer=None)
    assert (settings.listen, settings.networks["x"].balancer) == ("0.0.0.0:9", "peak_ewma")


def test_the_balancer_of_the_command_line_is_that_of_every_network(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[networks.x]\nnodes = ["http://a"]\n[networks.y]\nnodes = ["http://a"]\n')
    settings = settings_from(NodeSource(file=file), balancer="consistent_hash")
    assert {network.balancer for network in settings.networks.values()} == {"consistent_hash"}


def test_without_nodes_the_way_to_look_around_is_shown() -> None:
    with pytest.raises(ConfigError, match="rpcaccel demo"):
        settings_from(NodeSource())


def test_other_faults_come_without_that_hint() -> None:
    with pytest.raises(ConfigError) as caught:
        source(["ftp://a"], None, None, None)
    assert "rpcaccel demo" not in str(caught.value)


def test_a_chain_without_urls_is_refused() -> None:
    with pytest.raises(ConfigError, match="--chain and --shard"):
        source((), None, "ethereum", None)
    assert source((), None, "auto", None) == NodeSource()


def test_what_is_wrong_whatever_the_nodes_say_is_told_before_they_are_asked() -> None:
    for values, said in (({"memory": "much"}, "memory.size"), ({"balancer": "coin"}, "balancer")):
        with pytest.raises(ConfigError, match=said):
            source(["http://192.0.2.1:1"], None, None, None, **values)


def test_settings_of_the_network_that_the_nodes_name_are_no_fault_before_they_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RPCACCEL_NETWORKS__HARMONY_S1__BALANCER", "peak_ewma")
    given = source(["http://a"], None, "harmony", 1)
    assert settings_from(given).networks["harmony-s1"].balancer == "peak_ewma"
    with pytest.raises(ConfigError, match="harmony-s1"):
        settings_from(source(["http://a"], None, "ethereum", None))


@pytest.mark.parametrize("name", chains.names())
def test_the_name_of_a_chain_serves_its_public_endpoints_modestly_and_says_whose_they_are(name: str) -> None:
    public = chains.load(name).public[0]
    given = source([name], None, None, None)
    (network,) = settings_from(given).networks.values()
    assert (network.chain, network.chain_id, network.examine) == (name, public.chain_id, False)
    assert [node.url.reveal().rstrip("/") for node in network.nodes] == [url.rstrip("/") for url in public.endpoints]
    assert (network.block_time or chains.load(name).block_time) >= 2.0
    (note,) = given.notes
    assert "for a first look" in note
    assert public.looked_at in note


def test_names_of_chains_may_have_capitals() -> None:
    assert [*settings_from(source(["Polygon"], None, "POLYGON", None)).networks] == ["polygon"]
    assert [*settings_from(source(["http://Node/Path"], None, "Polygon", None)).networks] == ["polygon"]


def test_names_of_chains_are_networks_of_their_own_and_a_shard_has_endpoints_of_its_own() -> None:
    two = settings_from(source(["harmony", "ethereum", "harmony"], None, None, None)).networks
    assert [*two] == ["harmony-s0", "ethereum"]
    one = settings_from(source(["harmony"], None, "harmony", 1)).networks["harmony-s1"]
    assert (one.shard, one.chain_id) == (1, 1_666_600_001)


@pytest.mark.parametrize(
    ("nodes", "chain", "shard", "said"),
    [
        (["harmny"], None, None, "found 'harmny', expected a URL such as .*arbitrum, .*harmony"),
        (["harmony", "https://a"], None, None, "give names or URLs"),
        (["https://a", "b"], None, None, "found 'b'"),
        (["Poligon"], None, None, r"found 'Poligon', .*; did you mean polygon\?"),
        (["10.0.0.5:8545"], None, None, r"found .*; did you mean http:// before it\?"),
        (["localhost:8545/v1,weight=3"], None, None, r"did you mean http:// before it\?"),
        (["harmony", "polygon"], None, 1, "polygon has no shards: serve it without --shard 1"),
        (["harmony"], "ethereum", None, "--chain ethereum contradicts harmony"),
        (["harmony"], None, 7, "no public endpoints of shard 7"),
        (["ethereum"], None, 1, "ethereum has no shards"),
    ],
)
def test_a_name_that_serves_nothing_is_an_error_that_says_why(
    nodes: list[str], chain: str | None, shard: int | None, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        source(nodes, None, chain, shard)
