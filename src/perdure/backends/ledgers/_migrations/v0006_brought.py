"""A message that waits to be read keeps what its call brought for its facts. Independent of today's tables."""

from __future__ import annotations

import sqlalchemy as sa


def upgrade(connection: sa.Connection) -> None:
    """Add the column, empty: what was brought for messages that already wait is not known any more."""
    connection.execute(sa.text("ALTER TABLE episodes ADD COLUMN brought TEXT"))
