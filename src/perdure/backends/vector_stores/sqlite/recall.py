"""Data for recall beside the rows: bytes for each row, and a vector for each word of a collection.

recall_c: n, the bytes, and the keys of the row's words (`terms.key_of`), written in the transaction of its row.
words_c: each word that a row ever had, by key, with the place of its vector once it has one; unused words are removed
when erased text is scrubbed from the file. word_vectors_c: the words' vectors in the order in which they were given,
because keys are spread over the whole table of words, and a vector there would have each new word rewrite a page.

A row that was written without its bytes has none: the reader makes and keeps them.
"""

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.backends.vector_stores.base import Kept, KeptRows, KeptWords
from perdure.backends.vector_stores.sqlite.database import Collection, key_text, text_key
from perdure.backends.vector_stores.sqlite.read import parts_of, translate
from perdure.domain.filter import Filter
from perdure.domain.text.terms import key_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perdure.backends.vector_stores.base import Vector

_LOOKED_UP = 500
"""Words in one lookup: SQLite's smallest limit of bound values is 999; half as much time as `json_each` takes."""
_AT_A_TIME = 128  # rows fetched together: 200 kB, which the next ones take the place of
_WORTH_ALL = 0.4
"""The share of all words from which reading all of them takes less time than looking up those that are wanted."""
_SAMPLE = 100  # words by which their number is told within a fifth or so
_SWEPT = 4_096  # rows whose words are looked at together when unused words are taken out


def put(connection: sqlite3.Connection, c: int, kept: Sequence[tuple[int, Kept]]) -> None:
    """Store these bytes for the rows of these n, replacing earlier ones."""
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
    """Renumber rows, (new, old) each, that are otherwise unchanged."""
    connection.executemany(f"UPDATE recall_{c} SET n = ? WHERE n = ?", numbers)


def remove(connection: sqlite3.Connection, c: int, numbers: Sequence[tuple[int]]) -> None:
    """Delete the data of rows that are deleted or changed."""
    connection.executemany(f"DELETE FROM recall_{c} WHERE n = ?", numbers)


def keep(connection: sqlite3.Connection, collection: Collection, rows: Mapping[str, tuple[str, Kept]]) -> None:
    """Store derived data with rows, unless they have changed since."""
    c = collection.number
    found = connection.execute(
        f"SELECT id, n, updated_at FROM rows_{c} WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps([id for id in rows if isinstance(text_key(id), str)]),),
    )
    put(connection, c, [(n, rows[key_text(id)][1]) for id, n, moment in found if rows[key_text(id)][0] == moment])


def kept_rows(connection: sqlite3.Connection, collection: Collection, filter: Filter | None) -> KeptRows:
    """Return the matching rows with their data."""
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
    """Collects vectors in arrays: a list of all of them would take twice the memory."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._blank = bytes(4 * dimension)
        self._bytes = bytearray()

    def add(self, vectors: Sequence[bytes | None]) -> None:
        """Add vectors; zeros for a missing one."""
        blank = self._blank
        self._bytes += b"".join([blank if vector is None else vector for vector in vectors])

    def array(self) -> NDArray[np.float32]:
        """Return all of them in a new array."""
        import numpy as np

        return np.frombuffer(self._bytes, np.float32).reshape(-1, self._dimension)


# ------------------------------------------------------------------ words


def words(connection: sqlite3.Connection, collection: Collection, keys: Sequence[int]) -> KeptWords:
    import numpy as np

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
    """Yield the rows of these keys, some hundreds at a time; reads all rows if most are wanted."""
    if len(keys) > _LOOKED_UP and len(keys) > _WORTH_ALL * _number_of_words(connection, c):
        wanted = set(keys)
        cursor = connection.execute(f"{_with_vectors(c)} ORDER BY w.word")
        while rows := cursor.fetchmany(_AT_A_TIME):
            yield [row for row in rows if row[0] in wanted]
        return
    ordered = sorted(keys)
    for start in range(0, len(ordered), _LOOKED_UP):
        part = ordered[start : start + _LOOKED_UP]
        yield connection.execute(f"{_with_vectors(c)} WHERE w.word IN ({', '.join('?' * len(part))})", part).fetchall()


def _with_vectors(c: int) -> str:
    return f"SELECT w.word, w.text, v.vector FROM words_{c} w LEFT JOIN word_vectors_{c} v ON v.place = w.place"


def _number_of_words(connection: sqlite3.Connection, c: int) -> float:
    """Estimate the number of words in the table from its first ones: keys are hashes, spread evenly over 64 bits."""
    row = connection.execute(f"SELECT word FROM words_{c} ORDER BY word LIMIT 1 OFFSET {_SAMPLE}").fetchone()
    return _SAMPLE if row is None else _SAMPLE * 2.0**64 / (row[0] + 2.0**63 + 1)


def give_words(connection: sqlite3.Connection, collection: Collection, vectors: Mapping[str, Vector]) -> None:
    import numpy as np

    c = collection.number
    given = {key_of(word): np.asarray(vector, np.float32).tobytes() for word, vector in vectors.items()}
    known = connection.execute(
        f"SELECT word, place FROM words_{c} WHERE word IN (SELECT value FROM json_each(?))", (json.dumps(list(given)),)
    ).fetchall()
    (last,) = connection.execute(f"SELECT ifnull(max(place), 0) FROM word_vectors_{c}").fetchone()
    bare = [word for word, place in known if place is None]
    new = list(enumerate(bare, last + 1))
    placed = [(place, given[word]) for word, place in known if place is not None]
    connection.executemany(
        f"INSERT OR REPLACE INTO word_vectors_{c} (place, vector) VALUES (?, ?)",
        [*placed, *((place, given[word]) for place, word in new)],
    )
    connection.executemany(f"UPDATE words_{c} SET place = ? WHERE word = ?", new)


def sweep(connection: sqlite3.Connection, collection: Collection) -> None:
    """Remove words that no row has any longer, and damaged data, which is made again when it is read next."""
    import numpy as np

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
    connection.execute(
        f"DELETE FROM word_vectors_{c} WHERE place NOT IN (SELECT place FROM words_{c} WHERE place IS NOT NULL)"
    )


# ------------------------------------------------------------------ checking


def check(connection: sqlite3.Connection, collection: Collection) -> list[str]:
    import numpy as np

    c = collection.number
    found: list[str] = []
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (f"word_vectors_{c}",)).fetchone():
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
        f"SELECT count(*) FROM word_vectors_{c} WHERE length(vector) <> {4 * collection.dimension}"
    ).fetchone()
    if wrong:
        found.append(f"{wrong} words have vectors of another dimension in collection {collection.name!r}")
    (ownerless,) = connection.execute(
        f"SELECT count(*) FROM word_vectors_{c} v "
        f"WHERE v.place NOT IN (SELECT place FROM words_{c} WHERE place IS NOT NULL)"
    ).fetchone()
    if ownerless:
        found.append(f"{ownerless} vectors of words have no word in collection {collection.name!r}")
    return found
