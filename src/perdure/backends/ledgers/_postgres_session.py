"""The way to a PostgreSQL server: its address without secrets, and connections that are set up for the ledger."""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from perdure.backends.ledgers._postgres_text import hold_any_text

OLDEST = 14
"""The oldest major version that the ledger is made for: it has every setting below, and the project still kept it."""

_SQLALCHEMY = re.compile(r"^(postgres(?:ql)?)\+\w+://")
_DEFAULTS = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
"""A server that vanished without a word is noticed after 10 + 3 * 5 seconds."""
_FIXED = {"client_encoding": "UTF8", "application_name": "perdure"}
_SETTINGS = {
    "idle_session_timeout": "0",
    # A process that is stopped in the middle of a transaction must not keep the others from writing for ever.
    "idle_in_transaction_session_timeout": "60s",
    # So that the server notices a machine that vanished, and lets go of its locks.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
_ALPHABET = "UTF8"


class Sessions:
    """Connections to one schema of one database."""

    def __init__(
        self, url: str, schema: str, *, connect_timeout: float, lock_timeout: float, statement_timeout: float
    ) -> None:
        """ValueError, which does not show it, for an address that cannot be read."""
        self._given = _read(url)
        self._schema = schema
        self._connect_timeout = connect_timeout
        self._settings = {
            **_SETTINGS,
            "lock_timeout": f"{int(lock_timeout * 1000)}ms",
            "statement_timeout": f"{int(statement_timeout * 1000)}ms",
        }
        self.name = f"postgres:{_place(self._given)}/{schema}"
        """Host, port, database and schema, without user and password."""

    def connect(self) -> psycopg.Connection[Any]:
        """A new connection, not in a transaction."""
        values: dict[str, Any] = {"connect_timeout": int(self._connect_timeout), **_DEFAULTS, **self._given, **_FIXED}
        connection: psycopg.Connection[Any] = psycopg.connect(**values, autocommit=True)
        try:
            set_up = ", ".join(["set_config('search_path', quote_ident(%s), false)", *[_SET] * len(self._settings)])
            words = [word for setting in self._settings.items() for word in setting]
            connection.execute(f"SELECT {set_up}", [self._schema, *words])
            hold_any_text(connection)
            connection.autocommit = False
        except BaseException:
            connection.close()
            raise
        return connection

    def make_schema(self, key: int) -> None:
        """Make the schema where it is missing; `key` is the lock under which only one process does so.

        ValueError for a server that the ledger was not made for.
        """
        with self.connect() as connection:
            version = connection.info.server_version // 10_000
            if version < OLDEST:
                raise ValueError(f"runs PostgreSQL {version}, and the ledger needs {OLDEST} or newer")
            alphabet = connection.info.parameter_status("server_encoding")
            if alphabet != _ALPHABET:
                raise ValueError(f"has the encoding {alphabet}, which cannot hold every text: use one with {_ALPHABET}")
            there = "SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL"
            if connection.execute(there, [self._schema]).fetchone() == (True,):
                return
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [key])
            connection.execute(psycopg.sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(_name(self._schema)))


_SET = "set_config(%s, %s, false)"


def _name(text: str) -> psycopg.sql.Identifier:
    return psycopg.sql.Identifier(text)


def _read(url: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(_SQLALCHEMY.sub(r"\1://", url.strip()))
    except psycopg.Error:
        # The driver's own words may quote the password.
        raise ValueError(
            "is no address that PostgreSQL understands: special characters of user and password must be "
            "percent-encoded, and parameters be those of libpq"
        ) from None


def _place(given: dict[str, Any]) -> str:
    """Which database that is: what the address leaves out, libpq takes from its own variables and defaults."""
    known = {option.keyword.decode(): (option.val or b"").decode() for option in Conninfo.get_defaults()}
    known.update({name: str(value) for name, value in given.items()})
    hosts = known["host"] or known["hostaddr"] or "local"
    return f"{hosts.lower()}:{known['port']}/{known['dbname'] or known['user']}"
