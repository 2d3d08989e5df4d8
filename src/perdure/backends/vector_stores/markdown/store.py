"""Memories as Markdown files: the files are the truth, and another store is an index made from them.

Every write changes the files first, each atomically (write beside, then rename), and then the store behind, which
answers reads. Editing, adding, moving or deleting a file by hand changes memory: `differences` finds such changes, and
the engine applies them (`engine.markdown.sync`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from perdure.backends.blocking import run_blocking, run_unit
from perdure.backends.git.snapshots import GitVersions
from perdure.backends.markdown import layout
from perdure.backends.markdown.base import Differences, FileStore, Foreign, Problem
from perdure.backends.markdown.scan import Look, Scan, Snapshot, bursts, differs, kept_row, scan
from perdure.backends.validation import UserPath
from perdure.backends.vector_stores.base import Names, Point, Points, Vector
from perdure.backends.vector_stores.common.rows import check_id, check_payload, check_vector
from perdure.backends.vector_stores.common.wrapper import Part, WrappingStore
from perdure.backends.vector_stores.markdown.files import Files, sweep
from perdure.domain.errors import InvalidInputError, NotFoundError, PerdureError, VectorStoreError

T = TypeVar("T")


class MarkdownVectorStore(WrappingStore, FileStore):
    """Stores each row as a file for people and git; several processes may share the folder."""

    name: ClassVar[str] = "markdown"

    class Settings(BaseModel):
        """The folder, the index behind it, and the handling of files."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

        path: UserPath = Field(Path("~/.memory"), validate_default=True)
        """The folder; files are in `entries/` below it."""
        store: Part | None = None
        """The store that serves as the index; by default `sqlite` in `index/memories.db` below the folder."""
        collection: str = "memories"
        """The collection with files in `entries/`; others are in `collections/<name>/entries/`."""
        watch: bool = False
        """Whether changes of files are picked up at once while the memory is in use."""
        git: bool = True
        """Whether every change is committed to a git repository in the folder."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # The watcher names files in full, and a later change of the working folder changes nothing.
        self.root = settings.path.absolute()
        self.watched = settings.watch
        self.warned = {}
        self.versions = GitVersions(self.root) if settings.git else None
        index = {"path": str(self.root / "index" / "memories.db")}
        super().__init__(settings.store or Part(provider="sqlite", config=index))
        self.scrub_note = "the files are gone; where the folder is a git repository, its history still has them"  # type: ignore[misc]
        self._snapshot = Snapshot(self.root)
        self._files: dict[str, Files] = {}
        self._dimensions: dict[str, int] = {}
        self._seen: dict[str, Look] = {}  # of files whose rows are foreign, until they are taken in
        self._working = threading.RLock()

    async def open(self) -> None:
        await run_unit(self._open_folder)
        await self._store.open()
        if not self._snapshot.identity:
            self._snapshot.identity = await self._store.identity()

    def _open_folder(self) -> None:
        with self._working:
            if self._files:
                return
            self._snapshot.load()
            try:
                self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
                entries = self.root / layout.ENTRIES
                if not self._snapshot.below(layout.ENTRIES):  # else it is for now not there: that deletes nothing
                    entries.mkdir(mode=0o700, exist_ok=True)
                self.lost = None if entries.is_dir() else entries
                (self.root / "index").mkdir(mode=0o700, exist_ok=True)
                sweep(self.root)
            except OSError as error:
                raise VectorStoreError(f"the folder {self.root} cannot be used: {error.strerror}") from error
            self._home(self.settings.collection)

    async def close(self) -> None:
        await run_unit(self._close_folder)
        await self._store.close()

    def _close_folder(self) -> None:
        with self._working:
            if self._files:
                self._sync_files()
            self._files.clear()

    async def identity(self) -> str:
        """Return the folder's id, which stays when the index is rebuilt."""
        return self._snapshot.identity or await self._store.identity()

    async def create_collection(self, name: str, dimension: int, *, model: str = "") -> None:
        """Create a collection in the index; `absorb` reads existing files."""
        await self._store.create_collection(name, dimension, model=model)
        self._dimensions.pop(name, None)

    async def delete_collection(self, name: str) -> None:
        """Delete a collection, and its files unless another generation of it uses them."""
        base, _ = layout.generation(name)
        existing = await self._store.list_collections()
        if name in existing and [each for each in existing if layout.generation(each)[0] == base] == [name]:
            await self._on_files(base, Files.remove_all)
        self._dimensions.pop(name, None)
        await self._store.delete_collection(name)

    async def reset(self) -> None:
        for name in await self._store.list_collections():
            await self._on_files(layout.generation(name)[0], Files.remove_all)
        await self._store.reset()

    async def apply(self, collection: str, puts: Sequence[Point], deletes: Sequence[str] = ()) -> None:
        points, gone = await self._checked(collection, puts), [check_id(id) for id in deletes]
        further: list[Point] = []
        if await self._keeps_files(collection):
            ids = [*dict.fromkeys([*(point.id for point in points), *gone])]
            before = {point.id: point.payload for point in await self._store.get_many(collection, ids)}
            base = layout.generation(collection)[0]
            further = await self._on_files(base, lambda files: files.write(points, gone, before))
        await self._store.apply(collection, [*points, *further], gone)

    async def update(
        self, collection: str, id: str, vector: Vector | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        point = Point(id, vector, {} if payload is None else check_payload(payload))
        await self._checked(collection, [point])
        if payload is not None and await self._keeps_files(collection):
            before = await self._store.get(collection, id)
            if before is None:
                raise NotFoundError(f"there is no row {id!r} in {collection!r}")
            base = layout.generation(collection)[0]
            further = await self._on_files(base, lambda files: files.write([point], (), {id: before.payload}))
            if further:
                await self._store.apply(collection, further)
        await self._store.update(collection, id, vector, payload)

    async def _checked(self, collection: str, puts: Sequence[Point]) -> Points:
        """Check the rows as the store behind does, which must not refuse what is already in the files."""
        dimension = self._dimensions.get(collection)
        if dimension is None:
            dimension = (await self._store.get_collection_info(collection)).dimension
            self._dimensions[collection] = dimension
        try:
            return [_checked(point, dimension) for point in puts]
        except InvalidInputError:
            now = (await self._store.get_collection_info(collection)).dimension
            self._dimensions[collection] = now
            if now == dimension:
                raise
            return [_checked(point, now) for point in puts]  # it was deleted and made anew by another process

    async def _keeps_files(self, collection: str) -> bool:
        """Whether the files are this collection's: those of a base name are the lowest generation's."""
        base, number = layout.generation(collection)
        return number == 1 or collection == await self._first(base)

    async def _first(self, base: str) -> str:
        names = [name for name in await self._store.list_collections() if layout.generation(name)[0] == base]
        return min(names, key=layout.generation, default=base)

    def _home(self, base: str) -> Files:
        found = self._files.get(base)
        if found is None:
            home = layout.root_of(base, self.settings.collection)
            found = self._files[base] = Files(self.root, home, self._snapshot)
        return found

    async def _on_files(self, base: str, work: Callable[[Files], T]) -> T:
        def run() -> T:
            with self._working:
                if not self._files:
                    raise VectorStoreError(f"the folder {self.root} is not open: call open() first")
                return work(self._home(base))

        return await run_unit(run)

    async def differences(self, collection: str, paths: Collection[Path] | None = None) -> Differences:
        if not await self._keeps_files(collection):
            return Differences([], [], [])
        base, _ = layout.generation(collection)
        home = layout.root_of(base, self.settings.collection)
        some = None if paths is None else [_relative(self.root, path) for path in paths]
        before = dict(self._seen)
        rows: dict[str, dict[str, Any]] = {}
        if some is None:
            async for points in self._store.stream(collection):
                rows.update((point.id, point.payload) for point in points)
            known = frozenset(rows)
            found = await self._on_files(
                base, lambda _: scan(self.root, home, self._snapshot, known=known, before=before)
            )
        else:
            found = await self._on_files(base, lambda _: scan(self.root, home, self._snapshot, some, before=before))
            gone = {entry.id for path in found.gone if (entry := self._snapshot.get(path)) is not None}
            ids = {*found.standing, *found.looked, *gone, *found.closed}
            rows.update((point.id, point.payload) for point in await self._store.get_many(collection, sorted(ids)))
        return await self._compare(collection, base, rows, found, everything=some is None)

    async def _compare(
        self, collection: str, base: str, rows: dict[str, dict[str, Any]], found: Scan, *, everything: bool
    ) -> Differences:
        foreign: list[Foreign] = []
        moved: list[str] = []
        for id, seen in found.looked.items():
            if id not in rows:
                foreign.append(Foreign(seen.path, None, Point(id, None, seen.found.payload)))
            elif differs(rows[id], seen.found):
                foreign.append(Foreign(seen.path, Point(id, None, rows[id]), Point(id, None, kept_row(rows[id], seen))))
            else:
                before = self._snapshot.path_of(layout.root_of(base, self.settings.collection), id)
                if before is not None and before != seen.path:
                    moved.append(id)
                self._snapshot.note(seen.path, seen.entry)
                self._seen.pop(seen.path, None)
                continue
            self._seen[seen.path] = seen
        for path in found.gone:
            self._seen.pop(path, None)
        here = found.standing.keys() | found.looked.keys() | found.closed
        missing = [id for id in rows if id not in here]
        if missing and not (self.root / layout.root_of(base, self.settings.collection)).is_dir():
            sentence = f"the folder is missing, and with it the files of {len(missing)} rows, which are kept"
            found.problems.append(Problem(layout.root_of(base, self.settings.collection), sentence))
            missing = []
        if not everything and missing:  # it may stand elsewhere
            missing = await self._on_files(
                base, lambda files: [id for id in missing if files.find(id, rows[id]) is None]
            )
        foreign += [Foreign(None, Point(id, None, rows[id]), None) for id in missing]
        found.problems.extend(slip.problem(rows) for slip in found.slips)
        self._snapshot.drop_all(path for path in found.gone if (e := self._snapshot.get(path)) and e.id in here)
        return Differences(await self._with_vectors(collection, foreign), moved, found.problems)

    async def _with_vectors(self, collection: str, foreign: Sequence[Foreign]) -> list[Foreign]:
        ids = [each.before.id for each in foreign if each.before is not None]
        vectors = {point.id: point.vector for point in await self._store.get_many(collection, ids)} if ids else {}
        result = []
        for each in foreign:
            before, after = each.before, each.after
            if before is not None:
                before = Point(before.id, vectors.get(before.id), before.payload)
                if after is not None and after.payload.get("memory") == before.payload.get("memory"):
                    after = Point(after.id, before.vector, after.payload)
            result.append(Foreign(each.path, before, after))
        return result

    async def take(self, collection: str, foreign: Sequence[Foreign]) -> None:
        if not foreign:
            return
        self.accept(collection, foreign)
        puts = [each.after for each in foreign if each.after is not None]
        gone = [each.before.id for each in foreign if each.after is None and each.before is not None]
        try:
            await self.apply(collection, puts, gone)
        except PerdureError:
            self.refuse(collection, foreign)
            raise

    def accept(self, collection: str, foreign: Sequence[Foreign]) -> None:
        files = self._home(layout.generation(collection)[0])
        with self._working:
            for each in foreign:
                seen = self._seen.pop(each.path or "", None)
                if each.after is None and each.before is not None:
                    files.accept_gone(each.before.id)
                elif each.path is not None and seen is not None:
                    files.accept(each.path, seen.entry)

    def refuse(self, collection: str, foreign: Sequence[Foreign]) -> None:
        files = self._home(layout.generation(collection)[0])
        with self._working:
            for point, path in ((each.after or each.before, each.path) for each in foreign):
                if point is not None:
                    files.refuse(path or "", point.id)

    async def problems(self) -> list[Problem]:
        home = layout.root_of(self.settings.collection, self.settings.collection)
        seen = await run_blocking(scan, self.root, home, await run_unit(self._unlike))
        asked = sorted({id for slip in seen.slips for id in slip.ids})
        rows = await self._store.get_many(await self._first(self.settings.collection), asked) if asked else []
        found = [*seen.problems, *(slip.problem({row.id for row in rows}) for slip in seen.slips)]
        if self._snapshot.below(home) and not (self.root / home).is_dir():
            found.append(Problem(home, "the folder is missing: its memories stand in the index alone"))
        return found

    def _unlike(self) -> Snapshot:
        """Return a snapshot that knows each row's file, with no file looking as noted."""
        snapshot = Snapshot(self.root)
        with self._working:
            for path in self._snapshot.below(layout.ENTRIES):
                if (entry := self._snapshot.get(path)) is not None:
                    snapshot.note(path, entry._replace(mtime_ns=-1))
        return snapshot

    def changes(self, stop: asyncio.Event) -> AsyncIterator[set[Path]]:
        folder = self.root / layout.ENTRIES
        return bursts(folder, folder.resolve(), stop)

    def path_of(self, id: str) -> Path | None:
        path = self._snapshot.path_of(layout.ENTRIES, id)
        return None if path is None else self.root / path

    @staticmethod
    def jot(root: Path, points: Sequence[Point]) -> None:
        """Write files of new rows into a folder, open or not; every index follows by itself.

        Blocks until they are on the disk. VectorStoreError if one cannot be written.
        """
        files = Files(root, layout.ENTRIES, Snapshot(root))
        files.write(points, (), {})
        files.sync()

    async def sync(self) -> None:
        await run_unit(self._sync)
        await self._store.sync()

    def _sync(self) -> None:
        with self._working:
            self._sync_files()

    def _sync_files(self) -> None:
        try:
            for files in self._files.values():
                files.sync()
            self._snapshot.save()
        except OSError as error:
            raise VectorStoreError(f"the folder {self.root} cannot be synced: {error.strerror}") from error

    async def scrub(self) -> bool:
        await run_unit(self._scrub)
        return await self._store.scrub()

    def _scrub(self) -> None:
        with self._working:
            sweep(self.root)
            self._snapshot.save(anyway=True)

    async def check(self, collection: str) -> Names:
        return await self._store.check(collection)


def _checked(point: Point, dimension: int) -> Point:
    vector = None if point.vector is None else check_vector(point.vector, dimension)
    return Point(check_id(point.id), vector, check_payload(point.payload), point.kept)


def _relative(root: Path, path: Path) -> str:
    """Return the path below the folder, with forward slashes; "" for one elsewhere."""
    absolute = path if path.is_absolute() else root / path
    try:
        return absolute.relative_to(root).as_posix()
    except ValueError:
        return ""
