"""The rows of one collection in Redis, searched by RediSearch or a vector set, and their filters."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import redis
from redis.commands.core import Script
from redis.exceptions import ResponseError

from perdure.backends.vector_stores.base import Vector
from perdure.backends.vector_stores.common.documents import Document, Row, decode
from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span
from perdure.backends.vector_stores.common.rows import Place, place_of
from perdure.backends.vector_stores.common.scoring import exact_scores
from perdure.backends.vector_stores.redis.collections import Collection, Collections, is_no_index, script
from perdure.domain.errors import VectorStoreError
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,127}")
"""Texts that a tag field keeps as they are: others it trims, or splits at its separator."""

_ESCAPED = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class Has:
    """Rows with one of these tokens, or with none of them."""

    tokens: tuple[str, ...]
    positive: bool = True


@dataclass(frozen=True, slots=True)
class ScopeIs:
    """Rows whose scope field is one of these plain texts, or none of them."""

    field: str
    values: tuple[str, ...]
    positive: bool = True


@dataclass(frozen=True, slots=True)
class Within:
    """Rows whose time field lies between two inclusive bounds, in microseconds since 1970."""

    field: str
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Joined:
    """Rows that satisfy all of the parts, or one of them."""

    parts: tuple[Clause, ...]
    every: bool


Clause = Has | ScopeIs | Within | Joined
Plan = list[object]
"""A clause as our scripts read it: ["any" | "none", names], ["within", field, low, high], ["and" | "or", plans]."""


def _scope(field: str, values: Sequence[str], *, positive: bool = True) -> Clause | None:
    return ScopeIs(field, tuple(values), positive) if all(map(_PLAIN.fullmatch, values)) else None


def _between(span: Span) -> Clause | None:
    timed = span.kind == "moment" and span.path in TIME_FIELDS
    return Within(span.path, span.low, span.high) if timed else None


GRAMMAR = Grammar[Clause](
    one_of=lambda tokens: Has(tuple(tokens)),
    none_of=lambda tokens: Has(tuple(tokens), positive=False),
    every=lambda clauses: Joined(tuple(clauses), every=True),
    some=lambda clauses: Joined(tuple(clauses), every=False),
    scope_is=_scope,
    scope_is_not=partial(_scope, positive=False),
    between=_between,
)
"""Tokens answer for every field; scopes of plain text and time fields have indexes of their own."""


def plain_scopes(scope: Mapping[str, str]) -> dict[str, str]:
    """Return the scope fields that have an index of their own."""
    return {field: value for field, value in scope.items() if field in SCOPE_FIELDS and _PLAIN.fullmatch(value)}


def scope_set(field: str, value: str) -> str:
    """Return the name of the set of a scope's rows."""
    return f"{field}={value}"


def _number(value: float | None, missing: str) -> str:
    return missing if value is None else format(value, ".17g")


def to_query(clause: Clause | None) -> str:
    if clause is None:
        return "*"
    if isinstance(clause, Has):
        return f"{_sign(clause.positive)}@tokens:{{{'|'.join(clause.tokens)}}}"
    if isinstance(clause, ScopeIs):
        values = "|".join(_ESCAPED.sub(r"\\\g<0>", value) for value in clause.values)
        return f"{_sign(clause.positive)}@{clause.field}:{{{values}}}"
    if isinstance(clause, Within):
        return f"@{clause.field}:[{_number(clause.low, '-inf')} {_number(clause.high, 'inf')}]"
    return "(" + (" " if clause.every else " | ").join(f"({to_query(part)})" for part in clause.parts) + ")"


def _sign(positive: bool) -> str:
    return "" if positive else "-"


def to_plan(clause: Clause | None) -> Plan | None:
    if clause is None:
        return None
    if isinstance(clause, Has):
        return ["any" if clause.positive else "none", list(clause.tokens)]
    if isinstance(clause, ScopeIs):
        names = [scope_set(clause.field, value) for value in clause.values]
        return ["any" if clause.positive else "none", names]
    if isinstance(clause, Within):
        return ["within", clause.field, _number(clause.low, "-inf"), _number(clause.high, "inf")]
    return ["and" if clause.every else "or", [to_plan(part) for part in clause.parts]]


PAGE = 2000  # rows that are read in one step
FEW = 4000
"""Rows of a scope up to which their vectors are fetched and scored here: faster than a pass over a whole vector set."""

Scored = list[tuple[Row, float]]


class Stale(Exception):
    """The collection was deleted, emptied or recreated since this process looked it up."""


class Scripts:
    """Our scripts, registered with one client."""

    def __init__(self, client: redis.Redis) -> None:
        self.write = script(client, "common", "write")
        self.fetch = script(client, "common", "fetch")
        self.walk = script(client, "common", "walk")
        self.select = script(client, "common", "plan", "select")
        self.count = script(client, "common", "plan", "count")
        self.nearest = script(client, "common", "plan", "nearest")
        self.audit = script(client, "common", "audit")


class Rows(ABC):
    """The rows of a collection as looked up; methods raise Stale if it was replaced."""

    def __init__(
        self, client: redis.Redis, known: Scripts, collections: Collections, name: str, collection: Collection
    ) -> None:
        self.collection = collection
        self._client: Any = client
        self._scripts = known
        self._keys = [collections.key]
        self._head: list[Any] = [collections.prefix, name.encode("utf-8", "surrogatepass"), collection.number]
        self._base = collections.base(collection.number)

    def _run(self, script: Script, *arguments: Any) -> Any:
        try:
            return script(keys=self._keys, args=[*self._head, *arguments])
        except ResponseError as error:
            if str(error).startswith("STALE"):
                raise Stale from None
            raise

    def write(self, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        arguments: list[Any] = [len(documents)]
        for document in documents:
            tokens, fields = self._indexed(document)
            for path, moment in document.moments.items():
                if path in TIME_FIELDS:
                    fields[f"at:{path}"] = str(moment)
            pairs = [part for pair in fields.items() for part in pair]
            vector = b"" if document.vector is None else document.vector.astype("<f4").tobytes()
            place = _place_key((document.created_at, document.id))
            arguments += [_id(document.id), document.record, place, ",".join(tokens), vector, len(pairs), *pairs]
        self._run(self._scripts.write, *arguments, *map(_id, deletes))

    @abstractmethod
    def _indexed(self, document: Document) -> tuple[list[str], dict[str, str]]:
        """Return the tokens for the index, and further fields of the row."""

    def fetch(self, ids: Sequence[str | bytes], *, with_vectors: bool) -> list[Row]:
        asked = [_id(id) if isinstance(id, str) else id for id in ids]
        return _rows(self._run(self._scripts.fetch, int(with_vectors), *asked))

    def walk(self, after: Place | None, limit: int, *, with_vectors: bool) -> list[Row]:
        start = b"" if after is None else _place_key(after)
        return _rows(self._run(self._scripts.walk, int(with_vectors), start, limit))

    def scan(self, clause: Clause | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        """Yield every row of the clause in pages; the rows of a page are of one moment."""
        if clause is not None:
            yield from self._matching(clause, with_vectors=with_vectors)
            return
        after: Place | None = None
        while page := self.walk(after, PAGE, with_vectors=with_vectors):
            yield page
            if len(page) < PAGE:
                return
            after = place_of(page[-1].id, page[-1].payload)

    def count(self, clause: Clause | None) -> int:
        return int(self._run(self._scripts.count, "", 0)) if clause is None else self._count(clause)

    def estimate(self, clause: Clause) -> int:
        """Return roughly how many rows satisfy the clause, and never too few."""
        return self._count(clause)

    def audit(self) -> list[str]:
        """Return one sentence for each inconsistency between rows and indexes."""
        rows, lost, embedded, vectors = map(int, self._run(self._scripts.audit))
        found = [f"{lost} of {rows} rows are listed but gone: was the server told to evict keys?"] if lost else []
        if embedded != vectors:
            found.append(f"{embedded} rows have a vector, and the vector set has {vectors}")
        return found

    @abstractmethod
    def _matching(self, clause: Clause, *, with_vectors: bool) -> Iterator[list[Row]]: ...

    @abstractmethod
    def _count(self, clause: Clause) -> int: ...

    @abstractmethod
    def nearest(self, query: Vector, limit: int, clause: Clause | None) -> Scored:
        """Return the rows with the highest inner product, best first."""


class SearchRows(Rows):
    """Rows indexed by RediSearch: tags for tokens and scopes, numbers for times, one flat vector field."""

    def _indexed(self, document: Document) -> tuple[list[str], dict[str, str]]:
        return document.tokens, plain_scopes(document.scope)

    def nearest(self, query: Vector, limit: int, clause: Clause | None) -> Scored:
        parameters = ["PARAMS", 4, "count", limit, "query", query.astype("<f4").tobytes()]
        shown = ["RETURN", 2, "record", "distance", "SORTBY", "distance", "LIMIT", 0, limit]
        among = to_query(clause) if clause is None else f"({to_query(clause)})"  # a bare negation would be no filter
        text = f"{among}=>[KNN $count @vector $query AS distance]"
        _, results = self._search(text, *parameters, *shown)
        return [(_row(fields[b"record"]), 1.0 - float(fields[b"distance"])) for fields in results]

    def _matching(self, clause: Clause, *, with_vectors: bool) -> Iterator[list[Row]]:
        shown = ["RETURN", 2, "record", "vector"] if with_vectors else ["RETURN", 1, "record"]
        total, results = self._search(to_query(clause), *shown, "LIMIT", 0, PAGE)
        if total <= PAGE:
            yield [_row(fields[b"record"], fields.get(b"vector")) for fields in results]
            return
        for ids in self._ids(clause):
            yield self.fetch(ids, with_vectors=with_vectors)

    def _ids(self, clause: Clause) -> Iterator[list[bytes]]:
        """Yield the ids of all rows of the clause."""
        begin = len(f"{self._base}:row:")
        how = ["LOAD", 1, "@__key", "TIMEOUT", 0, "WITHCURSOR", "COUNT", PAGE, "DIALECT", 2]
        found, cursor = self._call("FT.AGGREGATE", self._base, to_query(clause), *how)
        while True:
            yield [fields[b"__key"][begin:] for fields in _results(found)[1]]
            if not cursor:
                return
            found, cursor = self._call("FT.CURSOR", "READ", self._base, cursor, "COUNT", PAGE)

    def _count(self, clause: Clause) -> int:
        return self._search(to_query(clause), "LIMIT", 0, 0)[0]

    def audit(self) -> list[str]:
        found = super().audit()
        for _ in range(3):  # others may write between the two looks
            rows = self.count(None)
            indexed = self._search("*", "LIMIT", 0, 0)[0]
            if rows == indexed:
                return found
        return [*found, f"there are {rows} rows, and the index {self._base} has {indexed}"]

    def _search(self, query: str, *arguments: Any) -> tuple[int, list[dict[bytes, bytes]]]:
        # Without a limit of its own a query that takes long would come back with a part of its rows.
        return _results(self._call("FT.SEARCH", self._base, query, *arguments, "TIMEOUT", 0, "DIALECT", 2))

    def _call(self, command: str, *arguments: Any) -> Any:
        try:
            return self._client.execute_command(command, *arguments)
        except ResponseError as error:
            if is_no_index(error):
                raise Stale from None
            raise


class VectorSetRows(Rows):
    """Rows without RediSearch: sets of rows for each token, and a vector set for the vectors."""

    def _indexed(self, document: Document) -> tuple[list[str], dict[str, str]]:
        scopes = plain_scopes(document.scope)
        return [*document.tokens, *(scope_set(field, value) for field, value in scopes.items())], {}

    def nearest(self, query: Vector, limit: int, clause: Clause | None) -> Scored:
        plan = "" if clause is None else json.dumps(to_plan(clause))
        how, found = self._run(self._scripts.nearest, query.astype("<f4").tobytes(), limit, plan, FEW)
        if how == b"scores":  # a vector set tells (1 + cosine) / 2
            return [(_row(record), 2.0 * float(score) - 1.0) for record, score in _pairs(found)]
        if not found:
            return []
        matrix = np.stack([np.frombuffer(vector, "<f4") for _, vector in _pairs(found)])
        scores = exact_scores(matrix, query)
        best = np.argsort(-scores, kind="stable")[:limit].tolist()
        return [(_row(found[2 * place]), float(scores[place])) for place in best]

    def _matching(self, clause: Clause, *, with_vectors: bool) -> Iterator[list[Row]]:
        many, rows = self._run(self._scripts.select, int(with_vectors), json.dumps(to_plan(clause)), PAGE)
        yield _rows(rows)
        for begin in range(0, len(many), PAGE):
            yield self.fetch(many[begin : begin + PAGE], with_vectors=with_vectors)

    def _count(self, clause: Clause) -> int:
        return int(self._run(self._scripts.count, json.dumps(to_plan(clause)), 0))

    def estimate(self, clause: Clause) -> int:
        return int(self._run(self._scripts.count, json.dumps(to_plan(clause)), 1))


def _results(answer: Mapping[bytes, Any]) -> tuple[int, list[dict[bytes, bytes]]]:
    """Return the number of results of a RediSearch query, and the returned fields."""
    if warnings := answer.get(b"warning"):
        said = ", ".join(warning.decode("utf-8", "replace") for warning in warnings)
        raise VectorStoreError(f"redis: the Search module left rows out: {said[:200]}")
    fields = [found.get(b"extra_attributes") for found in answer[b"results"]]
    if not all(fields):  # a server with threads for queries: a row was deleted while it was being found
        raise Stale
    return int(answer[b"total_results"]), fields


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _rows(flat: Sequence[bytes]) -> list[Row]:
    return [_row(record, vector) for record, vector in _pairs(flat)]


def _row(record: bytes, vector: bytes | None = None) -> Row:
    return decode(record.decode(), np.frombuffer(vector, "<f4") if vector else None)


def _id(id: str) -> bytes:
    return id.encode("utf-8", "surrogatepass")


def _place_key(place: Place) -> bytes:
    """Return a key whose bytes sort as the pair does: UTF-8 keeps the code point order, NUL ends the first part."""
    created_at, id = place
    return _id(created_at).replace(b"\x00", b"\x00\xff") + b"\x00\x01" + _id(id)
