"""The SQLite file that rows and vectors lie in, as its connections are set up."""

from __future__ import annotations

import sqlite3

from perdure.backends.sqlite_file import SqliteFile
from perdure.backends.vector_stores import _sqlite_functions
from perdure.backends.vector_stores._sqlite_schema import LAYOUT
from perdure.domain.errors import VectorStoreError

_READER_CACHE_KB = 8 * 1024
_WRITER_CACHE_KB = 16 * 1024


class Database(SqliteFile):
    """An open file of rows and vectors."""

    what = "vector store"
    failure = busy = VectorStoreError
    rescue = "save what can be read with the `.recover` command of the sqlite3 shell"
    layout = LAYOUT
    synchronous = "NORMAL"
    page_size = 8192  # five vectors of 384 numbers nearly fill a page; of 4,096 bytes a quarter would be waste
    log_limit = 64 * 1024 * 1024

    def _connect(self, *, writes: bool) -> sqlite3.Connection:
        connection = super()._connect(writes=writes)
        _sqlite_functions.register(connection)
        connection.execute(f"PRAGMA cache_size = -{_WRITER_CACHE_KB if writes else _READER_CACHE_KB}")
        return connection
