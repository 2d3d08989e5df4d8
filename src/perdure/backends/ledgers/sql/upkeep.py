"""The ledger's tables as a whole: creation, upgrade, counts, checks, erasure, reset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any
from uuid import uuid4

from sqlalchemy import Column, ColumnElement, Connection, delete, func, insert, inspect, select

from perdure.backends.ledgers.base import Ledger
from perdure.backends.ledgers.sql import jobs as jobs_
from perdure.backends.ledgers.sql import server
from perdure.backends.ledgers.sql import sessions as sessions_
from perdure.backends.ledgers.sql.episodes import cached_rows, drop_cached
from perdure.backends.ledgers.sql.history import redact
from perdure.backends.ledgers.sql.records import COUNTER, TABLES
from perdure.backends.ledgers.sql.tables import (
    CLEARED,
    COUNTERS,
    api_keys,
    audit,
    change_with,
    chunks,
    count_rows,
    counters,
    episodes,
    fingerprints,
    for_postgresql,
    history,
    idempotency,
    jobs,
    journal,
    links,
    locks,
    marks,
    metadata,
    namings,
    promotions,
    responses,
    session_turns,
    sessions,
    take_numbers,
    versions,
)
from perdure.backends.ledgers.sql.units import HEAD, SCRUB, Transaction, reads, writes
from perdure.domain.errors import LedgerError
from perdure.domain.scope import Scope


def stored_version(connection: Connection) -> str | None:
    """Return the database's migration; None for a new one."""
    tables = set(inspect(connection).get_table_names())
    if versions.name in tables:
        found: str | None = connection.execute(select(versions.c.version_num)).scalar()
        return found or "base"
    if history.name in tables:
        raise LedgerError(
            f"the database holds a table {history.name!r} that perdure did not make: name another file, "
            "and bring its rows over with import_history"
        )
    return None


def is_current(connection: Connection) -> bool:
    return stored_version(connection) == HEAD


def bring_up_to_date(connection: Connection) -> None:
    """Create or upgrade the tables in the caller's transaction."""
    found = stored_version(connection)
    if found is None:
        create(connection)
    elif found != HEAD:
        upgrade(connection)


def create(connection: Connection) -> None:
    """Create today's tables, without the migrations."""
    if connection.dialect.name == "postgresql":
        for_postgresql()
    metadata.create_all(connection, checkfirst=False)
    versions.create(connection)
    connection.execute(insert(versions), {"version_num": HEAD})
    connection.execute(insert(counters), [{"name": name, "value": 0} for name in COUNTERS])


def upgrade(connection: Connection, target: str = HEAD) -> None:
    """Run the migrations between the stored version and another, in the caller's transaction.

    The table `alembic_version` and the versions are those of perdures that ran them with Alembic.
    """
    from perdure.backends.ledgers import _migrations  # hardly any opening needs them

    found, known = stored_version(connection), ["base", *_migrations.VERSIONS]
    if found not in known:
        raise LedgerError(
            f"the ledger's tables are of version {found!r}, which this perdure ({HEAD}) does not "
            "know: a newer perdure has opened it; upgrade perdure"
        )
    for version in known[known.index(found) + 1 : known.index(target) + 1]:
        import_module(f"{_migrations.__name__}.{_migrations.VERSIONS[version]}").upgrade(connection)
        connection.execute(delete(versions))
        connection.execute(insert(versions), {"version_num": version})


@writes(Ledger.erase, within=None)
def erase(
    tx: Transaction,
    memory_ids: Sequence[str],
    episode_ids: Sequence[str],
    scope: Scope | None = None,
    *,
    cached_in: Scope | None = None,
) -> dict[str, int]:
    named = [*memory_ids, *episode_ids]
    ids_inside = sessions_.ids_inside(tx.connection, scope)
    counts = {
        "history": redact(tx.connection, memory_ids),
        "episodes": change_with(tx.connection, delete(episodes), episodes.c.id, episode_ids),
        "journal": change_with(tx.connection, delete(journal), journal.c.memory_id, memory_ids),
        "cache": drop_cached(tx.connection, cached_rows(tx.connection, named, scope, cached_in)),
        "jobs": jobs_.remove(tx, [*memory_ids, *ids_inside]),
        "promotions": server.redact_promotions(tx.connection, memory_ids),
        "sessions": sessions_.erase_sessions(tx.connection, named, scope),
        "chains": sessions_.erase_responses(tx.connection, named, scope),
    }
    sessions_.drop_named(tx.connection, named)
    jobs_.release_orphans(tx.connection)
    if any(counts.values()):
        want_scrub(tx.connection)
    return counts


@reads(Ledger.count_places)
def count_places(
    tx: Transaction,
    memory_ids: Sequence[str],
    episode_ids: Sequence[str],
    scope: Scope | None = None,
    *,
    cached_in: Scope | None = None,
) -> dict[str, int]:
    named = [*memory_ids, *episode_ids]
    followed = [*memory_ids, *sessions_.ids_inside(tx.connection, scope)]

    def count(column: Column[Any], values: Sequence[str], *conditions: ColumnElement[bool]) -> int:
        return sum(count_rows(tx.connection, column.table, column.in_(some), *conditions) for some in chunks(values))

    return {
        "history": count(history.c.memory_id, memory_ids, history.c.erased == 0),
        "episodes": count(episodes.c.id, episode_ids),
        "journal": count(journal.c.memory_id, memory_ids),
        "cache": len(cached_rows(tx.connection, named, scope, cached_in)),
        "jobs": count(jobs.c.memory_id, followed),
        "promotions": len(server.worded_promotions(tx.connection, memory_ids)),
        "sessions": sessions_.count_sessions(tx.connection, named, scope),
        "chains": sessions_.count_responses(tx.connection, named, scope),
    }


def want_scrub(connection: Connection) -> None:
    """Set the scrub mark, with a new value."""
    connection.execute(delete(marks).where(marks.c.name == SCRUB))
    connection.execute(insert(marks), {"name": SCRUB, "value": str(uuid4())})


def note_scrubbed(connection: Connection, wanted: str) -> None:
    """Remove the scrub mark, unless more was erased since the scrub began."""
    connection.execute(delete(marks).where(marks.c.name == SCRUB, marks.c.value == wanted))


_JSON = {
    journal.c.change: "change of journal entry",
    history.c.change: "change of history record",
    episodes.c.brought: "what was brought for the facts of message",
    jobs.c.payload: "payload of job",
    api_keys.c.walls: "walls of key",
    promotions.c.votes: "votes of promotion",
    audit.c.details: "details of audit line",
    sessions.c.state: "state of session",
    session_turns.c.episodes: "list of what was said in a turn of session",
    links.c["items"]: "list of items of response",
    links.c.episodes: "list of messages of response",
    **{
        column: f"{column.name} of {noun.noun()}"
        for noun, table in TABLES.items()
        for column in table.c
        if column.info.keys() & {"json", "tags"}
    },
}
_CLEARED = (history, episodes, journal, idempotency, responses, fingerprints, jobs, promotions, audit, sessions,
            session_turns, links, namings)  # fmt: skip


def stats(connection: Connection) -> dict[str, int]:
    return {
        "history": count_rows(connection, history),
        "erased": count_rows(connection, history, history.c.erased == 1),
        "episodes": count_rows(connection, episodes),
        "pending": count_rows(connection, episodes, episodes.c.pending == 1),
        "hidden": count_rows(connection, episodes, episodes.c.hidden == 1),
        "written": count_rows(connection, journal, journal.c.state == "written"),
        "applied": count_rows(connection, journal, journal.c.state == "applied"),
        "remembered": count_rows(connection, idempotency),
        "cached": count_rows(connection, responses),
        "fingerprints": count_rows(connection, fingerprints),
        "locks": count_rows(connection, locks),
        "jobs": count_rows(connection, jobs),
        "parked": count_rows(connection, jobs, jobs.c.state == "failed"),
        "keys": count_rows(connection, api_keys, api_keys.c.revoked_at.is_(None)),
        "promotions": count_rows(connection, promotions),
        "audit": count_rows(connection, audit),
        "sessions": count_rows(connection, sessions),
        "turns": count_rows(connection, session_turns),
        "chains": count_rows(connection, links),
    }


@writes(Ledger.reset, within=None)
def reset(tx: Transaction) -> None:
    """Clear all memory data but no counters, so that no number is given twice.

    Keys stay because they lock a server, and agent runtimes' records because they are a running service's state.
    """
    for table in _CLEARED:
        tx.connection.execute(delete(table))
    (number,) = take_numbers(tx.connection, "change", 1)  # by which those who keep copies know that theirs are old
    tx.connection.execute(delete(marks).where(marks.c.name == CLEARED))
    tx.connection.execute(insert(marks).values(name=CLEARED, value=str(number)))
    want_scrub(tx.connection)


def check(connection: Connection) -> list[str]:
    return [
        *_readable_though_erased(connection),
        *_half_batches(connection),
        *_numbers(connection),
        *jobs_.check(connection),
        *sessions_.check(connection),
        *_broken(connection),
    ]


def _readable_though_erased(connection: Connection) -> list[str]:
    text = history.c.old_value.is_not(None) | history.c.new_value.is_not(None) | history.c.change.is_not(None)
    count = count_rows(connection, history, history.c.erased == 1, text)
    return [f"{count} erased history records still hold text"] if count else []


def _half_batches(connection: Connection) -> list[str]:
    query = select(journal.c.batch_id).group_by(journal.c.batch_id).having(func.count(journal.c.state.distinct()) > 1)
    sentences = [
        f"batch {batch} is applied in part: some of its journal entries are only written"
        for batch in connection.execute(query.order_by(journal.c.batch_id)).scalars()
    ]
    count = count_rows(connection, journal, journal.c.state == "applied", journal.c.id.not_in(select(history.c.id)))
    return [*sentences, *([f"{count} applied changes have no history record"] if count else [])]


def _numbers(connection: Connection) -> list[str]:
    highest: tuple[tuple[str, ColumnElement[Any]], ...] = (
        ("change", history.c.seq),
        ("change", journal.c.sequence),
        ("episode", episodes.c.seq),
        ("ticket", locks.c.ticket),
        *(("desk", table.c.seq) for table in (jobs, api_keys, promotions, audit)),
        *((COUNTER, table.c.seq) for table in TABLES.values()),
    )
    given: dict[str, int] = {row.name: row.value for row in connection.execute(select(counters))}
    sentences = []
    for name, column in highest:
        top = connection.execute(select(func.max(column))).scalar_one()
        if name not in given:
            sentences.append(f"the counter {name!r} is missing")
        elif top is not None and top > given[name]:
            sentences.append(f"the counter {name!r} stands at {given[name]}, but {top} has been given already")
    return sentences


def _broken(connection: Connection) -> list[str]:
    sentences = []
    for column, what in _JSON.items():
        key = next(iter(column.table.primary_key))
        for id, text in connection.execute(select(key, column).where(column.is_not(None))):
            try:
                json.loads(text)
            except ValueError:
                sentences.append(f"the {what} {id} is not JSON")
    return sentences
