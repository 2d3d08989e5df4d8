"""Maintenance of the file: flush it, scrub erased rows, check its tables."""

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from perdure.backends.sqlite_file import FORK_GATE, force_to_disk, is_busy, read_meta, vacuum, write_meta
from perdure.backends.vector_stores.base import Shape, Shapes
from perdure.backends.vector_stores.sqlite import recall
from perdure.backends.vector_stores.sqlite.database import HOME_BITS, Collection, Database, all_collections, key_text
from perdure.domain.errors import VectorStoreError
from perdure.domain.scope import SCOPE_FIELDS
from perdure.domain.text.terms import index_text

_SCRUB = "scrub"
"""The key in the file's meta table that tells how far a scrub that was asked for has come; absent when it is done."""

_TO_WRITE = 1  # the file must be written anew
_TO_REBUILD = 3  # nothing is done yet: the text index must be made anew, then the file written anew
_TO_EMPTY = 2  # the log must be emptied, which still has, or leaves in the file, what was there before


def stored_collections(path: Path) -> Shapes:
    """Read the collections of a file without opening the store; creates no file, not even a log."""
    with FORK_GATE:
        return _stored_collections(path)


def _stored_collections(path: Path) -> Shapes:
    log = Path(f"{path}-wal")
    try:
        if not path.is_file():
            return {}
        # Without a log nobody has the file open, and reading it as immutable keeps SQLite from making one; with a log
        # somebody may be writing, and only the log tells what.
        mode = "mode=ro" if log.exists() else "mode=ro&immutable=1"
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=1.0)
    except (OSError, sqlite3.Error):
        return {}
    try:
        return {found.name: Shape(found.dimension, found.model) for found in all_collections(connection)}
    except (sqlite3.Error, VectorStoreError):
        return {}
    finally:
        connection.close()


def sync(database: Database) -> None:
    """Force SQLite's log to the disk; with it and the checkpointed file nothing is lost."""
    log = Path(f"{database.path}-wal")
    with database.translated():
        if log.exists():
            force_to_disk(log)
        force_to_disk(log.parent)


# ------------------------------------------------------------------ scrubbing


def scrub(database: Database) -> bool:
    """Rewrite the file without deleted data, and empty the log; False if another process holds it."""
    try:
        with database.writing() as connection:
            write_meta(connection, _SCRUB, _TO_WRITE)
            for collection in all_collections(connection):
                _forget_homes(connection, collection)
                _rebuild_text(connection, collection)
                recall.sweep(connection, collection)
        return finish_scrub(database)
    except VectorStoreError as error:
        if is_busy(error.__cause__):
            return False
        raise


def scrub_later(database: Database) -> None:
    """Note in the file that its next close, by any process, must scrub."""
    with database.writing() as connection:
        write_meta(connection, _SCRUB, _TO_REBUILD)


def finish_scrub(database: Database) -> bool:
    """Finish a scrub that was begun or postponed, by any process; True if none is left."""
    with database.reading() as connection:
        put_off = read_meta(connection, _SCRUB) == _TO_REBUILD
    if put_off:
        return scrub(database)
    with database.alone() as connection:
        if read_meta(connection, _SCRUB) == _TO_WRITE:
            vacuum(connection)
            write_meta(connection, _SCRUB, _TO_EMPTY)
        if read_meta(connection, _SCRUB) == _TO_EMPTY:
            (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                return False
            write_meta(connection, _SCRUB, None)
    return True


def _forget_homes(connection: sqlite3.Connection, collection: Collection) -> None:
    """Delete scope values without rows."""
    c = collection.number
    connection.execute(f"DELETE FROM gone_{c} WHERE home IN (SELECT home FROM homes_{c} WHERE count = 0)")
    connection.execute(f"DELETE FROM homes_{c} WHERE count = 0")


def _rebuild_text(connection: sqlite3.Connection, collection: Collection) -> None:
    """Rebuild the full-text index, whose segments keep deleted words until they are merged."""
    c = collection.number
    connection.execute(f"INSERT INTO text_{c} (text_{c}) VALUES ('delete-all')")
    connection.executemany(
        f"INSERT INTO text_{c} (rowid, memory) VALUES (?, ?)",
        ((n, index_text(memory) if isinstance(memory, str) else "") for n, memory in _texts(connection, collection)),
    )


def _texts(connection: sqlite3.Connection, collection: Collection) -> Iterator[tuple[int, object]]:
    """Return the memory of every row by n."""
    rows = connection.execute(
        f"SELECT r.n, r.memory, CASE r.odd WHEN 1 THEN r.payload END FROM rows_{collection.number} r ORDER BY r.n"
    )
    for n, memory, payload in rows:
        if payload is not None:
            yield n, json.loads(payload).get("memory")
        else:
            yield n, None if memory is None else key_text(memory)


# ------------------------------------------------------------------ checking


def check(connection: sqlite3.Connection, collection: Collection) -> list[str]:
    """Return one sentence for each inconsistency; only reads."""
    c, home = collection.number, f"(r.n >> {HOME_BITS})"
    queries = {
        "{} rows have no entry in the full-text index": f"SELECT count(*) FROM rows_{c} r "
        f"WHERE NOT EXISTS (SELECT 1 FROM text_{c}_docsize t WHERE t.id = r.n)",
        "{} entries of the full-text index have no row": f"SELECT count(*) FROM text_{c}_docsize t "
        f"WHERE NOT EXISTS (SELECT 1 FROM rows_{c} r WHERE r.n = t.id)",
        "{} vectors have no row": f"SELECT count(*) FROM vectors_{c} v "
        f"WHERE NOT EXISTS (SELECT 1 FROM rows_{c} r WHERE r.n = v.n)",
        "{} rows are wrongly taken to have a vector, or none": f"SELECT count(*) FROM rows_{c} r "
        f"WHERE r.bare = EXISTS (SELECT 1 FROM vectors_{c} v WHERE v.n = r.n)",
        f"{{}} vectors are not of dimension {collection.dimension}": f"SELECT count(*) FROM vectors_{c} "
        f"WHERE length(vector) <> {4 * collection.dimension}",
        "{} rows lie under a home that does not exist": f"SELECT count(*) FROM rows_{c} r "
        f"WHERE r.home <> {home} OR NOT EXISTS (SELECT 1 FROM homes_{c} h WHERE h.home = r.home)",
        "{} homes would give a number twice": f"SELECT count(*) FROM homes_{c} h WHERE h.next <= "
        f"(SELECT max(r.n) - (h.home << {HOME_BITS}) FROM rows_{c} r WHERE r.home = h.home)",
        "{} homes count their rows wrongly": f"SELECT count(*) FROM homes_{c} h WHERE h.count <> "
        f"(SELECT count(*) FROM rows_{c} r WHERE r.home = h.home)",
        "{} homes have a sequence number below one that they gave": f"SELECT count(*) FROM homes_{c} h "
        f"WHERE h.seq < h.trimmed OR h.seq < (SELECT ifnull(max(g.seq), 0) FROM gone_{c} g WHERE g.home = h.home)",
    }
    sentences = [
        f"{sentence.format(count)} in collection {collection.name!r}"
        for sentence, query in queries.items()
        if (count := connection.execute(query).fetchone()[0])
    ]
    sentences += recall.check(connection, collection)
    misplaced = _misplaced(connection, collection)
    if misplaced:
        sentences.append(f"{misplaced} rows lie under the home of another scope in collection {collection.name!r}")
    for each in all_collections(connection):
        # SQLite 3.44 to 3.45 at least call a text index malformed that another connection has emptied since this one
        # last read it, so it is read first.
        connection.execute(f"SELECT rowid FROM text_{each.number} LIMIT 1").fetchone()
    found = [text for (text,) in connection.execute("PRAGMA quick_check(20)") if text != "ok"]
    return sentences + [f"SQLite's own check says: {text}" for text in found]


def _misplaced(connection: sqlite3.Connection, collection: Collection) -> int:
    c = collection.number
    value = f"coalesce({', '.join(f'r.{name}' for name in SCOPE_FIELDS)}, '')"
    return int(
        connection.execute(
            f"SELECT count(*) FROM rows_{c} r JOIN homes_{c} h ON h.home = r.home WHERE h.value IS NOT {value}"
        ).fetchone()[0]
    )
