"""Scan files: find, read, and compare them with the index, and watch them for changes."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from perdure.backends.markdown import layout
from perdure.backends.markdown.base import Problem
from perdure.backends.markdown.front_matter import BrokenFrontMatter, MissingFrontMatter, NoFrontMatter
from perdure.backends.markdown.layout import ENTRIES
from perdure.backends.markdown.memory_file import BOOKKEEPING, Found, ids_told, read, same, without_sources
from perdure.backends.registry import missing_driver
from perdure.domain.clock import iso
from perdure.domain.errors import VectorStoreError
from perdure.domain.scope import SCOPE_FIELDS

# `memory_index.json`: which row each file holds, its digest, and when it was changed last.
#
# It only saves reading: a file whose time and size are those noted is not read again. One that is missing, broken or
# old costs reading, and nothing else.

NAME = "memory_index.json"


class Entry(NamedTuple):
    """Notes about one file."""

    id: str  # of the row (of a tombstone its own, not the memory's)
    sha256: str
    mtime_ns: int
    size: int

    def stands(self, status: os.stat_result) -> bool:
        """Whether a file looks unchanged."""
        return self.mtime_ns == status.st_mtime_ns and self.size == status.st_size


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


class Snapshot:
    """Notes by path relative to the folder; kept in memory, and written by `save`."""

    def __init__(self, root: Path) -> None:
        self._file = root / NAME
        self._entries: dict[str, Entry] = {}
        self._paths: dict[tuple[str, str], str] = {}
        self.identity = ""  # the id of the folder's store
        self._changed = False

    def load(self) -> None:
        """Read the notes; an unreadable file counts as missing."""
        self._entries, self._paths, self.identity, self._changed = {}, {}, "", False
        try:
            noted = json.loads(self._file.read_bytes())
            entries = {
                str(path): Entry(str(one["id"]), str(one["sha256"]), int(one["mtime_ns"]), int(one["size"]))
                for path, one in noted["files"].items()
            }
            identity = noted["identity"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self._changed = True
            return
        self.identity = identity if isinstance(identity, str) else ""
        for path, entry in entries.items():
            self._put(path, entry)

    def save(self, *, anyway: bool = False) -> None:
        """Write changed notes atomically; OSError if that is impossible."""
        if not (self._changed or anyway):
            return
        noted = {"identity": self.identity, "files": {path: one._asdict() for path, one in self._entries.items()}}
        waiting = self._file.with_name(f"{NAME}.{os.getpid()}.tmp")
        handle = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(noted, file, indent=0, separators=(",", ":"))
        waiting.replace(self._file)
        self._changed = False

    def get(self, path: str) -> Entry | None:
        return self._entries.get(path)

    def path_of(self, home: str, id: str) -> str | None:
        """Return a row's file below a folder of entries."""
        return self._paths.get((home, id))

    def note(self, path: str, entry: Entry) -> None:
        """Note a file; a row's newest file is the row's."""
        if self._entries.get(path) != entry:
            self._changed = True
            self.drop(path)
            self._put(path, entry)

    def _put(self, path: str, entry: Entry) -> None:
        self._entries[path] = entry
        self._paths[home_of(path), entry.id] = path

    def drop(self, path: str) -> None:
        entry = self._entries.pop(path, None)
        if entry is not None:
            self._changed = True
            if self._paths.get((home_of(path), entry.id)) == path:
                del self._paths[home_of(path), entry.id]

    def drop_all(self, paths: Iterable[str]) -> None:
        for path in list(paths):
            self.drop(path)

    def below(self, folder: str) -> list[str]:
        return [path for path in self._entries if path.startswith(f"{folder}/")]

    def within(self, paths: Collection[str]) -> dict[str, str]:
        """Return the files noted at or below some paths, each with its row's id."""
        if not paths:
            return {}
        wanted = set(paths)
        return {
            path: entry.id
            for path, entry in self._entries.items()
            if any(path[:end] in wanted for end in (*(at for at, each in enumerate(path) if each == "/"), len(path)))
        }


def home_of(path: str) -> str:
    """Return the folder of entries that contains a file: `entries`, or `collections/<name>/entries`."""
    parts = path.split("/", 3)
    return parts[0] if parts[0] == ENTRIES else "/".join(parts[:3])


LARGEST = 16 * 1024 * 1024  # bytes that a memory's file may have
_DEEPEST = 64  # folders that a file lies in at most
STAYS = "its memory stays as it was: mend the file and it counts again, or delete the file to delete the memory"
"""What becomes of a memory whose file cannot be read, and what its owner may do."""
_ASKED = 50  # files that are asked for the walls of one that names none
_UNDATED = BOOKKEEPING | {"created_at", "valid_from"}


@dataclass(frozen=True, slots=True)
class Look:
    """One file as found."""

    path: str
    entry: Entry
    found: Found


class Unread(Exception):
    """The file is not a memory's; the text is a sentence."""


class Closed(Unread):
    """The file cannot be read now, which does not mean that its memory is gone."""

    def __init__(self, sentence: str, ids: frozenset[str] = frozenset()) -> None:
        super().__init__(sentence)
        self.ids = ids  # rows that it may be of, by its name and by what can be made out of it


@dataclass(frozen=True, slots=True)
class Slip:
    """A memory file that cannot be parsed."""

    path: str
    sentence: str
    ids: frozenset[str]  # rows that it may be of: the one that it held, else what its name and its text tell

    def problem(self, rows: Collection[str]) -> Problem:
        """Return the message for its owner; an existing row stays."""
        if not self.ids.isdisjoint(rows):
            return Problem(self.path, f"{self.sentence}; {STAYS}", holds=True)
        return Problem(self.path, self.sentence)


@dataclass(slots=True)
class Trouble:
    """The unreadable files and folders."""

    problems: list[Problem] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)  # files and folders of which nobody knows what they hold
    slips: list[Slip] = field(default_factory=list)  # files that somebody has broken, by the looks of it

    def close(self, path: str, sentence: str) -> None:
        """Note a file or folder that cannot be opened."""
        self.closed.append(path)
        self.problems.append(Problem(path.encode("utf-8", "replace").decode(), sentence))


def walk(root: Path, folder: str, trouble: Trouble) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every memory file below a folder, by its path relative to the root; never looks outside."""
    if folder.count("/") > _DEEPEST:
        trouble.close(folder, f"it lies in more than {_DEEPEST} folders")
        return
    try:
        entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        trouble.close(folder, f"the folder cannot be read: {error.strerror}")
        return
    for entry in entries:
        path = f"{folder}/{entry.name}"
        if entry.name.startswith(".") or entry.name.endswith(".tmp"):
            continue
        try:
            if entry.is_symlink():
                trouble.close(path, "it is a symbolic link, and these are not followed")
            elif not (is_folder := entry.is_dir(follow_symlinks=False)) and not entry.name.endswith(layout.SUFFIX):
                continue
            elif not _is_text(entry.name):
                trouble.close(path, "its name is not in UTF-8")
            elif not is_folder:
                yield path, entry.stat(follow_symlinks=False)
            else:
                if entry.name.endswith(layout.SUFFIX) and folder.count("/") > 1:
                    trouble.problems.append(Problem(path, "it is a folder, and no file"))
                yield from walk(root, path, trouble)
        except OSError as error:
            trouble.close(path, f"it cannot be looked at: {error.strerror}")


def _is_text(name: str) -> bool:
    """Whether a name is valid text, not bytes of another encoding that Python passes along."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def look(root: Path, home: str, path: str) -> Look:
    """Read one file; Unread says why it is not a memory's, FileNotFoundError that it is gone."""
    data, status = _data(root, path)
    try:
        found = _found(data, path.removeprefix(f"{home}/"), _moment(status), partial(_walls_beside, root, home, path))
    except (BrokenFrontMatter, MissingFrontMatter) as error:
        ids = ids_told(data.decode("utf-8", "replace"), path.removeprefix(f"{home}/"))
        raise Closed(f"the file {error}", ids) from None
    except NoFrontMatter as error:
        raise Unread(f"the file {error}") from None
    return Look(path, Entry(found.id, digest(data), status.st_mtime_ns, len(data)), found)


def _found(data: bytes, place: str, moment: str, beside: Callable[[], Mapping[str, str]]) -> Found:
    try:
        return read(data.decode("utf-8"), place, moment, beside)
    except UnicodeDecodeError:
        raise BrokenFrontMatter("is not in UTF-8") from None


def _walls_beside(root: Path, home: str, path: str) -> dict[str, str]:
    """Return the scope that other files of a conversation's folder name, if the folder's name was made from it."""
    folder = path.removeprefix(f"{home}/").split("/")[0]
    others = (other for other, _ in walk(root, f"{home}/{folder}", Trouble()) if other != path)
    for other in islice(others, _ASKED):
        with suppress(OSError, Unread, NoFrontMatter):
            payload = _found(_data(root, other)[0], other.removeprefix(f"{home}/"), "", dict).payload
            scope = {axis: payload[axis] for axis in SCOPE_FIELDS if axis in payload}
            if layout.folder_of(scope) == folder:
                return scope
    return {}


def _data(root: Path, path: str) -> tuple[bytes, os.stat_result]:
    try:
        handle = os.open(root / path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Closed(f"the file cannot be opened: {error.strerror}") from None
    with os.fdopen(handle, "rb", buffering=0) as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Unread("it is no file")
        if status.st_size > LARGEST:
            raise Closed(f"the file is larger than {LARGEST} bytes")
        return file.readall(), status


def _moment(status: os.stat_result) -> str:
    """Return when a file was last changed; now, for a time outside of the calendar."""
    try:
        return iso(datetime.fromtimestamp(status.st_mtime_ns // 1000 / 1e6, UTC))
    except (ValueError, OverflowError, OSError):
        return iso(datetime.now(UTC))


def differs(payload: Mapping[str, Any], found: Found) -> bool:
    """Whether a file and the index row differ in what people write."""
    but = _UNDATED if found.undated else BOOKKEEPING
    if found.unsigned and not payload.get("sources"):
        but |= {"sources", "source"}
    return not same(payload, found.payload, but)


def kept_row(before: Mapping[str, Any], seen: Look) -> dict[str, Any]:
    """Return the row of an edited file, with the index's values where it knows better."""
    payload = dict(seen.found.payload)
    if seen.found.undated:
        payload.update({key: before[key] for key in ("created_at", "valid_from") if key in before})
    if seen.found.unsigned and (payload.get("memory") != before.get("memory") or not before.get("sources")):
        return without_sources(payload)
    return payload


@dataclass(slots=True)
class Scan:
    """The result of scanning files, before it is compared with the index."""

    home: str
    standing: dict[str, str] = field(default_factory=dict)  # ids of rows whose files look as noted, with the file
    looked: dict[str, Look] = field(default_factory=dict)  # files that were read, by the id of the row
    gone: set[str] = field(default_factory=set)  # files noted that are not there any more
    trouble: Trouble = field(default_factory=Trouble)
    closed: set[str] = field(default_factory=set)  # ids of rows whose files cannot be read as they are now

    @property
    def slips(self) -> list[Slip]:
        """Return the files that somebody has broken."""
        return self.trouble.slips

    @property
    def problems(self) -> list[Problem]:
        """Return the messages about files."""
        return self.trouble.problems


def scan(
    root: Path,
    home: str,
    snapshot: Snapshot,
    paths: Iterable[str] | None = None,
    *,
    known: frozenset[str] | None = None,
    before: Mapping[str, Look] | None = None,
) -> Scan:
    """Scan files (None: all below `home`), and read those that changed since they were noted.

    `known` are the index's ids: a file of another id is always read. `before` are files read a moment ago, which are
    not read again if unchanged.
    """
    result = Scan(home)
    if paths is None:
        there = list(walk(root, home, result.trouble))
        noted = set(snapshot.below(home))
    else:
        there, noted = _some(root, home, snapshot, paths, result.trouble)
    result.gone = noted - {path for path, _ in there}
    for path, status in there:
        entry = snapshot.get(path)
        if entry is not None and entry.stands(status) and (known is None or entry.id in known):
            if entry.id in result.standing:
                result.problems.append(_twice(path, result.standing[entry.id]))
            else:
                result.standing[entry.id] = path
            continue
        last = before.get(path) if before is not None else None
        fresh = last if last is not None and last.entry.stands(status) else None
        _read(result, root, home, path, snapshot, last=fresh)
    hidden = snapshot.within(result.trouble.closed)
    result.gone -= hidden.keys()
    result.closed = {*hidden.values(), *(id for slip in result.slips for id in slip.ids)}
    return result


def _read(result: Scan, root: Path, home: str, path: str, snapshot: Snapshot, *, last: Look | None) -> None:
    try:
        seen = last or look(root, home, path)
    except FileNotFoundError:
        if snapshot.get(path) is not None:
            result.gone.add(path)
        return
    except Closed as error:
        _close(result, path, snapshot, error)
        return
    except Unread as error:
        result.problems.append(Problem(path, str(error), read=layout.in_deleted(path.removeprefix(f"{home}/"))))
        return
    id = seen.found.id
    # Of two files of one row the one that was known before is the row's.
    known = snapshot.path_of(home, id)
    if known is not None and known != path and _holds(root, home, snapshot, known):
        result.problems.append(_twice(path, known))
        return
    other = result.standing.get(id) or (result.looked[id].path if id in result.looked else None)
    if other is not None:
        # Else the one that is named as its row's file is.
        is_first = id in result.looked and path == f"{home}/{layout.place_of(id, seen.found.payload)}"
        result.problems.append(_twice(other, path) if is_first else _twice(path, other))
        if not is_first:
            return
    result.problems.extend(Problem(path, f"the file {note}", read=True) for note in seen.found.notes)
    result.looked[id] = seen


def _close(result: Scan, path: str, snapshot: Snapshot, error: Closed) -> None:
    """Note an unreadable file, with its possible rows."""
    entry = snapshot.get(path)
    ids = frozenset() if layout.in_deleted(path.removeprefix(f"{result.home}/")) else error.ids
    result.trouble.closed.append(path)
    result.trouble.slips.append(Slip(path, str(error), ids if entry is None else frozenset([entry.id])))


def _holds(root: Path, home: str, snapshot: Snapshot, path: str) -> bool:
    """Whether a noted file still holds its row."""
    entry = snapshot.get(path)
    try:
        return entry is not None and (
            entry.stands(os.lstat(root / path)) or look(root, home, path).found.id == entry.id
        )
    except (OSError, Unread):
        return False


def _twice(path: str, other: str) -> Problem:
    return Problem(path, f"the file has the id of {other}, which counts")


def _some(
    root: Path, home: str, snapshot: Snapshot, paths: Iterable[str], trouble: Trouble
) -> tuple[list[tuple[str, os.stat_result]], set[str]]:
    there: dict[str, os.stat_result] = {}
    noted: set[str] = set()
    for path in paths:
        if path != home and not path.startswith(f"{home}/"):
            continue
        parts = path.split("/")
        if any(part.startswith(".") or part == ".." for part in parts) or path.endswith(".tmp"):
            continue
        noted.update(snapshot.below(path))
        if snapshot.get(path) is not None:
            noted.add(path)
        if any(root.joinpath(*parts[:end]).is_symlink() for end in range(home.count("/") + 2, len(parts) + 1)):
            trouble.close(path, "it is behind a symbolic link, and these are not followed")
            continue
        try:
            status = os.lstat(root / path)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            there.update(walk(root, path, trouble))
        elif path.endswith(layout.SUFFIX) and _is_text(path):
            there[path] = status
    return list(there.items()), noted


LONGEST_MS = 1_600  # milliseconds after which a burst is reported although it goes on
REST_MS = 150  # milliseconds without a change that end a burst
_WAKE_MS = 1_000  # milliseconds between two looks at whether to stop
_UNFINISHED = (".tmp", "~", ".swp", ".swx")


def may_be_memory(name: str) -> bool:
    """Whether a file or folder name may be of memories: not hidden, and not being written."""
    return not name.startswith(".") and not name.endswith(_UNFINISHED)


async def bursts(folder: Path, real: Path, stop: asyncio.Event) -> AsyncGenerator[set[Path], None]:
    """Yield the changed paths below a folder in bursts until told to stop; `real` is the resolved folder.

    A folder that disappears, as during a `git checkout`, is awaited and reported as a whole. DependencyError without
    the watcher's library, VectorStoreError if the folder cannot be watched.
    """
    try:
        from watchfiles import Change, awatch
    except ImportError as error:
        raise missing_driver("markdown", error) from error
    is_back = False

    def is_wanted(_: Change, path: str) -> bool:
        parts = Path(path).relative_to(real).parts if Path(path).is_relative_to(real) else (".",)
        return all(may_be_memory(part) for part in parts)

    while not stop.is_set():
        watched = _folder_identity(real)
        if watched is None:
            is_back = True
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _WAKE_MS / 1000)
            continue
        watching = awatch(
            real,
            watch_filter=is_wanted,
            debounce=LONGEST_MS,
            step=REST_MS,
            stop_event=stop,
            rust_timeout=_WAKE_MS,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        try:
            async with aclosing(watching) as bursts:
                async for changes in bursts:
                    paths = {folder / Path(path).relative_to(real) for _, path in changes}
                    if paths or is_back:
                        yield paths | ({folder} if is_back else set())
                    # One that is made anew at once may have the same identity.
                    is_back = (Change.deleted, str(real)) in changes or _folder_identity(real) != watched
                    if is_back:
                        break
        except (OSError, RuntimeError) as error:
            if _folder_identity(real) == watched:
                raise VectorStoreError(f"the folder {folder} cannot be watched: {error}") from error


def _folder_identity(folder: Path) -> tuple[int, int] | None:
    """Return the identity of the folder that now has this name; None if there is none."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
