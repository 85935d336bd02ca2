"""Reciprocal rank fusion keeps its promises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.pipeline.vectorstore.port import LaneHit
from knowledge.query.fusion import fuse


def lane(*names: str) -> list[LaneHit]:
    return [LaneHit(name, f"item-of-{name}", score=-float(rank)) for rank, name in enumerate(names)]


def names(hits: list[LaneHit]) -> list[str]:
    return [hit.unit_id for hit in hits]


def test_score_is_the_sum_of_reciprocal_ranks():
    """Each lane adds 1 / (k + rank), rank from 1."""
    fused = fuse([lane("a", "b"), lane("b", "c")], k=60)

    assert {"b": 1 / 62 + 1 / 61, "a": 1 / 61, "c": 1 / 62} == {hit.unit_id: hit.score for hit in fused}
    assert ["b", "a", "c"] == names(fused)
    assert "item-of-b" == fused[0].item_id


def test_unit_in_both_lanes_outranks_leaders_of_one():
    """Agreement of the lanes counts more than a first place in one of them."""
    assert "both" == names(fuse([lane("x", "both"), lane("y", "both")]))[0]


def test_equal_scores_keep_the_order_of_lanes():
    """Ties are settled by the lane that comes first."""
    assert ["a", "x", "b", "y"] == names(fuse([lane("a", "b"), lane("x", "y")]))


def test_weights_scale_lanes():
    """A heavier lane wins a tie; a lane of weight 0 takes no part."""
    assert ["x", "y", "a"] == names(fuse([lane("a"), lane("x", "y")], weights=[0.1, 0.9]))
    assert ["a"] == names(fuse([lane("a"), lane("x", "y")], weights=[1, 0]))


@pytest.mark.parametrize("lanes", [[], [[]], [[], []]])
def test_nothing_fuses_to_nothing(lanes):
    """Empty lanes are no error."""
    assert [] == fuse(lanes)


def test_one_lane_keeps_its_order():
    """Fusing one lane only renames its scores."""
    assert ["c", "a", "b"] == names(fuse([lane("c", "a", "b")]))


@pytest.mark.parametrize(("k", "weights"), [(0, None), (-1, None), (60, [1.0]), (60, [1.0, -0.5])])
def test_nonsense_is_refused(k, weights):
    """`k` is positive, and weights are one per lane and not negative."""
    with pytest.raises(ValueError):
        fuse([lane("a"), lane("b")], k=k, weights=weights)


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=4), st.integers(1, 100))
def test_every_unit_comes_once_and_scores_fall_within_bounds(lanes, k):
    """Whatever the lanes: no unit is lost or doubled, order follows the scores, and these stay in (0, lanes / (k + 1)]."""
    fused = fuse([lane(*ids) for ids in lanes], k=k)
    scores = [hit.score for hit in fused]

    assert sorted({name for ids in lanes for name in ids}) == sorted(names(fused))
    assert sorted(scores, reverse=True) == scores
    assert all(0 < score <= len(lanes) / (k + 1) + 1e-12 for score in scores)
