"""What an index of memories looks like: its names, its mapping, and a row as a document of it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from perdure.backends.vector_stores.base import Shape
from perdure.backends.vector_stores.common.documents import Document, Row, decode
from perdure.backends.vector_stores.common.filter_clauses import word_token
from perdure.backends.vector_stores.common.names import digest
from perdure.backends.vector_stores.common.rows import Place
from perdure.backends.vector_stores.common.words import K1, B
from perdure.backends.vector_stores.elasticsearch.filter import as_keyword, places
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS

MOST_DIMENSIONS = 4096
"""Numbers in a `dense_vector`."""

OWN = "perdure"
"""The key of an index's `_meta` under which we say what it holds."""

_LONGEST_PLACE = 32_764
"""Digits of an id or a time that rows are sorted by; Lucene takes 32,766 bytes."""


# ------------------------------------------------------------------ names


def alias_of(prefix: str, name: str) -> str:
    """The alias of a collection: readable, and different for names that differ in case or in a sign only."""
    slug = re.sub(r"[^a-z0-9_]+", "-", name.lower())[:60].strip("-")
    return f"{prefix}-{slug}-{digest(name, 8)}" if slug else f"{prefix}-{digest(name, 8)}"


def key_of(id: str) -> str:
    """The document's id for a row's, which may be longer and odder than Elasticsearch permits."""
    return digest(id, 16)


# ------------------------------------------------------------------ collections


def definition(alias: str, prefix: str, name: str, shape: Shape) -> dict[str, Any]:
    """What a collection's index is made of.

    Vectors are compared one by one (`flat`), since only that is exact inside a filter. Stems are ranked by BM25, each
    once for a row however often it stands there.
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
    """The collection that an index holds, if it is one of this store's."""
    meta = mapping.get("mappings", {}).get("_meta", {}).get(OWN)
    if not isinstance(meta, dict) or meta.get("prefix") != prefix or "collection" not in meta:
        return None
    return json.loads(meta["collection"]), Shape(meta["dimension"], meta["model"])


# ------------------------------------------------------------------ documents


def fields_of(document: Document) -> dict[str, Any]:
    """The document as it is indexed; `record`, `packed` and `memory` are kept only."""
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


KEPT = ("record", "packed")
"""What a row is read from, with its vector."""


def row_of(source: Mapping[str, Any]) -> Row:
    """The row that a document holds; with its vector where `packed` was asked for."""
    packed = source.get("packed")
    return decode(source["record"], None if packed is None else np.frombuffer(base64.b64decode(packed), "<f4"))


def stems_text(stems: Sequence[str]) -> str:
    """Stems for an analyzer that splits at spaces and cuts long words."""
    return " ".join(map(word_token, stems))


def order_of(place: Place) -> tuple[str, str]:
    """Keywords that sort as the place does: any text, code point by code point."""
    return _digits(place[0]), _digits(place[1])


def in_order(order: tuple[str, str]) -> bool:
    """Whether nothing was cut off."""
    return max(map(len, order)) < _LONGEST_PLACE


def _digits(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").hex()[:_LONGEST_PLACE]
