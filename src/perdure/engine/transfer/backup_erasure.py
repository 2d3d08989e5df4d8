"""Erase forgotten memories from backups: rewrite the files made on this machine without them."""

from __future__ import annotations

import asyncio
import json
import os
import platform
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perdure.backends.ledgers.base import Ledger
from perdure.domain.errors import PerdureError
from perdure.domain.event import ErasedPlace
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.store_identity import store_mark
from perdure.engine.transfer.sealed_file import SealedWriter, alone_in, clear_left_over, read_sealed

# The list of backups in the ledger, through which an erasure reaches them.


@dataclass(frozen=True, slots=True)
class PendingErasure:
    """What is to be erased from a backup: memories, messages, and whole scopes."""

    memories: frozenset[str] = frozenset()
    episodes: frozenset[str] = frozenset()
    scopes: tuple[dict[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.memories or self.episodes or self.scopes)

    def __or__(self, other: PendingErasure) -> PendingErasure:
        scopes = [*self.scopes, *(scope for scope in other.scopes if scope not in self.scopes)]
        return PendingErasure(self.memories | other.memories, self.episodes | other.episodes, tuple(scopes))

    def model_dump(self) -> dict[str, Any]:
        """Return it as plain values: ids and names of scopes, no text."""
        return {"memories": sorted(self.memories), "episodes": sorted(self.episodes), "scopes": list(self.scopes)}

    @classmethod
    def read(cls, value: Any) -> PendingErasure:
        """Parse the output of `model_dump`; empty for anything else."""
        if not isinstance(value, dict):
            return cls()
        memories, episodes = (frozenset(value.get(name) or ()) for name in ("memories", "episodes"))
        return cls(memories, episodes, tuple(value.get("scopes") or ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupEntry:
    """One backup."""

    place: Path
    at: str
    host: str
    is_scheduled: bool = False
    owed: PendingErasure = field(default_factory=PendingErasure)  # what could not be erased from it yet
    is_own: bool = False  # whether it was written into the memory's own folder of backups
    recorded: Path | None = None  # where the ledger has it, if that folder has moved since

    @property
    def is_here(self) -> bool:
        """Whether it was made on this machine."""
        return self.host == platform.node()

    def model_dump(self) -> dict[str, Any]:
        """Return the entry for the ledger."""
        owed = {"owed": self.owed.model_dump()} if self.owed else {}
        own = {"own": True} if self.is_own else {}
        return {"at": self.at, "host": self.host, "scheduled": self.is_scheduled, **own, **owed}


PLACE = "backups"


def backup_folder(kernel: Kernel) -> Path:
    """Return the memory's own folder of backups."""
    return (kernel.config.upkeep.backup_folder or kernel.config.path / PLACE).expanduser().absolute()


def settings_name(kernel: Kernel, what: str) -> str:
    """Return the name of this store's own settings in a ledger that stores may share."""
    return f"{what}@{store_mark(kernel.identity, kernel.config.vector_store.collection_name)}"


async def made_backups(kernel: Kernel, ledger: Ledger) -> list[BackupEntry]:
    """Return the known backups of this memory, oldest first."""
    known = await ledger.settings.get(settings_name(kernel, "backups"))
    found = [
        BackupEntry(
            place=Path(place),
            at=str(told.get("at", "")),
            host=str(told.get("host", "")),
            is_scheduled=told.get("scheduled") is True,
            owed=PendingErasure.read(told.get("owed")),
            is_own=told.get("own") is True,
        )
        for place, told in known.items()
    ]
    folder = backup_folder(kernel)
    found = [_where_it_is(each, folder) for each in found]
    return sorted(found, key=lambda made: (made.at, str(made.place)))


def _where_it_is(made: BackupEntry, folder: Path) -> BackupEntry:
    """Return a backup in the memory's own folder as it lies there, if the folder is no longer where it was.

    Others stay: a file of the same name may be a copy of one that cannot be reached now and still has the text.
    """
    here = folder / made.place.name
    if not made.is_own or (made.is_here and made.place.exists()) or not here.is_file():
        return made
    return replace(made, place=here, host=platform.node(), recorded=made.place)


async def note_backups(
    kernel: Kernel, ledger: Ledger, made: Iterable[BackupEntry] = (), gone: Iterable[Path] = ()
) -> None:
    """Add or update these in the list, and remove those that are gone."""
    values: dict[str, Any] = {str(place): None for place in gone}
    for each in made:
        if each.recorded is not None:
            values[str(each.recorded)] = None
        values[str(each.place)] = each.model_dump()
    if values:
        await ledger.settings.merge(settings_name(kernel, "backups"), values)


_CHANGE_KEYS = ("before", "after", "keep", "old_value", "new_value", "sources", "hides")
"""Fields of a history record that are erased with its text."""


async def erase_from_backups(
    kernel: Kernel, memories: Collection[str], episodes: Collection[str], whole: Scope | None = None, *, dry_run: bool
) -> ErasedPlace | None:
    """Erase memories, messages, or a whole scope from every backup made on this machine; None if there is none.

    A file is rewritten beside the old one and replaces it whole. `count` is the number of lines that named erased data.
    An unreachable one (another machine, a missing folder, a failing disk) is `pending`: the ledger records what is
    owed, and the next erasure or backup on that machine finishes it. A file that was moved or deleted is reported,
    because a copy elsewhere keeps its text. Call it after the ledger has been erased.
    """
    ledger = kernel.ledger
    made = [] if ledger is None else await made_backups(kernel, ledger)
    if ledger is None or not made:
        return None
    asked = PendingErasure(frozenset(memories), frozenset(episodes), () if whole is None else (whole.given(),))
    count, changed, missing, notes = 0, [], [], []
    for each in made:
        owed = each.owed | asked
        if not owed:
            continue
        try:
            found = await asyncio.to_thread(_in_file, each, owed, dry_run)
        except FileNotFoundError:
            missing.append(each)
            notes.append(f"{each.place.name} is not where it was written: a copy of it elsewhere keeps the text")
            continue
        except (OSError, PerdureError) as error:
            changed.append(replace(each, owed=owed))
            notes.append(f"{each.place.name}: {_why(each, error)}")
            continue
        count += found
        if each.owed:
            changed.append(replace(each, owed=PendingErasure()))
    if not dry_run:
        await note_backups(kernel, ledger, changed, [each.recorded or each.place for each in missing])
    if not (count or notes):
        return ErasedPlace(PLACE, 0, "none")
    waits = any(each.owed for each in changed)
    return ErasedPlace(PLACE, count, "found" if dry_run else "pending" if waits else "erased", "; ".join(notes))


def _why(made: BackupEntry, error: Exception) -> str:
    if isinstance(error, PerdureError):
        return error.message
    place = "another machine" if not made.is_here else "its folder"
    reason = getattr(error, "strerror", None) or type(error).__name__
    return f"it lies on {place} and cannot be rewritten now ({reason})"


def _in_file(made: BackupEntry, owed: PendingErasure, dry_run: bool) -> int:
    """Return how many lines of a file name erased data; unless dry, rewrite it without them."""
    if not made.is_here or not made.place.parent.is_dir():
        raise OSError(0, "it cannot be reached from here")
    with alone_in(made.place.parent):
        if not dry_run:
            clear_left_over(made.place.parent)
        if not made.place.exists():
            raise FileNotFoundError(made.place)
        count = sum(1 for line in read_sealed(made.place) if _without(json.loads(line), owed) is not _SAME)
        if count and not dry_run:
            _rewrite(made.place, owed)
    return count


def _rewrite(place: Path, owed: PendingErasure) -> None:
    times = place.stat()
    writer = SealedWriter(place)
    try:
        for line in read_sealed(place):
            left = _without(json.loads(line), owed)
            if left is _SAME:
                writer(line)
            elif left is not None:
                writer(json.dumps(left, ensure_ascii=True, separators=(",", ":")) + "\n")
        writer.close()
        os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))
    finally:
        writer.drop()


_SAME: dict[str, Any] = {}  # marks a line without erased data


def _without(value: dict[str, Any], owed: PendingErasure) -> dict[str, Any] | None:
    """Return the rest of a line: itself (`_SAME`), a changed one, or None if all of it is erased."""
    record = value.get("record")
    if record == "memory":
        ids = {value.get("id"), value.get("version_of")}
        if ids & owed.memories or value.get("id") in owed.episodes or _inside(value, owed):
            return None
        return _sourceless(value, owed)
    if record == "episode":
        return None if value.get("id") in owed.episodes or _inside(value, owed) else _SAME
    if record == "history":
        return _event_without(value, owed)
    return _SAME


def _event_without(value: dict[str, Any], owed: PendingErasure) -> dict[str, Any] | None:
    if value.get("memory_id") in owed.memories or _inside(value, owed):
        if value.get("erased"):
            return _SAME
        bare = {key: each for key, each in value.items() if key not in _CHANGE_KEYS}
        return {**bare, "erased": True}
    left = _sourceless(value, owed)
    for name in ("before", "after", "keep"):
        row = value.get(name)
        if isinstance(row, dict) and (cut := _sourceless(row, owed)) is not _SAME:
            left = {**(value if left is _SAME else left), name: cut}
    return left


def _sourceless(value: dict[str, Any], owed: PendingErasure) -> dict[str, Any]:
    """Return a line without the erased messages in its sources."""
    cut = {
        name: [id for id in value[name] if id not in owed.episodes]
        for name in ("sources", "hides")
        if any(id in owed.episodes for id in value.get(name) or ())
    }
    return {**value, **cut} if cut else _SAME


def _inside(value: Mapping[str, Any], owed: PendingErasure) -> bool:
    if not owed.scopes:
        return False
    own = Scope(**{name: value[name] for name in SCOPE_FIELDS if value.get(name)})
    return any(Scope(**scope).holds(own) for scope in owed.scopes)
