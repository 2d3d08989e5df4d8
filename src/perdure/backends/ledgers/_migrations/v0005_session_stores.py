"""Each session belongs to one store. Independent of today's tables."""

from __future__ import annotations

import sqlalchemy as sa

_SESSIONS = sa.table("sessions", sa.column("id", sa.Text()), sa.column("store", sa.Text()))
_JOBS = sa.table("jobs", sa.column("kind", sa.Text()), sa.column("memory_id", sa.Text()))


def upgrade(connection: sa.Connection) -> None:
    """Add the column. A session with waiting work gets that work's store; others have none yet."""
    connection.execute(sa.text("ALTER TABLE sessions ADD COLUMN store TEXT DEFAULT '' NOT NULL"))
    waiting = sa.select(_JOBS.c.memory_id, _JOBS.c.kind).where(_JOBS.c.kind.like("session@%"))
    for session_id, kind in connection.execute(waiting).all():
        mark = kind.partition("@")[2]
        connection.execute(_SESSIONS.update().where(_SESSIONS.c.id == session_id).values(store=mark))
