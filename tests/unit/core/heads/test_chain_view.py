from rpcaccel.core.heads.chain_view import BLOCKS_OF_A_NODE, ChainView, Sighting


def see(view: ChainView, number: int, block_hash: str | None = None, parent: str | None = None) -> bool:
    return view.see(Sighting(number, block_hash, parent), 1.0, may_reorganise=True)


def test_another_hash_for_a_known_block_means_that_the_branch_was_left() -> None:
    view = ChainView()
    assert not see(view, 10, "a10")
    assert see(view, 10, "b10")


def test_a_parent_that_is_not_the_block_told_before_means_that_the_branch_was_left() -> None:
    view = ChainView()
    see(view, 10, "a10")
    assert not see(view, 11, "a11", parent="a10")
    assert see(view, 12, "b12", parent="b11")
    assert view.hashes[11] == "b11"


def test_what_was_told_of_another_branch_is_forgotten() -> None:
    view = ChainView()
    for number in (10, 11, 12):
        see(view, number, f"a{number}")
    assert see(view, 11, "b11")
    assert view.hashes == {11: "b11"}, "where the branches parted is not known"
    assert view.head == 11


def test_a_head_that_goes_back_once_is_not_yet_followed() -> None:
    view = ChainView()
    see(view, 10, "a10")
    see(view, 11, "a11")
    assert not see(view, 10, "a10")
    assert view.head == 11
    assert not see(view, 12, "a12")
    assert not see(view, 11, "a11")


def test_a_head_that_goes_back_twice_in_a_row_is_followed() -> None:
    view = ChainView()
    see(view, 11, "a11")
    see(view, 9)
    assert see(view, 9)
    assert view.head == 9
    assert 11 not in view.hashes


def test_a_new_head_whose_parent_was_replaced_is_known_by_its_hash() -> None:
    view = ChainView()
    see(view, 10, "a10")
    assert view.see(Sighting(11, "b11", "b10"), 2.0, may_reorganise=True)
    assert (view.head, view.hashes) == (11, {10: "b10", 11: "b11"})


def test_an_announcement_is_taken_when_it_is_newer_or_replaces_a_block() -> None:
    view = ChainView()
    for number in (10, 11, 12):
        see(view, number, f"a{number}")
    taken = {"a13": 13, "b12": 12, "b10": 10, "a12": 12, "a10": 10, "a9": 9}
    assert [own for own, number in taken.items() if view.takes(Sighting(number, own), may_reorganise=True)] == [
        "a13", "b12", "b10"]  # fmt: skip
    see(view, 11, "b11")
    assert not view.takes(Sighting(11, "a11"), may_reorganise=True)
    assert view.takes(Sighting(11, "c11"), may_reorganise=True)


def test_where_blocks_are_final_at_once_only_a_higher_announcement_is_taken() -> None:
    view = ChainView()
    see(view, 10)
    assert [number for number in (9, 10, 11) if view.takes(Sighting(number, "b"), may_reorganise=False)] == [11]


def test_only_a_bounded_number_of_hashes_is_kept() -> None:
    view = ChainView()
    for number in range(BLOCKS_OF_A_NODE * 3):
        see(view, number, f"a{number}")
    assert len(view.hashes) == BLOCKS_OF_A_NODE
    assert max(view.hashes) == BLOCKS_OF_A_NODE * 3 - 1


def test_its_repr_is_short_and_says_whether_it_counts() -> None:
    view = ChainView()
    assert repr(view) == "<ChainView head -1 weight 1 eligible>"
    view.eligible = False
    assert not view.counts
    assert "not eligible" in repr(view)
    view.gone = True
    assert "gone" in repr(view)


def test_a_block_that_the_node_went_back_from_is_no_news_when_it_is_announced_late() -> None:
    view = ChainView()
    for number in (10, 11, 12):
        see(view, number, f"a{number}")
    assert [see(view, 10, "a10"), see(view, 10, "a10")] == [False, True]
    assert not view.takes(Sighting(12, "a12", "a11"), may_reorganise=True)
    assert view.takes(Sighting(11, "b11", "a10"), may_reorganise=True)
