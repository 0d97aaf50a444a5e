"""Where the admin side may listen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rpcaccel.config.model import AdminSettings
from rpcaccel.config.password import hash_password
from rpcaccel.controlplane.admin import Admin
from rpcaccel.controlplane.admin_address import check_admin_address, host_and_port, name_asked, tls_context
from rpcaccel.controlplane.listening import ListenError
from tests.sample_view import SampleView


@pytest.mark.parametrize("listen", ["127.0.0.1:8889", "localhost:0", "[::1]:8889", "127.9.9.9:1"])
def test_the_admin_side_listens_on_this_machine(listen: str) -> None:
    assert check_admin_address(listen) is None


@pytest.mark.parametrize("listen", ["0.0.0.0:8889", "[::]:8889", "10.0.0.1:8889", "admin.example:8889"])
def test_the_admin_side_refuses_an_address_that_others_reach(listen: str) -> None:
    fault = check_admin_address(listen)
    assert fault is not None
    assert "no password" in fault
    with pytest.raises(ValueError, match="no password"):
        Admin(SampleView(), listen, files={})


@pytest.mark.parametrize("listen", ["", "8889", "127.0.0.1", ":8889", "127.0.0.1:", "127.0.0.1:x", "h:99999", "::1:80"])
def test_what_is_not_an_address_is_named_with_an_example(listen: str) -> None:
    assert host_and_port(listen) is None
    assert "127.0.0.1:8889" in (check_admin_address(listen) or "")


def test_with_an_account_others_may_reach_it() -> None:
    account = {"password": hash_password("x", log_n=4)}
    assert check_admin_address("0.0.0.0:8889", AdminSettings.model_validate({"accounts": {"ops": account}})) is None
    assert check_admin_address("0.0.0.0:8889", AdminSettings()) is not None


def test_a_certificate_comes_with_its_key() -> None:
    assert "together" in (check_admin_address("127.0.0.1:1", AdminSettings(tls_cert="x")) or "")
    assert tls_context(AdminSettings()) is None


def test_what_is_wrong_with_a_certificate_is_said_of_its_file(tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    for cert, key, said in (
        ("none.pem", str(text), "admin.tls_cert: none.pem cannot be read: No such file or directory"),
        (str(text), str(tmp_path), f"admin.tls_key: {tmp_path} cannot be read: Is a directory"),
        (str(text), str(text), "expected a certificate and its key without password, as PEM"),
    ):
        with pytest.raises(ListenError, match=re.escape(said)):
            tls_context(AdminSettings(tls_cert=cert, tls_key=key))


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("RPC.Example:8889", "rpc.example"),
        ("rpc.example", "rpc.example"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[FD00:0:0::5]:8889", "fd00::5"),
        ("[fd00::5]", "fd00::5"),
        ("fd00::5:0", "fd00::5"),
        (":8889", ""),
        ("", ""),
    ],
)
def test_a_host_header_has_one_spelling_of_its_name(host: str, name: str) -> None:
    assert name_asked(host) == name
