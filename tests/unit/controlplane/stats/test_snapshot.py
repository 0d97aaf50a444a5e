from tests.support.sample_view import SampleView


def test_a_frame_holds_all_parts_and_does_not_change_afterwards() -> None:
    view = SampleView()
    view.advance(1.0)
    frame = view.frame()
    requests = frame.snapshot.requests
    view.advance(1.0)
    assert frame.snapshot.requests == requests > 0
    assert (len(frame.nodes), len(frame.heads), len(frame.workers)) == (3, 1, 1)
