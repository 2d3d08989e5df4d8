"""Restore: a backup becomes a memory again, the same to every read (V80)."""

from __future__ import annotations

from pathlib import Path

from perdure.domain.errors import ConfigError, ConflictError, InvalidInputError
from perdure.domain.scope import Scope
from perdure.engine.engine import Engine
from perdure.engine.transfer import archive
from perdure.engine.transfer.backup_erasure import settings_name
from perdure.engine.transfer.report import ImportReport
from perdure.engine.transfer.sealed_file import check_sealed, read_sealed
from perdure.engine.transfer.transfer import import_archive

_UNDER_WAY = "restoring"


async def restore(engine: Engine, file: Path, *, into_existing: bool = False, reembed: bool = False) -> ImportReport:
    """Bring back what a backup holds: ids, times, history, versions, messages and vectors.

    The file is read to its end before anything is written: InvalidInputError where it is cut off, damaged or foreign.
    A memory that holds something already is a ConflictError, unless `into_existing` lays the backup over it as an
    import does: what was changed, deleted or forgotten here since stays so. ConfigError where the backup's vectors are
    of another embedder, unless `reembed` makes them anew. What was killed half way is finished by the same call again.
    """

    def look(number: int, line: str) -> None:
        try:
            archive.read_line(line, Scope())
        except InvalidInputError as error:
            raise InvalidInputError(
                f"line {number} of {file.name}: {error.message}; nothing was restored", field="file", value=str(file)
            ) from error

    header, checksum = check_sealed(file, look)
    kernel = engine.kernel
    await kernel.ready()
    ledger = await kernel.required_ledger()
    label = kernel.embedding.embedder.label
    if header.get("embedder") != label and not reembed:
        raise ConfigError(
            f"the backup's vectors are of the embedder {header.get('embedder')!r}, and this memory has {label!r}: a"
            f" search would not find the same; configure that embedder, or make the vectors anew (--reembed)",
            field="embedder",
            value=label,
        )
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
