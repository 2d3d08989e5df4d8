"""Turn changes of files by other programs into changes of memory, with history and versions, so `undo` works.

The files are compared with the index to find what an editor, a `git pull` or a deletion changed. The changes use the
same path as all others, under the lock of all writers: the second of two processes that saw them finds nothing left to
do. The files themselves stay as they are, and a deleted memory leaves a tombstone.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perdure.backends.git.base import Mark
from perdure.backends.ledgers.base import Ledger
from perdure.backends.markdown.base import Absorbed, FileStore, Foreign, Problem, absorbed
from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.errors import InvalidInputError, PerdureError
from perdure.domain.event import HistoryRecord
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade
from perdure.engine.core.batch import Batch
from perdure.engine.core.embedding import with_derived
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import cut_from
from perdure.engine.core.rows import version_of
from perdure.engine.maintenance.consistency import FROM_FILES
from perdure.engine.maintenance.last_events import DELETED, FEW, digest, forgotten, last_word, last_words
from perdure.pipeline.quarantine import suspect

logger = logging.getLogger("perdure")
ACTOR = FROM_FILES  # the actor of these changes in history
BY_HAND = "edited by hand"  # the reason in history for a memory whose file was edited
_BATCH = 500  # changes committed at a time
_LOOKS = 10  # maximum scans while git keeps moving files; the last one is used as it is
_NAMED = 5  # maximum unreadable files that one log line names


@dataclass(frozen=True, slots=True)
class _Told:
    """One external change of a memory, as items."""

    foreign: Foreign
    before: MemoryItem | None
    after: MemoryItem | None

    @property
    def id(self) -> str:
        item = self.after or self.before
        assert item is not None, "a foreign change has a before or an after"
        return item.id


async def sync_files(kernel: Kernel, paths: Collection[Path] | None = None, *, bury: bool = True) -> Absorbed:
    """Take in what changed in the files (None: anywhere), with its history; nothing for a store without files.

    A memory whose file is gone or was edited leaves a tombstone, unless it has one already. Without `bury` none is
    made: the files are as they should be, for another version of them was brought here. Nor is one made of what
    somebody's `git checkout` or `git pull` brought, which is waited for: half of it is no version of anything. A
    forgotten memory that git brought back is erased again. To be called without a lock, on a kernel whose backends are
    open.
    """
    store = kernel.store
    if not isinstance(store, FileStore):
        return Absorbed()
    found = await store.differences(kernel.collection, paths)
    if not found.foreign:
        return _told(store, absorbed(found), paths)
    for left in reversed(range(_LOOKS)):
        mark = await _at_rest(store)
        async with kernel.lock(Scope()):
            found = await store.differences(kernel.collection, paths)
            following = _SyncRun(kernel, store)
            if bury:
                await following.ask(found.foreign)
            if left and store.versions is not None and not store.versions.is_at_rest(mark):
                continue
            brought = await following.forgotten(found.foreign, by_hand=bury)
            refused = await following.take(found.foreign)
            break
    if brought and kernel.file_observer is not None:
        await kernel.file_observer.forget_again(brought)
        if bury:  # else the caller tells it
            logger.warning("git brought forgotten memories back, which were erased again: %d", len(brought))
    result = absorbed(found)
    result.problems += refused
    result.refused = len(refused)
    result.forgotten = brought
    if result.rows:
        logger.info(
            "took in from files: %d added, %d changed, %d removed",
            len(result.added),
            len(result.changed),
            len(result.removed),
        )
    return _told(store, result, paths)


def _told(store: FileStore, result: Absorbed, paths: Collection[Path] | None) -> Absorbed:
    """Warn of memories whose files cannot be read: once each, until the error differs."""
    now = {problem.path: problem.sentence for problem in result.problems if problem.holds}
    fresh = [(path, sentence) for path, sentence in now.items() if store.warned.get(path) != sentence]
    if paths is None:
        store.warned.clear()
    else:
        looked = {path.relative_to(store.root).as_posix() for path in paths if path.is_relative_to(store.root)}
        for path in looked - now.keys():
            store.warned.pop(path, None)
    store.warned.update(now)
    for path, sentence in fresh[:_NAMED]:
        logger.warning("%s: %s", path, sentence)
    if len(fresh) > _NAMED:
        logger.warning("%d more files of memories cannot be read: see perdure doctor", len(fresh) - _NAMED)
    return result


async def _at_rest(store: FileStore) -> Mark:
    """Wait until a running checkout is complete."""
    with degrade("git could not be asked whether it is at rest"):
        return None if store.versions is None else await store.versions.at_rest()
    return None


class _SyncRun:
    def __init__(self, kernel: Kernel, store: FileStore) -> None:
        self._kernel = kernel
        self._store = store
        self._edited: set[str] = set()
        """Ids of memories whose files were edited or deleted by hand: their old texts are kept."""
        self._buried: set[str] = set()
        self._foreign: set[str] = set()  # ids of all rows that differ on disk

    async def ask(self, foreign: Sequence[Foreign]) -> None:
        """Find out whose old texts are kept: none for changes by the user's git."""
        paths = {each.before.id: self._path_of(each, each.before.id) for each in foreign if each.before is not None}
        self._edited = set(paths)
        known = [path for path in paths.values() if path is not None]
        if known and self._store.versions is not None:
            with degrade("git cannot be asked who changed files: they leave tombstones"):
                edited = await self._store.versions.edited(known)
                self._edited = {id for id, path in paths.items() if path is None or path in edited}

    async def forgotten(self, foreign: Sequence[Foreign], *, by_hand: bool) -> list[str]:
        """Return the forgotten memories of which git brought files back; `by_hand` if a person may have done so."""
        paths: dict[str, list[str]] = {}
        for each in foreign:
            if each.before is None and each.after is not None and each.path is not None:
                id = str(each.after.payload.get("version_of", each.after.id))
                paths.setdefault(id, []).append(each.path)
        known = set() if self._kernel.ledger is None else await forgotten(self._kernel.ledger, paths.keys())
        files = [path for id in known for path in paths[id]]
        if files and by_hand and self._store.versions is not None:
            edited = await self._store.versions.edited(files)
            known = {id for id in known if edited.isdisjoint(paths[id])}
        return sorted(known) if self._store.versions is not None else []

    def _path_of(self, foreign: Foreign, id: str) -> str | None:
        path = None if foreign.path is not None else self._store.path_of(id)
        return foreign.path if path is None else path.relative_to(self._store.root).as_posix()

    async def take(self, foreign: Sequence[Foreign]) -> list[Problem]:
        """Make changes of the differences; return the files whose change was rejected."""
        told, plain = [], []
        self._foreign = {point.id for each in foreign for point in (each.before, each.after) if point is not None}
        for each in foreign:
            items = _items(each)
            if items is None:
                plain.append(each)
            else:
                told.append(items)
            if each.after is not None and "version_of" in each.after.payload:
                self._buried.add(str(each.after.payload["version_of"]))
        known = await self._known(told)
        plain += [each.foreign for each in told if each.id in known]
        refused: list[Problem] = []
        for start in range(0, len(plain), _BATCH):
            refused += await self._take(plain[start : start + _BATCH])
        fresh = [each for each in told if each.id not in known]
        for start in range(0, len(fresh), _BATCH):
            refused += await self._commit(fresh[start : start + _BATCH])
        return refused

    async def _take(self, plain: Sequence[Foreign]) -> list[Problem]:
        """Update the index from rows without history together; if that is rejected, one by one."""
        try:
            await self._store.take(self._kernel.collection, await self._made(plain))
        except PerdureError as error:
            if len(plain) > 1:
                return [problem for each in plain for problem in await self._take([each])]
            return [_refused(plain[0], error)]
        await self._say([each for each in plain if (each.before is None) != (each.after is None)])
        return []

    async def _say(self, foreign: Sequence[Foreign]) -> None:
        """Hide messages whose files were deleted, also in the ledger, and show those whose files came back."""
        kernel, ledger = self._kernel, self._kernel.ledger
        gone = [item for each in foreign if (item := _item(each.before)) is not None and _is_message(item)]
        back = [item.id for each in foreign if (item := _item(each.after)) is not None and _is_message(item)]
        moment = kernel.clock.tick()
        kept = [version_of(item, untold_at=moment) for item in gone if item.id in self._edited]
        if kept:
            vectors = {each.before.id: each.before.vector for each in foreign if each.before is not None}
            rows = [Point(item.id, vectors[item.version_of or ""], item.to_payload()) for item in kept]
            await self._store.apply(kernel.collection, rows)
        if ledger is None:
            return
        if gone:
            await ledger.hide_episodes([item.id for item in gone])
        hidden = [episode.id for episode in await ledger.get_episodes(back) if episode.hidden] if back else []
        if hidden:
            await ledger.hide_episodes(hidden, False)

    async def _made(self, foreign: Sequence[Foreign]) -> list[Foreign]:
        """Return the changes with the vectors of their texts and other derived data."""
        texts = {
            each.after.id: text
            for each in foreign
            if each.after is not None and each.after.vector is None
            and isinstance(text := each.after.payload.get("memory"), str)
        }  # fmt: skip
        embedded = await self._kernel.embedding.texts(list(texts.values()))
        vectors = dict(zip(texts, embedded.vectors, strict=True))
        points = [
            Point(each.after.id, vectors.get(each.after.id, each.after.vector), each.after.payload)
            for each in foreign
            if each.after is not None
        ]
        rows = {point.id: point for point in await with_derived(self._kernel.embedding, points)}
        return [replace(each, after=rows[each.after.id]) if each.after is not None else each for each in foreign]

    async def _known(self, told: Sequence[_Told]) -> set[str]:
        """Return the memories whose history already matches the files: only the index must be updated."""
        ledger = self._kernel.ledger
        if ledger is None or not told:
            return set()
        ids = {each.id for each in told}
        if len(ids) > FEW:
            words = await last_words(ledger)
        else:
            words = {id: word for id in ids if (word := last_word(await _history(ledger, id))) is not None}
        return {each.id for each in told if each.id in words and _is_known(each, words[each.id])}

    async def _commit(self, told: Sequence[_Told]) -> list[Problem]:
        """Commit changes together; if that is rejected, one by one."""
        vectors = await self._vectors(told)
        try:
            await self._make(told, vectors)
        except PerdureError as error:
            self._store.refuse(self._kernel.collection, [each.foreign for each in told])
            if len(told) > 1:
                return [problem for each in told for problem in await self._commit([each])]
            return [_refused(told[0].foreign, error)]
        return []

    async def _make(self, told: Sequence[_Told], vectors: dict[str, Vector | None]) -> None:
        kernel = self._kernel
        batch, deleted = Batch(kernel.clock), list[MemoryItem]()
        for each in told:
            before, after = each.before, each.after
            old = each.foreign.before.vector if each.foreign.before is not None else None
            if after is None:
                assert before is not None, "a removed file had a row"
                batch.remove(before, old, actor=ACTOR, reason="the file was removed")
            elif before is None:
                batch.add(after, vectors[after.id], actor=ACTOR, reason="a file was added")
                batch.changes[-1] = replace(batch.changes[-1], at=kernel.clock.tick())
            else:
                batch.replace(before, after, old, vectors[after.id], actor=ACTOR, reason=BY_HAND)
            if before is not None and (before.id not in self._edited or before.id in self._buried):
                batch.changes[-1] = replace(batch.changes[-1], keep=None)
            elif before is not None and after is None:
                deleted.append(before)
        for row in await self._beside(deleted):
            batch.remove(MemoryItem.from_payload(row.payload), row.vector, actor=ACTOR, reason="derived")
        self._store.accept(self._kernel.collection, [each.foreign for each in told])
        await kernel.commit(batch.changes, batch.vectors)

    async def _beside(self, deleted: Sequence[MemoryItem]) -> list[Point]:
        """Return fragments of documents whose files were deleted by hand while their own files still exist."""
        rows: dict[str, Point] = {}
        for team in {item.scope.team_id for item in deleted}:
            items = [item for item in deleted if item.scope.team_id == team]
            rows.update((row.id, row) for row in await cut_from(self._kernel, items, Scope(team_id=team)))
        return [row for id, row in rows.items() if id not in self._foreign]

    async def _vectors(self, told: Sequence[_Told]) -> dict[str, Vector | None]:
        """Return the vectors of the new state: those of equal texts are kept, the others computed in one batch."""
        vectors: dict[str, Vector | None] = {}
        bare: list[MemoryItem] = []
        for each in told:
            point = each.foreign.after
            if point is not None and each.after is not None:
                vectors[point.id] = point.vector
                if point.vector is None:
                    bare.append(each.after)
        made = await self._kernel.embedding.texts([item.memory for item in bare])
        vectors.update(zip((item.id for item in bare), made.vectors, strict=True))
        return vectors


def _is_message(item: MemoryItem) -> bool:
    return item.state == LIVE and item.is_said


def _refused(foreign: Foreign, error: PerdureError) -> Problem:
    logger.warning("a changed file was not taken in: %s", error.code)
    return Problem(foreign.path or "", f"its change was refused: {error.code}")


def _items(foreign: Foreign) -> _Told | None:
    """Return the change of a memory; None for rows without history: versions, messages, and non-items."""
    before, after = _item(foreign.before), _item(foreign.after)
    if (foreign.before is not None and before is None) or (foreign.after is not None and after is None):
        return None
    for item in (before, after):
        if item is not None and (item.state != LIVE or item.is_said):
            return None
    if after is not None and (before is None or before.memory != after.memory):
        after = after.with_(quarantined=after.quarantined or suspect(after.memory, None))
    return _Told(foreign, before, after)


def _item(point: Point | None) -> MemoryItem | None:
    if point is None:
        return None
    try:
        return MemoryItem.from_payload(point.payload)
    except (TypeError, KeyError, InvalidInputError):
        return None


def _is_known(told: _Told, word: bytes) -> bool:
    if told.after is None:
        return word == DELETED
    return word == digest(told.after.memory) and (told.before is None or told.before.memory != told.after.memory)


async def _history(ledger: Ledger, id: str) -> list[HistoryRecord]:
    return [record for record in await ledger.history(id) if record.memory_id == id]
