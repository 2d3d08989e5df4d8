"""Keyword search: the full-text index tells which rows have a word, BM25 how much that is worth.

SQLite's own bm25() counts a word over all tenants of the file for every query (80 ms at a million rows, and one
tenant's texts would move another's scores). Here a word's rarity is that among the rows asked about, read from the
part of the index where they lie.
"""

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)

from __future__ import annotations

import json
import sqlite3

import numpy as np
from numpy.typing import NDArray

from perdure.backends.vector_stores._sqlite_filter import translate
from perdure.backends.vector_stores._sqlite_read import Part, parts_of
from perdure.backends.vector_stores._sqlite_schema import Collection
from perdure.backends.vector_stores._sqlite_search import Found, Rows, hits
from perdure.backends.vector_stores._words import sum_rarities, word_scores
from perdure.backends.vector_stores.base import Hit
from perdure.domain.filter import Filter
from perdure.domain.terms import index_text, query_words

_EVERYWHERE = (0, 2**63 - 1)


def keyword_search(
    connection: sqlite3.Connection, collection: Collection, text: str, limit: int, filter: Filter | None
) -> list[Hit]:
    """The rows that share words with the text, best first, equal ones by id."""
    asked = [_phrase(word) for word in query_words(text).values()]
    parts = parts_of(connection, collection, filter)
    if not asked or not parts:
        return []
    strangers, total = _universe(connection, collection, parts)
    postings = [_posting(connection, collection, parts, strangers, phrase) for phrase in asked]
    ns, weights = sum_rarities(postings, total)
    scores = word_scores(weights, _lengths(connection, collection, ns))
    condition = translate(filter)
    rows = Rows(connection, collection, Part(condition), condition)
    return hits(connection, collection, _best(rows, ns, scores, limit))


def _best(rows: Rows, ns: NDArray[np.int64], scores: NDArray[np.float64], limit: int) -> list[Found]:
    """The best rows that match, tested in the order of their scores until there are enough."""
    order = np.argsort(-scores, kind="stable")
    losses = -scores[order]
    found: list[Found] = []
    tested, size = 0, limit + limit // 2 + 16
    while tested < len(order) and len(found) < limit:
        last = losses[min(tested + size, len(order)) - 1]
        stop = int(np.searchsorted(losses, last, side="right"))  # rows of one score together: ties go by id
        chunk = ns[order[tested:stop]].tolist()
        matched = rows.among(chunk)
        found += [
            Found(loss, matched[n], n)
            for n, loss in zip(chunk, losses[tested:stop].tolist(), strict=True)
            if n in matched
        ]
        tested, size = stop, size * 4
    return sorted(found)[:limit]


def _phrase(word: str) -> str:
    """The word in FTS5's query language, where it can be nothing but a word."""
    return '"' + index_text(word).replace('"', '""') + '"'


def _universe(
    connection: sqlite3.Connection, collection: Collection, parts: list[Part]
) -> tuple[NDArray[np.int64] | None, int]:
    """Of the parts that are no home the rows' n (None where a range tells them), and how many rows all parts have."""
    c = collection.number
    total = 0
    strangers: list[NDArray[np.int64]] = []
    for part in parts:
        if part.home is not None:
            total += part.home.count
        elif not part.where.values:
            return None, connection.execute(f"SELECT ifnull(sum(count), 0) FROM homes_{c}").fetchone()[0]
        else:
            rows = connection.execute(f"SELECT r.n FROM rows_{c} r WHERE {part.where.text}", part.where.values)
            strangers.append(np.sort(np.fromiter((n for (n,) in rows), np.int64)))
            total += len(strangers[-1])
    return (strangers[0] if strangers else None), total


def _posting(
    connection: sqlite3.Connection,
    collection: Collection,
    parts: list[Part],
    strangers: NDArray[np.int64] | None,
    phrase: str,
) -> NDArray[np.int64]:
    """The n of the rows of the parts that have the phrase."""
    found = []
    for part in parts:
        if part.home is not None:
            found.append(_with_phrase(connection, collection, phrase, part.home.span))
        elif not part.where.values:
            found.append(_with_phrase(connection, collection, phrase, _EVERYWHERE))
        elif strangers is not None and len(strangers):
            everywhere = _with_phrase(connection, collection, phrase, (int(strangers[0]), int(strangers[-1])))
            found.append(np.intersect1d(everywhere, strangers, assume_unique=True))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _with_phrase(
    connection: sqlite3.Connection, collection: Collection, phrase: str, span: tuple[int, int]
) -> NDArray[np.int64]:
    table = f"text_{collection.number}"
    rows = connection.execute(
        f"SELECT rowid FROM {table} WHERE {table} MATCH ? AND rowid BETWEEN ? AND ?", (phrase, *span)
    )
    return np.fromiter((n for (n,) in rows), np.int64)


def _lengths(connection: sqlite3.Connection, collection: Collection, ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many words each row's text has, from the index's own table of sizes (FTS5 documentation, section 9.5)."""
    rows = connection.execute(
        f"SELECT id, sz FROM text_{collection.number}_docsize WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(ns.tolist()),),
    ).fetchall()
    lengths = np.ones(len(ns), np.float64)
    places = np.searchsorted(ns, np.fromiter((n for n, _ in rows), np.int64, len(rows)))
    lengths[places] = np.fromiter((_varint(size) for _, size in rows), np.float64, len(rows))
    return lengths


def _varint(data: bytes) -> int:
    """SQLite's variable-length integer: seven bits a byte, the highest bit says that more follow."""
    value = 0
    for byte in data:
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            break
    return value
