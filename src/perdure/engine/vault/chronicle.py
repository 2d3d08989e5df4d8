"""The versions of a memory's files, read and moved: log, diff, revert, branches, merges and a remote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.backends.vault.versions.base import Commit, Merge, Replaced, Step
from perdure.domain.errors import ConfigError, ConflictError
from perdure.domain.event import AddResult, MemoryEvent
from perdure.domain.file_versions import MergeReport, Version, VersionBranch, VersionChange, VersionDiff, What
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.batch import Batch
from perdure.engine.calls import call
from perdure.engine.finish import finish
from perdure.engine.kernel import Kernel
from perdure.engine.soft import given_up
from perdure.engine.vault.following import follow
from perdure.engine.vault.reverting import Reverting
from perdure.engine.vault.settling import settle
from perdure.engine.vault.telling import LINES, lines_of, of_replaced, shown
from perdure.engine.vault.versioning import Versioning


class FileVersions:
    """What `Memory.versions` does; ConfigError where the memory is not files under git."""

    def __init__(self, kernel: Kernel, versioning: Versioning | None) -> None:
        self._kernel = kernel
        self._given = versioning

    @property
    def _versioning(self) -> Versioning:
        if self._given is None:
            raise ConfigError(
                'only memories in files have versions: set vector_store to {"provider": "markdown"}, with git on',
                field="vector_store.provider",
                value=self._kernel.config.vector_store.provider,
            )
        return self._given

    # ------------------------------------------------------------------ reading
    @call
    async def log(self, point: str | None, limit: int) -> list[Version]:
        """The last versions as seen from a point, newest first, each with what it changed and from which words."""
        versions = self._versioning.versions
        await self._versioning.commit()
        told = []
        for commit in await versions.log(point, limit):
            step = await versions.step(commit.parents[0] if commit.parents else None, commit.id)
            told.append(await self._version(commit, step))
        return told

    @call
    async def diff(self, before: str, after: str | None) -> VersionDiff:
        """What differs between two points, or between one and the memory as it stands."""
        versions = self._versioning.versions
        one = await versions.resolve(before)
        two = None if after is None else await versions.resolve(after)
        return VersionDiff(before=one, after=two, results=await self._changes(await versions.step(one, two)))

    @call
    async def branches(self) -> list[VersionBranch]:
        """Every line of versions."""
        return [
            VersionBranch(name=each.name, is_current=each.is_current, commit=each.commit, at=each.at)
            for each in await self._versioning.versions.branches()
        ]

    # ------------------------------------------------------------------ moving
    @call
    async def revert(self, point: str) -> AddResult:
        """Take back what a version changed, by inverse events; ConflictError where a later one built on it.

        What was said stays said, and what was erased stays gone.
        """
        kernel, versioning = self._kernel, self._versioning
        async with kernel.lock(Scope()):
            await versioning.commit()
            id = await versioning.versions.resolve(point)
            commit = next((each for each in await versioning.versions.log(id, 1) if each.id == id), None)
            if commit is None:
                return AddResult([], [f"version {id[:8]} changed nothing of the memory"], bare=kernel.bare)
            step = await versioning.versions.step(commit.parents[0] if commit.parents else None, commit.id)
            batch = Batch(kernel.ticker)
            warnings = await Reverting(kernel, batch, commit.id[:8])(step)
            await kernel.commit(batch.changes, batch.vectors)
            title = commit.message.splitlines()[0] if commit.message else ""

            def tell(step: Step) -> str:
                return "\n".join(
                    [f"Reverted {commit.id[:8]}: {title}"[:72], "", *(f"- {line}" for line in lines_of(step, LINES))]
                )

            if batch.changes:
                with given_up("the files are reverted, and committed later", warnings):
                    await versioning.commit(tell)
        return AddResult([MemoryEvent.of(change) for change in batch.changes], warnings, bare=kernel.bare)

    @call
    async def branch(self, name: str) -> MergeReport:
        """Work on another branch from now on; one that there is not is made of what stands now."""
        versioning = self._versioning
        async with self._kernel.lock(Scope()):
            await versioning.commit()
            head = await versioning.versions.resolve("HEAD")
            is_new = name not in {each.name for each in await versioning.versions.branches()}
            if is_new:
                await versioning.versions.make_branch(name)
            await finish(versioning.versions.switch(name))
        await self._landed()
        now = await versioning.versions.resolve("HEAD")
        changes = await self._changes(await versioning.versions.step(head, now))
        return MergeReport(outcome="made" if is_new else "switched", commit=now, results=changes)

    @call
    async def merge(self, point: str) -> MergeReport:
        """Take in the memories of another branch; what both sides changed is settled, and told."""
        return await self._merge(point, f"Merged {point}")

    @call
    async def pull(self) -> MergeReport:
        """Take in what the remote has of this branch."""
        theirs = await self._versioning.versions.fetch()
        if theirs is None:
            return MergeReport(outcome="nothing", commit=await self._versioning.versions.resolve("HEAD"))
        return await self._merge(theirs, "Merged what the remote had")

    @call
    async def push(self) -> str:
        """Bring this branch to the remote; the remote's name. ConflictError where it has more."""
        await self._versioning.commit()
        return await self._versioning.versions.push()

    async def _merge(self, point: str, message: str) -> MergeReport:
        versioning = self._versioning
        async with self._kernel.lock(Scope()):
            await versioning.commit()
            merged = await finish(versioning.versions.merge(point, settle, message))
        await self._landed()
        return await self._report(merged)

    async def _landed(self) -> None:
        """Let index and history follow the files, which are as they should be."""
        absorbed = await follow(self._kernel, bury=False)
        unread = sum(not problem.read for problem in absorbed.problems)
        if unread:
            raise ConflictError(f"{unread} files could not be taken in: see perdure doctor")

    # ------------------------------------------------------------------ telling
    async def _report(self, merged: Merge) -> MergeReport:
        return MergeReport(
            outcome=merged.outcome,
            commit=merged.commit,
            results=await self._changes(merged.step),
            conflicts=[_changed(pair) for pair in merged.conflicts],
            contradictions=[
                {"ours": _named(each.ours), "theirs": _named(each.theirs), "stands": each.stands}
                for each in merged.contradictions
            ],
        )

    async def _version(self, commit: Commit, step: Step) -> Version:
        title = commit.message.splitlines()[0] if commit.message else ""
        changes = tuple(await self._changes(step))
        return Version(id=commit.id, at=commit.at, author=commit.author, title=title, changes=changes)

    async def _changes(self, step: Step) -> list[VersionChange]:
        words = await self._words([*(pair.after for pair in step.replaced), *step.learned])
        changes = [_changed(pair, words) for pair in step.replaced]
        changes += [_about(item, "learned", f"Learned: {shown(item)}", words) for item in step.learned]
        changes += [_about(item, "deleted", f"Deleted: {shown(item)}") for item in step.dropped]
        changes += [VersionChange(change="forgotten", line="Forgot 1 memory", id=id) for id in step.erased]
        changes += [_about(item, "summarised", f"Summed up: {shown(item)}") for item in step.summaries]
        changes += [_about(pair.after, "noted", f"Noted something of: {shown(pair.after)}") for pair in step.marked]
        return changes + [_about(item, "heard", f"Heard: {shown(item)}") for item in step.said]

    async def _words(self, items: list[MemoryItem]) -> dict[str, dict[str, Any]]:
        """The messages that memories came from: from the files, or, where messages are none, from the ledger."""
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
    gone = what == "deleted"
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
    """The messages behind a memory; of those behind its earlier text only where no others are."""
    fresh = [id for id in item.sources if id not in known]
    return tuple(words[id] for id in fresh or item.sources if id in words)


def _named(item: MemoryItem) -> dict[str, str]:
    return {"id": item.id, "memory": item.memory}
