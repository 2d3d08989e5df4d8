"""The memory tool's files of one scope: an agent's own, and facts, messages and summaries as files.

Every change is a change of memory, with history, versions and `undo`. If memories are files, edits by hand are picked
up before each read.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from perdure.backends.blocking import run_blocking
from perdure.backends.markdown.base import FileStore, name_of
from perdure.backends.vector_stores.base import Vector
from perdure.domain.memory import FILE_PATH, FILES, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import guarded
from perdure.engine.core.access import visible
from perdure.engine.core.batch import Batch, new_memory
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import scan
from perdure.engine.markdown.sync import sync_files
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.quarantine import INSTRUCTION, suspect

ACTOR = "memory_tool"  # the actor of a change in history
ASSISTANT = "assistant"  # the origin of an agent's texts
LARGEST = 1_000_000  # maximum bytes of a file, in UTF-8
MOST = 2_000  # maximum files of an agent's own in one scope
EMBEDDED = 8_000  # characters of a file's beginning that its vector covers; its passages have their own vectors
PAGE = 1_000
_SHORT = 10_000  # characters of a text that is checked in a few milliseconds
_KIND_OF = {"facts": "facts", "turns": "messages", "summaries": "summaries"}
"""The folders that memory fills, and the kinds of their rows; all others are the agent's."""


@dataclass(frozen=True, slots=True)
class SeenFile:
    """One file: its path below the root, and its memory."""

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
    """Reads and changes the files of one scope, without those of narrower scopes; Refused explains a failure."""

    def __init__(self, kernel: Kernel, scope: Scope) -> None:
        self._kernel = kernel
        self._scope = scope

    @property
    def folder(self) -> Path | None:
        """The real folder of these files, if memories are files."""
        store = self._kernel.store
        if not isinstance(store, FileStore):
            return None
        return store.folder_of(self._scope.given())

    @guarded
    async def seen(self, path: str) -> dict[str, SeenFile]:
        """Return the files at and below a path, by their paths; edits by hand are picked up first."""
        if (folder := self.folder) is not None:
            await sync_files(self._kernel, [folder])
        return {each: file for each, file in (await self._all(path)).items() if _is_below(each, path)}

    async def _all(self, path: str) -> dict[str, SeenFile]:
        kernel = self._kernel
        kinds = _kinds_at(path)
        found: list[MemoryItem] = []
        within = visible(self._scope, now=kernel.clock.now(), kinds=kinds)
        async for points in scan(kernel, within, page=PAGE):
            items = (MemoryItem.from_payload(point.payload) for point in points)
            found += [item for item in items if item.scope == self._scope]
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

    @guarded
    async def create(self, path: str, text: str) -> None:
        """Store a new file of the agent."""
        _check_own(path)
        _check_text(path, text)
        kernel = self._kernel
        vector = await self._vector(text)
        async with kernel.lock(self._scope):
            files = await self._all(path)
            check_free(path, files)
            if len(files) >= MOST:
                raise Refused(f"Error: There are {MOST} files already: delete some first")
            item = new_memory(
                kernel,
                text,
                self._scope,
                kind=FILES,
                source=ACTOR,
                metadata={FILE_PATH: path},
                origin=ASSISTANT,
                quarantined=await _suspicion(text),
            )
            batch = Batch(kernel.clock)
            batch.add(item, vector, actor=ACTOR, reason="create")
            await kernel.commit(batch.changes, batch.vectors)

    @guarded
    async def edit(self, path: str, change: Callable[[str], str], *, reason: str) -> None:
        """Replace a file's text with the result of `change`; the old text stays as a version."""
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
            after = before.with_text(text, quarantined=await _quarantine(file, text))
            if not file.is_own:
                after = after.with_(slots=read_slots(text), origin=before.origin or ASSISTANT)
            old = await kernel.store.get(kernel.collection, before.id)
            batch = Batch(kernel.clock)
            vector = await self._vector(text)
            batch.replace(before, after, None if old is None else old.vector, vector, actor=ACTOR, reason=reason)
            await kernel.commit(batch.changes, batch.vectors)

    @guarded
    async def move(self, path: str, to: str) -> None:
        """Move a file of the agent, or a folder of such files."""
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
        """Delete a file of the agent, or a folder of such files; `undo` can restore each."""
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
    """Return why an agent's text is kept out of prompts; a long one is checked in a thread."""
    return suspect(text, ASSISTANT) if len(text) <= _SHORT else await run_blocking(suspect, text, ASSISTANT)


async def _quarantine(file: SeenFile, text: str) -> str | None:
    """Return why the new text is kept out of prompts; a quarantine for another reason than the text stays."""
    before = file.item.quarantined
    if file.is_own and before == INSTRUCTION:
        before = None
    return before or await _suspicion(text)


ROOT = "/memories"  # the folder that an agent sees
LONGEST_PATH, LONGEST_NAME, DEEPEST = 500, 100, 12
"""Characters of a path below the root and of a name in it, and names in a path."""
_REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control characters, hidden characters and non-characters."""
_SHOWN = 200


class Refused(Exception):
    """The command cannot be carried out; its text is the answer for the agent."""


def read_path(path: object) -> str:
    """Return the path below the root without slashes at its ends, "" for the root; Refused for an invalid one."""
    if not isinstance(path, str):
        raise Refused("Error: A path must be text")
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise Refused(f"Error: Path must start with {ROOT}, got: {_shown(path)}")
    below = path.removeprefix(ROOT).strip("/")
    if not below:
        return ""
    names = below.split("/")
    if len(below) > LONGEST_PATH or len(names) > DEEPEST or any(len(name) > LONGEST_NAME for name in names):
        raise Refused(
            f"Error: Path {_shown(path)} is too long: at most {LONGEST_PATH} characters, {DEEPEST} names, and"
            f" {LONGEST_NAME} characters a name"
        )
    for name in names:
        _check(name, path)
    return below


def _check(name: str, path: str) -> None:
    plain = unicodedata.normalize("NFKC", unquote(unquote(name))).strip()
    if plain in ("", ".", "..") or "/" in plain or "\\" in plain:
        raise Refused(f"Error: Path {_shown(path)} would escape {ROOT} directory")
    if any(unicodedata.category(each) in _REFUSED_CATEGORIES for each in plain):
        raise Refused(f"Error: Path {_shown(path)} has characters that no file name may have")
    if name.strip() != name or unicodedata.normalize("NFC", name) != name:
        raise Refused(f"Error: Path {_shown(path)} has a name that reads like another one")
    if plain.startswith("."):
        raise Refused(f"Error: Path {_shown(path)} is of a hidden file, and these are not kept")


def _shown(path: str) -> str:
    """Return a path for an answer, shortened and printable."""
    cut = path if len(path) <= _SHOWN else f"{path[:_SHOWN]}..."
    return "".join(each if unicodedata.category(each) not in _REFUSED_CATEGORIES else "\ufffd" for each in cut)


def absolute(path: str) -> str:
    """Return the path as the agent writes it."""
    return f"{ROOT}/{path}" if path else ROOT


def folded(path: str) -> str:
    """Return a key that is equal for paths which some file system, or some reader, would confuse."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())


def numbered(path: str, number: int) -> str:
    """Return the path of the second, third, ... file with the same one."""
    stem, dot, ending = path.rpartition(".")
    if number == 1:
        return path
    return f"{stem}.{number}.{ending}" if dot and "/" not in ending else f"{path}.{number}"


def folders_of(path: str) -> list[str]:
    """Return the folders of a path, outermost first."""
    names = path.split("/")
    return ["/".join(names[:end]) for end in range(1, len(names))]


def check_free(path: str, taken: Iterable[str]) -> None:
    """Raise Refused if a file of this path cannot be created beside the existing ones."""
    if not path:
        raise Refused(f"Error: File {ROOT} already exists")
    files = list(taken)
    spelled = {folded(each): each for each in files}
    folders = {folded(folder): folder for each in files for folder in folders_of(each)}
    if folded(path) in spelled or folded(path) in folders:
        raise Refused(f"Error: File {absolute(path)} already exists")
    for folder in folders_of(path):
        if folded(folder) in spelled:
            raise Refused(f"Error: {absolute(folder)} is a file, and not a directory")
        if folders.get(folded(folder), folder) != folder:
            raise Refused(f"Error: There is a directory {absolute(folders[folded(folder)])}: use its name as it is")


WIDTH = 6  # width of a line number in characters
MOST_LINES = 999_999
MOST_LISTED = 1_000  # maximum files and folders in a listing; it reports how many more there are
_LEVELS = 2
_AROUND = 2  # lines shown before and after a change
_UNITS = "BKMG"


def listing(folder: str, sizes: Mapping[str, int]) -> str:
    """List a folder's files and folders to two levels below it, with sizes in bytes; `sizes` are all files' by path."""
    prefix = f"{folder}/" if folder else ""
    total: dict[str, int] = {}
    for path, size in sizes.items():
        if not path.startswith(prefix):
            continue
        names = path.removeprefix(prefix).split("/")
        for end in range(1, min(len(names), _LEVELS) + 1):
            shown = "/".join(names[:end]) + ("/" if end < len(names) else "")
            total[shown] = total.get(shown, 0) + size
    top = absolute(folder)
    whole = sum(size for path, size in total.items() if path.rstrip("/").count("/") == 0)
    lines = [f"Here're the files and directories up to {_LEVELS} levels deep in {top}, excluding hidden items:"]
    lines.append(f"{_human(whole)}\t{top}")
    ordered = sorted(total, key=lambda path: path.rstrip("/").split("/"))
    lines += [f"{_human(total[path])}\t{top}/{path}" for path in ordered[:MOST_LISTED]]
    if len(ordered) > MOST_LISTED:
        lines.append(f"... and {len(ordered) - MOST_LISTED} more")
    return "\n".join(lines)


def _human(size: int) -> str:
    place, amount = 0, float(size)
    while amount >= 1024 and place < len(_UNITS) - 1:
        amount, place = amount / 1024, place + 1
    return f"{amount:.0f}{_UNITS[place]}" if amount == int(amount) else f"{amount:.1f}{_UNITS[place]}"


def content(path: str, text: str, view_range: object = None) -> str:
    """Return a file's lines with their numbers, all or a range; -1 is the last."""
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise Refused(f"File {absolute(path)} exceeds maximum line limit of 999,999 lines.")
    first, last = _read_range(view_range, len(lines))
    return f"Here's the content of {absolute(path)} with line numbers:\n{_numbered(lines, first, last)}"


def _read_range(view_range: object, count: int) -> tuple[int, int]:
    if view_range is None or view_range == []:  # models send both for the whole file
        return 1, count
    if (
        not isinstance(view_range, (list, tuple))
        or len(view_range) != 2
        or not all(isinstance(each, int) and not isinstance(each, bool) for each in view_range)
    ):
        raise Refused("Error: Invalid `view_range` parameter: it should be a list of two line numbers.")
    first, last = view_range
    if not 1 <= first <= count or (last != -1 and last < first):
        raise Refused(
            f"Error: Invalid `view_range` parameter: {list(view_range)}. It should be within the range of lines of the"
            f" file: [1, {count}]"
        )
    return first, count if last == -1 else min(last, count)


def _numbered(lines: list[str], first: int, last: int) -> str:
    return "\n".join(f"{number:>{WIDTH}}\t{lines[number - 1]}" for number in range(first, last + 1))


def replaced(path: str, text: str, old: str, new: str) -> tuple[str, str]:
    """Return the text with the only occurrence of `old` replaced, and the answer; Refused for none or several."""
    if not old or old not in text:
        raise Refused(f"No replacement was performed, old_str `{old}` did not appear verbatim in {absolute(path)}.")
    places = [text.index(old)]
    while (place := text.find(old, places[-1] + 1)) != -1:
        places.append(place)
    if len(places) > 1:
        numbers = ", ".join(str(text.count("\n", 0, place) + 1) for place in places)
        raise Refused(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {numbers}."
            " Please ensure it is unique"
        )
    result = text[: places[0]] + new + text[places[0] + len(old) :]
    lines, changed = result.split("\n"), text.count("\n", 0, places[0]) + 1
    first, last = max(1, changed - _AROUND), min(len(lines), changed + new.count("\n") + _AROUND)
    answer = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
    return result, answer + _numbered(lines, first, last)


def inserted(path: str, text: str, line: object, added: str) -> tuple[str, str]:
    """Return the text with lines inserted after a line (0: before the first), ending in a newline, and the answer."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if not isinstance(line, int) or isinstance(line, bool) or not 0 <= line <= len(lines):
        raise Refused(
            f"Error: Invalid `insert_line` parameter: {line}. It should be within the range of lines of the file:"
            f" [0, {len(lines)}]"
        )
    lines.insert(line, added.removesuffix("\n"))
    return "\n".join(lines) + "\n", f"The file {absolute(path)} has been edited."
