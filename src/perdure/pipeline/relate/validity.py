"""For which time each relation holds, read off all that memories state of it (004 X65 to X67).

A statement ends another only where both are of one pair ("Alice is no longer the lead") or of one slot (another lead of
the same project), never because they resemble each other. Both are kept: the one that ended is an edge with an end.
Nothing is written: taking a statement back gives exactly the edges that there would have been without it, and what is
told late about an earlier time takes its place there and is ended by what follows it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from perdure.domain.clock import iso, parse_moment
from perdure.domain.graph import Edge, StatedRelation
from perdure.pipeline.relate.claims import Claim, read_claims, read_endings
from perdure.pipeline.relate.timeline import timeline


def edges(relations: Sequence[StatedRelation], *, at: str | None = None, include_past: bool = False) -> list[Edge]:
    """The edges that relations amount to, by source, relation, target and time; their order does not matter.

    `at` (ISO 8601; InvalidInputError if not) gives those that hold at that moment, and with `include_past` those that
    held before it too. Without `at`: those that had not ended when the last relation was told, with `include_past` all.
    Relations that were taken back count for nothing. Edges of one slot never overlap.
    """
    standing = list(dict.fromkeys(each for each in relations if each.untold_at is None))
    found = sorted(_all(standing), key=_order)
    if at is not None:
        moment = iso(parse_moment(at, "at"))
        begun = [edge for edge in found if edge.valid_from is None or edge.valid_from <= moment]
        return begun if include_past else [edge for edge in begun if _lasts(edge, moment)]
    if include_past or not found:
        return found
    last = max(each.told_at for each in standing)
    return [edge for edge in found if _lasts(edge, last)]


def _lasts(edge: Edge, moment: str) -> bool:
    return edge.valid_until is None or edge.valid_until > moment


def _order(edge: Edge) -> tuple[str, ...]:
    return (
        edge.source.casefold(),
        edge.relation,
        edge.target.casefold(),
        edge.valid_from or "",
        edge.valid_until or "",
    )


def _all(standing: Sequence[StatedRelation]) -> Iterator[Edge]:
    """Every edge, ended or not."""
    endings = read_endings(standing)
    groups: dict[str | tuple[str, str, str], list[Claim]] = defaultdict(list)
    for claim in read_claims(standing):
        claim.end_by(endings.get(claim.pair, ()))
        groups[claim.slot or claim.pair].append(claim)
    for claims in groups.values():
        for run in timeline(claims):
            yield _edge(run)


def _edge(run: Claim) -> Edge:
    newest_first = sorted({(each.told_at, each.memory_id) for each in run.statements}, key=lambda told: told[1])
    newest_first.sort(key=lambda told: told[0], reverse=True)
    memory_ids = tuple(dict.fromkeys(memory_id for _, memory_id in newest_first))
    return Edge(
        source=_spelling((each.relation.source, each.memory_id) for each in run.statements),
        relation=run.pair[1],
        target=_spelling((each.relation.target, each.memory_id) for each in run.statements),
        valid_from=run.start,
        valid_until=run.end,
        memory_ids=memory_ids,
        closed_by=run.ended_by if run.ended_by not in memory_ids else None,
        told_at=newest_first[0][0],
    )


def _spelling(written: Iterable[tuple[str, str]]) -> str:
    """The name as most memories write it; of equals the first by code points."""
    writers: dict[str, set[str]] = defaultdict(set)
    for name, memory_id in written:
        writers[name].add(memory_id)
    return min(writers, key=lambda name: (-len(writers[name]), name))
