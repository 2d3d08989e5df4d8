"""Erase forgotten memories from backups: rewrite the files made on this machine without them."""

from __future__ import annotations

import asyncio
import json
import os
import platform
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

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
    ledger: Path | None = None  # the ledger that listed it first; None of an older entry, and if there is no such file
    recorded: Path | None = None  # where the ledger has it, if that folder has moved since
    is_others: bool = False  # whether it is of the memory that this one was copied from, which still stands

    @property
    def is_here(self) -> bool:
        """Whether it was made on this machine."""
        return self.host == platform.node()

    def model_dump(self) -> dict[str, Any]:
        """Return the entry for the ledger."""
        owed = {"owed": self.owed.model_dump()} if self.owed else {}
        own = {"own": True} if self.is_own else {}
        ledger = {} if self.ledger is None else {"ledger": str(self.ledger)}
        return {"at": self.at, "host": self.host, "scheduled": self.is_scheduled, **own, **ledger, **owed}


PLACE = "backups"


def backup_folder(kernel: Kernel) -> Path:
    """Return the memory's own folder of backups."""
    return (kernel.config.upkeep.backup_folder or kernel.config.path / PLACE).expanduser().absolute()


def settings_name(kernel: Kernel, what: str) -> str:
    """Return the name of this store's own settings in a ledger that stores may share."""
    return f"{what}@{store_mark(kernel.identity, kernel.config.vector_store.collection_name)}"


def ledger_file(kernel: Kernel) -> Path | None:
    """Return the file of the memory's ledger, which a copy of its folder has too; None for a ledger on a server."""
    config = kernel.config
    return config.ledger_path.absolute() if config.history.provider == "sqlite" else None


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
            ledger=Path(str(told["ledger"])) if told.get("ledger") else None,
        )
        for place, told in known.items()
    ]
    folder, own_ledger = backup_folder(kernel), ledger_file(kernel)
    is_copied = cache(lambda path: ledger.holds_settings(path, settings_name(kernel, "backups")))
    found = [lying for each in found for lying in _where_it_lies(each, folder, own_ledger, is_copied)]
    return sorted(found, key=lambda made: (made.at, str(made.place)))


def _where_it_lies(
    made: BackupEntry, folder: Path, ledger: Path | None, is_copied: Callable[[Path], bool]
) -> list[BackupEntry]:
    """Return a backup as it lies now, and as it lies in the memory's own folder if that was moved or copied.

    A copy of a memory has the original's list, which names the original's files: while that stands, they are its own.
    Files outside of the own folder stay where they were written: one of the same name here may be a copy of one that
    cannot be reached now and still has the text.
    """
    here = folder / made.place.name
    told_by_place = made.ledger is None and made.place.parent.name == PLACE  # an entry of before `own` and `ledger`
    if ledger is not None and made.is_here and not _is_same(made.place.parent, folder):
        first = made.place.parent.parent / ledger.name if told_by_place else made.ledger
        made = replace(made, is_others=first is not None and not _is_same(first, ledger) and is_copied(first))
    if not (made.is_own or told_by_place) or _is_same(made.place, here) or not here.is_file():
        return [made]
    own = replace(made, place=here, host=platform.node(), is_own=True, ledger=ledger, is_others=False)
    if made.is_here and not made.is_others and made.place.exists():
        return [made, own]  # another folder is set for backups since
    return [replace(own, recorded=made.place)]


def _is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


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
        wanted = asked if each.is_others else owed
        if not wanted:
            continue
        try:
            found = await asyncio.to_thread(_in_file, each, wanted, dry_run or each.is_others)
        except FileNotFoundError:
            missing.append(each)
            if not each.is_others:
                notes.append(f"{each.place.name} is not where it was written: a copy of it elsewhere keeps the text")
            continue
        except (OSError, PerdureError) as error:
            changed.append(replace(each, owed=owed))
            if not each.is_others:
                notes.append(f"{each.place.name}: {_why(each, error)}")
            continue
        if each.is_others:
            if found:
                changed.append(replace(each, owed=owed))
                notes.append(f"{each.place} keeps the text: it is of the memory that this one was copied from")
            continue
        count += found
        if each.owed:
            changed.append(replace(each, owed=PendingErasure()))
    if not dry_run:
        await note_backups(kernel, ledger, changed, [each.recorded or each.place for each in missing])
    if not (count or notes):
        return ErasedPlace(PLACE, 0, "none")
    waits = any(each.owed and not each.is_others for each in changed)
    if dry_run:
        return ErasedPlace(PLACE, count, "found", "; ".join(notes))
    status: Literal["pending", "erased", "kept"] = "pending" if waits else "erased" if count or missing else "kept"
    return ErasedPlace(PLACE, count, status, "; ".join(notes))


async def waiting_erasures(kernel: Kernel, ledger: Ledger) -> list[tuple[Path, bool, str]]:
    """Return the backups that still hold what was forgotten: the file, whether it can be reached, what to do."""
    found = []
    for each in await made_backups(kernel, ledger):
        if each.is_others or not each.owed:
            continue
        reached = each.is_here and each.place.parent.is_dir()
        do = "perdure doctor --repair erases it there"
        if not each.is_here:
            do = f"it lies on the machine {each.host}: run perdure doctor --repair there, or delete the file"
        elif not reached:
            do = "its folder is not here now: bring it back, and run perdure doctor --repair"
        found.append((each.place, reached, do))
    return found


def _why(made: BackupEntry, error: Exception) -> str:
    if isinstance(error, PerdureError):
        return error.message
    reason = getattr(error, "strerror", None) or "the system says no more"
    where = "" if made.is_here else "it lies on another machine and "
    return f"{where}cannot be rewritten now ({reason})"


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
