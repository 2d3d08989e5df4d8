"""Owners: whose memories have grown since a task was last done, so that it looks at theirs alone."""

from __future__ import annotations

from perdure.domain.filter import eq
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.kernel import Kernel
from perdure.engine.upkeep.removing import walk


async def grown_since(kernel: Kernel, moment: str, at_least: int = 1) -> list[Scope]:
    """The owners who were told something after a moment ("" is at all) and have so many memories or more.

    An owner is a user, else the whole scope of a memory that names none. A team's memory has no owner.
    """
    counts: dict[Scope, int] = {}
    grown: dict[Scope, None] = {}
    async for items in walk(kernel, Scope(), eq("kind", "facts")):
        for item in items:
            if item.scope.team_id is None:
                owner = _owner_of(item)
                counts[owner] = counts.get(owner, 0) + 1
                if item.updated_at > moment:
                    grown[owner] = None
    return [owner for owner in grown if counts[owner] >= at_least]


def _owner_of(item: MemoryItem) -> Scope:
    return item.scope if item.scope.user_id is None else Scope(user_id=item.scope.user_id)
