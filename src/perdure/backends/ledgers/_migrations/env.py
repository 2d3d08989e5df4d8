"""Run the ledger's migrations on its own connection and transaction.

Without one (`alembic revision --autogenerate` by hand) it opens the database of `-x url=...`.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine

from perdure.backends.ledgers.sql import records as _records  # noqa: F401 - their tables join the others
from perdure.backends.ledgers.sql.tables import metadata


def _run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True, render_as_batch=True)
    context.run_migrations()


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    _run(given)
else:
    with create_engine(context.get_x_argument(as_dictionary=True)["url"]).begin() as opened:
        _run(opened)
