"""The ledger's migrations, in order: each makes one version of the tables of the one before.

They are independent of today's tables: what they make stays as it was when they were written.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

VERSIONS = {
    "0001": "v0001_first",
    "0002": "v0002_desk",
    "0003": "v0003_sessions",
    "0004": "v0004_runtime",
    "0005": "v0005_session_stores",
    "0006": "v0006_brought",
}
"""Each version and its module, whose `upgrade(connection)` makes it in the caller's transaction."""

SCOPE = ("user_id", "agent_id", "run_id", "project_id", "team_id", "room_id", "world_id")
COUNTERS = sa.table("counters", sa.column("name", sa.Text()), sa.column("value", sa.BigInteger()))


def keys(*names: str) -> list[sa.Column[Any]]:
    """Return text columns of a primary key."""
    return [sa.Column(name, sa.Text(), primary_key=True) for name in names]


def texts(*names: str) -> list[sa.Column[Any]]:
    """Return text columns that have a value in every row."""
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def maybe(*names: str) -> list[sa.Column[Any]]:
    """Return text columns that may be empty."""
    return [sa.Column(name, sa.Text()) for name in names]


def index(
    tables: sa.MetaData, table: str, name: str, *columns: str, where: str | None = None, unique: bool = False
) -> None:
    """Add an index to a table, over all rows or those of a condition."""
    condition = None if where is None else sa.text(where)
    found = (tables.tables[table].c[column] for column in columns)
    sa.Index(name, *found, unique=unique, sqlite_where=condition, postgresql_where=condition)
