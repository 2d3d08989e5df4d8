"""What goes with a memory that is forgotten: what was made of it, and what it was made of and took the place of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from perdure.backends.vector_stores.base import Point
from perdure.domain.filter import Condition, Filter, Or, all_of, eq, scope_filter
from perdure.domain.memory import LIVE, VERSION, MemoryItem
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.engine.core.access import reaches, scoped
from perdure.engine.core.kernel import Kernel

SESSION = "session"
"""The source of what tells of a whole session: an account of what happened then, which no later fact overwrites."""
AT_A_TIME = 500
"""Ids that one filter names."""


async def derived_from(kernel: Kernel, ids: Iterable[str], scopes: Iterable[Scope], walls: Scope) -> list[Point]:
    """The rows, versions too, that name one of the memories in `derived_from` and stand inside of the walls.

    `scopes` are those of the memories. What was made of a memory shares an axis of its scope at least: an insight of a
    user may come from what one project of theirs holds.
    """
    return await _naming(kernel, "derived_from", ids, scopes, walls)


async def fragments_of(kernel: Kernel, ids: Iterable[str], walls: Scope) -> list[Point]:
    """The rows that stand inside of the walls and were cut from one of these documents (spec 003, C9)."""
    stated = Condition(
        "unique", "in", (True, False)
    )  # by an agent's runtime: nothing else that is derived has the flag
    found: list[Point] = []
    for some in _some(list(ids)):
        within = all_of(scope_filter(walls), eq("state", LIVE), stated, Condition("derived_from", "in", some))
        found += (await kernel.store.list(kernel.collection, within, with_vectors=True)).points
    return [row for row in found if reaches(walls, MemoryItem.from_payload(row.payload).scope)]


async def cut_from(kernel: Kernel, items: Iterable[MemoryItem], walls: Scope) -> list[Point]:
    """What was cut from those of the memories that are documents: their own agent's, inside of the walls (U4)."""
    of_agent: dict[str | None, list[str]] = {}
    for item in items:
        if item.meta_type == "document":
            of_agent.setdefault(item.scope.agent_id, []).append(item.id)
    found: list[Point] = []
    for agent, ids in of_agent.items():
        found += await fragments_of(kernel, ids, scoped(walls, Scope(agent_id=agent)))
    return found


async def summaries_of(kernel: Kernel, items: Sequence[MemoryItem], walls: Scope) -> list[Point]:
    """What stands inside of the walls and tells of a session in which one of these was told, in its words (V65).

    Whoever has a memory deleted, or asks to forget it, wants to hear no more of it: an account would go on telling it.
    """
    rows = await _naming(
        kernel, "derived_from", [item.id for item in items], [item.scope for item in items], walls,
        eq("state", LIVE), eq("source", SESSION),
    )  # fmt: skip
    return list({row.id: row for row in rows}.values())


async def taken_in_by(kernel: Kernel, ids: Iterable[str], scopes: Iterable[Scope], walls: Scope) -> list[str]:
    """The memories whose place one of these took, and that do not stand again since (`undo`), inside of the walls."""
    rows = await _naming(kernel, "replaced_by", ids, scopes, walls, eq("state", VERSION))
    replaced = list(dict.fromkeys(str(row.payload["version_of"]) for row in rows if "version_of" in row.payload))
    standing = {row.id for row in await kernel.store.get_many(kernel.collection, replaced)}
    return [id for id in replaced if id not in standing]


async def _naming(
    kernel: Kernel, field: str, ids: Iterable[str], scopes: Iterable[Scope], walls: Scope, *more: Filter
) -> list[Point]:
    near = _near(scopes)
    found: list[Point] = []
    for some in _some(list(ids)):
        page = await kernel.store.list(
            kernel.collection, all_of(near, Condition(field, "in", some), *more), with_vectors=True
        )
        found += [row for row in page.points if reaches(walls, MemoryItem.from_payload(row.payload).scope)]
    return found


def _near(scopes: Iterable[Scope]) -> Filter | None:
    """Rows that share the value of some axis with one of the scopes; None, which is any, for a scope without axes."""
    values: dict[str, dict[str, None]] = {}
    for scope in scopes:
        if not scope.given():
            return None
        for name, value in scope.given().items():
            values.setdefault(name, {})[value] = None
    parts: list[Filter] = [Condition(name, "in", tuple(values[name])) for name in SCOPE_FIELDS if name in values]
    return Or(tuple(parts)) if parts else None


def _some(ids: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(ids), AT_A_TIME):
        yield tuple(ids[start : start + AT_A_TIME])
