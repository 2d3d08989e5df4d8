"""The journal: changes on their way into a store (DESIGN §3, "Nothing lost, nothing half done")."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, insert, or_, select, update

from perdure.backends.ledgers._caches import remember
from perdure.backends.ledgers._episodes import add_episodes, hide_episodes
from perdure.backends.ledgers._history import add_history, record_history
from perdure.backends.ledgers._numbers import take_numbers
from perdure.backends.ledgers._rows import change_from_json, chunks, journal_entry, journal_row
from perdure.backends.ledgers._tables import episodes as episodes_table
from perdure.backends.ledgers._tables import idempotency, journal
from perdure.backends.ledgers._writer import Writer
from perdure.backends.ledgers.base import JournalEntry, Remembered
from perdure.backends.ledgers.desk._jobs import add_jobs, drop_jobs, release_jobs
from perdure.domain.errors import InvalidInputError, LedgerError
from perdure.domain.event import Change, Episode
from perdure.domain.job import Job
from perdure.domain.scope import SCOPE_FIELDS, Scope

_BATCH = select(journal.c.sequence, journal.c.change).where(journal.c.batch_id == bindparam("batch"))
_BATCH = _BATCH.order_by(journal.c.sequence)
_MARK_APPLIED = (
    update(journal)
    .where(journal.c.batch_id == bindparam("batch"))
    .values(state="applied", owner=bindparam("by"), boot_id=bindparam("boot"))
)
_WRITTEN = select(journal.c.owner, *(journal.c[name] for name in SCOPE_FIELDS)).where(
    journal.c.store_identity == bindparam("store"), journal.c.state == "written"
)


def write(
    connection: Connection,
    writer: Writer,
    entries: Sequence[JournalEntry],
    episodes: Sequence[Episode],
    answer: Remembered | None,
    *,
    jobs: Sequence[Job],
    now: str,
) -> None:
    """Journal one batch with its episodes, its answer and the jobs that follow."""
    batch = _one_batch(entries)
    if entries:
        numbers = take_numbers(connection, "change", len(entries))
        rows = [
            journal_row(entry, number, writer.owner, writer.boot_id, now)
            for entry, number in zip(entries, numbers, strict=True)
        ]
        connection.execute(insert(journal), rows)
    add_episodes(connection, episodes, batch)
    if answer is not None:
        remember(connection, answer, batch, now)
    add_jobs(connection, jobs, batch, now=now)


def _one_batch(entries: Sequence[JournalEntry]) -> str | None:
    batches = {entry.batch_id for entry in entries}
    if len(batches) > 1:
        raise InvalidInputError(
            f"batch_id must be the same for all entries of one write, not {sorted(batches)}",
            field="batch_id",
            value=sorted(batches),
        )
    return next(iter(batches), None)


def applied(connection: Connection, writer: Writer, batch: str) -> None:
    """Turn a batch into history."""
    rows = connection.execute(_BATCH, {"batch": batch}).all()
    if not rows:
        raise LedgerError(f"the journal holds no batch {batch!r}: it was abandoned, or its history is complete")
    changes = [(change_from_json(row.change), row.sequence, row.change) for row in rows]
    add_history(connection, changes, batch)
    connection.execute(_MARK_APPLIED, {"batch": batch, "by": writer.owner, "boot": writer.boot_id})
    release_jobs(connection, batch)
    hide_named(connection, [change for change, _, _ in changes])


def hide_named(connection: Connection, changes: Sequence[Change]) -> None:
    """Hide the episodes that a DELETE names, and show those that another change names, in the order of the changes."""
    for change in changes:
        if change.hides:
            hide_episodes(connection, change.hides, change.event == "DELETE")


def abandon(connection: Connection, batch: str) -> None:
    """Forget a batch that never became history."""
    connection.execute(delete(journal).where(journal.c.batch_id == batch, journal.c.state == "written"))
    connection.execute(delete(episodes_table).where(episodes_table.c.batch_id == batch))
    connection.execute(delete(idempotency).where(idempotency.c.batch_id == batch))
    drop_jobs(connection, batch)


def pending(connection: Connection, writer: Writer, store: str) -> list[JournalEntry]:
    """Take over what the dead left, and return it with what this owner itself left."""
    # Without a boot id nobody can tell whether the power failed, so that applied entries count as left over too.
    lost = or_(journal.c.boot_id != writer.boot_id, journal.c.boot_id == "")
    wanted = and_(
        journal.c.store_identity == store,
        or_(journal.c.state == "written", and_(journal.c.state == "applied", lost)),
    )
    owners: Sequence[str] = connection.execute(select(journal.c.owner).where(wanted).distinct()).scalars().all()
    mine = [owner for owner in owners if owner == writer.owner or not writer.alive(owner, connection)]
    if not mine:
        return []
    left: ColumnElement[bool] = and_(wanted, journal.c.owner.in_(mine))
    first = connection.execute(select(func.min(journal.c.sequence)).where(left, journal.c.state == "applied")).scalar()
    if first is not None:
        # What is applied again must not undo what was applied since, by owners who live, on this machine or another.
        later = and_(journal.c.store_identity == store, journal.c.state == "applied", journal.c.sequence > first)
        left = or_(left, later)
    rows = connection.execute(select(journal).where(left).order_by(journal.c.sequence)).mappings().all()
    connection.execute(update(journal).where(left).values(owner=writer.owner))
    return [journal_entry({**row, "owner": writer.owner}) for row in rows]


def stranded(connection: Connection, writer: Writer, store: str, scope: Scope) -> bool:
    """Whether somebody left entries of this store unapplied; cheap, because hardly any are unapplied at a time."""
    verdicts: dict[str, bool] = {}
    for row in connection.execute(_WRITTEN, {"store": store}).mappings():
        owner = row["owner"]
        if owner == writer.owner:
            # Its calls in flight hold locks of their own: what overlaps the scope now locked is nobody's any more.
            if scope.overlaps(Scope(**{name: row[name] for name in SCOPE_FIELDS})):
                return True
        elif verdicts.setdefault(owner, writer.alive(owner, connection)) is False:
            return True
    return False


def unsynced(connection: Connection, store: str) -> list[str]:
    """Batches that are applied, in the order of their writing."""
    query = (
        select(journal.c.batch_id)
        .where(journal.c.store_identity == store, journal.c.state == "applied")
        .group_by(journal.c.batch_id)
        .order_by(func.min(journal.c.sequence))
    )
    return list(connection.execute(query).scalars())


def synced(connection: Connection, store: str, batches: Sequence[str]) -> None:
    """Drop applied entries of the batches."""
    for some in chunks(batches):
        connection.execute(
            delete(journal).where(
                journal.c.store_identity == store, journal.c.state == "applied", journal.c.batch_id.in_(some)
            )
        )


def record(
    connection: Connection,
    changes: Sequence[Change],
    episodes: Sequence[Episode],
    answer: Remembered | None,
    *,
    jobs: Sequence[Job],
    now: str,
) -> None:
    """Make history of changes at once, for a store that needs no journal."""
    record_history(connection, changes)
    add_episodes(connection, episodes)
    if answer is not None:
        remember(connection, answer, None, now)
    hide_named(connection, changes)
    add_jobs(connection, jobs, None, now=now)
