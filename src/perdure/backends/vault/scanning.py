"""Looking at the files: which there are, what they say, and where that differs from the rows of the index."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from perdure.backends.vault import layout
from perdure.backends.vault.base import Problem
from perdure.backends.vault.front_matter import BrokenFrontMatter, NoFrontMatter
from perdure.backends.vault.memory_file import BOOKKEEPING, Found, read, same
from perdure.backends.vault.snapshot import Entry, Snapshot, digest
from perdure.domain.clock import iso
from perdure.domain.scope import SCOPE_FIELDS

LARGEST = 16 * 1024 * 1024
"""Bytes that a memory's file may have."""
_DEEPEST = 64
"""Folders that a file lies in at most."""
_ASKED = 50
"""Files that are asked for the walls of one that names none."""
_UNDATED = BOOKKEEPING | {"created_at", "valid_from"}


@dataclass(frozen=True, slots=True)
class Look:
    """One file as it was found."""

    path: str
    entry: Entry
    found: Found


class Unread(Exception):
    """The file is none of a memory; the text is a sentence."""


class Closed(Unread):
    """The file cannot be read as it is now: that does not say that its memory is gone."""


@dataclass(slots=True)
class Trouble:
    """What could not be read."""

    problems: list[Problem] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    """Files and folders of which nobody knows what they hold."""

    def close(self, path: str, sentence: str) -> None:
        """Note a file or a folder that cannot be looked into."""
        self.closed.append(path)
        self.problems.append(Problem(path.encode("utf-8", "replace").decode(), sentence))


def walk(root: Path, folder: str, trouble: Trouble) -> Iterator[tuple[str, os.stat_result]]:
    """Every file of memories below a folder, by its path relative to the root; nothing outside is ever looked at."""
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
    """Whether a name is text, and not bytes of another encoding that Python carries along."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def look(root: Path, home: str, path: str) -> Look:
    """Read one file; Unread says why it is no memory's, FileNotFoundError that it is gone."""
    data, status = _data(root, path)
    try:
        found = _found(data, path.removeprefix(f"{home}/"), _moment(status), partial(_walls_beside, root, home, path))
    except BrokenFrontMatter as error:
        raise Closed(f"the file {error}") from None
    except NoFrontMatter as error:
        raise Unread(f"the file {error}") from None
    return Look(path, Entry(found.id, digest(data), status.st_mtime_ns, len(data)), found)


def _found(data: bytes, place: str, moment: str, beside: Callable[[], Mapping[str, str]]) -> Found:
    try:
        return read(data.decode("utf-8"), place, moment, beside)
    except UnicodeDecodeError:
        raise BrokenFrontMatter("is not in UTF-8") from None


def _walls_beside(root: Path, home: str, path: str) -> dict[str, str]:
    """The walls that other files in a conversation's folder name, where these are what its name was made of."""
    folder = path.removeprefix(f"{home}/").split("/")[0]
    others = (other for other, _ in walk(root, f"{home}/{folder}", Trouble()) if other != path)
    for other in islice(others, _ASKED):
        with suppress(OSError, Unread, NoFrontMatter):
            payload = _found(_data(root, other)[0], other.removeprefix(f"{home}/"), "", dict).payload
            walls = {axis: payload[axis] for axis in SCOPE_FIELDS if axis in payload}
            if layout.folder_of(walls) == folder:
                return walls
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
    """When a file was changed last; now, for a time that no calendar has."""
    try:
        return iso(datetime.fromtimestamp(status.st_mtime_ns // 1000 / 1e6, UTC))
    except (ValueError, OverflowError, OSError):
        return iso(datetime.now(UTC))


def differs(payload: Mapping[str, Any], found: Found) -> bool:
    """Whether a file says something else than the row of the index, in what people write."""
    return not same(payload, found.payload, _UNDATED if found.undated else BOOKKEEPING)


@dataclass(slots=True)
class Scan:
    """What looking at files found, before it is held against the index."""

    standing: dict[str, str] = field(default_factory=dict)
    """Ids of rows whose files look as noted, with the file."""
    looked: dict[str, Look] = field(default_factory=dict)
    """Files that were read, by the id of the row."""
    gone: set[str] = field(default_factory=set)
    """Files noted that are not there any more."""
    trouble: Trouble = field(default_factory=Trouble)
    closed: set[str] = field(default_factory=set)
    """Ids of rows whose files cannot be read as they are now."""

    @property
    def problems(self) -> list[Problem]:
        """What is to be told of files."""
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
    """Look at files (None: all below `home`), and read those that do not look as noted.

    `known` are the ids that the index holds: a file of another is read, however it looks. `before` are files that were
    read a moment ago, and are not read again where they look the same.
    """
    result = Scan()
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
    result.closed = set(hidden.values())
    return result


def _read(result: Scan, root: Path, home: str, path: str, snapshot: Snapshot, *, last: Look | None) -> None:
    try:
        seen = last or look(root, home, path)
    except FileNotFoundError:
        if snapshot.get(path) is not None:
            result.gone.add(path)
        return
    except Closed as error:
        result.trouble.close(path, str(error))
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


def _holds(root: Path, home: str, snapshot: Snapshot, path: str) -> bool:
    """Whether a file that was noted holds the row still that it held."""
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
