"""The page of the settings, made from a model."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field

from rpcaccel.config.schema import FIRST, tables
from rpcaccel.config.sections import Section, Since
from rpcaccel.config.value_types import Duration, Size, Whole


class InnerPart(Section):
    """An inner table."""

    calls: Whole = Field(default=3, ge=1, description="Calls.")


class OuterPart(Section):
    """A table."""

    wait: Annotated[Duration, Since("0.3.0")] = Field(default=0.03, gt=0, le=90, description="Seconds.")
    size: Size = Field(default=1 << 20, description="Bytes.")
    name: str = Field(default="", description="A name.", examples=["a"])
    inner: InnerPart = Field(default=InnerPart(), description="Inner.")


class MutePart(Section):
    """A table with a field that has no example."""

    name: str = Field(default="", description="A name.")


def test_a_key_has_the_version_that_its_field_names_or_the_first() -> None:
    (_, _, outer), (_, _, inner) = tables(OuterPart, OuterPart.model_json_schema())
    assert [(row.path, row.since) for row in (*outer, *inner)] == [
        ("wait", "0.3.0"),
        ("size", FIRST),
        ("name", FIRST),
        ("inner.calls", FIRST),
    ]


def test_types_bounds_defaults_and_examples_are_written_as_people_write_them() -> None:
    (_, _, (wait, size, name)), (_, _, (calls,)) = tables(OuterPart, OuterPart.model_json_schema())
    assert (wait.takes, wait.default, wait.example) == ("duration, > 0, ≤ 90s", '`"30ms"`', '"30ms"')
    assert (size.takes, size.default, size.example) == ("size", '`"1MiB"`', '"1MiB"')
    assert (name.takes, name.default, name.example) == ("text", '`""`', '"a"')
    assert (calls.takes, calls.default, calls.example) == ("integer, ≥ 1", "`3`", "3")


def test_a_field_whose_default_says_little_must_have_an_example() -> None:
    with pytest.raises(ValueError, match=r"name: its field has to name an example"):
        list(tables(MutePart, MutePart.model_json_schema()))
