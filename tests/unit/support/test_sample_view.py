from rpcaccel.controlplane.stats.snapshot import AdminView
from rpcaccel.core.stats.tally import delta
from tests.support.sample_view import SampleView


def test_the_sample_is_a_view() -> None:
    view: AdminView = SampleView()
    assert [node.id for node in view.frame().nodes] == ["a", "b", "c"]


def test_the_same_seed_tells_the_same_story() -> None:
    one, two = SampleView(seed=3), SampleView(seed=3)
    one.advance(1.0)
    two.advance(1.0)
    assert one.snapshot() == two.snapshot()


def test_time_moves_calls_and_the_head() -> None:
    view = SampleView()
    before, head = view.snapshot(), view.head
    view.advance(4.0)
    assert view.head == head + 2
    assert delta(view.snapshot(), before).requests > 1000


def test_a_node_that_is_not_eligible_takes_no_calls() -> None:
    view = SampleView()
    view.advance(1.0)
    assert {node.node for node in view.snapshot().nodes} == {"a", "b"}
