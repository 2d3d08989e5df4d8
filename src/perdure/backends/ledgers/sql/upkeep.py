"""Counting, checking and clearing the ledger's tables."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select

from perdure.backends.ledgers.sql import jobs as _jobs
from perdure.backends.ledgers.sql import sessions as _sessions
from perdure.backends.ledgers.sql.agent_runtime.tables import COUNTER, TABLES
from perdure.backends.ledgers.sql.context import Transaction
from perdure.backends.ledgers.sql.erasure import want_scrub
from perdure.backends.ledgers.sql.tables import (
    CLEARED,
    api_keys,
    audit,
    counters,
    episodes,
    fingerprints,
    history,
    idempotency,
    jobs,
    journal,
    links,
    locks,
    marks,
    namings,
    promotions,
    responses,
    session_turns,
    sessions,
    take_numbers,
)

_JSON = {
    journal.c.change: "change of journal entry",
    history.c.change: "change of history record",
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
_CLEARED = (
    history,
    episodes,
    journal,
    idempotency,
    responses,
    fingerprints,
    jobs,
    promotions,
    audit,
    sessions,
    session_turns,
    links,
    namings,
)


def _count(connection: Connection, table: Table, *conditions: ColumnElement[bool]) -> int:
    found: int = connection.execute(select(func.count()).select_from(table).where(*conditions)).scalar_one()
    return found


def stats(connection: Connection) -> dict[str, int]:
    """Rows of each kind."""
    return {
        "history": _count(connection, history),
        "erased": _count(connection, history, history.c.erased == 1),
        "episodes": _count(connection, episodes),
        "pending": _count(connection, episodes, episodes.c.pending == 1),
        "hidden": _count(connection, episodes, episodes.c.hidden == 1),
        "written": _count(connection, journal, journal.c.state == "written"),
        "applied": _count(connection, journal, journal.c.state == "applied"),
        "remembered": _count(connection, idempotency),
        "cached": _count(connection, responses),
        "fingerprints": _count(connection, fingerprints),
        "locks": _count(connection, locks),
        "jobs": _count(connection, jobs),
        "parked": _count(connection, jobs, jobs.c.state == "failed"),
        "keys": _count(connection, api_keys, api_keys.c.revoked_at.is_(None)),
        "promotions": _count(connection, promotions),
        "audit": _count(connection, audit),
        "sessions": _count(connection, sessions),
        "turns": _count(connection, session_turns),
        "chains": _count(connection, links),
    }


def reset(tx: Transaction) -> None:
    """Clear everything but what is no memory, and the counters, so that no number is ever given twice.

    Keys lock a server, and what agent runtimes keep is the state of a service that runs.
    """
    for table in _CLEARED:
        tx.connection.execute(delete(table))
    (number,) = take_numbers(tx.connection, "change", 1)  # by which those who keep copies know that theirs are old
    tx.connection.execute(delete(marks).where(marks.c.name == CLEARED))
    tx.connection.execute(insert(marks).values(name=CLEARED, value=str(number)))
    want_scrub(tx.connection)


def check(connection: Connection) -> list[str]:
    """Sentences about what cannot be true."""
    return [
        *_readable_though_erased(connection),
        *_half_batches(connection),
        *_numbers(connection),
        *_jobs.check(connection),
        *_sessions.check(connection),
        *_broken(connection),
    ]


def _readable_though_erased(connection: Connection) -> list[str]:
    text = history.c.old_value.is_not(None) | history.c.new_value.is_not(None) | history.c.change.is_not(None)
    count = _count(connection, history, history.c.erased == 1, text)
    return [f"{count} erased history records still hold text"] if count else []


def _half_batches(connection: Connection) -> list[str]:
    query = select(journal.c.batch_id).group_by(journal.c.batch_id).having(func.count(journal.c.state.distinct()) > 1)
    sentences = [
        f"batch {batch} is applied in part: some of its journal entries are only written"
        for batch in connection.execute(query.order_by(journal.c.batch_id)).scalars()
    ]
    lost = (
        select(func.count())
        .select_from(journal)
        .where(journal.c.state == "applied", journal.c.id.not_in(select(history.c.id)))
    )
    count = connection.execute(lost).scalar_one()
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
