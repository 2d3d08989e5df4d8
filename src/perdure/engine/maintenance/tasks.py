"""Maintenance tasks: expiry, pruning, quotas, and the feedback that rates memories."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from perdure.domain.clock import iso
from perdure.domain.errors import ClosedError, QuotaError
from perdure.domain.filter import Condition, Moment, all_of, eq, scope_filter
from perdure.domain.memory import LIVE, level_of
from perdure.domain.scope import Scope
from perdure.domain.text.readable import check_unicode, shown
from perdure.engine.aio.calls import degrade, guarded, shielded
from perdure.engine.core.access import UNRESTRICTED
from perdure.engine.core.batch import edit
from perdure.engine.maintenance.deletion import Removal, pages, remove, remove_held, walk
from perdure.engine.read.access_counts import AccessCounts
from perdure.engine.requests import invalid
from perdure.pipeline.lexicon import words
from perdure.pipeline.maintenance.retention import FEEDBACK, is_new, retained, weighed

if TYPE_CHECKING:
    from perdure.domain.event import Change
    from perdure.domain.memory import MemoryItem
    from perdure.engine.core.kernel import Kernel

# Expiry deletes memories past their `expires_at`, personal ones and a team's.


class Expiry:
    """Deletes expired memories, which no read returns already."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @guarded
    async def __call__(self, scope: Scope, *, dry_run: bool = False) -> Removal:
        """Delete the expired personal memories of a scope, or of all; the actor is `expiry`."""
        kernel, now = self._kernel, iso(self._kernel.clock.now())
        removal = Removal("expire", dry_run=dry_run)
        found: list[MemoryItem] = []
        async for items in walk(kernel, scope, Condition("expires_at", "lte", Moment(now))):
            found += [item for item in items if item.scope.team_id is None]
        removal.looked_at = len(found)

        def is_over(item: MemoryItem) -> bool:
            return item.expires_at is not None and item.expires_at <= now

        removal.removed = found if dry_run else await remove(kernel, found, is_over, actor="expiry", reason="expired")
        return removal

    async def everywhere(self) -> int:
        """Delete all expired memories, personal ones and teams'; return how many."""
        count = (await self(Scope())).count
        with degrade("what has expired of teams is deleted by the next sweep"):
            from perdure.engine.team.teams import TeamExpiry

            count += await TeamExpiry(self._kernel).sweep()
        return count


# Pruning deletes stale memories, except those that are exempt.


def is_exempt(item: MemoryItem) -> bool:
    """Whether a memory never decays: VALIDATED or higher, a summary, a directive, or a fact of the profile."""
    if item.tags is not None and level_of(item.tags.truth_level) >= level_of("VALIDATED"):
        return True
    from perdure.engine.read.profile import is_directive  # heavy: it ranks

    if item.kind == "summaries" or item.role == "summary" or is_directive(item):
        return True
    return item.slots is not None and item.slots.polarity and item.slots.attribute in words("profile_attributes.txt")


class Pruning:
    """Deletes decayed memories."""

    def __init__(self, kernel: Kernel, accesses: AccessCounts) -> None:
        self._kernel = kernel
        self._accesses = accesses
        self._settings = kernel.config.upkeep

    @guarded
    async def __call__(self, scope: Scope, *, dry_run: bool = False) -> Removal:
        """Delete the memories of a scope, or of all, whose R is below the threshold; the actor is `prune`."""
        kernel, now = self._kernel, self._kernel.clock.now()
        removal = Removal("prune", dry_run=dry_run)

        def has_decayed(item: MemoryItem) -> bool:
            return self._has_decayed(self._accesses.counted(item), now)

        found: list[MemoryItem] = []
        async for items in walk(kernel, scope, eq("kind", "facts")):
            removal.looked_at += len(items)
            found += [item for item in items if has_decayed(item)]
        removal.removed = (
            found if dry_run else await remove(kernel, found, has_decayed, actor="prune", reason="decayed")
        )
        return removal

    def _has_decayed(self, item: MemoryItem, now: datetime) -> bool:
        settings = self._settings
        return (
            retained(item, now, settings.initial_strength_days) < settings.prune_threshold
            and not is_new(item, now, settings.grace_days)
            and not is_exempt(item)
        )


# Quotas limit how many memories one user may have.

_TAKE_BACK = frozenset({"undo", "rollback", "repair"})
"""Actors that restore what was counted before, and are not refused."""
_FACTS = eq("kind", "facts")


class Quotas:
    """The quota of every user; users do not count against one another, and a team's memory belongs to no user.

    If `when_full` is `refuse`, a batch beyond the quota raises QuotaError and nothing of it is stored. If it is
    `evict`, the memories with the lowest R are deleted right after the batch, in a separate task, because they may be
    in other sessions of the user than the one being written.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.access_counts = AccessCounts(kernel)
        self._settings = kernel.config.upkeep
        self._crowded: dict[Scope, object] = {}  # users who may be over the quota, each with a mark of the last note
        self._task: asyncio.Task[None] | None = None

    async def check(self, changes: Sequence[Change]) -> None:
        """Raise QuotaError if these changes would put a user over the quota."""
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
        """Note these changes; a user over the quota loses the least valued memories a moment later."""
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
        """Whether a user may still be over the quota."""
        return bool(self._crowded)

    async def _settle(self) -> None:
        with degrade("users beyond their quota are seen to later"):
            try:
                await self.settle()
            except ClosedError:
                return  # closing has done it

    async def settle(self) -> None:
        """Delete what the noted users have beyond the quota."""
        while self._crowded:
            scope, noted = next(iter(self._crowded.items()))
            await self(scope)
            if self._crowded.get(scope) is noted:  # otherwise more was written meanwhile
                self._crowded.pop(scope, None)

    @guarded
    async def __call__(self, scope: Scope, *, dry_run: bool = False) -> Removal:
        """Delete the lowest-R memories of each user beyond the quota; those that never decay are counted and stay."""
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
        """Delete what one user has beyond the quota, under the lock of all their sessions."""
        gone: list[MemoryItem] = []
        async with self._kernel.lock(walls):
            chosen = await self._least(walls, await self._count(walls) - limit)
            for ids in pages(item.id for item in chosen):
                gone += await shielded(remove_held(self._kernel, ids, _is_live, actor="quota", reason="quota"))
        return gone

    async def _users(self, scope: Scope) -> list[str]:
        found: dict[str, None] = {}
        async for items in walk(self._kernel, scope, _FACTS):
            found.update(dict.fromkeys(user for item in items if (user := _user_of(item)) is not None))
        return list(found)

    async def _least(self, walls: Scope, count: int) -> list[MemoryItem]:
        now, days = self._kernel.clock.now(), self._settings.initial_strength_days
        held: list[tuple[float, str, str, MemoryItem]] = []
        async for items in walk(self._kernel, walls, _FACTS):
            for item in items:
                if item.scope.team_id is None and not is_exempt(item):
                    value = retained(self.access_counts.counted(item), now, days)
                    held.append((value, item.created_at, item.id, item))
        held.sort(key=lambda each: each[:3])
        return [each[3] for each in held[: max(0, count)]]

    async def _count(self, walls: Scope) -> int:
        live = all_of(scope_filter(walls), eq("state", LIVE), _FACTS)
        return await self._kernel.store.count(self._kernel.collection, live)


def _growth(changes: Sequence[Change]) -> Counter[str]:
    """Return how many more memories each user has after these changes."""
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


class MaintenanceTasks:
    """The maintenance tasks of one engine."""

    def __init__(self, kernel: Kernel, quotas: Quotas) -> None:
        self.prune = Pruning(kernel, quotas.access_counts)
        self.expire = Expiry(kernel)
        self.quotas = quotas
        self.feedback = Feedback(kernel)


VERDICTS = tuple(FEEDBACK)
VERDICT, REASON, BEFORE = "feedback", "feedback_reason", "importance_before_feedback"
"""Keys of the metadata: what was said, why, and what the memory was worth without it."""
_OTHER_NAMES = {"good": "positive", "bad": "negative", "awful": "very_negative"}


def read_verdict(value: object) -> str | None:
    """Read a verdict in mem0's words (POSITIVE, ...), the library's or the command's (good, bad, awful)."""
    if value is None:
        return None
    name = value.strip().casefold().replace(" ", "_").replace("-", "_") if isinstance(value, str) else ""
    name = _OTHER_NAMES.get(name, name)
    if name not in FEEDBACK:
        raise invalid("feedback", f"one of {', '.join(VERDICTS)} ({', '.join(_OTHER_NAMES)}), or none", value)
    return name


class Feedback:
    """Stores the last verdict on a memory."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @guarded
    async def __call__(
        self, id: str, verdict: str | None, reason: str | None = None, walls: Scope = UNRESTRICTED
    ) -> MemoryItem:
        """Rate a memory, or withdraw the rating with None; repeating it changes nothing.

        The importance becomes its value without a verdict plus .25 (positive), -.25 (negative) or -.5 (very negative),
        within [0, 1]. The verdict is stored in the metadata, in mem0's words, and each change in the history.
        """
        if reason is not None:
            if not isinstance(reason, str):
                raise invalid("reason", "text", reason)
            check_unicode(reason, "reason")
        return await edit(
            self._kernel,
            id,
            walls,
            lambda before: _judged(before, verdict, reason),
            actor="feedback",
            reason=verdict or "taken back",
        )


def _judged(item: MemoryItem, verdict: str | None, reason: str | None) -> MemoryItem:
    kept = item.metadata.get(BEFORE)
    before = float(kept) if isinstance(kept, (int, float)) and not isinstance(kept, bool) else None
    importance, plain = weighed(item.importance, before, verdict)
    told = {} if verdict is None else {VERDICT: verdict.upper(), REASON: reason, BEFORE: plain}
    others = {key: value for key, value in item.metadata.items() if key not in (VERDICT, REASON, BEFORE)}
    given = {key: value for key, value in told.items() if value is not None}
    return item.with_(importance=importance, metadata={**others, **given})
