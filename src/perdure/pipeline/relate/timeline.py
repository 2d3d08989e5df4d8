"""Claims of one slot, or of one pair, placed in time so that no two overlap.

What begins later ends what began before. A claim of unknown start ("Alice was the lead until Q2") stands right before
its end, and reaches back to the last moment at which another is known to have held the slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from perdure.domain.clock import iso
from perdure.pipeline.relate.claims import Claim


def timeline(claims: Sequence[Claim]) -> list[Claim]:
    """The claims in their order, those of one pair that touch as one, each ended where the next begins.

    The claims given are used up.
    """
    dated = [claim for claim in claims if claim.start is not None]
    for claim in claims:
        if claim.start is None:
            _place_before(claim, dated)
    runs: list[Claim] = []
    for claim in sorted(claims, key=_anchor):
        if runs and runs[-1].pair == claim.pair and _touches(runs[-1], claim):
            _merge(runs[-1], claim)
            continue
        if runs:
            _follow(runs[-1], claim)
        runs.append(claim)
    for place, run in enumerate(runs):
        if run.reaches_back:
            before = runs[place - 1].end if place else None
            run.start = min(before, run.start or before) if before is not None else None
    return runs


def _anchor(claim: Claim) -> tuple[str, bool, str, tuple[str, str, str], str, str, bool]:
    """Where a claim stands in the order: at its start, or where that is unknown just before what starts at its end."""
    known = claim.start is not None
    return (
        (claim.start or claim.end or ""),
        known,
        claim.told,
        claim.pair,
        claim.end or "",
        claim.memory_id,
        claim.soft,
    )


def _place_before(claim: Claim, dated: Sequence[Claim]) -> None:
    """Move the end of a claim of unknown start before all that is known to hold at that time instead."""
    for other in sorted(dated, key=_anchor, reverse=True):
        assert claim.end is not None and other.start is not None
        holds = other.seen >= claim.end if other.end is None else other.end > claim.end
        if other.pair != claim.pair and other.start < claim.end and holds:
            claim.end, claim.ended_by = other.start, other.memory_id


def _touches(run: Claim, claim: Claim) -> bool:
    """Whether a later claim of the same pair is about the same stretch of time."""
    return claim.start is None or run.end is None or claim.start < run.end or claim.start == run.start


def _merge(run: Claim, claim: Claim) -> None:
    """Make a claim part of a run of its pair; of two ends that both were told the one told last counts."""
    run.reaches_back = run.reaches_back or (run.soft and (claim.start is None or claim.reaches_back))
    if claim.start is None:
        later = run.end is not None and claim.end is not None and claim.end > run.end
    else:
        if not claim.soft and claim.start == run.start:
            run.reaches_back = False  # somebody said that it began then
        run.soft = run.soft and claim.soft
        later = run.end is not None and (claim.end is None or (claim.end_told, claim.end) > (run.end_told, run.end))
    if later:
        run.end, run.end_told, run.ended_by = claim.end, claim.end_told, claim.ended_by
    run.seen = max(run.seen, claim.seen)
    run.told = max(run.told, claim.told)
    run.statements += claim.statements


def _follow(run: Claim, claim: Claim) -> None:
    """End what stood before where the next begins, and begin the next no earlier."""
    if claim.start is None:
        assert claim.end is not None
        if run.end is None or run.end > claim.end:
            run.end = _just_after(run.seen) if run.seen < claim.end else claim.end
            run.ended_by = claim.memory_id
        claim.start = run.end
    elif run.end is None or run.end > claim.start:
        run.end, run.ended_by = claim.start, claim.memory_id


def _just_after(moment: str) -> str:
    return iso(datetime.fromisoformat(moment) + timedelta(microseconds=1))
