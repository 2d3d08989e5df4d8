"""The journal of changes on their way into a store, and the locks for writers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, and_, bindparam, delete, func, insert, or_, select, update

from perdure.backends.ledgers.base import JournalEntry, Ledger, Remembered
from perdure.backends.ledgers.sql.episodes import add_episodes, hide_episodes, keep_answer
from perdure.backends.ledgers.sql.history import add_history, record_history
from perdure.backends.ledgers.sql.jobs import add_jobs, release_jobs
from perdure.backends.ledgers.sql.tables import (
    change_from_json,
    change_with,
    idempotency,
    journal,
    journal_entry,
    journal_row,
    take_numbers,
)
from perdure.backends.ledgers.sql.tables import episodes as episodes_
from perdure.backends.ledgers.sql.tables import jobs as jobs_
from perdure.backends.ledgers.sql.units import Transaction, writes
from perdure.domain.errors import InvalidInputError, LedgerError
from perdure.domain.event import Change, Episode
from perdure.domain.job import Job
from perdure.domain.scope import Scope

_BATCH = select(journal.c.sequence, journal.c.change).where(journal.c.batch_id == bindparam("batch"))
_BATCH = _BATCH.order_by(journal.c.sequence)
_MARK_APPLIED = (
    update(journal)
    .where(journal.c.batch_id == bindparam("batch"))
    .values(state="applied", owner=bindparam("by"), boot_id=bindparam("boot"))
)

_DROP_APPLIED = delete(journal).where(journal.c.state == "applied")


def _scopes(
    changes: Iterable[Change], episodes: Iterable[Episode], remember: Remembered | None, jobs: Iterable[Job]
) -> list[Scope]:
    """Return the scopes of a write, one of which its lock covers."""
    return [
        *(change.item.scope for change in changes),
        *(Scope(**episode.scope) for episode in episodes),
        *([] if remember is None else [remember.scope]),
        *(job.scope for job in jobs),
    ]


def _scopes_written(
    entries: Sequence[JournalEntry],
    episodes: Sequence[Episode] = (),
    remember: Remembered | None = None,
    jobs: Sequence[Job] = (),
) -> list[Scope]:
    return _scopes([entry.change for entry in entries], episodes, remember, jobs)


def _scopes_recorded(
    changes: Sequence[Change],
    episodes: Sequence[Episode] = (),
    remember: Remembered | None = None,
    jobs: Sequence[Job] = (),
) -> list[Scope]:
    return _scopes(changes, episodes, remember, jobs)


@writes(Ledger.write, within=_scopes_written)
def write(
    tx: Transaction,
    entries: Sequence[JournalEntry],
    episodes: Sequence[Episode] = (),
    remember: Remembered | None = None,
    jobs: Sequence[Job] = (),
) -> None:
    batch = _one_batch(entries)
    if entries:
        numbers = take_numbers(tx.connection, "change", len(entries))
        rows = [
            journal_row(entry, number, tx.writer.owner, tx.writer.boot_id, tx.now)
            for entry, number in zip(entries, numbers, strict=True)
        ]
        tx.connection.execute(insert(journal), rows)
    add_episodes(tx.connection, episodes, batch)
    if remember is not None:
        keep_answer(tx.connection, remember, batch, tx.now)
    add_jobs(tx, jobs, batch)


def _one_batch(entries: Sequence[JournalEntry]) -> str | None:
    batches = {entry.batch_id for entry in entries}
    if len(batches) > 1:
        raise InvalidInputError(
            f"batch_id must be the same for all entries of one write, not {sorted(batches)}",
            field="batch_id",
            value=sorted(batches),
        )
    return next(iter(batches), None)


@writes(Ledger.applied, durable=False)
def applied(tx: Transaction, batch_id: str, synced: Sequence[str] | None = None) -> None:
    rows = tx.connection.execute(_BATCH, {"batch": batch_id}).all()
    if not rows:
        raise LedgerError(f"the journal holds no batch {batch_id!r}: it was abandoned, or its history is complete")
    changes = [(change_from_json(row.change), row.sequence, row.change) for row in rows]
    add_history(tx.connection, changes, batch_id)
    if synced is None:
        tx.connection.execute(_MARK_APPLIED, {"batch": batch_id, "by": tx.writer.owner, "boot": tx.writer.boot_id})
    else:
        change_with(tx.connection, delete(journal), journal.c.batch_id, [batch_id])
        change_with(tx.connection, _DROP_APPLIED, journal.c.batch_id, synced)
    release_jobs(tx.connection, batch_id)
    hide_named(tx, [change for change, _, _ in changes])


def hide_named(tx: Transaction, changes: Sequence[Change]) -> None:
    """Hide the episodes that a DELETE names, and show those that another change names, in order."""
    for change in changes:
        if change.hides:
            hide_episodes(tx, change.hides, change.event == "DELETE")


@writes(Ledger.abandon, within=None)
def abandon(tx: Transaction, batch_id: str) -> None:
    tx.connection.execute(delete(journal).where(journal.c.batch_id == batch_id, journal.c.state == "written"))
    tx.connection.execute(delete(episodes_).where(episodes_.c.batch_id == batch_id))
    tx.connection.execute(delete(idempotency).where(idempotency.c.batch_id == batch_id))
    tx.connection.execute(delete(jobs_).where(jobs_.c.batch_id == batch_id))


@writes(Ledger.pending, within=None)
def pending(tx: Transaction, store_identity: str) -> list[JournalEntry]:
    # Without a boot id nobody can tell whether the power failed, so that applied entries count as left over too.
    lost = or_(journal.c.boot_id != tx.writer.boot_id, journal.c.boot_id == "")
    wanted = and_(
        journal.c.store_identity == store_identity,
        or_(journal.c.state == "written", and_(journal.c.state == "applied", lost)),
    )
    owners: Sequence[str] = tx.connection.execute(select(journal.c.owner).where(wanted).distinct()).scalars().all()
    mine = [owner for owner in owners if owner == tx.writer.owner or not tx.writer.alive(owner, tx.connection)]
    if not mine:
        return []
    left: ColumnElement[bool] = and_(wanted, journal.c.owner.in_(mine))
    first = tx.connection.execute(
        select(func.min(journal.c.sequence)).where(left, journal.c.state == "applied")
    ).scalar()
    if first is not None:
        # What is applied again must not undo what was applied since, by owners who live, on this machine or another.
        later = and_(
            journal.c.store_identity == store_identity, journal.c.state == "applied", journal.c.sequence > first
        )
        left = or_(left, later)
    rows = tx.connection.execute(select(journal).where(left).order_by(journal.c.sequence)).mappings().all()
    tx.connection.execute(update(journal).where(left).values(owner=tx.writer.owner))
    return [journal_entry({**row, "owner": tx.writer.owner}) for row in rows]


@writes(Ledger.synced, durable=False)
def synced(tx: Transaction, store_identity: str, batch_ids: Sequence[str]) -> None:
    dropped = _DROP_APPLIED.where(journal.c.store_identity == store_identity)
    change_with(tx.connection, dropped, journal.c.batch_id, batch_ids)


@writes(Ledger.record, within=_scopes_recorded)
def record(
    tx: Transaction,
    changes: Sequence[Change],
    episodes: Sequence[Episode] = (),
    remember: Remembered | None = None,
    jobs: Sequence[Job] = (),
) -> None:
    record_history(tx.connection, changes)
    add_episodes(tx.connection, episodes)
    if remember is not None:
        keep_answer(tx.connection, remember, None, tx.now)
    hide_named(tx, changes)
    add_jobs(tx, jobs)
