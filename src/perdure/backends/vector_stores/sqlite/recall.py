"""What recall keeps beside rows: for each row bytes of its own, for each word of a collection its vector.

recall_c   n, the bytes, and the keys of the row's words (`terms.key_of`); written in the transaction of its row
words_c    each word that a row ever had, by its key, with its vector once somebody gave it; words that no row has any
           longer go when erased text is scrubbed out of the file

A row that was written without its bytes has none here: whoever reads it makes them anew, and keeps them.
"""

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perdure.backends.vector_stores.base import Kept, KeptRows, KeptWords, Vector
from perdure.backends.vector_stores.sqlite.database import Collection, key_text, text_key
from perdure.backends.vector_stores.sqlite.read import parts_of, translate
from perdure.domain.filter import Filter
from perdure.domain.text.terms import key_of

_LOOKED_UP = 500
"""Words in one lookup: SQLite's smallest limit of bound values is 999; half as much time as `json_each` takes."""
_AT_A_TIME = 128
"""Rows fetched together: 200 kB, which the next ones take the place of."""
_WORTH_ALL = 0.4
"""The share of all words from which reading all of them takes less time than looking up those that are wanted."""
_SAMPLE = 100
"""Words by which their number is told within a fifth or so."""
_SWEPT = 4_096
"""Rows whose words are looked at together when unused words are taken out."""


def put(connection: sqlite3.Connection, c: int, kept: Sequence[tuple[int, Kept]]) -> None:
    """Keep these bytes beside the rows of these n, in place of what stands there."""
    if not kept:
        return
    connection.executemany(
        f"INSERT OR REPLACE INTO recall_{c} (n, data, words) VALUES (?, ?, ?)",
        [(n, each.data, each.keys) for n, each in kept],
    )
    words = {word for _, each in kept for word in each.words}
    connection.executemany(
        f"INSERT OR IGNORE INTO words_{c} (word, text) VALUES (?, ?)",
        [(key_of(word), text_key(word)) for word in words],
    )


def move(connection: sqlite3.Connection, c: int, numbers: Sequence[tuple[int, int]]) -> None:
    """Rows got new numbers, (new, old) each, and are else as they were."""
    connection.executemany(f"UPDATE recall_{c} SET n = ? WHERE n = ?", numbers)


def remove(connection: sqlite3.Connection, c: int, numbers: Sequence[tuple[int]]) -> None:
    """Let go of what stands beside rows that go, or that say something else now."""
    connection.executemany(f"DELETE FROM recall_{c} WHERE n = ?", numbers)


def keep(connection: sqlite3.Connection, collection: Collection, rows: Mapping[str, tuple[str, Kept]]) -> None:
    """Keep beside rows what was made of them, where they are still what it was made of."""
    c = collection.number
    found = connection.execute(
        f"SELECT id, n, updated_at FROM rows_{c} WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps([id for id in rows if isinstance(text_key(id), str)]),),
    )
    put(connection, c, [(n, rows[key_text(id)][1]) for id, n, moment in found if rows[key_text(id)][0] == moment])


def kept_rows(connection: sqlite3.Connection, collection: Collection, filter: Filter | None) -> KeptRows:
    """The matching rows with what stands beside them."""
    c = collection.number
    condition = translate(filter)
    rows: list[Any] = []
    vectors = _Vectors(collection.dimension)
    for part in parts_of(connection, collection, filter):
        cursor = connection.execute(
            f"SELECT (SELECT v.vector FROM vectors_{c} v WHERE v.n = r.n), r.id, r.updated_at, k.data, k.words "
            f"FROM rows_{c} r LEFT JOIN recall_{c} k ON k.n = r.n "
            f"WHERE {part.span.text} AND {condition.text} ORDER BY r.n",
            (*part.span.values, *condition.values),
        )
        while some := cursor.fetchmany(_AT_A_TIME):
            vectors.add([vector for vector, *_ in some])
            rows += [row[1:] for row in some]
    ids, moments, data, words = zip(*rows, strict=True) if rows else ((), (), (), ())
    return KeptRows(
        [key_text(id) for id in ids],
        ["" if moment is None else key_text(moment) for moment in moments],
        list(data),
        [each or b"" for each in words],
        vectors.array(),
    )


class _Vectors:
    """Vectors read some at a time: a list of all of them would take their memory twice."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._blank = bytes(4 * dimension)
        self._bytes = bytearray()

    def add(self, vectors: Sequence[bytes | None]) -> None:
        """Add vectors; zeros for one that is not there."""
        blank = self._blank
        self._bytes += b"".join([blank if vector is None else vector for vector in vectors])

    def array(self) -> NDArray[np.float32]:
        """All of them, in an array of its own."""
        return np.frombuffer(self._bytes, np.float32).reshape(-1, self._dimension)


# ------------------------------------------------------------------ words


def words(connection: sqlite3.Connection, collection: Collection, keys: Sequence[int]) -> KeptWords:
    """The words of these keys that are here."""
    found: list[int] = []
    texts: list[str] = []
    given: list[bool] = []
    vectors = _Vectors(collection.dimension)
    for rows in _word_rows(connection, collection.number, keys):
        found += [key for key, _, _ in rows]
        texts += [key_text(text) for _, text, _ in rows]
        given += [vector is not None for _, _, vector in rows]
        vectors.add([vector for _, _, vector in rows])
    return KeptWords(found, texts, vectors.array(), np.array(given, np.bool_))


def _word_rows(connection: sqlite3.Connection, c: int, keys: Sequence[int]) -> Iterator[list[Any]]:
    """The rows of these keys, some hundreds at a time: all rows are read where most of them are wanted."""
    if len(keys) > _LOOKED_UP and len(keys) > _WORTH_ALL * _number_of_words(connection, c):
        wanted = set(keys)
        cursor = connection.execute(f"SELECT word, text, vector FROM words_{c} ORDER BY word")
        while rows := cursor.fetchmany(_AT_A_TIME):
            yield [row for row in rows if row[0] in wanted]
        return
    ordered = sorted(keys)
    for start in range(0, len(ordered), _LOOKED_UP):
        part = ordered[start : start + _LOOKED_UP]
        yield connection.execute(
            f"SELECT word, text, vector FROM words_{c} WHERE word IN ({', '.join('?' * len(part))})", part
        ).fetchall()


def _number_of_words(connection: sqlite3.Connection, c: int) -> float:
    """About how many words the table has, by its first: keys are hashes, spread evenly over 64 bits."""
    row = connection.execute(f"SELECT word FROM words_{c} ORDER BY word LIMIT 1 OFFSET {_SAMPLE}").fetchone()
    return _SAMPLE if row is None else _SAMPLE * 2.0**64 / (row[0] + 2.0**63 + 1)


def give_words(connection: sqlite3.Connection, collection: Collection, vectors: Mapping[str, Vector]) -> None:
    """Give words that are here their vectors."""
    connection.executemany(
        f"UPDATE words_{collection.number} SET vector = ? WHERE word = ?",
        [(np.asarray(vector, np.float32).tobytes(), key_of(word)) for word, vector in vectors.items()],
    )


def sweep(connection: sqlite3.Connection, collection: Collection) -> None:
    """Take out the words that no row has any longer, and what is damaged: it is made anew when it is next read."""
    c = collection.number
    connection.execute(f"DELETE FROM recall_{c} WHERE n NOT IN (SELECT n FROM rows_{c})")
    known = np.array([word for (word,) in connection.execute(f"SELECT word FROM words_{c} ORDER BY word")], np.int64)
    used: NDArray[np.int64] = np.empty(0, np.int64)
    damaged: list[tuple[int]] = []
    cursor = connection.execute(f"SELECT n, words FROM recall_{c}")
    while rows := cursor.fetchmany(_SWEPT):
        words = np.unique(np.frombuffer(b"".join([words for _, words in rows]), "<i8"))
        used = np.union1d(used, words)
        missing = np.setdiff1d(words, known, assume_unique=True)
        if len(missing):
            damaged += [(n,) for n, words in rows if np.isin(np.frombuffer(words, "<i8"), missing).any()]
    remove(connection, c, damaged)
    connection.executemany(
        f"DELETE FROM words_{c} WHERE word = ?", [(word,) for word in np.setdiff1d(known, used).tolist()]
    )


# ------------------------------------------------------------------ checking


def check(connection: sqlite3.Connection, collection: Collection) -> list[str]:
    """What disagrees, a sentence each; only reads."""
    c = collection.number
    found: list[str] = []
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (f"recall_{c}",)).fetchone():
        return found  # of an older layout, in a file that may not be written
    (orphans,) = connection.execute(
        f"SELECT count(*) FROM recall_{c} k WHERE NOT EXISTS (SELECT 1 FROM rows_{c} r WHERE r.n = k.n)"
    ).fetchone()
    if orphans:
        found.append(f"{orphans} entries of the recall index have no row in collection {collection.name!r}")
    known = {word for (word,) in connection.execute(f"SELECT word FROM words_{c}")}
    missing: set[int] = set()
    for (blob,) in connection.execute(f"SELECT words FROM recall_{c}"):
        missing.update(set(np.frombuffer(blob, "<i8").tolist()) - known)
    if missing:
        found.append(f"{len(missing)} words of the recall index are not in its table in collection {collection.name!r}")
    (wrong,) = connection.execute(
        f"SELECT count(*) FROM words_{c} WHERE vector IS NOT NULL AND length(vector) <> {4 * collection.dimension}"
    ).fetchone()
    if wrong:
        found.append(f"{wrong} words have vectors of another dimension in collection {collection.name!r}")
    return found
