"""The port of stores that keep memories as files: the files are the truth, and editing them edits memory."""

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
    """A file under the folder that is not, or not wholly, what a memory's file should be."""

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
    """A row that stands otherwise on disk than in the index: somebody else than a store has changed a file."""

    path: str | None
    """The file, relative to the folder; None where it is gone."""
    before: Point | None
    """The row of the index, None where it has none."""
    after: Point | None
    """The row of the file, None where it is gone; its vector is the old one where the text is the same, else None."""


@dataclass(slots=True)
class Absorbed:
    """What was taken in from disk: ids of rows."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    """Files of these stand elsewhere, and say what they said."""
    problems: list[Problem] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many rows are another than before."""
        return len(self.added) + len(self.changed) + len(self.removed)


@dataclass(frozen=True, slots=True)
class Differences:
    """What differs between the files and the index."""

    foreign: list[Foreign]
    moved: list[str]
    problems: list[Problem]


class FileStore(VectorStore):
    """A vector store whose rows are files in a folder; the index behind it is made from these files.

    A file that was written by a store is never seen as foreign, whichever process wrote it.
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
        """How the files differ from the index (None: all of them); only reads.

        While others write, it may see what they have half done: ask again under a lock before acting on it.
        """

    @abstractmethod
    async def take(self, collection: str, foreign: Sequence[Foreign]) -> None:
        """Make the index hold what the files say, whose bytes stay as they are."""

    @abstractmethod
    def accept(self, collection: str, foreign: Sequence[Foreign]) -> None:
        """Let the next `apply` of these rows leave their files as they are, and gone where they are gone.

        They came from there, and may be another's again by then, as after a second checkout: the next look sees it.
        """

    @abstractmethod
    def refuse(self, collection: str, foreign: Sequence[Foreign]) -> None:
        """The `apply` that was to follow `accept` failed: these differ still, and are found again."""

    async def absorb(self, collection: str, paths: Collection[Path] | None = None) -> Absorbed:
        """Take in what changed on disk (None: everything), without a history: `engine.markdown.sync` writes one."""
        found = await self.differences(collection, paths)
        await self.take(collection, found.foreign)
        return absorbed(found)

    @abstractmethod
    async def problems(self) -> list[Problem]:
        """Every file that cannot be read as a memory, or only in part; reads them all."""

    @abstractmethod
    def changes(self, stop: asyncio.Event) -> AsyncIterator[set[Path]]:
        """Files of memories that somebody changed, our own writes among them, burst by burst until it is to stop."""

    def folder_of(self, walls: Mapping[str, str]) -> Path:
        """The folder of the rows of the main collection that stand behind exactly these walls."""
        return self.root / layout.ENTRIES / layout.folder_of(walls)

    @abstractmethod
    def path_of(self, id: str) -> Path | None:
        """The file of a row, None where there is none."""


def name_of(id: str, payload: Mapping[str, Any]) -> str:
    """What a row is called below the folder of its walls: an agent's file by its path, any other as its file is."""
    return layout.path_in(payload) or f"{layout.subfolder_of(payload)}/{layout.name_of(id, payload)}"


def absorbed(found: Differences) -> Absorbed:
    """What taking in these differences does."""
    result = Absorbed(moved=list(found.moved), problems=list(found.problems))
    for each in found.foreign:
        if each.after is None and each.before is not None:
            result.removed.append(each.before.id)
        elif each.after is not None:
            (result.added if each.before is None else result.changed).append(each.after.id)
    return result
