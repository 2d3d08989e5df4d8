"""The vector store on Azure AI Search: an index for each collection, exhaustive filtered search, BM25 for words."""

from __future__ import annotations

import contextlib
import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import requests
from azure.core import exceptions
from azure.core.credentials import AzureKeyCredential
from azure.core.pipeline.transport import RequestsTransport
from azure.search.documents import SearchClient
from azure.search.documents.indexes import SearchIndexClient, models
from azure.search.documents.models import VectorizedQuery
from pydantic import Field, SecretStr, field_validator
from requests.adapters import HTTPAdapter

from perdure.backends.http.service import key_or_fail, secret_from, text_from
from perdure.backends.shared.batches import bounded_batches
from perdure.backends.vector_stores.base import Names, Shape, Vector
from perdure.backends.vector_stores.common.document_store import (
    DocumentStore,
    EngineSettings,
    Failure,
    MissingCollection,
    NotYetReadable,
    wait_until,
)
from perdure.backends.vector_stores.common.documents import Document, Row, decode, digest
from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span, word_token
from perdure.domain.errors import ConfigError, VectorStoreError
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS
from perdure.domain.text.readable import is_unicode

Clause = str
TOKENS = "tokens"
_LONGEST_TEXT = 32_766  # bytes of a text that can be filtered by


def is_plain(text: str) -> bool:
    """Whether the text can be sent and indexed as it is; others are found by their tokens."""
    return "\x00" not in text and is_unicode(text) and len(text.encode()) <= _LONGEST_TEXT


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _between(span: Span) -> Clause | None:
    if span.kind != "moment" or span.path not in TIME_FIELDS:
        return None
    parts = [f"{span.path} ne null"]  # what an order says of no value is not documented
    if span.low is not None:
        parts.append(f"{span.path} ge {int(span.low)}")
    if span.high is not None:
        parts.append(f"{span.path} le {int(span.high)}")
    return f"({' and '.join(parts)})"


def _scope_is(field: str, values: Sequence[str]) -> Clause | None:
    return f"{field} eq {quoted(values[0])}" if len(values) == 1 and is_plain(values[0]) else None


GRAMMAR = Grammar[Clause](
    one_of=lambda tokens: f"{TOKENS}/any(t: search.in(t, '{','.join(tokens)}', ','))",
    none_of=lambda tokens: f"{TOKENS}/all(t: not search.in(t, '{','.join(tokens)}', ','))",
    every=lambda clauses: f"({' and '.join(clauses)})",
    some=lambda clauses: f"({' or '.join(clauses)})",
    scope_is=_scope_is,
    between=_between,
    most_clauses=100,  # Azure refuses filters of many clauses, and does not say how many
)


KEY = "key"
RECORD = "record"
STEMS = "stems"
VECTOR = "vector"
WRITTEN = "written"
"""When a document was written, in microseconds: it tells whether what is read is what was written, or later."""

_OWN = "perdure"
_EXACT = "exact"
_MOST_DOCUMENTS = 1_000
_MOST_BYTES = 15_000_000  # what one request may hold: 16 MB, of which a part is for what stands around the documents
_EPSILON = 1e-20  # stands for zero, so that no engine's treatment of vectors of length 0 matters


def index_name(prefix: str, name: str) -> str:
    """Return a collection's index name: Azure allows lower-case letters, digits and single dashes."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
    last = digest(json.dumps([prefix, name]), 8)
    return f"{prefix}-{slug}-{last}" if slug else f"{prefix}-{last}"


def _field(name: str, type: str, *uses: str, **more: Any) -> models.SearchField:
    """Return a stored field that is indexed only for the named uses; by default Azure indexes for all."""
    flags = {use: use in uses for use in ("searchable", "filterable", "sortable", "facetable")}
    return models.SearchField(name=name, type=type, retrievable=True, **flags, **more)


def definition(index: str, prefix: str, name: str, shape: Shape) -> models.SearchIndex:
    """Return a collection's index definition; its description holds what Azure has no field for."""
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
    exact = models.ExhaustiveKnnAlgorithmConfiguration(
        name=_EXACT, parameters=models.ExhaustiveKnnParameters(metric="dotProduct")
    )
    return models.SearchIndex(
        name=index,
        description=json.dumps({_OWN: prefix, "collection": name, "model": shape.model}),
        fields=fields,
        vector_search=models.VectorSearch(
            profiles=[models.VectorSearchProfile(name=_EXACT, algorithm_configuration_name=_EXACT)], algorithms=[exact]
        ),
    )


def identity_definition(index: str, prefix: str, identity: str) -> models.SearchIndex:
    """Return the definition of an index without documents, whose description is the store's id."""
    return models.SearchIndex(
        name=index,
        description=json.dumps({_OWN: prefix, "identity": identity}),
        fields=[_field(KEY, "Edm.String", key=True)],
    )


def described(index: models.SearchIndex, prefix: str) -> Mapping[str, str]:
    """Return the description of one of our indexes, as an object; empty for other indexes."""
    try:
        held = json.loads(index.description or "")
    except ValueError:
        return {}
    return held if isinstance(held, dict) and held.get(_OWN) == prefix else {}


def shape_of(index: models.SearchIndex, model: str) -> Shape:
    (vector,) = (field for field in index.fields if field.name == VECTOR)
    return Shape(int(vector.vector_search_dimensions or 0), model)


def key_of(id: str) -> str:
    """Return the document key of a row: Azure allows letters, digits, _, - and =."""
    return digest(id, 16)


def document_of(document: Document, written: int) -> dict[str, Any]:
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
    """Return the row of a document, with its vector if requested."""
    vector = found.get(VECTOR)
    return decode(found[RECORD], None if vector is None else np.array(vector, np.float32))


def batches(documents: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Split the documents into as few requests as Azure allows."""
    return bounded_batches(
        documents, lambda document: len(json.dumps(document)), most_size=_MOST_BYTES, most_items=_MOST_DOCUMENTS
    )


MOST_HITS = 1_000  # documents in one answer; a search for words gives no more in all
_CONNECTIONS = 32  # as many as threads work for perdure
_LONGEST_MESSAGE = 300
_IDS = 500  # keys in one filter
_PAGE, _PAGE_OF_VECTORS = 1_000, 200  # documents in one page; 200 vectors of 1536 dimensions are about 6 MB
_WORDS = 500  # words in one search: the engine takes about 1,000 clauses


class PartlyRefused(Exception):
    """The service took a request, and refused some of its documents."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class SearchService:
    """The service, with one connection pool for all indexes."""

    def __init__(self, endpoint: str, key: str, api_version: str, timeout: float) -> None:
        self._session = requests.Session()
        for scheme in ("https://", "http://"):
            self._session.mount(scheme, HTTPAdapter(pool_connections=1, pool_maxsize=_CONNECTIONS))
        self._timeout = timeout
        self._endpoint = endpoint
        self._credential = AzureKeyCredential(key)
        self._options: dict[str, Any] = {"api_version": api_version, "retry_total": 0}
        self._clients: dict[str, SearchClient] = {}
        self._indexes = SearchIndexClient(endpoint, self._credential, transport=self._transport(), **self._options)

    def _transport(self) -> RequestsTransport:
        return RequestsTransport(
            session=self._session, session_owner=False, connection_timeout=self._timeout, read_timeout=self._timeout
        )

    def close(self) -> None:
        self._session.close()

    def make(self, index: models.SearchIndex) -> None:
        """Create an index; an existing one of its name stays."""
        with contextlib.suppress(exceptions.ResourceExistsError):
            self._indexes.create_index(index)

    def described(self, name: str) -> models.SearchIndex | None:
        try:
            return self._indexes.get_index(name)
        except exceptions.ResourceNotFoundError:
            return None

    def all(self) -> Iterator[models.SearchIndex]:
        yield from self._indexes.list_indexes(select=["name", "description"])

    def remove(self, name: str) -> None:
        """Delete an index; a missing one is no error."""
        with contextlib.suppress(exceptions.ResourceNotFoundError):
            self._indexes.delete_index(name)
        self._clients.pop(name, None)

    def documents(self, name: str) -> SearchClient:
        client = self._clients.get(name)
        if client is None:
            client = SearchClient(self._endpoint, name, self._credential, transport=self._transport(), **self._options)
            self._clients[name] = client  # threads that make one at the same time make equal ones
        return client


def _shown(client: SearchClient, left: dict[str, bool], written: int) -> bool:
    """Whether searches show each document as written then or later, and deleted ones as absent."""
    found = {each[KEY]: each[WRITTEN] for each in _of_keys(client, list(left), [KEY, WRITTEN])}
    for key, kept in list(left.items()):
        if found.get(key, -1 if kept else written) >= written:
            del left[key]
    return not left


def _of_keys(client: SearchClient, keys: Sequence[str], select: list[str]) -> list[dict[str, Any]]:
    return list(client.search(filter=f"search.in({KEY}, '{','.join(keys)}', ',')", select=select, top=_IDS))


def _selected(with_vectors: bool) -> list[str]:
    return [RECORD, VECTOR] if with_vectors else [RECORD]


def _check(results: Sequence[Any]) -> None:
    refused = [result for result in results if not result.succeeded]
    if refused:
        status, reason = int(refused[0].status_code or 0), str(refused[0].error_message or "")[:_LONGEST_MESSAGE]
        raise PartlyRefused(status, f"{len(refused)} of {len(results)} documents were refused ({status}): {reason}")


def failure_of(error: Exception, address: str, timeout: float) -> Failure | None:
    if isinstance(error, NotYetReadable):
        return Failure(f"{address} took a write, and did not show it within {timeout:g} s: it may still come")
    if isinstance(error, PartlyRefused):
        return Failure(f"{address}: {error}", error.status in (409, 429) or error.status >= 500)
    if isinstance(error, exceptions.HttpResponseError) and error.status_code is not None:
        status = error.status_code
        if status in (401, 403):
            return Failure(
                f"{address} refused the API key: give an admin key as api_key or in AZURE_SEARCH_API_KEY ({status})"
            )
        said = f"{address} answered {status}: {_words_of(error)}"
        return Failure(said, status in (408, 429) or status >= 500)
    if isinstance(error, exceptions.ServiceResponseError):
        return Failure(f"no answer from {address} within {timeout:g} s: raise timeout, or look at its state", True)
    if isinstance(error, exceptions.ServiceRequestError):
        return Failure(f"no connection to {address}: check endpoint and the network", True)
    return Failure(f"{address}: {str(error)[:_LONGEST_MESSAGE]}") if isinstance(error, exceptions.AzureError) else None


def _words_of(error: exceptions.HttpResponseError) -> str:
    message = error.error.message if error.error is not None else error.message
    return str(message or error.reason or "")[:_LONGEST_MESSAGE]


class AzureSearchVectorStore(DocumentStore[Clause]):
    """Stores rows in an Azure search service, which processes and machines may share."""

    name: ClassVar[str] = "azure_ai_search"
    ranks_words: ClassVar[bool] = True
    most_hits: ClassVar[int] = MOST_HITS
    grammar = GRAMMAR
    settings: Settings
    _client: SearchService

    class Settings(EngineSettings):
        """The service's address and key, and the prefix of our indexes."""

        endpoint: str | None = Field(default_factory=partial(text_from, "AZURE_SEARCH_ENDPOINT"))
        """Address of the service, https://NAME.search.windows.net; falls back to AZURE_SEARCH_ENDPOINT."""
        api_key: SecretStr | None = Field(default_factory=partial(secret_from, "AZURE_SEARCH_API_KEY"))
        """An admin key of the service; falls back to AZURE_SEARCH_API_KEY."""
        api_version: str = Field(default="2026-04-01", pattern=r"^\d{4}-\d{2}-\d{2}(-preview)?$")
        """Version of the REST interface; descriptions of indexes need 2025-09-01 or later."""
        prefix: str = Field(default="perdure", pattern=r"^[a-z](-?[a-z0-9]){0,39}$", max_length=40)
        """Prefix of all index names: stores with different prefixes share a service."""

        @field_validator("endpoint")
        @classmethod
        def _is_an_address(cls, value: str | None) -> str | None:
            if value is not None and not re.fullmatch(r"https?://[^/\s?#@]+/?", value):
                raise ValueError("must be an address such as https://name.search.windows.net")
            return value

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        if settings.endpoint is None:
            field = "vector_store.config.endpoint"
            raise ConfigError(f"{field} is missing: give it there or in AZURE_SEARCH_ENDPOINT", field=field)
        self._endpoint = settings.endpoint
        self._key = key_or_fail(settings.api_key, needed=True, section="vector_store", variable="AZURE_SEARCH_API_KEY")

    def _connect(self) -> None:
        given = self.settings
        self._client = SearchService(self._endpoint, self._key, given.api_version, given.timeout)
        try:
            if self._client.described(self._identity_index) is None:
                self._client.make(identity_definition(self._identity_index, given.prefix, uuid.uuid4().hex))
        except BaseException:
            self._disconnect()
            raise

    @property
    def _identity_index(self) -> str:
        return f"{self.settings.prefix}-identity"

    def _identity(self) -> str:
        found = self._client.described(self._identity_index)
        held = {} if found is None else described(found, self.settings.prefix)
        if "identity" not in held:
            raise VectorStoreError(f"azure_ai_search: the index {self._identity_index!r} is not perdure's, or is gone")
        return held["identity"]

    def _failure(self, error: Exception) -> Failure | None:
        return failure_of(error, self._endpoint, self.settings.timeout)

    def _index(self, name: str) -> str:
        return index_name(self.settings.prefix, name)

    @contextlib.contextmanager
    def _on(self, name: str) -> Iterator[SearchClient]:
        """Return a collection's documents; MissingCollection if it does not exist."""
        try:
            yield self._client.documents(self._index(name))
        except exceptions.ResourceNotFoundError:
            raise MissingCollection from None

    def _find(self, name: str) -> Shape | None:
        found = self._client.described(self._index(name))
        held = {} if found is None else described(found, self.settings.prefix)
        return shape_of(found, held["model"]) if found is not None and held.get("collection") == name else None

    def _names(self) -> Names:
        held = (described(index, self.settings.prefix) for index in self._client.all())
        return [each["collection"] for each in held if "collection" in each]

    def _make(self, name: str, shape: Shape) -> None:
        index = self._index(name)
        self._client.make(definition(index, self.settings.prefix, name, shape))

    def _drop(self, name: str) -> None:
        if self._find(name) is not None:
            self._client.remove(self._index(name))

    def _clear(self, name: str) -> None:
        for page in self._pages(name, None, [KEY], _PAGE):
            self._send(name, [], [each[KEY] for each in page], _now())

    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        written = _now()
        sent = [document_of(document, written) for document in documents]
        self._send(name, sent, [key_of(id) for id in deletes], written)

    def _send(self, name: str, documents: Sequence[dict[str, Any]], deletes: Sequence[str], written: int) -> None:
        """Delete documents by key, then write others with the time of writing."""
        with self._on(name) as client:
            for batch in batches([{KEY: key} for key in deletes]):
                _check(client.delete_documents(batch))
            for batch in batches(documents):
                _check(client.upload_documents(batch))
            expected = {**dict.fromkeys(deletes, False), **{document[KEY]: True for document in documents}}
            keys = list(expected)
            for start in range(0, len(keys), _IDS):
                left = {key: expected[key] for key in keys[start : start + _IDS]}
                wait_until(partial(_shown, client, left, written), self.settings.timeout)

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        keys, select = [key_of(id) for id in ids], _selected(with_vectors)
        with self._on(name) as client:
            pages = [_of_keys(client, keys[start : start + _IDS], select) for start in range(0, len(keys), _IDS)]
        return [row_of(found) for page in pages for found in page]

    def _nearest(self, name: str, query: Vector, limit: int, clause: Clause | None) -> list[tuple[Row, float]]:
        asked = VectorizedQuery(vector=query.tolist(), k_nearest_neighbors=limit, fields=VECTOR, exhaustive=True)
        how: dict[str, Any] = {"vector_queries": [asked], "vector_filter_mode": "preFilter", "filter": clause}
        with self._on(name) as client:
            rows = list(map(row_of, client.search(**how, select=_selected(True), top=limit)))
        # Azure does not say how it makes a score of an inner product: it is computed here again.
        scored = [(row, float(row.vector @ query)) for row in rows if row.vector is not None]
        return sorted(scored, key=lambda pair: -pair[1])

    def _ranked(self, name: str, asked: Sequence[str], limit: int, clause: Clause | None) -> list[tuple[Row, float]]:
        words = [word_token(word) for word in asked]
        found: dict[str, tuple[str, float]] = {}
        for start in range(0, len(words), _WORDS):
            with self._on(name) as client:
                hits = client.search(
                    " ".join(words[start : start + _WORDS]),
                    query_type="simple",
                    search_mode="any",
                    search_fields=[STEMS],
                    scoring_statistics="global",
                    filter=clause,
                    select=[KEY, RECORD],
                    top=limit,
                )
                for hit in hits:
                    before = found[hit[KEY]][1] if hit[KEY] in found else 0.0
                    found[hit[KEY]] = (hit[RECORD], before + float(hit["@search.score"]))
        best = sorted(found.values(), key=lambda pair: -pair[1])[:limit]
        return [(decode(record), score) for record, score in best]

    def _scan(self, name: str, clause: Clause | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        most = _PAGE_OF_VECTORS if with_vectors else _PAGE
        for page in self._pages(name, clause, [KEY, *_selected(with_vectors)], most):
            yield [row_of(each) for each in page]

    def _pages(self, name: str, clause: Clause | None, select: list[str], most: int) -> Iterator[list[dict[str, Any]]]:
        after: str | None = None
        while True:
            beyond = None if after is None else f"{KEY} gt '{after}'"
            where = " and ".join(part for part in (clause, beyond) if part is not None) or None
            with self._on(name) as client:
                page = list(client.search(filter=where, order_by=[f"{KEY} asc"], select=select, top=most))
            yield page
            if len(page) < most:
                return
            after = page[-1][KEY]

    def _count(self, name: str, clause: Clause | None) -> int:
        with self._on(name) as client:
            return int(client.search(filter=clause, include_total_count=True, select=[KEY], top=0).get_count() or 0)


def _now() -> int:
    return time.time_ns() // 1000
