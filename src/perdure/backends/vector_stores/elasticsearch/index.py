"""An index of memories: names, mapping, rows as documents, and filters as queries."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from perdure.backends.vector_stores.base import Shape
from perdure.backends.vector_stores.common.documents import Document, Row, decode, digest
from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span, word_token
from perdure.backends.vector_stores.common.rows import Place
from perdure.backends.vector_stores.common.scoring import K1, B
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS
from perdure.domain.text.readable import is_unicode

Clause = dict[str, Any]  # a query of the query DSL
LONGEST_KEYWORD = 8191
"""Characters of a keyword: Lucene takes 32,766 bytes of UTF-8, which are four for a character at most."""

_FORMAT = struct.Struct(">d")
_SIGN = 1 << 63
_ALL = (1 << 64) - 1
_FIRST, _LAST = "0" * 16, "f" * 16


def as_keyword(text: str) -> bool:
    """Whether a keyword field stores the text unchanged."""
    return len(text) <= LONGEST_KEYWORD and is_unicode(text)


def places(numbers: Mapping[str, float], moments: Mapping[str, int]) -> list[str]:
    """Return keywords for the numbers and times of a row, in sortable form for each field.

    A field for each name of a caller's would soon exceed the limit of an index. Only the record's own times have
    fields, because every search uses them.
    """
    found = [_place(path, "number", value) for path, value in numbers.items()]
    return found + [_place(path, "moment", float(value)) for path, value in moments.items() if path not in TIME_FIELDS]


def _place(path: str, kind: Literal["number", "moment"], value: float) -> str:
    return _family(path, kind) + _ordered(value)


def _family(path: str, kind: str) -> str:
    return digest(f"{kind} {path}", 10)


def _ordered(value: float) -> str:
    """Return sixteen digits that sort as the numbers do."""
    bits = int.from_bytes(_FORMAT.pack(value + 0.0), "big")  # -0.0 is 0
    return f"{bits ^ _ALL if bits & _SIGN else bits | _SIGN:016x}"


def _not(clause: Clause) -> Clause:
    return {"bool": {"must_not": [clause]}}


def _scope_is(field: str, values: Sequence[str]) -> Clause | None:
    return {"terms": {field: list(values)}} if all(map(as_keyword, values)) else None


def _scope_is_not(field: str, values: Sequence[str]) -> Clause | None:
    clause = _scope_is(field, values)
    return None if clause is None else _not(clause)


def _between(span: Span) -> Clause:
    if span.kind == "moment" and span.path in TIME_FIELDS:
        bounds: dict[str, int | str] = {}
        if span.low is not None:
            bounds["gte"] = math.ceil(span.low)
        if span.high is not None:
            bounds["lte"] = math.floor(span.high)
        return {"range": {f"moments.{span.path}": bounds}}
    family = _family(span.path, span.kind)
    low = _FIRST if span.low is None else _ordered(span.low)
    high = _LAST if span.high is None else _ordered(span.high)
    return {"range": {"places": {"gte": family + low, "lte": family + high}}}


GRAMMAR = Grammar[Clause](
    one_of=lambda tokens: {"terms": {"tokens": list(tokens)}},
    none_of=lambda tokens: _not({"terms": {"tokens": list(tokens)}}),
    every=lambda clauses: {"bool": {"filter": list(clauses)}},
    some=lambda clauses: {"bool": {"should": list(clauses), "minimum_should_match": 1}},
    scope_is=_scope_is,
    scope_is_not=_scope_is_not,
    between=_between,
    most_values=10_000,
)


MOST_DIMENSIONS = 4096  # numbers in a `dense_vector`
OWN = "perdure"  # the key of an index's `_meta` under which we say what it holds
_LONGEST_PLACE = 32_764  # digits of an id or a time that rows are sorted by; Lucene takes 32,766 bytes


def alias_of(prefix: str, name: str) -> str:
    """Return a collection's alias: readable, and different for names that differ in case or in one character."""
    slug = re.sub(r"[^a-z0-9_]+", "-", name.lower())[:60].strip("-")
    return f"{prefix}-{slug}-{digest(name, 8)}" if slug else f"{prefix}-{digest(name, 8)}"


def key_of(id: str) -> str:
    """Return the document id of a row's id, which may be too long or unusual for Elasticsearch."""
    return digest(id, 16)


def definition(alias: str, prefix: str, name: str, shape: Shape) -> dict[str, Any]:
    """Return the definition of a collection's index.

    Vectors are compared one by one (`flat`), which alone is exact inside a filter. Stems are ranked by BM25, each
    counted once for a row.
    """
    keyword = {"type": "keyword"}
    fields: dict[str, Any] = {
        "vector": {
            "type": "dense_vector",
            "dims": shape.dimension,
            "index": True,
            "similarity": "max_inner_product",
            "index_options": {"type": "flat"},
        },
        **{field: {**keyword, "doc_values": False} for field in SCOPE_FIELDS},
        "tokens": {**keyword, "doc_values": False},
        "places": {**keyword, "doc_values": False},
        "moments": {
            "dynamic": False,
            "properties": {field: {"type": "long", "doc_values": False} for field in sorted(TIME_FIELDS)},
        },
        "stems": {"type": "text", "analyzer": "whitespace", "index_options": "docs", "similarity": "stems"},
        "key": keyword,
        "time_order": keyword,
        "id_order": keyword,
    }
    meta = {"prefix": prefix, "collection": json.dumps(name), "dimension": shape.dimension, "model": shape.model}
    return {
        "aliases": {alias: {"is_write_index": True}},
        "settings": {"index": {"similarity": {"stems": {"type": "BM25", "k1": K1, "b": B}}}},
        "mappings": {
            "dynamic": False,
            "_meta": {OWN: meta},
            # The numbers lie in the index already, and `packed` gives them back.
            "_source": {"excludes": ["vector"]},
            "properties": fields,
        },
    }


def read_meta(mapping: Mapping[str, Any], prefix: str) -> tuple[str, Shape] | None:
    """Return the collection of an index, if it is one of this store's."""
    meta = mapping.get("mappings", {}).get("_meta", {}).get(OWN)
    if not isinstance(meta, dict) or meta.get("prefix") != prefix or "collection" not in meta:
        return None
    return json.loads(meta["collection"]), Shape(meta["dimension"], meta["model"])


def fields_of(document: Document) -> dict[str, Any]:
    """Return the document's fields; `record`, `packed` and `memory` are stored only."""
    time, id = order_of((document.created_at, document.id))
    fields: dict[str, Any] = {
        "record": document.record,
        "memory": document.memory,
        **{field: value for field, value in document.scope.items() if as_keyword(value)},
        "tokens": document.tokens,
        "places": places(document.numbers, document.moments),
        "moments": {path: value for path, value in document.moments.items() if path in TIME_FIELDS},
        "stems": stems_text(document.stems),
        "key": key_of(document.id),
        "time_order": time,
        "id_order": id,
    }
    if document.vector is not None:
        # Nine decimals are what a float32 tells of a number in a vector of length 1, and half as long to write.
        fields["vector"] = np.round(document.vector.astype(np.float64), 9).tolist()
        fields["packed"] = base64.b64encode(document.vector.astype("<f4").tobytes()).decode()
    return fields


KEPT = ("record", "packed")  # what a row is read from, with its vector


def row_of(source: Mapping[str, Any]) -> Row:
    """Return the row of a document, with its vector if `packed` was requested."""
    packed = source.get("packed")
    return decode(source["record"], None if packed is None else np.frombuffer(base64.b64decode(packed), "<f4"))


def stems_text(stems: Sequence[str]) -> str:
    """Return stems for an analyzer that splits at spaces and cuts long words."""
    return " ".join(map(word_token, stems))


def order_of(place: Place) -> tuple[str, str]:
    """Return keywords that sort as the place does: any text, by code point."""
    return _digits(place[0]), _digits(place[1])


def in_order(order: tuple[str, str]) -> bool:
    """Whether nothing was cut off."""
    return max(map(len, order)) < _LONGEST_PLACE


def _digits(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").hex()[:_LONGEST_PLACE]
