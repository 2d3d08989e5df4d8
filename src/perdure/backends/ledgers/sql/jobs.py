"""Jobs: added with the changes that they follow, taken by one living owner at a time, done, or retried later."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from perdure.backends.ledgers.repositories.base import Jobs
from perdure.backends.ledgers.sql.tables import (
    Row,
    change_with,
    check_limit,
    columns_of,
    count_rows,
    decode,
    encode,
    fields_of,
    in_scope,
    insert_new,
    jobs,
    journal,
    moment_of,
    scope_of_row,
    take_numbers,
)
from perdure.backends.ledgers.sql.units import ConnectionLostError, Runner, Transaction, reads, runs, writes
from perdure.domain.job import Job, QueueStatus
from perdure.domain.scope import SCOPE_FIELDS, Scope

_RELEASE = sa.update(jobs).where(jobs.c.batch_id == sa.bindparam("batch")).values(batch_id=None)
"""Kept, because every batch that is applied needs it."""
_OWNERS = (
    sa.select(jobs.c.owner)
    .where(jobs.c.state == "processing", jobs.c.kind.in_(sa.bindparam("kinds", expanding=True)))
    .distinct()
)


@writes(Jobs.add, within=lambda jobs: [job.scope for job in jobs])
def add(tx: Transaction, jobs: Sequence[Job]) -> None:
    add_jobs(tx, jobs)


def add_jobs(tx: Transaction, new: Sequence[Job], batch: str | None = None) -> None:
    """Insert jobs with unknown ids; those of a batch wait until it is applied."""
    if not new:
        return
    numbers = take_numbers(tx.connection, "desk", len(new))
    rows = [_row(job, number, batch, tx.now) for job, number in zip(new, numbers, strict=True)]
    tx.connection.execute(insert_new(tx.connection, jobs), rows)


def _row(job: Job, number: int, batch: str | None, now: str) -> dict[str, Any]:
    return {
        **fields_of(job, ("id", "kind", "memory_id")),
        "seq": number,
        **fields_of(job.scope, SCOPE_FIELDS),
        "payload": encode(job.payload, "payload"),
        "state": "pending",
        "attempts": 0,
        "not_before": moment_of(job.not_before, "not_before") if job.not_before else now,
        "created_at": now,
        "error": None,
        "owner": None,
        "batch_id": batch,
    }


def release_jobs(connection: sa.Connection, batch: str) -> None:
    """Let the jobs of an applied batch be taken."""
    connection.execute(_RELEASE, {"batch": batch})


@runs(Jobs.take)
async def take(runner: Runner, kinds: Sequence[str], limit: int, scope: Scope | None = None) -> list[Job]:
    now = runner.now()
    if not await runner.run_read(lambda tx: _is_due(tx, kinds, limit, scope)):
        return []
    taken: list[Job] = []

    def unit(tx: Transaction) -> list[Job]:
        taken[:] = _take(tx, kinds, limit, scope)
        return taken

    try:
        return await runner.run_write(unit, durable=False)
    except (asyncio.CancelledError, ConnectionLostError):
        # Taken after all, they would wait for this owner's end: nobody was told of them.
        ids = [job.id for job in taken]
        await runner.run_write(lambda tx: give_back(tx, ids, not_before=now), durable=False)
        raise


def _is_due(tx: Transaction, kinds: Sequence[str], limit: int, scope: Scope | None) -> bool:
    """Whether `Jobs.take` would find something; only reads, so that an empty queue delays no writer."""
    check_limit(limit)
    fields = {} if scope is None else scope.given()
    asked = {**fields, "kinds": kinds, "dead": _dead(tx, kinds), "now": tx.now}
    return tx.connection.execute(_due(tuple(fields)), asked).first() is not None


def _take(tx: Transaction, kinds: Sequence[str], limit: int, scope: Scope | None) -> list[Job]:
    """Take due jobs after those of dead owners were returned; the database has one writer at a time."""
    for owner in _dead(tx, kinds):
        tx.connection.execute(sa.update(jobs).where(_held_by(owner)).values(state="pending", owner=None))
    other = jobs.alias()
    first = sa.or_(
        other.c.state == "processing",
        sa.and_(*_asked(other, kinds, scope), *_waiting(other, tx.now), other.c.seq < jobs.c.seq),
    )
    in_the_way = sa.select(other.c.seq).where(
        other.c.memory_id == jobs.c.memory_id, other.c.kind == jobs.c.kind, other.c.seq != jobs.c.seq, first
    )
    query = sa.select(jobs).where(*_asked(jobs, kinds, scope), *_waiting(jobs, tx.now), ~in_the_way.exists())
    rows = tx.connection.execute(query.order_by(jobs.c.seq).limit(limit)).mappings().all()
    mine = sa.update(jobs).values(state="processing", owner=tx.writer.owner)
    change_with(tx.connection, mine, jobs.c.id, [row["id"] for row in rows])
    return [_job({**row, "state": "processing"}) for row in rows]


def _dead(tx: Transaction, kinds: Sequence[str]) -> list[str]:
    owners = tx.connection.execute(_OWNERS, {"kinds": kinds}).scalars().all()
    return [owner for owner in owners if owner != tx.writer.owner and not tx.writer.alive(owner, tx.connection)]


def _held_by(owner: str) -> sa.ColumnElement[bool]:
    return sa.and_(jobs.c.state == "processing", jobs.c.owner == owner)


def _asked(table: sa.FromClause, kinds: Sequence[str], scope: Scope | None) -> list[sa.ColumnElement[bool]]:
    """Select jobs of these kinds and this scope whose changes are applied."""
    return [table.c.kind.in_(kinds), table.c.batch_id.is_(None), *in_scope(table, scope)]


def _waiting(table: sa.FromClause, now: str) -> list[sa.ColumnElement[bool]]:
    return [table.c.state == "pending", table.c.not_before <= now]


@cache
def _due(fields: tuple[str, ...]) -> sa.Select[tuple[int]]:
    """Select due jobs for these scope fields; cached, because building the query takes longer than running it."""
    kinds: sa.BindParameter[Any] = sa.bindparam("kinds", expanding=True)
    dead: sa.BindParameter[Any] = sa.bindparam("dead", expanding=True)
    inside = [jobs.c[name] == sa.bindparam(name) for name in fields]
    asked = (jobs.c.kind.in_(kinds), jobs.c.batch_id.is_(None), *inside, jobs.c.not_before <= sa.bindparam("now"))
    return sa.select(jobs.c.seq).where(*asked, _free(dead)).limit(1)


def _free(dead: Sequence[str] | sa.BindParameter[Any]) -> sa.ColumnElement[bool]:
    """Select jobs that no living owner has, and that wait for no other job of their memory and kind."""
    other = jobs.alias()
    busy = sa.select(other.c.seq).where(
        other.c.memory_id == jobs.c.memory_id,
        other.c.kind == jobs.c.kind,
        other.c.state == "processing",
        other.c.owner.not_in(dead),
    )
    return sa.or_(
        sa.and_(jobs.c.state == "pending", ~busy.exists()),
        sa.and_(jobs.c.state == "processing", jobs.c.owner.in_(dead)),
    )


def _job(row: Row) -> Job:
    plain = ("id", "kind", "memory_id", "state", "attempts", "not_before", "created_at", "error")
    return Job(**columns_of(row, plain), scope=scope_of_row(row), payload=decode(row["payload"]))


@writes(Jobs.done, durable=False)
def done(tx: Transaction, ids: Sequence[str]) -> None:
    """Remove this owner's jobs; those taken over by another owner stay."""
    change_with(tx.connection, sa.delete(jobs).where(_held_by(tx.writer.owner)), jobs.c.id, ids)


@writes(Jobs.failed, durable=False)
def failed(tx: Transaction, id: str, error: str, *, not_before: str, park: bool) -> None:
    values = {
        "state": "failed" if park else "pending",
        "owner": None,
        "attempts": jobs.c.attempts + 1,
        "not_before": moment_of(not_before, "not_before"),
        "error": " ".join(error.split()),
    }
    tx.connection.execute(sa.update(jobs).where(jobs.c.id == id, _held_by(tx.writer.owner)).values(values))


@writes(Jobs.give_back, durable=False)
def give_back(tx: Transaction, ids: Sequence[str], *, not_before: str) -> None:
    values = {"state": "pending", "owner": None, "not_before": moment_of(not_before, "not_before")}
    change_with(tx.connection, sa.update(jobs).where(_held_by(tx.writer.owner)).values(values), jobs.c.id, ids)


@writes(Jobs.revive)
def revive(tx: Transaction, kinds: Sequence[str]) -> int:
    put_off = sa.or_(jobs.c.state == "failed", sa.and_(jobs.c.state == "pending", jobs.c.not_before > tx.now))
    values = {"state": "pending", "attempts": 0, "not_before": tx.now, "error": None}
    return tx.connection.execute(sa.update(jobs).where(*_asked(jobs, kinds, None), put_off).values(values)).rowcount


@writes(Jobs.remove)
def remove(tx: Transaction, memory_ids: Sequence[str]) -> int:
    return change_with(tx.connection, sa.delete(jobs), jobs.c.memory_id, memory_ids)


def release_orphans(connection: sa.Connection) -> None:
    """Let jobs be taken whose batch is gone from the journal, because its memories were erased."""
    connection.execute(sa.update(jobs).where(_is_orphan()).values(batch_id=None))


def _is_orphan() -> sa.ColumnElement[bool]:
    return sa.and_(jobs.c.batch_id.is_not(None), jobs.c.batch_id.not_in(sa.select(journal.c.batch_id)))


@reads(Jobs.status)
def status(tx: Transaction, kinds: Sequence[str], scope: Scope | None = None) -> QueueStatus:
    dead = _dead(tx, kinds)
    state = sa.case((sa.and_(jobs.c.state == "processing", jobs.c.owner.in_(dead)), "pending"), else_=jobs.c.state)
    query = sa.select(jobs.c.kind, state.label("stands"), sa.func.count(), sa.func.min(jobs.c.created_at).label("at"))
    rows = tx.connection.execute(query.where(*_asked(jobs, kinds, scope)).group_by(jobs.c.kind, "stands")).all()
    totals = {"pending": 0, "processing": 0, "failed": 0}
    by_kind = dict.fromkeys(kinds, 0)
    for kind, name, count, _ in rows:
        totals[name] += count
        by_kind[kind] += count
    oldest = min((row.at for row in rows if row.stands == "pending"), default=None)
    return QueueStatus(**totals, oldest_pending_at=oldest, by_kind=by_kind)


@reads(Jobs.next_due)
def next_due(tx: Transaction, kinds: Sequence[str]) -> str | None:
    dead = _dead(tx, kinds)
    query = sa.select(sa.func.min(jobs.c.not_before)).where(*_asked(jobs, kinds, None), _free(dead))
    found: str | None = tx.connection.execute(query).scalar()
    return found


def check(connection: sa.Connection) -> list[str]:
    """Return sentences about jobs that nobody could ever take."""
    wrong = {
        "wait for a batch that the journal does not hold": _is_orphan(),
        "are being done by nobody": sa.and_(jobs.c.state == "processing", jobs.c.owner.is_(None)),
        "are of an unknown state": jobs.c.state.not_in(("pending", "processing", "failed")),
    }
    counts = {what: count_rows(connection, jobs, condition) for what, condition in wrong.items()}
    return [f"{count} jobs {what}" for what, count in counts.items() if count]
