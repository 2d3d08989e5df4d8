"""Files that somebody else changed become changes of memory: with history and versions, so that `undo` knows them.

What an editor, a `git pull` or a removed file did is found by holding the files against the index, and goes the one way
of every change, under the lock of all writers: the second of two processes that saw it finds nothing left to do. The
files themselves are left as they are, and a removed memory leaves a tombstone.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perdure.backends.ledgers.base import Ledger
from perdure.backends.vault.base import Absorbed, FileStore, Foreign, Problem, absorbed
from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.errors import InvalidInputError, PerdureError
from perdure.domain.event import HistoryRecord
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.agreement import FROM_FILES, last_word, last_words, says_deleted, says_text
from perdure.engine.batch import Batch
from perdure.engine.derived import with_derived
from perdure.engine.kernel import Kernel
from perdure.engine.soft import given_up
from perdure.pipeline.firewall import suspect

logger = logging.getLogger("perdure")

ACTOR = FROM_FILES
"""Who made these changes, as history tells it."""
_BATCH = 500
"""Changes that are committed at a time."""
_FEW = 100
"""Memories whose histories are read one by one; of more the whole ledger is read through."""


@dataclass(frozen=True, slots=True)
class _Told:
    """One foreign change of a memory, as items."""

    foreign: Foreign
    before: MemoryItem | None
    after: MemoryItem | None

    @property
    def id(self) -> str:
        item = self.after or self.before
        assert item is not None, "a foreign change has a before or an after"
        return item.id


async def follow(kernel: Kernel, paths: Collection[Path] | None = None, *, bury: bool = True) -> Absorbed:
    """Take in what changed in the files (None: anywhere), with its history; nothing for a store without files.

    A memory whose file is gone or was edited leaves a tombstone, unless it has one already. Without `bury` none is
    made: the files are as they should be, for another version of them was brought here. Nor is one made where a file is
    as in the newest version, and that is not of our making: somebody's `git checkout` or `git pull` brought it. To be
    called without a lock, on a kernel whose backends are open.
    """
    store = kernel.store
    if not isinstance(store, FileStore):
        return Absorbed()
    found = await store.differences(kernel.collection, paths)
    if not found.foreign:
        return absorbed(found)
    async with kernel.lock(Scope()):
        found = await store.differences(kernel.collection, paths)
        refused = await _Following(kernel, store, bury=bury).take(found.foreign)
    result = absorbed(found)
    result.problems += refused
    if result.rows:
        logger.info(
            "took in from files: %d added, %d changed, %d removed",
            len(result.added),
            len(result.changed),
            len(result.removed),
        )
    return result


class _Following:
    def __init__(self, kernel: Kernel, store: FileStore, *, bury: bool = True) -> None:
        self._kernel = kernel
        self._store = store
        self._bury = bury
        self._edited: set[str] | None = None
        """The files that are not as the newest version has them; None where this does not matter."""
        self._buried: set[str] = set()

    async def take(self, foreign: Sequence[Foreign]) -> list[Problem]:
        """Make changes of what differs; files whose change was refused are told."""
        told, plain = [], []
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
        for start in range(0, len(plain), _BATCH):
            await self._store.take(self._kernel.collection, await self._made(plain[start : start + _BATCH]))
        fresh = [each for each in told if each.id not in known]
        if self._bury and self._store.versions is not None and any(each.before is not None for each in fresh):
            with given_up("git cannot be asked who changed files: they leave tombstones"):
                self._edited = await self._store.versions.edited()
        refused: list[Problem] = []
        for start in range(0, len(fresh), _BATCH):
            refused += await self._commit(fresh[start : start + _BATCH])
        return refused

    async def _made(self, foreign: Sequence[Foreign]) -> list[Foreign]:
        """The same with the vectors of their texts, and with what the engine makes of these."""
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
        """The memories whose history already ends with what the files say: only the index has to follow."""
        ledger = self._kernel.ledger
        if ledger is None or not told:
            return set()
        ids = {each.id for each in told}
        if len(ids) > _FEW:
            words = await last_words(ledger)
        else:
            words = {id: word for id in ids if (word := last_word(await _history(ledger, id))) is not None}
        return {each.id for each in told if each.id in words and _is_known(each, words[each.id])}

    async def _commit(self, told: Sequence[_Told]) -> list[Problem]:
        """Commit changes together, and where that is refused one by one."""
        vectors = await self._vectors(told)
        try:
            await self._make(told, vectors)
        except PerdureError as error:
            if len(told) > 1:
                return [problem for each in told for problem in await self._commit([each])]
            logger.warning("a changed file was not taken in: %s", error.code)
            path = told[0].foreign.path or ""
            return [Problem(path, f"its change was refused: {error.code}")]
        return []

    async def _make(self, told: Sequence[_Told], vectors: dict[str, Vector | None]) -> None:
        kernel = self._kernel
        batch = Batch(kernel.ticker)
        for each in told:
            before, after = each.before, each.after
            old = each.foreign.before.vector if each.foreign.before is not None else None
            if after is None:
                assert before is not None, "a removed file had a row"
                batch.remove(before, old, actor=ACTOR, reason="the file was removed")
            elif before is None:
                batch.add(after, vectors[after.id], actor=ACTOR, reason="a file was added")
                batch.changes[-1] = replace(batch.changes[-1], at=kernel.ticker.tick())
            else:
                batch.replace(before, after, old, vectors[after.id], actor=ACTOR, reason="the file was edited")
            if before is not None and not self._is_to_be_buried(before.id, each.foreign.path):
                batch.changes[-1] = replace(batch.changes[-1], keep=None)
        self._store.accept([each.foreign for each in told])
        await kernel.commit(batch.changes, batch.vectors)

    def _is_to_be_buried(self, id: str, path: str | None) -> bool:
        """Whether the text that an edit or a removal of this file took away is to be kept."""
        if not self._bury or id in self._buried:
            return False
        if path is None and (before := self._store.path_of(id)) is not None:
            path = before.relative_to(self._store.root).as_posix()
        return self._edited is None or path is None or path in self._edited

    async def _vectors(self, told: Sequence[_Told]) -> dict[str, Vector | None]:
        """Vectors of what stands afterwards: those of equal texts are kept, the others are made in one batch."""
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


def _items(foreign: Foreign) -> _Told | None:
    """The change of a memory; None for rows that have no history: versions, messages, and what is no item."""
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
        return says_deleted(word)
    return says_text(word, told.after.memory) and (told.before is None or told.before.memory != told.after.memory)


async def _history(ledger: Ledger, id: str) -> list[HistoryRecord]:
    return [record for record in await ledger.history(id) if record.memory_id == id]
