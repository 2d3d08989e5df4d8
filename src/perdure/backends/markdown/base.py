"""The port of stores with memories as files: the files are the truth, and editing them edits memory."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.backends.markdown import layout
from perdure.backends.vector_stores.base import Point, VectorStore

if TYPE_CHECKING:
    from perdure.backends.git.snapshots import GitVersions


@dataclass(frozen=True, slots=True)
class Problem:
    """A file under the folder that is not a valid memory file, or only in part."""

    path: str
    """Relative to the folder, with forward slashes."""
    sentence: str
    """What is wrong, without any of the file's text."""
    read: bool = False
    """Whether it counts as a memory all the same, or is a tombstone that another program wrote: nothing is amiss."""
    holds: bool = False
    """Whether it is the file of a memory, which says what it said before until the file can be read again."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A row that differs between disk and index, because something other than a store changed its file."""

    path: str | None
    """The file, relative to the folder; None where it is gone."""
    before: Point | None
    """The row of the index, None where it has none."""
    after: Point | None
    """The row of the file, None where it is gone; its vector is the old one where the text is the same, else None."""


@dataclass(slots=True)
class Absorbed:
    """The ids of rows that were read from disk."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    """Files of these stand elsewhere, and say what they said."""
    forgotten: list[str] = field(default_factory=list)
    """Memories of which git brought files back although they had been forgotten; they are erased again."""
    problems: list[Problem] = field(default_factory=list)
    refused: int = 0
    """Readable files whose changes memory did not accept; they are among the problems."""

    @property
    def rows(self) -> int:
        """Return the number of changed rows."""
        return len(self.added) + len(self.changed) + len(self.removed)


@dataclass(frozen=True, slots=True)
class Differences:
    """What differs between the files and the index."""

    foreign: list[Foreign]
    moved: list[str]
    problems: list[Problem]


class FileStore(VectorStore):
    """A vector store whose rows are files in a folder, with an index made from them.

    A file written by a store never counts as foreign, whichever process wrote it.
    """

    root: Path
    """The folder."""
    versions: GitVersions | None
    """Its versions, where they are kept."""
    warned: dict[str, str]
    """Files of memories that cannot be read, of which the log has told, with what it said."""
    watched: bool = False
    """Whether files that change while the store is in use are to be taken in at once."""
    lost: Path | None = None
    """The folder of all files, where it was gone when the store was opened: its memories stand in the index alone."""

    @abstractmethod
    async def differences(self, collection: str, paths: Collection[Path] | None = None) -> Differences:
        """Return the differences between files (None: all) and index; only reads.

        It may see unfinished writes of others: ask again under a lock before acting on them.
        """

    @abstractmethod
    async def take(self, collection: str, foreign: Sequence[Foreign]) -> None:
        """Update the index from the files, which stay unchanged."""

    @abstractmethod
    def accept(self, collection: str, foreign: Sequence[Foreign]) -> None:
        """Let the next `apply` of these rows leave their files as they are, or absent.

        The rows came from the files, which may change again, as after a second checkout: the next scan sees that.
        """

    @abstractmethod
    def refuse(self, collection: str, foreign: Sequence[Foreign]) -> None:
        """Undo `accept` after a failed `apply`: the differences are found again."""

    async def absorb(self, collection: str, paths: Collection[Path] | None = None) -> Absorbed:
        """Read changes on disk (None: all) without a history; `engine.markdown.sync` writes one."""
        found = await self.differences(collection, paths)
        await self.take(collection, found.foreign)
        return absorbed(found)

    @abstractmethod
    async def problems(self) -> list[Problem]:
        """Read all files, and return those that are not valid memories, or only in part."""

    @abstractmethod
    def changes(self, stop: asyncio.Event) -> AsyncIterator[set[Path]]:
        """Yield changed memory files in bursts, our own writes included, until told to stop."""

    def folder_of(self, scope: Mapping[str, str]) -> Path:
        """Return the folder of the main collection's rows with exactly this scope."""
        return self.root / layout.ENTRIES / layout.folder_of(scope)

    @abstractmethod
    def path_of(self, id: str) -> Path | None:
        """Return the file of a row, or None."""


def name_of(id: str, payload: Mapping[str, Any]) -> str:
    """Return a row's name below its scope's folder: an agent's file by its path, any other by its file name."""
    return layout.path_in(payload) or f"{layout.subfolder_of(payload)}/{layout.name_of(id, payload)}"


def absorbed(found: Differences) -> Absorbed:
    """Return what reading these differences changes."""
    result = Absorbed(moved=list(found.moved), problems=list(found.problems))
    for each in found.foreign:
        if each.after is None and each.before is not None:
            result.removed.append(each.before.id)
        elif each.after is not None:
            (result.added if each.before is None else result.changed).append(each.after.id)
    return result
