"""A collection as a class of Weaviate's schema, and what the class's description tells of it.

Classes are made by consensus of the cluster, at once or not at all: so the description, which comes with them, is where
the true name, the dimension and the model of a collection are kept, and the identity of the store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from perdure.backends.vector_stores._document_engine import Shape
from perdure.backends.vector_stores._names import digest
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS

VECTOR = "default"
"""The name of the one vector of an object."""
RECORD, MEMORY, TOKENS, STEMS, SLOT = "record", "memory", "tokens", "stems", "slot"

RANGED: Mapping[str, Literal["number", "moment"]] = {
    **dict.fromkeys(sorted(TIME_FIELDS), "moment"),
    "importance": "number",
    "confidence": "number",
}
"""Fields whose order Weaviate compares, by path: kept as numbers, moments as microseconds since 1970."""

WHOLE_SCOPE = 2**31 - 1
"""Rows of a filter up to which Weaviate compares every vector instead of walking its graph: all that it can hold."""

_MARK = "perdure"


def class_prefix(namespace: str) -> str:
    """What the names of all classes of a namespace begin with, apart from the store's own class."""
    return f"{namespace.capitalize()}_"


def store_class(namespace: str) -> str:
    """The class whose description keeps the identity of the store; it has no objects."""
    return namespace.capitalize()


def class_name(namespace: str, collection: str) -> str:
    """The class of a collection: readable, and another for every name, whatever Weaviate makes of case and signs."""
    slug = re.sub(r"[^a-z0-9]", "_", collection.lower())[:60]
    return f"{class_prefix(namespace)}{slug}_{digest(collection, 6)}"


def describe(**told: Any) -> str:
    """The description of a class of ours."""
    return json.dumps({_MARK: 1, **told})


def described(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the description of a class tells, or None if the class is none of ours."""
    try:
        told = json.loads(found.get("description") or "")
    except ValueError:
        return None
    return told if isinstance(told, dict) and told.get(_MARK) == 1 else None


def shape_of(found: Mapping[str, Any]) -> tuple[str, Shape] | None:
    """The true name and the shape of the collection that a class is, or None."""
    told = described(found)
    if told is None or not isinstance(told.get("name"), str) or not isinstance(told.get("dimension"), int):
        return None
    return told["name"], Shape(told["dimension"], str(told.get("model", "")))


def store_definition(name: str, identity: str) -> dict[str, Any]:
    """The store's own class."""
    return {"class": name, "description": describe(identity=identity), "vectorizer": "none", "properties": []}


def collection_definition(name: str, collection: str, shape: Shape) -> dict[str, Any]:
    """The class of a collection.

    Every search has a filter and compares each vector in it (see WHOLE_SCOPE), so the graph is never walked and is made
    as small as it may be. Nothing is compressed, whatever the server's default is: scores would be rounded.
    """
    index = {
        "distance": "dot",
        "flatSearchCutoff": WHOLE_SCOPE,
        "efConstruction": 4,
        "maxConnections": 4,
        "skipDefaultQuantization": True,
    }
    vector = {"vectorizer": {"none": {}}, "vectorIndexType": "hnsw", "vectorIndexConfig": index}
    return {
        "class": name,
        "description": describe(name=collection, dimension=shape.dimension, model=shape.model),
        "vectorConfig": {VECTOR: vector},
        "invertedIndexConfig": {"stopwords": {"preset": "none"}},
        "properties": [
            _property(RECORD),
            _property(MEMORY),
            _property(TOKENS, "text[]", filterable=True),
            _property(STEMS, searchable=True, tokenization="whitespace"),
            *(_property(field, filterable=True) for field in SCOPE_FIELDS),
            *(_property(field, "number", ranged=True) for field in (SLOT, *RANGED)),
        ],
    }


def _property(
    name: str,
    kind: str = "text",
    *,
    filterable: bool = False,
    searchable: bool = False,
    ranged: bool = False,
    tokenization: str = "field",
) -> dict[str, Any]:
    text = {"tokenization": tokenization, "indexSearchable": searchable} if kind.startswith("text") else {}
    return {
        "name": name,
        "dataType": [kind],
        "indexFilterable": filterable,
        "indexRangeFilters": ranged,
        **text,
    }


def fits_keyword(text: str) -> bool:
    """Whether Weaviate keeps and compares a text as it is: it drops white space around a keyword, and NUL is none."""
    return (
        bool(text) and text == text.strip() and "\x00" not in text and text.encode("utf-8", "replace").decode() == text
    )
