"""Client of a PostgreSQL server: address, connections, locks, error mapping."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo
from psycopg.sql import SQL, Identifier

OLDEST = 14
"""The oldest major version that perdure is made for: it has every setting below, and the project still kept it."""

ADDRESS = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")  # how an address begins, SQLAlchemy's form included
NO_ROOM = "cannot be reached: the server has no connection left (max_connections)"
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
_SET = "set_config(%s, %s, false)"
_ALPHABET = "UTF8"


class Sessions:
    """Connections to one schema of a database."""

    def __init__(
        self,
        url: str,
        schema: str,
        *,
        connect_timeout: float,
        settings: Mapping[str, str],
        set_up: Callable[[psycopg.Connection[Any]], None],
    ) -> None:
        """`set_up` prepares each connection. ValueError, which does not show it, for an unreadable address."""
        self._given = _read(url)
        self._schema = schema
        self._connect_timeout = connect_timeout
        self._settings = {**_SETTINGS, **settings}
        self._set_up = set_up
        self.name = f"postgres:{_place(self._given)}/{schema}"
        """Host, port, database and schema, without user and password."""

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection, without a transaction."""
        values: dict[str, Any] = {"connect_timeout": int(self._connect_timeout), **_DEFAULTS, **self._given, **_FIXED}
        connection: psycopg.Connection[Any] = psycopg.connect(**values, autocommit=True)
        try:
            set_up = ", ".join(["set_config('search_path', quote_ident(%s), false)", *[_SET] * len(self._settings)])
            words = [word for setting in self._settings.items() for word in setting]
            connection.execute(f"SELECT {set_up}", [self._schema, *words])
            self._set_up(connection)
            connection.autocommit = False
        except BaseException:
            connection.close()
            raise
        return connection

    def make_schema(self, key: int) -> None:
        """Create the schema if it is missing, under the lock `key`; ValueError for an unsupported server."""
        with self.connect() as connection:
            version = connection.info.server_version // 10_000
            if version < OLDEST:
                raise ValueError(f"runs PostgreSQL {version}, and perdure needs {OLDEST} or newer")
            alphabet = connection.info.parameter_status("server_encoding")
            if alphabet != _ALPHABET:
                raise ValueError(f"has the encoding {alphabet}, which cannot hold every text: use one with {_ALPHABET}")
            there = "SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL"
            if connection.execute(there, [self._schema]).fetchone() == (True,):
                return
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [key])
            connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(self._schema)))


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
    """Return the database's place; libpq takes missing parts from its own variables and defaults."""
    known = {option.keyword.decode(): (option.val or b"").decode() for option in Conninfo.get_defaults()}
    known.update({name: str(value) for name, value in given.items()})
    hosts = known["host"] or known["hostaddr"] or "local"
    return f"{hosts.lower()}:{known['port']}/{known['dbname'] or known['user']}"


def lock_key(*words: str) -> int:
    """Return the 64 bits of an advisory lock; the words distinguish it from others in the same database."""
    return int.from_bytes(blake2b("\x00".join(("perdure", *words)).encode(), digest_size=8).digest(), signed=True)


_LOGIN = re.compile(r"authentication|no password supplied|pg_hba\.conf|role \"[^\"]*\" does not exist", re.IGNORECASE)
_NO_DATABASE = re.compile(r"database \"[^\"]*\" does not exist")
_CROWDED = re.compile(r"too many clients|remaining connection slots|too many connections", re.IGNORECASE)


def is_away(error: psycopg.Error) -> bool:
    """Whether the server failed, not the statement: it is unreachable, or ended the connection."""
    return error.sqlstate is None or error.sqlstate[:2] in ("08", "57", "28", "3D")


def refusal(error: psycopg.Error) -> str | None:
    """Return why the server permanently rejects this address, or None."""
    said = str(error)
    if _LOGIN.search(said):
        return "refuses the login: check user and password of its address, and the server's pg_hba.conf"
    if _NO_DATABASE.search(said):
        return "lies in a database that does not exist: make it (CREATE DATABASE), or name another"
    return None


def why_away(error: psycopg.Error) -> str:
    """Return why a server is unreachable, without secrets."""
    refused = refusal(error)
    if refused is not None:
        return refused
    if _CROWDED.search(str(error)):
        return NO_ROOM
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return f"cannot be reached, and what was under way was undone: {reason}"


_SCRUB_WAIT = 3.0  # seconds that a scrub waits for others before it is put off
_PAUSE = 0.05  # seconds between two looks whether somebody still reads an older state
_OLDER_READERS: LiteralString = """
SELECT EXISTS (
    SELECT 1 FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND (datname IS NULL OR datname = current_database())
      AND (age(backend_xmin) > age(%(now)s::xid) OR age(backend_xid) > age(%(now)s::xid))
    UNION ALL SELECT 1 FROM pg_prepared_xacts
    WHERE database = current_database() AND age(transaction) > age(%(now)s::xid)
    UNION ALL SELECT 1 FROM pg_replication_slots WHERE age(xmin) > age(%(now)s::xid)
)"""
"""Whether a transaction may still see rows that were deleted before number `now`; such rows are kept by VACUUM."""


def rewrite(
    connection: psycopg.Connection[Any], key: int, tables: Iterable[Identifier], *, options: LiteralString
) -> bool:
    """Rewrite the tables and indexes without deleted data; False if another process prevents it."""
    connection.autocommit = True
    if connection.execute("SELECT pg_try_advisory_lock(%s)", [key]).fetchone() != (True,):
        return False
    row = connection.execute("SELECT (pg_current_xact_id()::text::bigint % 4294967296)::text").fetchone()
    assert row is not None, "a SELECT without FROM has one row"
    if not _wait_for_older_readers(connection, row[0]):
        return False
    connection.execute("SET statement_timeout = 0")
    connection.execute(SQL("SET lock_timeout = {}").format(f"{int(_SCRUB_WAIT * 1000)}ms"))
    try:
        for table in tables:
            connection.execute(SQL("VACUUM ({}) {}").format(SQL(options), table))
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def _wait_for_older_readers(connection: psycopg.Connection[Any], now: str) -> bool:
    deadline = time.monotonic() + _SCRUB_WAIT
    while connection.execute(_OLDER_READERS, {"now": now}).fetchone() == (True,):
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)
    return True
