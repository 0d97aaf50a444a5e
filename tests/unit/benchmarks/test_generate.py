"""Both generators make the calls that they say."""

from __future__ import annotations

import json

import pytest

from benchmarks.generate import BODIES, SCRIPT, generate, ids_of, run
from benchmarks.responder import Responder
from tests.support.serving import responding, responding_apart


@pytest.mark.parametrize("kind", sorted(BODIES))
async def test_our_generator_gets_every_answer_checked(kind: str) -> None:
    responder = Responder(50)
    async with responding(responder) as url:
        found = await generate(url, kind, 4, 0.1, 0)
        assert found.failures == 0
        assert found.requests == responder.requests >= 4
        assert responder.calls == found.requests * (20 if kind == "batch" else 1)


@pytest.mark.parametrize("kind", sorted(BODIES))
def test_ids_are_those_in_the_body(kind: str) -> None:
    body = json.loads(BODIES[kind](7))
    calls = body if isinstance(body, list) else [body]
    assert [b"%d" % call["id"] for call in calls] == ids_of(kind, 7)


@pytest.mark.deep
@pytest.mark.parametrize("kind", sorted(BODIES))
def test_the_generator_that_is_there_makes_the_same_calls(kind: str) -> None:
    responder = Responder(50, latency=0.01)  # so that as many calls are made as it takes, and not all that a core can
    with responding_apart(responder) as url:
        found = run(url, kind, 2, 0.1, first=100)  # wrk counts whole seconds, and goes on for one
    assert SCRIPT.exists()
    assert found.failures == 0
    assert responder.requests >= found.requests > 0
    # wrk makes a call for itself first, and its two connections overtake each other.
    assert responder.last in {BODIES[kind](100 + responder.requests + more).encode() for more in range(-2, 3)}
