"""The way to Azure AI Search: indexes, the documents of one, and what the client's failures mean."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import requests
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.core.pipeline.transport import RequestsTransport
from azure.search.documents import SearchClient
from azure.search.documents.indexes import SearchIndexClient
from azure.search.documents.indexes.models import SearchIndex
from azure.search.documents.models import VectorizedQuery
from requests.adapters import HTTPAdapter

from perdure.backends.vector_stores._azure_ai_search_index import KEY, RECORD, STEMS, VECTOR, WRITTEN, batches
from perdure.backends.vector_stores._document_engine import Failure, MissingCollection

MOST_HITS = 1_000
"""Documents in one answer; a search for words gives no more in all."""
_CONNECTIONS = 32
"""As many as threads work for perdure."""
_LONGEST_MESSAGE = 300
_IDS = 500
"""Keys in one filter."""
_PAGE, _PAGE_OF_VECTORS = 1_000, 200
"""Documents in one page; 200 vectors of 1536 dimensions are about 6 MB."""
_WORDS = 500
"""Words in one search: the engine takes about 1,000 clauses."""


class PartlyRefused(Exception):
    """The service took a request, and refused some of its documents."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotYetReadable(Exception):
    """A write was taken, and searches do not show it in time."""


class SearchService:
    """The service; one pool of connections for all of its indexes."""

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
            session=self._session,
            session_owner=False,
            connection_timeout=self._timeout,
            read_timeout=self._timeout,
        )

    def close(self) -> None:
        self._session.close()

    def make(self, index: SearchIndex) -> None:
        """Make an index; one of its name that exists is left alone."""
        with contextlib.suppress(ResourceExistsError):
            self._indexes.create_index(index)

    def described(self, name: str) -> SearchIndex | None:
        """The definition of an index, or None."""
        try:
            return self._indexes.get_index(name)
        except ResourceNotFoundError:
            return None

    def all(self) -> Iterator[SearchIndex]:
        """Name and description of every index."""
        yield from self._indexes.list_indexes(select=["name", "description"])

    def remove(self, name: str) -> None:
        """Remove an index; one that is gone is no error."""
        with contextlib.suppress(ResourceNotFoundError):
            self._indexes.delete_index(name)
        self._clients.pop(name, None)

    def documents(self, name: str) -> Documents:
        """The documents of an index; MissingCollection comes out of their methods where there is no such index."""
        client = self._clients.get(name)
        if client is None:
            client = SearchClient(self._endpoint, name, self._credential, transport=self._transport(), **self._options)
            self._clients[name] = client  # threads that make one at the same time make equal ones
        return Documents(client, self._timeout)


class Documents:
    """The documents of one index; what `write` has written can be read by everybody."""

    def __init__(self, client: SearchClient, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    def write(self, documents: Sequence[dict[str, Any]], deletes: Sequence[str], written: int) -> None:
        """Remove documents by their keys, then write others, which bear the moment of writing."""
        gone = [{KEY: key} for key in deletes]
        with _index_exists():
            for batch in batches(gone):
                _check(self._client.delete_documents(batch))
            for batch in batches(documents):
                _check(self._client.upload_documents(batch))
            expected = {**dict.fromkeys(deletes, False), **{document[KEY]: True for document in documents}}
            keys = list(expected)
            for start in range(0, len(keys), _IDS):
                self._wait_for({key: expected[key] for key in keys[start : start + _IDS]}, written)

    def _wait_for(self, expected: dict[str, bool], written: int) -> None:
        """Return when searches show each document as it was written then, or later; absent ones as absent."""
        deadline = time.monotonic() + self._timeout
        pause = 0.01
        left = expected
        while True:
            found = {each[KEY]: each[WRITTEN] for each in self._of_keys(list(left), [KEY, WRITTEN])}
            left = {
                key: kept
                for key, kept in left.items()
                if (kept and key not in found) or (key in found and found[key] < written)
            }
            if not left:
                return
            if time.monotonic() > deadline:
                raise NotYetReadable
            time.sleep(pause)
            pause = min(pause * 2, 1.0)

    def _of_keys(self, keys: Sequence[str], select: list[str]) -> list[dict[str, Any]]:
        return list(self._client.search(filter=_keys_in(keys), select=select, top=_IDS))

    def fetch(self, keys: Sequence[str], *, with_vectors: bool) -> list[dict[str, Any]]:
        """The documents of those keys that exist."""
        found: list[dict[str, Any]] = []
        with _index_exists():
            for start in range(0, len(keys), _IDS):
                found += self._of_keys(keys[start : start + _IDS], _selected(with_vectors))
        return found

    def pages(self, where: str | None, *, with_vectors: bool = False, keys_only: bool = False) -> Iterator[list[Any]]:
        """Every document of the filter, in the order of keys."""
        most = _PAGE_OF_VECTORS if with_vectors else _PAGE
        select = [KEY] if keys_only else [KEY, *_selected(with_vectors)]
        after: str | None = None
        while True:
            beyond = None if after is None else f"{KEY} gt '{after}'"
            parts = [part for part in (where, beyond) if part is not None]
            with _index_exists():
                page = list(
                    self._client.search(
                        filter=" and ".join(parts) or None, order_by=[f"{KEY} asc"], select=select, top=most
                    )
                )
            yield page
            if len(page) < most:
                return
            after = page[-1][KEY]

    def nearest(self, query: list[float], most: int, where: str | None) -> list[dict[str, Any]]:
        """The documents of the highest inner product among all that satisfy the filter, with their vectors."""
        nearest = VectorizedQuery(vector=query, k_nearest_neighbors=most, fields=VECTOR, exhaustive=True)
        with _index_exists():
            return list(
                self._client.search(
                    vector_queries=[nearest],
                    vector_filter_mode="preFilter",
                    filter=where,
                    select=_selected(True),
                    top=most,
                )
            )

    def ranked(self, words: Sequence[str], most: int, where: str | None) -> list[tuple[dict[str, Any], float]]:
        """The documents that have some of the words, best first, by Azure's BM25."""
        found: dict[str, tuple[dict[str, Any], float]] = {}
        for start in range(0, len(words), _WORDS):
            with _index_exists():
                hits = self._client.search(
                    " ".join(words[start : start + _WORDS]),
                    query_type="simple",
                    search_mode="any",
                    search_fields=[STEMS],
                    scoring_statistics="global",
                    filter=where,
                    select=[KEY, RECORD],
                    top=most,
                )
                for hit in hits:
                    before = found[hit[KEY]][1] if hit[KEY] in found else 0.0
                    found[hit[KEY]] = (hit, before + float(hit["@search.score"]))
        return sorted(found.values(), key=lambda pair: -pair[1])[:most]

    def count(self, where: str | None) -> int:
        """How many documents satisfy the filter."""
        with _index_exists():
            answer = self._client.search(filter=where, include_total_count=True, select=[KEY], top=0)
            return int(answer.get_count() or 0)


def _selected(with_vectors: bool) -> list[str]:
    return [RECORD, VECTOR] if with_vectors else [RECORD]


def _keys_in(keys: Sequence[str]) -> str:
    return f"search.in({KEY}, '{','.join(keys)}', ',')"


@contextlib.contextmanager
def _index_exists() -> Iterator[None]:
    try:
        yield
    except ResourceNotFoundError:
        raise MissingCollection from None


def _check(results: Sequence[Any]) -> None:
    refused = [result for result in results if not result.succeeded]
    if refused:
        status, told = int(refused[0].status_code or 0), str(refused[0].error_message or "")[:_LONGEST_MESSAGE]
        raise PartlyRefused(status, f"{len(refused)} of {len(results)} documents were refused ({status}): {told}")


def failure_of(error: Exception, address: str, timeout: float) -> Failure | None:
    """What an exception of the client means; None for one that is not the client's."""
    if isinstance(error, NotYetReadable):
        return Failure(f"{address} took a write, and did not show it within {timeout:g} s: it may still come")
    if isinstance(error, PartlyRefused):
        return Failure(f"{address}: {error}", error.status in (409, 429) or error.status >= 500)
    if isinstance(error, HttpResponseError) and error.status_code is not None:
        status = error.status_code
        if status in (401, 403):
            return Failure(
                f"{address} refused the API key: give an admin key as api_key or in AZURE_SEARCH_API_KEY ({status})"
            )
        said = f"{address} answered {status}: {_words_of(error)}"
        return Failure(said, status in (408, 429) or status >= 500)
    if isinstance(error, ServiceResponseError):
        return Failure(f"no answer from {address} within {timeout:g} s: raise timeout, or look at its state", True)
    if isinstance(error, ServiceRequestError):
        return Failure(f"no connection to {address}: check endpoint and the network", True)
    return Failure(f"{address}: {str(error)[:_LONGEST_MESSAGE]}") if isinstance(error, AzureError) else None


def _words_of(error: HttpResponseError) -> str:
    told = error.error.message if error.error is not None else error.message
    return str(told or error.reason or "")[:_LONGEST_MESSAGE]
