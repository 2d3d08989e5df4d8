"""Each session belongs to one store. Independent of today's tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_SESSIONS = sa.table("sessions", sa.column("id", sa.Text()), sa.column("store", sa.Text()))
_JOBS = sa.table("jobs", sa.column("kind", sa.Text()), sa.column("memory_id", sa.Text()))


def upgrade() -> None:
    """Add the column. A session with waiting work gets that work's store; others have none yet."""
    op.add_column("sessions", sa.Column("store", sa.Text(), nullable=False, server_default=sa.text("''")))
    waiting = sa.select(_JOBS.c.memory_id, _JOBS.c.kind).where(_JOBS.c.kind.like("session@%"))
    for session_id, kind in op.get_bind().execute(waiting).all():
        mark = kind.partition("@")[2]
        op.execute(_SESSIONS.update().where(_SESSIONS.c.id == session_id).values(store=mark))


def downgrade() -> None:
    op.drop_column("sessions", "store")
