"""Bringing a database to the present tables: at once where it is new, by Alembic where it is behind."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, insert, inspect, select

from perdure.backends.ledgers.sql.agent_runtime import tables as _runtime_tables  # noqa: F401 - they join the others
from perdure.backends.ledgers.sql.tables import COUNTERS, HEAD, counters, history, metadata, versions
from perdure.domain.errors import LedgerError

MIGRATIONS = Path(__file__).parents[1] / "_migrations"


def stored_version(connection: Connection) -> str | None:
    """The migration that the database is at; None where it is new."""
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
    """Whether the database is at the newest migration."""
    return stored_version(connection) == HEAD


def bring_up_to_date(connection: Connection) -> None:
    """Make the tables, or upgrade them; the caller's transaction makes it all or nothing."""
    found = stored_version(connection)
    if found is None:
        create(connection)
    elif found != HEAD:
        upgrade(connection)


def create(connection: Connection) -> None:
    """Make every table as it is today, without walking through the migrations."""
    metadata.create_all(connection, checkfirst=False)
    versions.create(connection)
    connection.execute(insert(versions), {"version_num": HEAD})
    connection.execute(insert(counters), [{"name": name, "value": 0} for name in COUNTERS])


def upgrade(connection: Connection) -> None:
    """Run the migrations that the database has not seen."""
    # Alembic costs a tenth of a second to import, and hardly any opening needs it.
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, HEAD)
    except CommandError as error:
        raise LedgerError(
            f"the ledger's tables are of version {stored_version(connection)!r}, which this perdure ({HEAD}) does not "
            "know: a newer perdure has opened it; upgrade perdure"
        ) from error
