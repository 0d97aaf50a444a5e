"""The kinds of values, by themselves."""

from __future__ import annotations

import os
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from rpcaccel.config.value_types import (
    Duration,
    ListenText,
    MethodPatterns,
    Origins,
    RedisUrls,
    Roles,
    Size,
    Tags,
    Whole,
    WorkerCount,
)


@pytest.mark.parametrize(
    ("kind", "written", "kept"),
    [
        (Size, "1kB", 1000),
        (Duration, "30ms", 0.03),
        (Whole, "0x10", 16),
        (Whole, "7", 7),
        (ListenText, "[::1]:80", "[::1]:80"),
        (MethodPatterns, "debug_*", ("debug_*",)),
        (MethodPatterns, ["a_b", "c?"], ("a_b", "c?")),
        (Origins, "* https://a.example:8443", ("*", "https://a.example:8443")),
        (Roles, "archive,explorer", frozenset({"archive", "explorer"})),
        (RedisUrls, "", ()),
    ],
)
def test_what_people_write_is_kept_in_one_form(kind: Any, written: object, kept: object) -> None:
    assert TypeAdapter(kind).validate_python(written) == kept


def test_auto_is_a_worker_for_each_processor_that_may_be_used() -> None:
    kind: Any = TypeAdapter(WorkerCount)
    assert kind.validate_python(" Auto ") == len(os.sched_getaffinity(0))
    assert kind.validate_python("3") == 3
    with pytest.raises(ValidationError):
        kind.validate_python("most")


@pytest.mark.parametrize(
    ("kind", "written"),
    [(Whole, True), (Whole, "x"), (Whole, "0x"), (MethodPatterns, ["a,b"]), (Origins, ["https://a/x"]), (Roles, "x")],
)
def test_other_values_are_refused(kind: Any, written: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(written)


def test_equal_sets_are_written_down_alike_whatever_order_they_came_in() -> None:
    kind = TypeAdapter(Tags)
    names = [f"tag-{number}" for number in range(40)]
    assert kind.dump_python(kind.validate_python(names[::-1]), mode="json") == sorted(names)
