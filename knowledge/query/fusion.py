"""Reciprocal rank fusion: several rankings of the same units become one."""

from collections.abc import Sequence

from knowledge.pipeline.vectorstore.port import LaneHit


def fuse(lanes: Sequence[Sequence[LaneHit]], *, k: int = 60, weights: Sequence[float] | None = None) -> list[LaneHit]:
    """Merge ranked lanes by reciprocal rank fusion.

    Args:
        lanes: one list per lane, best first, each unit at most once per lane; scores inside are ignored.
        k: rank offset, no unit; larger flattens the head.
        weights: one factor per lane, >= 0; every lane counts 1 if not given. A lane of weight 0 takes no part.

    Returns:
        Each unit once, best first; `score` lies in (0, sum(weights) / (k + 1)] and ranks only. Units of equal score keep the
        order in which the lanes, taken one after the other, first named them.

    Raises:
        ValueError: `k` is not positive, a weight is negative, or their number is not that of the lanes.

    Source: Cormack, Clarke and Büttcher, SIGIR 2009.
    """
    if k <= 0:
        raise ValueError(f"k must be positive, not {k}")
    factors = [1.0] * len(lanes) if weights is None else list(weights)
    if len(factors) != len(lanes):
        raise ValueError(f"{len(lanes)} lanes need as many weights, not {len(factors)}")
    if any(factor < 0 for factor in factors):
        raise ValueError(f"a weight must not be negative: {factors}")

    scores: dict[str, float] = {}
    items: dict[str, str] = {}
    for lane, factor in zip(lanes, factors, strict=True):
        if factor == 0:
            continue
        for rank, hit in enumerate(lane, start=1):
            items.setdefault(hit.unit_id, hit.item_id)
            scores[hit.unit_id] = scores.get(hit.unit_id, 0.0) + factor / (k + rank)
    return [LaneHit(unit, items[unit], scores[unit]) for unit in sorted(scores, key=scores.__getitem__, reverse=True)]
