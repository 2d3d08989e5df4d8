"""Quotas: how many memories one user may have, and what becomes of one more (V75, B8's cap)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from perdure.domain.errors import ClosedError, QuotaError
from perdure.domain.event import Change
from perdure.domain.filter import all_of, eq, scope_filter
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.scope import Scope
from perdure.domain.text import shown
from perdure.engine.accesses import Accesses
from perdure.engine.calls import call
from perdure.engine.finish import finish
from perdure.engine.kernel import Kernel
from perdure.engine.soft import given_up
from perdure.engine.upkeep.removing import Removal, pages, remove_held, walk
from perdure.engine.upkeep.retention import is_exempt
from perdure.pipeline.retention import retained

_TAKE_BACK = frozenset({"undo", "rollback", "repair"})
"""Who brings back what was counted once, and is not refused."""
_FACTS = eq("kind", "facts")


class Quotas:
    """The quota of every user of one memory; users do not count against one another, and a team's memory is nobody's.

    Where `when_full` is `refuse`, a batch that would go beyond is a QuotaError and nothing of it is kept. Where it is
    `evict`, the memories of the lowest R go right after it, in a task of their own: they may stand in other sessions of
    the user's than the one that is being written.
    """

    def __init__(self, kernel: Kernel, accesses: Accesses) -> None:
        self._kernel = kernel
        self._accesses = accesses
        self._settings = kernel.config.upkeep
        self._crowded: dict[Scope, object] = {}
        """Users who may have too many, and what stands for the last time that this was noted."""
        self._task: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ beside each write
    async def check(self, changes: Sequence[Change]) -> None:
        """QuotaError where these changes would give a user more memories than there may be."""
        limit = self._settings.max_memories_per_user
        if not limit or self._settings.when_full != "refuse":
            return
        for user, more in _growth(changes).items():
            if more > 0 and await self._count(Scope(user_id=user)) + more > limit:
                raise QuotaError(
                    f"user {shown(user)} may have {limit} memories, and {more} more would be too many: delete some, or"
                    f" raise upkeep.max_memories_per_user"
                )

    def note(self, changes: Sequence[Change]) -> None:
        """These changes were made: who has too many now loses the least valued, a moment later."""
        if not self._settings.max_memories_per_user or self._settings.when_full != "evict":
            return
        users = [user for user, more in _growth(changes).items() if more > 0]
        if not users:
            return
        self._crowded.update({Scope(user_id=user): object() for user in users})
        task, loop = self._task, asyncio.get_running_loop()
        if task is None or task.done() or task.get_loop() is not loop:
            self._task = loop.create_task(self._settle(), name="perdure-quota")

    @property
    def waiting(self) -> bool:
        """Whether a user may have too many still."""
        return bool(self._crowded)

    async def _settle(self) -> None:
        with given_up("users beyond their quota are seen to later"):
            try:
                await self.settle()
            except ClosedError:
                return  # closing has seen to it

    async def settle(self) -> None:
        """See to the users who may have too many."""
        while self._crowded:
            scope, noted = next(iter(self._crowded.items()))
            await self(scope)
            if self._crowded.get(scope) is noted:  # else more was written meanwhile
                self._crowded.pop(scope, None)

    # ------------------------------------------------------------------ by itself
    @call
    async def __call__(self, scope: Scope, *, dry_run: bool = False) -> Removal:
        """Remove, of each user that a scope touches, the memories of the lowest R beyond the quota; actor `quota`.

        What never decays (see `is_exempt`) is counted and stays, so that a user may keep more than the quota.
        """
        removal = Removal("quota", dry_run=dry_run)
        limit = self._settings.max_memories_per_user
        if not limit:
            return removal
        for user in [scope.user_id] if scope.user_id is not None else await self._users(scope):
            walls = Scope(user_id=user)
            count = await self._count(walls)
            removal.looked_at += count
            if count > limit and dry_run:
                removal.removed += await self._least(walls, count - limit)
            elif count > limit:
                removal.removed += await self._trim(walls, limit)
        return removal

    async def _trim(self, walls: Scope, limit: int) -> list[MemoryItem]:
        """Remove what is too many of one user, whose every session waits, so that nobody removes the same twice."""
        gone: list[MemoryItem] = []
        async with self._kernel.lock(walls):
            chosen = await self._least(walls, await self._count(walls) - limit)
            for ids in pages(item.id for item in chosen):
                gone += await finish(remove_held(self._kernel, ids, _is_live, actor="quota", reason="quota"))
        return gone

    async def _users(self, scope: Scope) -> list[str]:
        found: dict[str, None] = {}
        async for items in walk(self._kernel, scope, _FACTS):
            found.update(dict.fromkeys(user for item in items if (user := _user_of(item)) is not None))
        return list(found)

    async def _least(self, walls: Scope, count: int) -> list[MemoryItem]:
        now, days = self._kernel.ticker.now(), self._settings.initial_strength_days
        held: list[tuple[float, str, str, MemoryItem]] = []
        async for items in walk(self._kernel, walls, _FACTS):
            for item in items:
                if item.scope.team_id is None and not is_exempt(item):
                    value = retained(self._accesses.counted(item), now, days)
                    held.append((value, item.created_at, item.id, item))
        held.sort(key=lambda each: each[:3])
        return [each[3] for each in held[: max(0, count)]]

    async def _count(self, walls: Scope) -> int:
        live = all_of(scope_filter(walls), eq("state", LIVE), _FACTS)
        return await self._kernel.store.count(self._kernel.collection, live)


def _growth(changes: Sequence[Change]) -> Counter[str]:
    """How many memories more each user has after these changes."""
    growth: Counter[str] = Counter()
    for change in changes:
        user = _user_of(change.item)
        if user is not None and change.item.kind == "facts" and change.actor not in _TAKE_BACK:
            growth[user] += (change.after is not None) - (change.before is not None)
    return growth


def _user_of(item: MemoryItem) -> str | None:
    return item.scope.user_id if item.scope.team_id is None else None


def _is_live(item: MemoryItem) -> bool:
    return item.state == LIVE
