"""Back up a whole memory, with its vectors, into one file, and restore it."""

from __future__ import annotations

import asyncio
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.domain.clock import iso
from perdure.domain.errors import ConfigError, ConflictError, InvalidInputError, PerdureError
from perdure.domain.memory import Answer
from perdure.domain.scope import Scope
from perdure.engine.engine import Engine
from perdure.engine.transfer import archive
from perdure.engine.transfer.backup_erasure import (
    BackupEntry,
    backup_folder,
    erase_from_backups,
    ledger_file,
    made_backups,
    note_backups,
    settings_name,
)
from perdure.engine.transfer.report import ExportReport, ImportReport
from perdure.engine.transfer.sealed_file import (
    SUFFIX,
    SealedWriter,
    begins_sealed,
    check_sealed,
    clear_left_over,
    read_sealed,
)
from perdure.engine.transfer.transfer import export_archive, import_archive


@dataclass(frozen=True, slots=True)
class BackupReport(Answer):
    """The place and contents of a backup."""

    file: str
    at: str
    sha256: str
    bytes: int
    held: ExportReport
    removed: tuple[str, ...] = ()  # older scheduled backups that were deleted
    owed: str = ""  # what could not be erased yet from other backups, and why

    def model_dump(self) -> dict[str, Any]:
        """The report as plain values."""
        told = {"file": self.file, "at": self.at, "sha256": self.sha256, "bytes": self.bytes}
        owed = {"owed": self.owed} if self.owed else {}
        return {**told, **self.held.model_dump(), "removed": list(self.removed), **owed}


async def backup(engine: Engine, place: Path | None = None, *, scheduled: bool = False) -> BackupReport:
    """Write the whole memory into a file: memories, versions, history, messages and vectors, at one time.

    Writers wait meanwhile. `place` is a file, or a folder for a file named by the time. The file is complete or absent,
    and only its owner can read it. The ledger records it, so that `forget` reaches it. InvalidInputError if a file
    other than a backup exists there, which stays; PerdureError if it cannot be written, LedgerError without a ledger to
    record it.
    """
    kernel = engine.kernel
    await kernel.ready()
    ledger = await kernel.required_ledger()
    if engine.access_counts.waiting:
        await engine.access_counts.write()
    at = iso(kernel.clock.now())
    file = _file_of(engine, place, at)
    checksum = ""
    if file.exists() and not begins_sealed(file):
        raise InvalidInputError(
            f"{file.name} is there already and is no backup: name another file, or a folder",
            field="place",
            value=str(file),
        )
    try:
        clear_left_over(file.parent)
        writer = SealedWriter(file)
    except OSError as error:
        raise _unwritable(file, error) from error

    async def seal() -> None:
        # Before any writer continues: later erasures must search this file, too.
        nonlocal checksum
        own = file.parent == backup_folder(kernel)
        made = BackupEntry(
            place=file,
            at=at,
            host=platform.node(),
            is_scheduled=scheduled,
            is_own=own,
            ledger=ledger_file(kernel),
        )
        await note_backups(kernel, ledger, [made])
        checksum = await asyncio.to_thread(writer.close)

    try:
        held = await export_archive(engine, Scope(), writer, with_vectors=True, ended=seal)
    except OSError as error:
        raise _unwritable(file, error) from error
    finally:
        writer.drop()
    size = file.stat().st_size
    removed = await _let_go_of_old(engine, at) if scheduled else ()
    waiting = await erase_from_backups(kernel, (), (), dry_run=False)
    return BackupReport(str(file), at, checksum, size, held, removed, waiting.note if waiting is not None else "")


def _file_of(engine: Engine, place: Path | None, at: str) -> Path:
    chosen = backup_folder(engine.kernel) if place is None else place.expanduser()
    if place is None or chosen.is_dir():
        moment = at.replace("-", "").replace(":", "").replace(".", "").replace("+0000", "Z")
        chosen = chosen / f"perdure-{moment}{SUFFIX}"
    return chosen.absolute()


def _unwritable(file: Path, error: OSError) -> PerdureError:
    return PerdureError(f"the backup {file.name} cannot be written: {error.strerror or type(error).__name__}")


async def _let_go_of_old(engine: Engine, newest: str) -> tuple[str, ...]:
    """Delete old scheduled backups beyond the number to keep; those of a wrong clock, dated later, first."""
    kernel = engine.kernel
    ledger = await kernel.required_ledger()
    known = sorted(await made_backups(kernel, ledger), key=lambda made: made.at <= newest)
    mine = [made for made in known if made.is_scheduled and made.is_here and not made.is_others]
    old = mine[: -kernel.config.upkeep.backups_kept]
    for made in old:
        with suppress(FileNotFoundError):
            made.place.unlink()
    await note_backups(kernel, ledger, gone=[made.recorded or made.place for made in old])
    return tuple(str(made.place) for made in old)


_UNDER_WAY = "restoring"


async def restore(engine: Engine, file: Path, *, into_existing: bool = False, reembed: bool = False) -> ImportReport:
    """Restore a backup: ids, times, history, versions, messages and vectors.

    The file is read to its end before anything is written: InvalidInputError if it is truncated, damaged or foreign. A
    memory that is not empty is a ConflictError, unless `into_existing` merges the backup as an import does: later
    changes, deletions and erasures stay. ConfigError if the backup's vectors are of another embedder, unless `reembed`
    computes them again. The same call finishes an interrupted restore.
    """

    def look(number: int, line: str) -> None:
        try:
            archive.read_line(line, Scope())
        except InvalidInputError as error:
            raise InvalidInputError(f"line {number} of {file.name}: {error.message}") from error

    try:
        header, checksum = check_sealed(file, look)
    except InvalidInputError as error:
        raise InvalidInputError(f"{error.message}; nothing was restored", field="file", value=str(file)) from error
    kernel = engine.kernel
    label = kernel.embedding.embedder.label
    if header.get("embedder") != label and not reembed:
        raise ConfigError(
            f"the backup's vectors are of the embedder {header.get('embedder')!r}, and this memory has {label!r}: a"
            f" search would not find the same; configure that embedder, or make the vectors anew (--reembed)",
            field="embedder",
            value=label,
        )
    await kernel.ready()
    ledger = await kernel.required_ledger()
    name = settings_name(kernel, _UNDER_WAY)
    begun = (await ledger.settings.get(name)).get("sha256") == checksum
    if not begun and not into_existing:
        rows, past = await kernel.store.count(kernel.collection), (await ledger.stats())["history"]
        if rows or past:
            raise ConflictError(
                f"this memory is not empty ({rows} rows, {past} events): restore into an empty folder, or lay the"
                f" backup over it (--into-existing)"
            )
    await ledger.settings.merge(name, {"sha256": checksum})
    report = await import_archive(engine, read_sealed(file))
    await ledger.settings.merge(name, {"sha256": None})
    return report
