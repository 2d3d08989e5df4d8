"""The files of one scope as an agent sees them: its own, and what memory learned, noted and heard, each a file.

Every change goes the one way of all changes: with history, versions and `undo`, found by the next search, and, where
memories are files, written to disk. What is seen is taken from there too, edits by hand included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from perdure.backends.blocking import run_blocking
from perdure.backends.markdown.base import FileStore, name_of
from perdure.backends.vector_stores.base import Vector
from perdure.domain.memory import FILE_PATH, FILES, MemoryItem, new_id, text_hash
from perdure.domain.scope import Scope
from perdure.engine.aio.lifecycle import guarded
from perdure.engine.core.access import visible
from perdure.engine.core.batch import Batch
from perdure.engine.core.kernel import Kernel
from perdure.engine.markdown.sync import sync_files
from perdure.engine.markdown.tool_paths import Refused, absolute, check_free, folded, numbered, read_path
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.quarantine import INSTRUCTION, suspect

ACTOR = "memory_tool"
"""Who made a change, as history tells it."""
ASSISTANT = "assistant"
"""Whose words an agent writes."""
LARGEST = 1_000_000
"""Bytes that a file may have, in UTF-8."""
MOST = 2_000
"""Files of its own that an agent may have in one scope."""
EMBEDDED = 8_000
"""Characters of a file's beginning that its vector is of; its passages have vectors of their own."""
PAGE = 1_000
_SHORT = 10_000
"""Characters of a text that is read in a few milliseconds."""

_KIND_OF = {"facts": "facts", "turns": "messages", "summaries": "summaries"}
"""The folders that memory fills itself, and the kinds of rows in them; all others are the agent's."""


@dataclass(frozen=True, slots=True)
class SeenFile:
    """One file: its path below the root, and the memory that it is."""

    path: str
    item: MemoryItem

    @property
    def is_own(self) -> bool:
        """Whether it is one of the agent's own."""
        return self.item.kind == FILES

    @property
    def size(self) -> int:
        """Bytes of its text."""
        return len(self.item.memory.encode("utf-8", "replace"))


class MemoryFiles:
    """Reads and changes the files of one scope; Refused says why not, in an answer for the agent.

    A memory of the scope with further walls (a user's in one run) is none of its files, as it lies in another folder.
    """

    def __init__(self, kernel: Kernel, scope: Scope) -> None:
        self._kernel = kernel
        self._scope = scope

    @property
    def folder(self) -> Path | None:
        """The real folder of these files, where memories are files."""
        store = self._kernel.store
        if not isinstance(store, FileStore):
            return None
        return store.folder_of(self._scope.given())

    # ------------------------------------------------------------------ reading
    @guarded
    async def seen(self, path: str) -> dict[str, SeenFile]:
        """The files at and below a path, by their paths; what was edited by hand is taken in before."""
        if (folder := self.folder) is not None:
            await sync_files(self._kernel, [folder])
        return {each: file for each, file in (await self._all(path)).items() if _is_below(each, path)}

    async def _all(self, path: str) -> dict[str, SeenFile]:
        """Every file of the kinds that a path may be of."""
        kernel = self._kernel
        kinds = _kinds_at(path)
        found: list[MemoryItem] = []
        within = visible(self._scope, now=kernel.clock.now(), kinds=kinds)
        cursor: str | None = None
        while True:
            page = await kernel.store.list(kernel.collection, within, PAGE, cursor)
            items = (MemoryItem.from_payload(point.payload) for point in page.points)
            found += [item for item in items if item.scope == self._scope]
            if (cursor := page.next_cursor) is None:
                break
        files: dict[str, SeenFile] = {}
        for item in sorted(found, key=lambda item: (item.kind == FILES, item.created_at, item.id)):
            number, wanted = 1, self._path_of(item)
            while (name := numbered(wanted, number)) in files:
                number += 1
            files[name] = SeenFile(name, item)
        return files

    def _path_of(self, item: MemoryItem) -> str:
        store, folder = self._kernel.store, self.folder
        real = store.path_of(item.id) if isinstance(store, FileStore) and item.kind != FILES else None
        if real is not None and folder is not None:
            below = real.relative_to(folder).as_posix() if real.is_relative_to(folder) else ""
            if below.split("/")[0] in _KIND_OF:
                return below
        return name_of(item.id, item.to_payload())

    # ------------------------------------------------------------------ changing
    @guarded
    async def create(self, path: str, text: str) -> None:
        """Keep a new file of the agent's own."""
        _check_own(path)
        _check_text(path, text)
        kernel = self._kernel
        vector = await self._vector(text)
        async with kernel.lock(self._scope):
            files = await self._all(path)
            check_free(path, files)
            if len(files) >= MOST:
                raise Refused(f"Error: There are {MOST} files already: delete some first")
            moment, id = kernel.clock.tick(), new_id()
            item = MemoryItem(
                id=id,
                memory=text,
                hash=text_hash(text),
                scope=self._scope,
                created_at=moment,
                updated_at=moment,
                told_at=moment,
                valid_from=moment,
                kind=FILES,
                source=ACTOR,
                metadata={FILE_PATH: path},
                lineage_id=id if kernel.config.updates == "supersede" else None,
                origin=ASSISTANT,
                quarantined=await _suspicion(text),
            )
            batch = Batch(kernel.clock)
            batch.add(item, vector, actor=ACTOR, reason="create")
            await kernel.commit(batch.changes, batch.vectors)

    @guarded
    async def edit(self, path: str, change: Callable[[str], str], *, reason: str) -> None:
        """Replace a file's text by what `change` makes of it; the text that was stays as a version."""
        kernel = self._kernel
        async with kernel.lock(self._scope):
            file = (await self._all(path)).get(path)
            if file is None:
                raise Refused(f"Error: The path {absolute(path)} does not exist. Please provide a valid path.")
            if not file.is_own and file.item.kind != "facts":
                raise Refused(f"Error: {absolute(path)} is read-only: it holds what was said")
            before = file.item
            text = change(before.memory)
            if not file.is_own:
                text = text.strip()
                if not text:
                    raise Refused(f"Error: {absolute(path)} would be empty: delete it instead")
            _check_text(path, text)
            if text == before.memory:
                return
            after = before.with_(memory=text, hash=text_hash(text), quarantined=await _quarantine(file, text))
            if not file.is_own:
                after = after.with_(slots=read_slots(text), origin=before.origin or ASSISTANT)
            old = await kernel.store.get(kernel.collection, before.id)
            batch = Batch(kernel.clock)
            vector = await self._vector(text)
            batch.replace(before, after, None if old is None else old.vector, vector, actor=ACTOR, reason=reason)
            await kernel.commit(batch.changes, batch.vectors)

    @guarded
    async def move(self, path: str, to: str) -> None:
        """Give a file of the agent's own, or a folder of such, another path."""
        _check_own(path)
        _check_own(to)
        kernel = self._kernel
        async with kernel.lock(self._scope):
            files = await self._all(path)
            moving = {each: to + each.removeprefix(path) for each in files if _is_below(each, path)}
            if not moving:
                raise Refused(f"Error: The path {absolute(path)} does not exist")
            if any(_is_below(each, to) or folded(each) == folded(to) for each in files):
                raise Refused(f"Error: The destination {absolute(to)} already exists")
            if to.startswith(f"{path}/"):
                raise Refused(f"Error: {absolute(path)} cannot be moved into itself")
            staying = [each for each in files if each not in moving]
            batch = Batch(kernel.clock)
            vectors = await self._vectors([files[each].item.id for each in moving])
            for each, place in moving.items():
                check_free(read_path(absolute(place)), staying)
                item = files[each].item
                after = item.with_(metadata={**item.metadata, FILE_PATH: place})
                vector = vectors.get(item.id)
                batch.replace(item, after, vector, vector, actor=ACTOR, reason="rename")
            await kernel.commit(batch.changes, batch.vectors)

    @guarded
    async def remove(self, path: str) -> None:
        """Delete a file of the agent's own, or a folder of such, so that `undo` can bring each back."""
        kernel = self._kernel
        async with kernel.lock(self._scope):
            gone = [file for each, file in (await self._all(path)).items() if _is_below(each, path)]
            if not gone:
                raise Refused(f"Error: The path {absolute(path)} does not exist")
            if not all(file.is_own for file in gone):
                raise Refused(f"Error: {absolute(path)} holds what memory keeps: delete single files of facts instead")
            batch = Batch(kernel.clock)
            vectors = await self._vectors([file.item.id for file in gone])
            for file in gone:
                batch.remove(file.item, vectors.get(file.item.id), actor=ACTOR, reason="delete")
            await kernel.commit(batch.changes, batch.vectors)

    # ------------------------------------------------------------------ pieces
    async def _vector(self, text: str) -> Vector | None:
        beginning = text[:EMBEDDED]
        return await self._kernel.embedding.query(beginning) if beginning.strip() else None

    async def _vectors(self, ids: list[str]) -> Mapping[str, Vector | None]:
        points = await self._kernel.store.get_many(self._kernel.collection, ids)
        return {point.id: point.vector for point in points}


def _kinds_at(path: str) -> tuple[str, ...]:
    if not path:
        return (FILES, *_KIND_OF.values())
    return tuple(dict.fromkeys((_KIND_OF.get(path.split("/", maxsplit=1)[0], FILES), FILES)))


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _check_own(path: str) -> None:
    first = path.split("/", maxsplit=1)[0]
    if folded(first) in _KIND_OF:
        raise Refused(
            f"Error: {absolute(first)} is filled by memory itself: files there can be read, those of facts also edited"
            " and deleted. Use another directory for files of your own"
        )


def _check_text(path: str, text: str) -> None:
    if "\x00" in text or any("\ud800" <= each <= "\udfff" for each in text):
        raise Refused(f"Error: File {absolute(path)} cannot be kept: it has characters that are no text")
    if len(text.encode()) > LARGEST:
        raise Refused(f"Error: File {absolute(path)} would be larger than {LARGEST} bytes: split it")


async def _suspicion(text: str) -> str | None:
    """Why an agent's text is kept out of prompts; a long one is read beside the event loop."""
    return suspect(text, ASSISTANT) if len(text) <= _SHORT else await run_blocking(suspect, text, ASSISTANT)


async def _quarantine(file: SeenFile, text: str) -> str | None:
    """Why the new text is kept out of prompts; what was kept out for another reason than its text stays so."""
    before = file.item.quarantined
    if file.is_own and before == INSTRUCTION:
        before = None
    return before or await _suspicion(text)
