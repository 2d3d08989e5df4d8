"""Jobs: put in beside the changes that they follow, taken by one living owner at a time, done, or tried again later."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    FromClause,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    or_,
    select,
    update,
)

from perdure.backends.ledgers.sql.context import Transaction
from perdure.backends.ledgers.sql.rows import (
    Row,
    check_limit,
    chunks,
    decode,
    encode,
    moment_of,
    scope_columns,
    scope_of_row,
)
from perdure.backends.ledgers.sql.tables import insert_new, jobs, journal, take_numbers
from perdure.domain.job import Job, QueueStatus
from perdure.domain.scope import Scope

_RELEASE = update(jobs).where(jobs.c.batch_id == bindparam("batch")).values(batch_id=None)
"""Kept, because every batch that is applied needs it."""
_OWNERS = (
    select(jobs.c.owner)
    .where(jobs.c.state == "processing", jobs.c.kind.in_(bindparam("kinds", expanding=True)))
    .distinct()
)


# ---------------------------------------------------------------------- coming
def add(tx: Transaction, jobs: Sequence[Job]) -> None:
    """Insert jobs that follow no change."""
    add_jobs(tx.connection, jobs, None, now=tx.now)


def add_jobs(connection: Connection, new: Sequence[Job], batch: str | None, *, now: str) -> None:
    """Put in jobs whose ids are not known; those of a batch wait until it is applied."""
    if not new:
        return
    numbers = take_numbers(connection, "desk", len(new))
    rows = [_row(job, number, batch, now) for job, number in zip(new, numbers, strict=True)]
    connection.execute(insert_new(connection, jobs), rows)


def _row(job: Job, number: int, batch: str | None, now: str) -> dict[str, Any]:
    return {
        "id": job.id,
        "seq": number,
        "kind": job.kind,
        "memory_id": job.memory_id,
        **scope_columns(job.scope),
        "payload": encode(job.payload, "payload"),
        "state": "pending",
        "attempts": 0,
        "not_before": moment_of(job.not_before, "not_before") if job.not_before else now,
        "created_at": now,
        "error": None,
        "owner": None,
        "batch_id": batch,
    }


def release_jobs(connection: Connection, batch: str) -> None:
    """The batch is applied: its jobs can be taken."""
    connection.execute(_RELEASE, {"batch": batch})


def drop_jobs(connection: Connection, batch: str) -> None:
    """The batch is abandoned, and its jobs with it."""
    connection.execute(delete(jobs).where(jobs.c.batch_id == batch))


# ---------------------------------------------------------------------- going
def is_due(tx: Transaction, kinds: Sequence[str], limit: int, scope: Scope | None = None) -> bool:
    """Whether `take` would find something; only reads, so that looking into an empty queue holds up no writer."""
    check_limit(limit)
    walls = {} if scope is None else scope.given()
    asked = {**walls, "kinds": kinds, "dead": _dead(tx, kinds), "now": tx.now}
    return tx.connection.execute(_due(tuple(walls)), asked).first() is not None


def take(tx: Transaction, kinds: Sequence[str], limit: int, scope: Scope | None = None) -> list[Job]:
    """Take what is due, after what the dead had has been put back.

    The database has one writer at a time, which waited for its turn and sees all that was taken before.
    """
    for owner in _dead(tx, kinds):
        tx.connection.execute(update(jobs).where(_held_by(owner)).values(state="pending", owner=None))
    other = jobs.alias()
    first = or_(
        other.c.state == "processing",
        and_(*_asked(other, kinds, scope), *_waiting(other, tx.now), other.c.seq < jobs.c.seq),
    )
    in_the_way = select(other.c.seq).where(
        other.c.memory_id == jobs.c.memory_id, other.c.kind == jobs.c.kind, other.c.seq != jobs.c.seq, first
    )
    query = select(jobs).where(*_asked(jobs, kinds, scope), *_waiting(jobs, tx.now), ~in_the_way.exists())
    rows = tx.connection.execute(query.order_by(jobs.c.seq).limit(limit)).mappings().all()
    for some in chunks([row["id"] for row in rows]):
        tx.connection.execute(update(jobs).where(jobs.c.id.in_(some)).values(state="processing", owner=tx.writer.owner))
    return [_job({**row, "state": "processing"}) for row in rows]


def _dead(tx: Transaction, kinds: Sequence[str]) -> list[str]:
    """Owners of jobs who are not alive any more."""
    owners = tx.connection.execute(_OWNERS, {"kinds": kinds}).scalars().all()
    return [owner for owner in owners if owner != tx.writer.owner and not tx.writer.alive(owner, tx.connection)]


def _held_by(owner: str) -> ColumnElement[bool]:
    return and_(jobs.c.state == "processing", jobs.c.owner == owner)


def _asked(table: FromClause, kinds: Sequence[str], scope: Scope | None) -> list[ColumnElement[bool]]:
    """Of these kinds, behind these walls, and of changes that are applied."""
    walls = {} if scope is None else scope.given()
    return [table.c.kind.in_(kinds), table.c.batch_id.is_(None), *(table.c[name] == walls[name] for name in walls)]


def _waiting(table: FromClause, now: str) -> list[ColumnElement[bool]]:
    return [table.c.state == "pending", table.c.not_before <= now]


@cache
def _due(walls: tuple[str, ...]) -> Select[tuple[int]]:
    """What is due behind walls of these names: each search asks, and making the question takes longer than asking."""
    kinds: BindParameter[Any] = bindparam("kinds", expanding=True)
    dead: BindParameter[Any] = bindparam("dead", expanding=True)
    inside = [jobs.c[name] == bindparam(name) for name in walls]
    asked = (jobs.c.kind.in_(kinds), jobs.c.batch_id.is_(None), *inside, jobs.c.not_before <= bindparam("now"))
    return select(jobs.c.seq).where(*asked, _free(dead)).limit(1)


def _free(dead: Sequence[str] | BindParameter[Any]) -> ColumnElement[bool]:
    """Taken by nobody who lives, and not waiting for another one of its memory and kind that is."""
    other = jobs.alias()
    busy = select(other.c.seq).where(
        other.c.memory_id == jobs.c.memory_id,
        other.c.kind == jobs.c.kind,
        other.c.state == "processing",
        other.c.owner.not_in(dead),
    )
    return or_(
        and_(jobs.c.state == "pending", ~busy.exists()), and_(jobs.c.state == "processing", jobs.c.owner.in_(dead))
    )


def _job(row: Row) -> Job:
    return Job(
        id=row["id"],
        kind=row["kind"],
        memory_id=row["memory_id"],
        scope=scope_of_row(row),
        payload=decode(row["payload"]),
        state=row["state"],
        attempts=row["attempts"],
        not_before=row["not_before"],
        created_at=row["created_at"],
        error=row["error"],
    )


def done(tx: Transaction, ids: Sequence[str]) -> None:
    """Let go of what this owner has; what another one took over meanwhile stays with that one."""
    for some in chunks(ids):
        tx.connection.execute(delete(jobs).where(jobs.c.id.in_(some), _held_by(tx.writer.owner)))


def failed(tx: Transaction, id: str, error: str, *, not_before: str, park: bool) -> None:
    """Count a try of this owner's."""
    values = {
        "state": "failed" if park else "pending",
        "owner": None,
        "attempts": jobs.c.attempts + 1,
        "not_before": moment_of(not_before, "not_before"),
        "error": " ".join(error.split()),
    }
    tx.connection.execute(update(jobs).where(jobs.c.id == id, _held_by(tx.writer.owner)).values(values))


def give_back(tx: Transaction, ids: Sequence[str], *, not_before: str) -> None:
    """Put back what this owner has."""
    values = {"state": "pending", "owner": None, "not_before": moment_of(not_before, "not_before")}
    for some in chunks(ids):
        tx.connection.execute(update(jobs).where(jobs.c.id.in_(some), _held_by(tx.writer.owner)).values(values))


def revive(tx: Transaction, kinds: Sequence[str]) -> int:
    """Let what is parked, or put off, be due."""
    put_off = or_(jobs.c.state == "failed", and_(jobs.c.state == "pending", jobs.c.not_before > tx.now))
    values = {"state": "pending", "attempts": 0, "not_before": tx.now, "error": None}
    return tx.connection.execute(update(jobs).where(*_asked(jobs, kinds, None), put_off).values(values)).rowcount


def remove(tx: Transaction, memory_ids: Sequence[str]) -> int:
    """Let go of the jobs of memories, whatever their state; how many."""
    return sum(
        tx.connection.execute(delete(jobs).where(jobs.c.memory_id.in_(some))).rowcount for some in chunks(memory_ids)
    )


def release_orphans(connection: Connection) -> None:
    """Let the jobs be taken whose batch the journal does not hold any more, because its memories were erased."""
    connection.execute(update(jobs).where(_is_orphan()).values(batch_id=None))


def _is_orphan() -> ColumnElement[bool]:
    return and_(jobs.c.batch_id.is_not(None), jobs.c.batch_id.not_in(select(journal.c.batch_id)))


# ---------------------------------------------------------------------- looking
def status(tx: Transaction, kinds: Sequence[str], scope: Scope | None = None) -> QueueStatus:
    """Count what waits; what a dead owner had waits as well."""
    dead = _dead(tx, kinds)
    state = case((and_(jobs.c.state == "processing", jobs.c.owner.in_(dead)), "pending"), else_=jobs.c.state)
    query = select(jobs.c.kind, state.label("stands"), func.count(), func.min(jobs.c.created_at).label("at"))
    rows = tx.connection.execute(query.where(*_asked(jobs, kinds, scope)).group_by(jobs.c.kind, "stands")).all()
    totals = {"pending": 0, "processing": 0, "failed": 0}
    by_kind = dict.fromkeys(kinds, 0)
    for kind, name, count, _ in rows:
        totals[name] += count
        by_kind[kind] += count
    oldest = min((row.at for row in rows if row.stands == "pending"), default=None)
    return QueueStatus(**totals, oldest_pending_at=oldest, by_kind=by_kind)


def next_due(tx: Transaction, kinds: Sequence[str]) -> str | None:
    """The earliest moment at which `take` would find something."""
    dead = _dead(tx, kinds)
    query = select(func.min(jobs.c.not_before)).where(*_asked(jobs, kinds, None), _free(dead))
    found: str | None = tx.connection.execute(query).scalar()
    return found


def check(connection: Connection) -> list[str]:
    """Sentences about jobs that nobody could ever take."""
    wrong = {
        "wait for a batch that the journal does not hold": _is_orphan(),
        "are being done by nobody": and_(jobs.c.state == "processing", jobs.c.owner.is_(None)),
        "are of an unknown state": jobs.c.state.not_in(("pending", "processing", "failed")),
    }
    counts = {
        what: connection.execute(select(func.count()).select_from(jobs).where(condition)).scalar_one()
        for what, condition in wrong.items()
    }
    return [f"{count} jobs {what}" for what, count in counts.items() if count]
