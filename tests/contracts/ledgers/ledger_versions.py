"""Bring a ledger's tables to a version: forward by perdure's migrations, back by taking away what they made."""

from __future__ import annotations

from sqlalchemy import Connection, text

from perdure.backends.ledgers._migrations import VERSIONS
from perdure.backends.ledgers.sql import upkeep
from perdure.backends.ledgers.sql.tables import versions

_MADE = {
    "0001": "memory_history journal episodes idempotency responses fingerprints scope_locks counters marks",
    "0002": "jobs api_keys promotions audit",
    "0003": "sessions session_turns response_links namings",
    "0004": "agents entities worlds rooms participants relationships components tasks cache logs message_servers "
    "channels channel_participants server_agents",
}
_UNDONE = {
    "0002": ["DELETE FROM counters WHERE name = 'desk'"],
    "0004": ["DELETE FROM counters WHERE name = 'runtime'"],
    "0005": ["ALTER TABLE sessions DROP COLUMN store"],
    "0006": ["ALTER TABLE episodes DROP COLUMN brought"],
}


def up(connection: Connection, version: str) -> None:
    """Run the migrations up to a version, from nothing too."""
    versions.create(connection, checkfirst=True)
    upkeep.upgrade(connection, version)


def back(connection: Connection, version: str) -> None:
    """Leave the tables as the code of a version left them; `base` is none but the version's."""
    known = ["base", *VERSIONS]
    for undone in reversed(known[known.index(version) + 1 :]):
        drops = [f"DROP TABLE {name}" for name in _MADE.get(undone, "").split()]
        for statement in [*_UNDONE.get(undone, []), *drops]:
            connection.execute(text(statement))
    connection.execute(text("DELETE FROM alembic_version"))
    if version != "base":
        connection.execute(versions.insert(), {"version_num": version})
