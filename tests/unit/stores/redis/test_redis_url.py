"""Redis addresses: every form, and errors that show no secret."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.stores.redis import DRIVER
from rpcaccel.stores.redis.redis_url import SCHEMES, RedisTarget, parse


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("redis://h", RedisTarget("single", (("h", 6379),))),
        ("redis://h:7000/2", RedisTarget("single", (("h", 7000),), db=2)),
        ("redis://h?db=5", RedisTarget("single", (("h", 6379),), db=5)),
        ("redis://:p%40ss@h", RedisTarget("single", (("h", 6379),), password="p@ss")),
        ("redis://ann:pw@[::1]:7000", RedisTarget("single", (("::1", 7000),), username="ann", password="pw")),
        (
            "rediss://h?ssl_ca_certs=/ca.pem&ssl_check_hostname=false",
            RedisTarget(
                "single",
                (("h", 6379),),
                tls=True,
                tls_options=(("ssl_ca_certs", "/ca.pem"), ("ssl_check_hostname", False)),
            ),
        ),
        ("unix:///run/redis.sock", RedisTarget("unix", path="/run/redis.sock")),
        ("unix:///run/a%20b.sock?db=3&password=x", RedisTarget("unix", path="/run/a b.sock", db=3, password="x")),
        ("unix://:pw@/run/redis.sock", RedisTarget("unix", path="/run/redis.sock", password="pw")),
        (
            "redis+sentinel://:pw@a,b:7000,[::1]/main/4?sentinel_password=s",
            RedisTarget(
                "sentinel",
                (("a", 26379), ("b", 7000), ("::1", 26379)),
                service="main",
                db=4,
                password="pw",
                sentinel_password="s",
            ),
        ),
        ("redis+cluster://a:7000,b", RedisTarget("cluster", (("a", 7000), ("b", 6379)))),
        ("rediss+cluster://a", RedisTarget("cluster", (("a", 6379),), tls=True)),
    ],
)
def test_an_address_says_where_redis_is(url: str, target: RedisTarget) -> None:
    assert parse(url) == target


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("http://h", "begins with one of"),
        ("h:6379", "begins with one of"),
        ("redis://", "host or host:port"),
        ("redis://h:0", "host or host:port"),
        ("redis://h:99999", "host or host:port"),
        ("redis://h:port", "host or host:port"),
        ("redis://[::1", "host or host:port"),
        ("redis://a,b", "takes one host"),
        ("redis://h/db", "is a number"),
        ("redis://h?db=x", "is a number"),
        ("redis://h?retries=3", "unknown in a Redis address: retries"),
        ("redis://h?ssl_ca_certs=x", "unknown in a Redis address: ssl_ca_certs"),
        ("redis+sentinel://h", "names the service"),
        ("redis+cluster://h/1", "only database 0"),
        ("unix://host/path", "absolute path"),
        ("unix://", "absolute path"),
    ],
)
def test_a_wrong_address_is_refused_with_what_was_expected(url: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse(url)


@given(st.sampled_from(sorted(SCHEMES)), st.text(max_size=30))
def test_any_text_is_an_address_or_a_value_error(scheme: str, rest: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse(f"{scheme}://{rest}").name


def test_a_target_shows_no_credentials() -> None:
    for url in ("redis://ann:s3cret@h", "redis+sentinel://:s3cret@h/m?sentinel_password=s3cret", "unix://:s3cret@/p"):
        assert "s3cret" not in repr(parse(url)) + parse(url).name


def test_an_error_shows_no_credentials() -> None:
    with pytest.raises(ValueError, match="host or host:port") as raised:
        parse("redis://ann:s3cret@h:no")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://h", "h:6379"),
        ("redis://[::1]:1", "[::1]:1"),
        ("unix:///run/r.sock", "/run/r.sock"),
        ("redis+sentinel://a,b/main", "main@a:26379,b:26379"),
        ("redis+cluster://a:1,b:2", "a:1,b:2"),
    ],
)
def test_a_target_has_a_name_for_people(url: str, name: str) -> None:
    assert parse(url).name == name


def test_replicas_are_single_servers_of_redis_and_a_cluster_finds_its_own() -> None:
    others = ["redis://b", "", "redis+cluster://c", "elsewhere://d", "unix:///e"]
    assert DRIVER.unfit_replicas("redis://a", others).keys() == {2, 3}
    assert list(DRIVER.unfit_replicas("redis+cluster://a", others)) == [None, 2, 3]


def test_how_certificates_are_checked_is_one_of_three_words() -> None:
    assert parse("rediss://a?ssl_cert_reqs=none").tls_options == (("ssl_cert_reqs", "none"),)
    with pytest.raises(ValueError, match="none, optional, required"):
        parse("rediss://a?ssl_cert_reqs=perhaps")
