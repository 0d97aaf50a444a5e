"""Cases of disagreement are kept within bounds, and a node is judged by them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.agreement.cases import MAX_CASE_CHARACTERS, MAX_CASES_BYTES, Case, CaseAnswer, CaseLog, is_suspect


def case(
    network: str = "n", *, at: float = 0.0, minority: tuple[str, ...] = ("b",), text: str = "x", params: str = ""
) -> Case:
    params = params or f"[{at}]"
    answers = tuple(CaseAnswer(node=node, head=1, text=text, size=len(text)) for node in "abc")
    return Case(network=network, method="m", params=params, at=at, difference="d", answers=answers, minority=minority)


@given(st.lists(st.sampled_from(["n", "m"]), max_size=40), st.integers(1, 5))
def test_of_each_network_the_newest_cases_are_kept(networks: list[str], keep: int) -> None:
    log = CaseLog()
    for at, network in enumerate(networks):
        log.add(case(network, at=at), keep)
    kept = [(one.network, one.at) for one in log]
    wanted = [
        pair for name in ("n", "m") for pair in [(name, at) for at, one in enumerate(networks) if one == name][-keep:]
    ]
    assert sorted(kept) == sorted(wanted)
    assert [at for _, at in kept] == sorted((at for _, at in kept), reverse=True)


def test_the_texts_of_all_cases_are_bounded() -> None:
    log, text = CaseLog(), "x" * MAX_CASE_CHARACTERS
    for at in range(MAX_CASES_BYTES // (3 * MAX_CASE_CHARACTERS) + 100):
        log.add(case(at=at, text=text), 10_000)
    assert sum(one.size for one in log) <= MAX_CASES_BYTES
    assert next(iter(log)).at == at


def test_networks_that_are_gone_take_their_cases_with_them() -> None:
    log = CaseLog()
    log.add(case("n"), 9)
    log.add(case("m"), 9)
    log.keep_only(["m"])
    assert [one.network for one in log] == ["m"]


def test_the_cases_of_a_node_are_those_since_a_time_in_which_it_was_contradicted() -> None:
    log = CaseLog()
    for at, minority in ((1.0, ("b",)), (2.0, ("a",)), (3.0, ("b",)), (4.0, ())):
        log.add(case(at=at, minority=minority), 9)
    assert [one.at for one in log.against("n", "b", 0.0)] == [3.0, 1.0]
    assert [one.at for one in log.against("n", "b", 2.0)] == [3.0]
    assert not log.against("m", "b", 0.0)


def test_several_cases_about_one_call_count_once() -> None:
    log = CaseLog()
    for at in (1.0, 2.0):
        log.add(case(at=at, params="[1]"), 9)
    assert [one.at for one in log.against("n", "b", 0.0)] == [2.0]


def test_one_wrong_answer_may_be_chance_and_several_of_few_are_not() -> None:
    assert not is_suspect(5, 1)
    assert is_suspect(5, 2)
    assert not is_suspect(100, 2)
    assert is_suspect(100, 3)
    assert not is_suspect(1000, 2)
    assert not is_suspect(1000, 4)
    assert is_suspect(1000, 7)
    assert not is_suspect(100_000, 100)
    assert is_suspect(100_000, 150)


@given(st.integers(0, 10**6), st.integers(0, 1000))
def test_more_wrong_answers_never_make_a_node_less_suspect(compared: int, contradicted: int) -> None:
    if is_suspect(compared, contradicted):
        assert is_suspect(compared, contradicted + 1)
    elif contradicted:
        assert not is_suspect(compared + 1, contradicted)
