"""Looking at the files: which there are, what they say, and where that differs from the rows of the index."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perdure.backends.vault import layout
from perdure.backends.vault.base import Problem
from perdure.backends.vault.front_matter import NoFrontMatter
from perdure.backends.vault.memory_file import BOOKKEEPING, Found, read, same
from perdure.backends.vault.snapshot import Entry, Snapshot, digest
from perdure.domain.clock import iso

LARGEST = 16 * 1024 * 1024
"""Bytes that a memory's file may have."""
_UNDATED = BOOKKEEPING | {"created_at", "valid_from"}


@dataclass(frozen=True, slots=True)
class Look:
    """One file as it was found."""

    path: str
    entry: Entry
    found: Found


class Unread(Exception):
    """The file is none of a memory; the text is a sentence."""


def walk(root: Path, folder: str, problems: list[Problem]) -> Iterator[tuple[str, os.stat_result]]:
    """Every file of memories below a folder, by its path relative to the root; nothing outside is ever looked at."""
    try:
        entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(Problem(folder, f"the folder cannot be read: {error.strerror}"))
        return
    for entry in entries:
        path = f"{folder}/{entry.name}"
        if entry.name.startswith(".") or entry.name.endswith(".tmp"):
            continue
        try:
            if entry.is_symlink():
                problems.append(Problem(path, "it is a symbolic link, and these are not followed"))
            elif entry.is_dir(follow_symlinks=False):
                if entry.name.endswith(layout.SUFFIX) and folder.count("/") > 1:
                    problems.append(Problem(path, "it is a folder, and no file"))
                yield from walk(root, path, problems)
            elif entry.name.endswith(layout.SUFFIX):
                yield path, entry.stat(follow_symlinks=False)
        except OSError as error:
            problems.append(Problem(path, f"it cannot be looked at: {error.strerror}"))


def look(root: Path, home: str, path: str) -> Look:
    """Read one file; Unread says why it is no memory's, FileNotFoundError that it is gone."""
    try:
        handle = os.open(root / path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unread(f"the file cannot be opened: {error.strerror}") from None
    with os.fdopen(handle, "rb", buffering=0) as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Unread("it is no file")
        if status.st_size > LARGEST:
            raise Unread(f"the file is larger than {LARGEST} bytes")
        data = file.readall()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Unread("the file is not in UTF-8") from None
    moment = iso(datetime.fromtimestamp(status.st_mtime_ns // 1000 / 1e6, UTC))
    try:
        found = read(text, path.removeprefix(f"{home}/"), moment)
    except NoFrontMatter as error:
        raise Unread(f"the file {error}") from None
    return Look(path, Entry(found.id, digest(data), status.st_mtime_ns, len(data)), found)


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
    problems: list[Problem] = field(default_factory=list)


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
        there = list(walk(root, home, result.problems))
        noted = set(snapshot.below(home))
    else:
        there, noted = _some(root, home, snapshot, paths, result.problems)
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
    return result


def _read(result: Scan, root: Path, home: str, path: str, snapshot: Snapshot, *, last: Look | None) -> None:
    try:
        seen = last or look(root, home, path)
    except FileNotFoundError:
        if snapshot.get(path) is not None:
            result.gone.add(path)
        return
    except Unread as error:
        result.problems.append(Problem(path, str(error)))
        return
    id = seen.found.id
    other = result.standing.get(id) or (result.looked[id].path if id in result.looked else None)
    if other is not None:
        # Of two files of one row the one that was known before is the row's.
        first = snapshot.path_of(home, id) == path and id in result.looked
        result.problems.append(_twice(other, path) if first else _twice(path, other))
        if not first:
            return
    result.problems += [Problem(path, f"the file {note}", read=True) for note in seen.found.notes]
    result.looked[id] = seen


def _twice(path: str, other: str) -> Problem:
    return Problem(path, f"the file has the id of {other}, which counts")


def _some(
    root: Path, home: str, snapshot: Snapshot, paths: Iterable[str], problems: list[Problem]
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
        if any(root.joinpath(*parts[:end]).is_symlink() for end in range(1, len(parts) + 1)):
            problems.append(Problem(path, "it is behind a symbolic link, and these are not followed"))
            continue
        try:
            status = os.lstat(root / path)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            there.update(walk(root, path, problems))
        elif path.endswith(layout.SUFFIX):
            there[path] = status
    return list(there.items()), noted
