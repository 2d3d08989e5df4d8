"""The SQLite file that the graph lies in, and how erased text leaves it."""

from __future__ import annotations

import sqlite3
from uuid import uuid4

from perdure.backends.graphs._sqlite_schema import LAYOUT
from perdure.backends.sqlite_file import SqliteFile, read_meta, write_meta
from perdure.domain.errors import GraphDownError, GraphError

_SCRUB = "scrub"
"""The key in the file's meta table that says that erased text is still to be made unreadable."""


class Database(SqliteFile):
    """An open file of what memories state."""

    what = "graph"
    failure = GraphError
    busy = GraphDownError
    rescue = "remove it and index the graph anew"
    layout = LAYOUT
    synchronous = "FULL"  # a job that is done is not done again after power loss
    log_limit = 16 * 1024 * 1024

    def scrub(self) -> bool:
        """Write the file anew without what was erased, if that is still to be done, and empty the log.

        False if another process holds the file: then the next erasure or closing, by any process, does it.
        """
        try:
            with self.alone() as connection:
                asked = read_meta(connection, _SCRUB)
                if asked is None:
                    return True
                connection.execute("VACUUM")
                (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if busy:
                    return False
                # Another process may have erased something since: what it asked for stays asked.
                connection.execute("DELETE FROM meta WHERE key = ? AND value = ?", (_SCRUB, asked))
                return True
        except GraphDownError:
            return False

    @staticmethod
    def scrub_later(connection: sqlite3.Connection) -> None:
        """Note in the file that something was erased, in the transaction that does it."""
        write_meta(connection, _SCRUB, str(uuid4()))
