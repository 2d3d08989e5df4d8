"""Care for the folder of a FAISS store: unreadable deletions, agreement between the rows and the index."""

# ruff: noqa: S608  (only our own names and numbers are written into SQL)

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import numpy as np

from perdure.backends.sqlite_file import is_busy, read_meta, write_meta
from perdure.backends.vector_stores._faiss_rows import Collection, Rows, vectors_after
from perdure.backends.vector_stores.base import Names, Vector
from perdure.domain.errors import VectorStoreError

_SCRUB = "scrub"
"""The key that stands in the file's table of facts from the asking for a scrub until it is done."""


def ask_for_scrub(rows: Rows) -> None:
    """Note in the file that it has a scrub to do."""
    with rows.writing() as connection:
        write_meta(connection, _SCRUB, 1)


def finish_scrub(rows: Rows) -> bool:
    """Do a scrub that was asked for, here or by another process: the file is written anew, and its log emptied.

    True if none is left to do; False while another process holds the file.
    """
    try:
        with rows.alone() as connection:
            if read_meta(connection, _SCRUB) is None:
                return True
            connection.execute("VACUUM")
            if _is_held(connection):
                return False
            write_meta(connection, _SCRUB, None)
            return True
    except VectorStoreError as error:
        if is_busy(error.__cause__):
            return False
        raise


def _is_held(connection: sqlite3.Connection) -> bool:
    """Empty the log; whether somebody still reads in it."""
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return bool(busy)


def check(
    connection: sqlite3.Connection, collection: Collection, name: str, indexed: Mapping[int, Vector] | None
) -> Names:
    """What disagrees, a sentence each; `indexed` is what the index finds, None if it is of another moment."""
    c = collection.number
    queries = {
        "{} vectors have no row": f"SELECT count(*) FROM vectors_{c} WHERE n NOT IN (SELECT n FROM rows_{c})",
        "{} rows are wrongly taken to have a vector, or none": f"SELECT count(*) FROM rows_{c} r "
        f"WHERE r.bare = EXISTS (SELECT 1 FROM vectors_{c} v WHERE v.n = r.n)",
        f"{{}} vectors are not of dimension {collection.shape.dimension}": f"SELECT count(*) FROM vectors_{c} "
        f"WHERE length(vector) <> {4 * collection.shape.dimension}",
        "{} tokens have no row": f"SELECT count(*) FROM tokens_{c} WHERE n NOT IN (SELECT n FROM rows_{c})",
        "{} numbers and moments have no row": f"SELECT count(*) FROM spans_{c} WHERE n NOT IN (SELECT n FROM rows_{c})",
    }
    counts = {sentence: connection.execute(query).fetchone()[0] for sentence, query in queries.items()}
    if indexed is not None and not any(counts.values()):
        ids, vectors = vectors_after(connection, collection, 0)
        stored = dict(zip(ids, vectors, strict=True))
        counts["{} vectors are in the index or in the rows alone"] = len(stored.keys() ^ indexed.keys())
        counts["{} vectors of the index are not the rows'"] = sum(
            not np.array_equal(vector, indexed[n]) for n, vector in stored.items() if n in indexed
        )
    found = [f"{text.format(count)} in collection {name!r}" for text, count in counts.items() if count]
    broken = [text for (text,) in connection.execute("PRAGMA quick_check(20)") if text != "ok"]
    return found + [f"SQLite's own check says: {text}" for text in broken]
