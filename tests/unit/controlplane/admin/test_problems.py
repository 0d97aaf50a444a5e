import json

from rpcaccel.config.errors import Fault
from rpcaccel.controlplane.admin.handling import ProblemError


def test_a_problem_names_the_field_and_carries_its_code() -> None:
    fault = Fault("workers", "0", "at least 1")
    response = ProblemError(
        422, "invalid-settings", "a word", faults=[fault], headers={"X": "y"}, revision=3
    ).response()
    assert (response.status, response.content_type) == (422, "application/problem+json")
    assert response.headers["X"] == "y"
    document = json.loads(bytes(response.body or b""))  # type: ignore[arg-type]
    assert document == {
        "type": "about:blank",
        "title": "The settings would not be valid",
        "status": 422,
        "code": "invalid-settings",
        "detail": "a word",
        "revision": 3,
        "errors": [
            {"path": "workers", "found": "0", "expected": "at least 1", "text": "workers: found 0, expected at least 1"}
        ],
    }
