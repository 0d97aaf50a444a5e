"""The route table. That each route is guarded is walked in test_login.py."""

from operator import attrgetter

from rpcaccel.controlplane.admin.admin_app import Admin
from rpcaccel.controlplane.admin.admin_routes import ANSWER_HEADERS, ROUTES
from tests.support.sample_control import SampleControl
from tests.support.sample_view import SampleView


def test_every_route_has_its_handler_and_no_two_are_the_same() -> None:
    admin = Admin(SampleView(), "127.0.0.1:0", control=SampleControl(), files={})
    assert all(callable(attrgetter(route.handler)(admin)) for route in ROUTES)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_what_changes_something_is_no_get() -> None:
    assert not [route for route in ROUTES if route.method == "GET" and route.guard in ("change", "login")]


def test_scripts_and_styles_come_from_here_alone() -> None:
    assert "unsafe" not in ANSWER_HEADERS["Content-Security-Policy"]
