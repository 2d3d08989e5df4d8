"""An index as the store makes it, and rows as its documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from azure.search.documents.indexes.models import (
    ExhaustiveKnnAlgorithmConfiguration,
    ExhaustiveKnnParameters,
    SearchField,
    SearchIndex,
    VectorSearch,
    VectorSearchProfile,
)

from perdure.backends.vector_stores._azure_ai_search_filter import TOKENS, is_plain
from perdure.backends.vector_stores._document_engine import Shape
from perdure.backends.vector_stores._documents import Document, Row, decode
from perdure.backends.vector_stores._facets import word_token
from perdure.backends.vector_stores._names import digest
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS

KEY = "key"
RECORD = "record"
STEMS = "stems"
VECTOR = "vector"
WRITTEN = "written"
"""When a document was written, in microseconds: it tells whether what is read is what was written, or later."""

_OWN = "perdure"
_EXACT = "exact"
_MOST_DOCUMENTS = 1_000
_MOST_BYTES = 15_000_000
"""What one request may hold: 16 MB, of which a part is for what stands around the documents."""
_EPSILON = 1e-20
"""Stands for zero, so that no engine's treatment of vectors of length 0 matters."""


def index_name(prefix: str, name: str) -> str:
    """The index of a collection: Azure takes lower case letters, digits and single dashes."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
    last = digest(json.dumps([prefix, name]), 8)
    return f"{prefix}-{slug}-{last}" if slug else f"{prefix}-{last}"


def _field(name: str, type: str, *uses: str, **more: Any) -> SearchField:
    """A field that is kept, and good for the uses named alone: by default Azure indexes for all of them."""
    flags = {use: use in uses for use in ("searchable", "filterable", "sortable", "facetable")}
    return SearchField(name=name, type=type, retrievable=True, **flags, **more)


def definition(index: str, prefix: str, name: str, shape: Shape) -> SearchIndex:
    """The index of a collection; its description holds what Azure has no place for."""
    fields = [
        _field(KEY, "Edm.String", "filterable", "sortable", key=True),
        _field(RECORD, "Edm.String"),
        _field("memory", "Edm.String"),
        _field(STEMS, "Edm.String", "searchable", analyzer_name="whitespace"),
        _field(TOKENS, "Collection(Edm.String)", "filterable"),
        _field(WRITTEN, "Edm.Int64"),
        *(_field(scope, "Edm.String", "filterable") for scope in SCOPE_FIELDS),
        *(_field(moment, "Edm.Int64", "filterable", "sortable") for moment in sorted(TIME_FIELDS)),
        _field(
            VECTOR,
            "Collection(Edm.Single)",
            "searchable",
            vector_search_dimensions=shape.dimension,
            vector_search_profile_name=_EXACT,
        ),
    ]
    exact = ExhaustiveKnnAlgorithmConfiguration(name=_EXACT, parameters=ExhaustiveKnnParameters(metric="dotProduct"))
    return SearchIndex(
        name=index,
        description=json.dumps({_OWN: prefix, "collection": name, "model": shape.model}),
        fields=fields,
        vector_search=VectorSearch(
            profiles=[VectorSearchProfile(name=_EXACT, algorithm_configuration_name=_EXACT)], algorithms=[exact]
        ),
    )


def identity_definition(index: str, prefix: str, identity: str) -> SearchIndex:
    """An index without documents, whose description tells the store's id: it is made whole or not at all."""
    return SearchIndex(
        name=index,
        description=json.dumps({_OWN: prefix, "identity": identity}),
        fields=[_field(KEY, "Edm.String", key=True)],
    )


def described(index: SearchIndex, prefix: str) -> Mapping[str, str]:
    """What the description of one of our indexes holds; nothing for those of others."""
    try:
        held = json.loads(index.description or "")
    except ValueError:
        return {}
    return held if isinstance(held, dict) and held.get(_OWN) == prefix else {}


def shape_of(index: SearchIndex, model: str) -> Shape:
    """The shape of the collection whose index this is."""
    (vector,) = (field for field in index.fields if field.name == VECTOR)
    return Shape(int(vector.vector_search_dimensions or 0), model)


def key_of(id: str) -> str:
    """The key of a row's document: Azure takes letters, digits, _, - and =."""
    return digest(id, 16)


def document_of(document: Document, written: int) -> dict[str, Any]:
    """The document as it is sent."""
    vector: list[float] | None = None
    if document.vector is not None:
        vector = document.vector.tolist()
        if not document.vector.any():
            vector[0] = _EPSILON
    return {
        KEY: key_of(document.id),
        RECORD: document.record,
        "memory": document.memory,
        # Words as tokens: whatever a word is made of, and however long it is, it stays one, and is no syntax.
        STEMS: " ".join(map(word_token, document.stems)),
        TOKENS: document.tokens,
        WRITTEN: written,
        VECTOR: vector,
        **{scope: text for scope, text in document.scope.items() if is_plain(text)},
        **{name: document.moments[name] for name in TIME_FIELDS if name in document.moments},
    }


def row_of(found: Mapping[str, Any]) -> Row:
    """The row of a document; with its vector where that was asked for."""
    vector = found.get(VECTOR)
    return decode(found[RECORD], None if vector is None else np.array(vector, np.float32))


def batches(documents: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The documents in as few requests as Azure allows."""
    batch: list[dict[str, Any]] = []
    held = 0
    for document in documents:
        size = len(json.dumps(document))
        if batch and (len(batch) == _MOST_DOCUMENTS or held + size > _MOST_BYTES):
            yield batch
            batch, held = [], 0
        batch.append(document)
        held += size
    if batch:
        yield batch
