"""Versions of a memory's files: log, diff, revert, branches, merges and a remote."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from perdure.backends.git.base import BOOKKEEPING, Commit, Replaced, Stands, Step, Tell
from perdure.backends.markdown.base import FileStore
from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.errors import ConfigError, ConflictError, PerdureError
from perdure.domain.event import AddResult, Change, MemoryEvent
from perdure.domain.fact import Fact, Neighbour
from perdure.domain.file_versions import MergeReport, Version, VersionBranch, VersionChange, VersionDiff, What
from perdure.domain.filter import all_of, eq
from perdure.domain.memory import LIVE, VERSION, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade, guarded, shielded
from perdure.engine.aio.worker import Worker
from perdure.engine.core.batch import Batch
from perdure.engine.core.kernel import Kernel
from perdure.engine.maintenance.last_events import forgotten
from perdure.engine.markdown.sync import ACTOR, sync_files
from perdure.engine.markdown.write_context import LINES, MENDED, UNREAD, lines_of, message_of, of_replaced, shown
from perdure.pipeline.curation.rules.reconciliation import decide
from perdure.pipeline.curation.rules.slots import read

if TYPE_CHECKING:
    from perdure.backends.git.snapshots import GitVersions

# Merges: which of two contradicting facts of two branches wins, as if one had been said after the other.


def settle(ours: MemoryItem, theirs: MemoryItem) -> Stands | None:
    """Return the later fact if the rules let it replace the earlier one, the earlier if both say the same.

    `both` if they contradict each other and no rule is sure enough; None if both may be true.
    """
    later, earlier = (ours, theirs) if (ours.told_at, ours.id) > (theirs.told_at, theirs.id) else (theirs, ours)
    fact = Fact(text=later.memory, origin=later.origin, quarantined=later.quarantined)
    decisions = decide(fact, [Neighbour(item=earlier, similarity=None)])
    events = {decision.event for decision in decisions if decision.target == earlier.id}
    trusted = later.quarantined is None or earlier.quarantined is not None
    if "NONE" in events:
        return _stands_as(earlier, ours)
    if events & {"UPDATE", "DELETE"} and trusted:
        return _stands_as(later, ours)
    return "both" if _contradict(ours, theirs) else None


def _stands_as(standing: MemoryItem, ours: MemoryItem) -> Stands:
    return "ours" if standing is ours else "theirs"


def _contradict(one: MemoryItem, other: MemoryItem) -> bool:
    """Whether both give different values to the same single-valued attribute."""
    if one.slots is None or other.slots is None or one.slots.value == other.slots.value:
        return False
    single = {slot.attribute for item in (one, other) for slot in read(item.memory).slots if slot.single}
    return one.slots.attribute in single


# Reverts: inverse events of memories, visible to history, undo and `as_of`.

REVERTER = "revert"


class Revert:
    """Adds the inverse of a version's step to a batch; use it under the lock of all writers."""

    def __init__(self, kernel: Kernel, batch: Batch, name: str) -> None:
        self._kernel = kernel
        self._batch = batch
        self._name = name

    async def __call__(self, step: Step) -> list[str]:
        """Return warnings of what cannot be reverted; ConflictError if the current state differs."""
        reason = f"takes back version {self._name}"
        for pair in (*step.replaced, *step.marked):
            await self._replace(pair.before, pair.after, reason)
        for item in step.learned:
            point = await self._standing(item)
            if point is not None:
                self._batch.remove(_item(point), point.vector, actor=REVERTER, reason=reason)
            elif await self._went_on(item):
                raise self._conflict(item)
        for item in step.dropped:
            await self._revive(item, reason)
        gone = len(step.erased)
        return [f"{gone} erased {'memory stays' if gone == 1 else 'memories stay'} gone"] if gone else []

    async def _replace(self, before: MemoryItem, after: MemoryItem, reason: str) -> None:
        point = await self._standing(after)
        if point is None:
            raise self._conflict(after)
        now = _item(point)
        if before.id != after.id and await self._point(before.id) is not None:
            raise self._conflict(before)
        if now == before.with_(**{name: getattr(now, name) for name in BOOKKEEPING}):
            return
        vector = await self._kernel.embedding.query(before.memory)
        self._batch.replace(now, before, point.vector, vector, actor=REVERTER, reason=reason)

    async def _revive(self, item: MemoryItem, reason: str) -> None:
        if await self._point(item.id) is not None:
            if await self._standing(item) is None:
                raise self._conflict(item)
            return
        vector: Vector | None = await self._kernel.embedding.query(item.memory)
        self._batch.revive(item, vector, actor=REVERTER, reason=reason)

    async def _point(self, id: str) -> Point | None:
        point = await self._kernel.store.get(self._kernel.collection, id)
        return point if point is not None and point.payload.get("state") == LIVE else None

    async def _standing(self, item: MemoryItem) -> Point | None:
        """Return the row of a memory, None if it is gone; ConflictError if it has another text."""
        point = await self._point(item.id)
        if point is not None and point.payload.get("memory") != item.memory:
            raise self._conflict(item)
        return point

    async def _went_on(self, item: MemoryItem) -> bool:
        of_it = all_of(eq("version_of", item.id), eq("state", VERSION))
        page = await self._kernel.store.list(self._kernel.collection, of_it)
        return any(point.payload.get("replaced_by") for point in page.points)

    def _conflict(self, item: MemoryItem) -> ConflictError:
        return ConflictError(
            f"version {self._name} cannot be taken back: memory {item.id} was changed after it; take that back first"
        )


def _item(point: Point) -> MemoryItem:
    return MemoryItem.from_payload(point.payload)


# Commits of changed files, one per call or turn, made in the background. A commit never fails or delays a write: what
# could not be committed is in the next commit, or in the first one of the next process.

logger = logging.getLogger("perdure")
HELD = 5.0  # maximum seconds that a commit waits for running calls, whose changes belong together
SAID = 30.0  # seconds that messages wait for the facts learned from them (one commit a turn)
AGAIN = 60.0  # seconds after which a failed commit is retried
OPENING, CLOSING = 10.0, 20.0  # seconds that opening waits for git, and closing for the last commit, at most
IDLE = 3600.0
_LOOK, _LONGEST_LOOK = 0.01, 0.1


class CommitWorker:
    """Commits one kernel's changes of files."""

    def __init__(self, kernel: Kernel, versions: GitVersions) -> None:
        self._kernel = kernel
        self.versions = versions
        self._worker = Worker(self._work)
        self._clear()

    def _clear(self) -> None:
        self._changed: float | None = None
        self._actors: set[str] = set()
        self._said: float | None = None
        self._is_committing = False
        self._told = ""
        self._is_off = False

    async def opened(self) -> None:
        """Make sure that the repository exists, and commit leftovers, without waiting for an existing one."""
        store = self._kernel.store
        if isinstance(store, FileStore) and (store.root / ".git").exists():
            self.note()
            return
        try:
            async with asyncio.timeout(OPENING):
                await self.versions.open()
        except TimeoutError:
            self._tell("git does not answer")
        except PerdureError as error:
            self._failed(error)
        self.note()

    def note(self, changes: Sequence[Change] | None = None) -> None:
        """Note changes in the files (None: check them all; none: a message, which waits for its facts)."""
        if self._is_off:
            return
        if changes is None or changes:
            self._changed = self._changed or time.monotonic()
            self._actors.update(change.actor for change in changes or ())
        else:
            self._said = self._said or time.monotonic()
            if not self._actors:
                self._changed = None  # changes from before the opening are committed with the messages
        self._worker.wake()

    async def _work(self) -> float:
        """Commit if it is time; return the seconds until the next check."""
        now = time.monotonic()
        if self._is_off:
            return IDLE
        if self._changed is None:
            if self._said is None:
                return IDLE
            if now < self._said + SAID:
                return self._said + SAID - now
        elif self._kernel.lifecycle.is_busy and now < self._changed + HELD:
            return _LOOK
        return 0.0 if await self._try() else AGAIN

    async def _try(self) -> bool:
        try:
            await self.commit()
        except PerdureError as error:
            self._failed(error)
            return False
        self._told = ""
        return True

    async def commit(self, tell: Tell | None = None) -> Commit | None:
        """Commit now, before versions are read or moved; errors are raised."""
        await self._ended()
        since, by = (self._changed, self._said), self._actors
        self._changed, self._said, self._actors, self._is_committing = None, None, set(), True
        try:
            return await self.versions.commit(tell or _message(by))
        except BaseException:
            self._changed, self._said = since[0] or self._changed, since[1] or self._said
            self._actors |= by
            raise
        finally:
            self._is_committing = False

    async def _ended(self) -> None:
        """Wait until no other task of this process commits: each knows what its own message is about."""
        pause = _LOOK
        while self._is_committing:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK)

    async def close(self) -> None:
        """Commit the rest, unless git takes too long; then the next process does it."""
        try:
            async with asyncio.timeout(CLOSING):
                await self._ended()
                await self._worker.stop()
                if not self._is_off and (self._changed or self._said):
                    await self._try()
        except TimeoutError:
            self._tell("the last changes are committed to git by the next process")
        await self._worker.stop()

    def forsake(self) -> None:
        """Start afresh after a fork: the parent commits its own changes."""
        self._worker.reset()
        self._clear()

    def _failed(self, error: PerdureError) -> None:
        if error.code == "no_git":
            self._is_off = True
            self._tell("git is not installed: files are kept without versions")
        else:
            self._tell(f"changes are not committed to git for now: {error.message}")

    def _tell(self, sentence: str) -> None:
        """Warn once, until the error differs."""
        if sentence != self._told:
            logger.warning("%s", sentence)
            self._told = sentence


def _message(actors: set[str]) -> Tell:
    """Return the words for these actors; a rollback is named even if files were read just before it."""
    is_rollback = "rollback" in actors and actors <= {"rollback", ACTOR}
    return partial(message_of, heading="Rolled back: ") if is_rollback else message_of


class FileVersions:
    """Implements `Memory.versions`; ConfigError if the memory is not files under git."""

    def __init__(self, kernel: Kernel, versioning: CommitWorker | None) -> None:
        self._kernel = kernel
        self._given = versioning

    @property
    def _versioning(self) -> CommitWorker:
        if self._given is None:
            raise ConfigError(
                'only memories in files have versions: set vector_store to {"provider": "markdown"}, with git on',
                field="vector_store.provider",
                value=self._kernel.config.vector_store.provider,
            )
        return self._given

    @guarded
    async def log(self, point: str | None, limit: int) -> list[Version]:
        """Return the last versions before a point, newest first, each with its changes and their messages."""
        versions = self._versioning.versions
        await self._versioning.commit()
        told = []
        for commit in await versions.log(point, limit):
            step = await versions.step(commit.parents[0] if commit.parents else None, commit.id)
            title = commit.message.splitlines()[0] if commit.message else ""
            changes = tuple(await self._changes(step))
            told.append(Version(id=commit.id, at=commit.at, author=commit.author, title=title, changes=changes))
        return told

    @guarded
    async def diff(self, before: str, after: str | None) -> VersionDiff:
        """Return the difference between two points, or between one and the current memory.

        Before the first version the memory was empty.
        """
        versions = self._versioning.versions
        one = await versions.resolve_start(before)
        two = None if after is None else await versions.resolve(after)
        step = await versions.step(one, two)
        left = None if one is None or await versions.leads_to(one, two) else "Not there: "
        return VersionDiff(before=one, after=two, results=await self._changes(step, left))

    @guarded
    async def branches(self) -> list[VersionBranch]:
        """Return every branch."""
        return [
            VersionBranch(name=each.name, is_current=each.is_current, commit=each.commit, at=each.at)
            for each in await self._versioning.versions.branches()
        ]

    @guarded
    async def revert(self, point: str) -> AddResult:
        """Revert a version by inverse events, without messages and erased text; ConflictError if one built on it."""
        kernel, versioning = self._kernel, self._versioning
        async with kernel.lock(Scope()):
            await versioning.commit()
            id = await versioning.versions.resolve(point)
            commit = next((each for each in await versioning.versions.log(id, 1) if each.id == id), None)
            if commit is None:
                return AddResult([], [f"version {id[:8]} changed nothing of the memory"], bare=kernel.bare)
            step = await versioning.versions.step(commit.parents[0] if commit.parents else None, commit.id)
            batch = Batch(kernel.clock)
            warnings = await Revert(kernel, batch, commit.id[:8])(step)
            await kernel.commit(batch.changes, batch.vectors)
            title = commit.message.splitlines()[0] if commit.message else ""

            def tell(step: Step) -> str:
                return "\n".join(
                    [f"Reverted {commit.id[:8]}: {title}"[:72], "", *(f"- {line}" for line in lines_of(step, LINES))]
                )

            if batch.changes:
                with degrade("the files are reverted, and committed later", warnings):
                    await versioning.commit(tell)
        return AddResult([MemoryEvent.of(change) for change in batch.changes], warnings, bare=kernel.bare)

    @guarded
    async def branch(self, name: str) -> MergeReport:
        """Switch to another branch; a new one is created from the current memory."""
        versioning = self._versioning
        async with self._kernel.lock(Scope()):
            await versioning.commit()
            head = await versioning.versions.resolve("HEAD")
            is_new = name not in {each.name for each in await versioning.versions.branches()}
            if is_new:
                await versioning.versions.make_branch(name)
            await shielded(versioning.versions.switch(name))
        again = await self._landed()
        now = await versioning.versions.resolve("HEAD")
        changes = await self._changes(await versioning.versions.step(head, now), "Left with the branch: ")
        return MergeReport(outcome="made" if is_new else "switched", commit=now, results=changes + _again(again))

    @guarded
    async def merge(self, point: str) -> MergeReport:
        """Merge another branch; memories that both sides changed are settled and reported."""
        return await self._merge(point, f"Merged {point}")

    @guarded
    async def pull(self) -> MergeReport:
        """Merge the remote's version of this branch."""
        theirs = await self._versioning.versions.fetch()
        if theirs is None:
            return MergeReport(outcome="nothing", commit=await self._versioning.versions.resolve("HEAD"))
        return await self._merge(theirs, "Merged what the remote had")

    @guarded
    async def push(self) -> str:
        """Push this branch to the remote and return its name; ConflictError if the remote has more."""
        await self._versioning.commit()
        return await self._versioning.versions.push()

    async def _merge(self, point: str, message: str) -> MergeReport:
        versioning = self._versioning
        async with self._kernel.lock(Scope()):
            await versioning.commit()
            head = await versioning.versions.resolve("HEAD")
            merged = await shielded(versioning.versions.merge(point, settle, message))
        again = await self._landed()
        step, commit = merged.step, merged.commit
        if again:
            commit = await versioning.versions.resolve("HEAD")
            step = await versioning.versions.step(head, commit)
        return MergeReport(
            outcome=merged.outcome,
            commit=commit,
            results=await self._changes(step) + _again(again),
            conflicts=[_changed(pair) for pair in merged.conflicts if pair.after.id not in again],
            contradictions=[
                {"ours": _named(each.ours), "theirs": _named(each.theirs), "stands": each.stands}
                for each in merged.contradictions
                if again.isdisjoint((each.ours.id, each.theirs.id))
            ],
        )

    async def _landed(self) -> set[str]:
        """Update index and history from the files, which have their final state; return what is erased once more."""
        absorbed = await sync_files(self._kernel, bury=False)
        if absorbed.refused:  # a file that is no memory's, or a copy, is no reason: it is left alone
            raise ConflictError(
                f"the files are switched or merged, but {absorbed.refused} of them could not be taken in: see perdure"
                f" doctor"
            )
        if absorbed.forgotten:
            await self._versioning.commit()
        return set(absorbed.forgotten)

    async def _changes(self, step: Step, left: str | None = None) -> list[VersionChange]:
        """Return a step's changes; `left` introduces memories that merely are not in the second of two states."""
        erased = {item.id for item in step.erased}
        if left is not None:
            ledger = self._kernel.ledger
            erased = set() if ledger is None else await forgotten(ledger, erased)
        words = await self._words([*(pair.after for pair in step.replaced), *step.learned])
        changes = [_changed(pair, words) for pair in step.replaced]
        changes += [_about(item, "learned", f"Learned: {shown(item)}", words) for item in step.learned]
        changes += [_about(item, "deleted", f"Deleted: {shown(item)}") for item in step.dropped]
        changes += [VersionChange(change="forgotten", line="Forgot 1 memory", id=id) for id in sorted(erased)]
        gone = [item for item in step.erased if item.id not in erased]
        changes += [_about(item, "left", f"{left}{shown(item)}") for item in gone]
        changes += [_about(item, "unreadable", f"{UNREAD}{shown(item)}") for item in step.unread]
        changes += [_about(item, "mended", f"{MENDED}{shown(item)}") for item in step.mended]
        changes += [_about(item, "summarised", f"Summed up: {shown(item)}") for item in step.summaries]
        changes += [_about(pair.after, "noted", f"Noted something of: {shown(pair.after)}") for pair in step.marked]
        return changes + [_about(item, "heard", f"Heard: {shown(item)}") for item in step.said]

    async def _words(self, items: list[MemoryItem]) -> dict[str, dict[str, Any]]:
        """Return the source messages of memories: from files, or from the ledger if messages are not files."""
        ids = list(dict.fromkeys(id for item in items for id in item.sources))
        kernel, found = self._kernel, dict[str, dict[str, Any]]()
        if not ids:
            return found
        for point in await kernel.store.get_many(kernel.collection, ids):
            if point.payload.get("kind") == "messages":
                item = MemoryItem.from_payload(point.payload)
                found[point.id] = {"role": item.role, "content": item.memory, "timestamp": item.told_at}
        if kernel.ledger is not None:
            for episode in await kernel.ledger.get_episodes([id for id in ids if id not in found]):
                if not episode.hidden:
                    told = {"role": episode.role, "content": episode.content, "timestamp": episode.told_at}
                    found[episode.id] = told
        return found


def _again(ids: Collection[str]) -> list[VersionChange]:
    line = "Stays forgotten: 1 memory that came back with these versions"
    return [VersionChange(change="forgotten", line=line, id=id) for id in sorted(ids)]


def _changed(pair: Replaced, words: Mapping[str, dict[str, Any]] | None = None) -> VersionChange:
    return VersionChange(
        change="changed",
        line=of_replaced(pair),
        id=pair.after.id,
        before=pair.before.memory,
        after=pair.after.memory,
        learned_from=_from(pair.after, words or {}, known=pair.before.sources),
    )


def _about(item: MemoryItem, what: What, line: str, words: Mapping[str, dict[str, Any]] | None = None) -> VersionChange:
    gone = what in ("deleted", "left")
    return VersionChange(
        change=what,
        line=line,
        id=item.id,
        before=item.memory if gone else None,
        after=None if gone else item.memory,
        learned_from=_from(item, words or {}),
    )


def _from(
    item: MemoryItem, words: Mapping[str, dict[str, Any]], known: tuple[str, ...] = ()
) -> tuple[dict[str, Any], ...]:
    """Return the source messages of a memory's current text, without those of its earlier text."""
    return tuple(words[id] for id in item.sources if id in words and id not in known)


def _named(item: MemoryItem) -> dict[str, str]:
    return {"id": item.id, "memory": item.memory}
