"""The vector store on Elasticsearch: an index for each collection, exact filtered search, BM25 for words."""

from __future__ import annotations

import base64
import json
import ssl
import uuid
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import elasticsearch
from pydantic import Field, FilePath, SecretStr, field_validator, model_validator

from perdure.backends.shared.batches import bounded_batches
from perdure.backends.vector_stores.base import Names, Shape, Vector
from perdure.backends.vector_stores.common.document_store import (
    DocumentStore,
    EngineSettings,
    Failure,
    MissingCollection,
)
from perdure.backends.vector_stores.common.documents import Document, Row
from perdure.backends.vector_stores.common.filter_clauses import word_token
from perdure.backends.vector_stores.common.rows import Place, check_most_dimensions
from perdure.backends.vector_stores.elasticsearch import index as es_index
from perdure.domain.errors import ConfigError

# Requests to Elasticsearch, in a dialect that servers 8 and 9 and both majors of the client understand.

# The client's own methods ask for its own major, which an older server refuses; 9 still speaks 8.
_JSON = "application/vnd.elasticsearch+json; compatible-with=8"
_LINES = "application/vnd.elasticsearch+x-ndjson; compatible-with=8"
LARGEST = 8 * 1024 * 1024  # bytes of documents in one request, of the 100 MB that a server takes
GONE = "index_not_found_exception"


class Refused(Exception):
    """The server refused one document of many."""

    def __init__(self, status: int, kind: str) -> None:
        super().__init__(f"{status} {kind}")
        self.status = status
        self.kind = kind


class Requests:
    """Sends requests with the vendor's client, which is thread-safe."""

    def __init__(self, client: elasticsearch.Elasticsearch) -> None:
        self._client = client

    def close(self) -> None:
        self._client.close()

    def send(self, method: str, path: str, body: Any = None, **params: str) -> dict[str, Any]:
        """Return the server's JSON object; MissingCollection if the path's index does not exist."""
        headers = {"accept": _JSON}
        if body is not None:
            headers["content-type"] = _JSON
            body = json.dumps(body).encode()
        return self._answer(method, path, params, headers, body)

    def bulk(self, index: str, lines: Sequence[bytes]) -> None:
        """Write documents into an existing index, visible to all on return; Refused for one that failed."""
        headers = {"accept": _JSON, "content-type": _LINES}
        params = {"refresh": "true", "require_alias": "true", "filter_path": "errors,items.*.error,items.*.status"}
        answer = self._answer("POST", f"/{index}/_bulk", params, headers, b"\n".join([*lines, b""]))
        if not answer["errors"]:
            return
        for item in answer["items"]:
            for result in item.values():
                if "error" in result:
                    raise item_failure(result["status"], result["error"])

    def _answer(
        self, method: str, path: str, params: dict[str, str], headers: dict[str, str], body: Any
    ) -> dict[str, Any]:
        try:
            answer = self._client.perform_request(method, path, params=params, headers=headers, body=body)
        except elasticsearch.ApiError as error:
            if error.meta.status == 404 and kind_of(error) == GONE:
                raise MissingCollection from None
            raise
        if not isinstance(answer.body, dict):
            raise elasticsearch.TransportError("an answer that is no object")
        return answer.body


def batches(documents: Sequence[list[bytes]]) -> Iterator[list[bytes]]:
    """Split documents into bulk requests of limited size."""
    for batch in bounded_batches(documents, lambda lines: sum(map(len, lines)), most_size=LARGEST):
        yield [line for lines in batch for line in lines]


def item_failure(status: int, error: dict[str, Any]) -> Exception:
    """Return the error for one document of many that failed."""
    return MissingCollection() if error["type"] == GONE else Refused(status, error["type"])


def kind_of(error: elasticsearch.ApiError) -> str:
    """Return the server's error type, such as `index_not_found_exception`."""
    details = error.body.get("error") if isinstance(error.body, dict) else None
    kind = details.get("type") if isinstance(details, dict) else None
    return kind if isinstance(kind, str) else ""


def failure_of(error: Exception, address: str) -> Failure | None:
    """Map a failure; its own words are left out, because they may repeat stored text."""
    if isinstance(error, elasticsearch.ConnectionTimeout):
        return Failure(f"{address} did not answer in time; the setting timeout says how long that is", passing=True)
    if isinstance(error, elasticsearch.SSLError):
        return Failure(f"no secure connection to {address}; ca_certs names the certificate of an own authority")
    if isinstance(error, elasticsearch.ConnectionError):
        return Failure(f"{address} cannot be reached: does Elasticsearch run there?", passing=True)
    if isinstance(error, elasticsearch.UnsupportedProductError):
        return Failure(f"what answers at {address} is not Elasticsearch")
    if isinstance(error, elasticsearch.ApiError):
        return _status(error.meta.status, kind_of(error), address)
    if isinstance(error, Refused):
        return _status(error.status, error.kind, address)
    if isinstance(error, elasticsearch.TransportError):
        return Failure(f"{address} gave an answer that Elasticsearch does not give ({type(error).__name__})")
    return None


def _status(status: int, kind: str, address: str) -> Failure:
    problem = f"{status} {kind}".strip()
    if status == 401:
        return Failure(f"{address} refuses the credentials ({problem}): set api_key, or username and password")
    if status == 403:
        return Failure(f"{address} does not permit this ({problem}): the credentials lack a privilege on the indices")
    if status == 413:
        return Failure(f"{address} refuses a row of this size ({problem})")
    return Failure(f"{address} answered {problem}", passing=status == 429 or status >= 500)


_PAGE = 1000  # rows in one answer
_KEYS = 10_000  # rows in one answer where only their keys are asked for
_WORDS = 500
"""Words of a query that are ranked: a server takes about 1,000 clauses. Rows with others are found, behind."""
_FAR_BEHIND = 1e-3
_CONNECTIONS = 32  # as many as threads work for perdure


class ElasticsearchVectorStore(DocumentStore[es_index.Clause]):
    """Stores rows on a server, which processes and machines may share."""

    name: ClassVar[str] = "elasticsearch"
    ranks_words: ClassVar[bool] = True
    grammar = es_index.GRAMMAR
    settings: Settings
    _client: Requests

    class Settings(EngineSettings):
        """The server's address and credentials, and the prefix of our indices."""

        url: str = "http://localhost:9200"
        """Address of a node, or of several, separated by commas; without a port 9200, or 443 for https."""
        api_key: SecretStr | None = None
        """An API key, in the encoded form in which Elasticsearch gives it."""
        username: str | None = None
        """User name, with `password`, instead of an API key."""
        password: SecretStr | None = None
        """Password of `username`."""
        ca_certs: FilePath | None = None
        """File with the certificate of your own certificate authority, if it signed the server's."""
        prefix: str = Field(default="perdure", pattern=r"^[a-z][a-z0-9_-]{0,39}$")
        """Prefix of all index names: stores with different prefixes share a server."""

        @field_validator("url")
        @classmethod
        def _is_addresses(cls, value: str) -> str:
            return ",".join(_address(part.strip()) for part in value.split(","))

        @model_validator(mode="after")
        def _is_one_identity(self) -> ElasticsearchVectorStore.Settings:
            if (self.username is None) != (self.password is None):
                raise ValueError("username and password are given together")
            if self.api_key is not None and self.username is not None:
                raise ValueError("give api_key, or username and password, not both")
            return self

    def _connect(self) -> None:
        self._client = Requests(self._connected())
        try:
            self._make_identity()
        except Exception:
            self._disconnect()
            raise

    def _connected(self) -> elasticsearch.Elasticsearch:
        given = self.settings
        options: dict[str, Any] = {}
        if given.api_key is not None:
            options["api_key"] = given.api_key.get_secret_value()
        if given.username is not None and given.password is not None:
            # In UTF-8, as Elasticsearch reads it; the client takes ASCII alone.
            login = f"{given.username}:{given.password.get_secret_value()}".encode()
            options["headers"] = {"authorization": f"Basic {base64.b64encode(login).decode()}"}
        if given.ca_certs is not None:
            options["ssl_context"] = _trusting(given.ca_certs)
        return elasticsearch.Elasticsearch(
            given.url.split(","),
            request_timeout=given.timeout,
            max_retries=0,
            retry_on_timeout=False,
            connections_per_node=_CONNECTIONS,
            **options,
        )

    @property
    def _identity_index(self) -> str:
        return f"{self.settings.prefix}-identity"

    def _make_identity(self) -> None:
        """Create an index without documents, whose mapping is the store's id."""
        try:
            self._identity()
        except MissingCollection:
            meta = {es_index.OWN: {"identity": uuid.uuid4().hex}}
            self._create(self._identity_index, {"mappings": {"dynamic": False, "_meta": meta}})

    def _identity(self) -> str:
        mappings = self._client.send("GET", f"/{self._identity_index}/_mapping")
        (found,) = mappings.values()
        return str(found["mappings"]["_meta"][es_index.OWN]["identity"])

    def _failure(self, error: Exception) -> Failure | None:
        return failure_of(error, self.settings.url)

    def _alias(self, name: str) -> str:
        return es_index.alias_of(self.settings.prefix, name)

    def _find(self, name: str) -> Shape | None:
        try:
            mappings = self._client.send("GET", f"/{self._alias(name)}/_mapping")
        except MissingCollection:
            return None
        return next((shape for found, shape in self._collections(mappings) if found == name), None)

    def _names(self) -> Names:
        path = f"/{self.settings.prefix}-*/_mapping"
        mappings = self._client.send("GET", path, filter_path="*.mappings._meta")
        return [name for name, _ in self._collections(mappings)]

    def _collections(self, mappings: dict[str, Any]) -> Iterator[tuple[str, Shape]]:
        for mapping in mappings.values():
            found = es_index.read_meta(mapping, self.settings.prefix)
            if found is not None:
                yield found

    def _make(self, name: str, shape: Shape) -> None:
        check_most_dimensions("Elasticsearch", es_index.MOST_DIMENSIONS, shape.dimension)
        alias = self._alias(name)
        self._create(f"{alias}-1", es_index.definition(alias, self.settings.prefix, name, shape))

    def _create(self, index: str, body: dict[str, Any]) -> None:
        try:
            self._client.send("PUT", f"/{index}", body)
        except elasticsearch.ApiError as error:
            if kind_of(error) != "resource_already_exists_exception":
                raise

    def _drop(self, name: str) -> None:
        try:
            held = self._client.send("GET", f"/{self._alias(name)}/_alias")
            for index in held:  # an alias cannot be deleted by itself
                self._client.send("DELETE", f"/{index}")
        except MissingCollection:
            return

    def _clear(self, name: str) -> None:
        alias = self._alias(name)
        for hits in self._pages(name, None, source=False, size=_KEYS):
            lines = [_line({"delete": {"_id": hit["_id"]}}) for hit in hits]
            self._client.bulk(alias, lines)

    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        lines = [
            [_line({"index": {"_id": es_index.key_of(document.id)}}), _line(es_index.fields_of(document))]
            for document in documents
        ]
        lines += [[_line({"delete": {"_id": es_index.key_of(id)}})] for id in deletes]
        for batch in batches(lines):
            self._client.bulk(self._alias(name), batch)

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        rows: list[Row] = []
        keys = [es_index.key_of(id) for id in ids]
        for start in range(0, len(keys), _PAGE):
            answer = self._client.send(
                "POST",
                f"/{self._alias(name)}/_mget",
                {"ids": keys[start : start + _PAGE]},
                _source_includes=",".join(_kept(with_vectors=with_vectors)),
            )
            for found in answer["docs"]:
                if "error" in found:
                    raise item_failure(HTTPStatus.INTERNAL_SERVER_ERROR, found["error"])
                if found["found"]:
                    rows.append(es_index.row_of(found["_source"]))
        return rows

    def _nearest(self, name: str, query: Vector, limit: int, clause: es_index.Clause | None) -> list[tuple[Row, float]]:
        knn = {"field": "vector", "query_vector": query.tolist(), "k": limit, "num_candidates": limit}
        if clause is not None:
            knn["filter"] = clause
        hits = self._search(name, {"knn": knn, "size": limit, "_source": _kept(with_vectors=False)})
        return [(es_index.row_of(hit["_source"]), _inner_product(hit["_score"])) for hit in hits]

    def _scan(self, name: str, clause: es_index.Clause | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        for hits in self._pages(name, clause, source=_kept(with_vectors=with_vectors), size=_PAGE):
            yield [es_index.row_of(hit["_source"]) for hit in hits]

    def _count(self, name: str, clause: es_index.Clause | None) -> int:
        body = {"query": _query(clause), "size": 0, "track_total_hits": True}
        return int(self._found(name, body)["total"]["value"])

    def _ordered(
        self, name: str, clause: es_index.Clause | None, after: Place | None, limit: int, *, with_vectors: bool
    ) -> list[Row] | None:
        body: dict[str, Any] = {
            "query": _query(clause),
            "size": min(limit, _PAGE),
            "sort": ["time_order", "id_order"],
            "_source": _kept(with_vectors=with_vectors),
        }
        rows: list[Row] = []
        if after is not None:
            body["search_after"] = es_index.order_of(after)
        while True:
            if not es_index.in_order(body.get("search_after", ("", ""))):
                return None
            hits = self._search(name, body)
            if not all(es_index.in_order(hit["sort"]) for hit in hits):
                return None
            rows += [es_index.row_of(hit["_source"]) for hit in hits]
            if len(hits) < body["size"] or len(rows) >= limit:
                return rows[:limit]
            body["search_after"] = hits[-1]["sort"]

    def _ranked(
        self, name: str, asked: Sequence[str], limit: int, clause: es_index.Clause | None
    ) -> list[tuple[Row, float]]:
        words = [word_token(word) for word in asked]
        parts: list[es_index.Clause] = [{"term": {"stems": word}} for word in words[:_WORDS]]
        for start in range(_WORDS, len(words), self.grammar.most_values):
            rest = {"terms": {"stems": words[start : start + self.grammar.most_values]}}
            parts.append({"constant_score": {"filter": rest, "boost": _FAR_BEHIND}})
        some: dict[str, Any] = {"should": parts, "minimum_should_match": 1}
        if clause is not None:
            some["filter"] = [clause]
        body = {"query": {"bool": some}, "size": limit, "_source": _kept(with_vectors=False)}
        hits = self._search(name, body, search_type="dfs_query_then_fetch")
        return [(es_index.row_of(hit["_source"]), hit["_score"]) for hit in hits]

    def _pages(
        self, name: str, clause: es_index.Clause | None, *, source: list[str] | bool, size: int
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield every hit of the clause, by a key that no change of a row moves."""
        body: dict[str, Any] = {"query": _query(clause), "size": size, "sort": ["key"], "_source": source}
        while True:
            hits = self._search(name, body)
            if hits:
                yield hits
            if len(hits) < size:
                return
            body["search_after"] = hits[-1]["sort"]

    def _search(self, name: str, body: dict[str, Any], **params: str) -> list[dict[str, Any]]:
        hits: list[dict[str, Any]] = self._found(name, {"track_total_hits": False, **body}, **params)["hits"]
        return hits

    def _found(self, name: str, body: dict[str, Any], **params: str) -> dict[str, Any]:
        """Return the hits of a search that failed on no shard, because a missing row would be a forgotten memory."""
        params["allow_partial_search_results"] = "false"
        found: dict[str, Any] = self._client.send("POST", f"/{self._alias(name)}/_search", body, **params)["hits"]
        return found


def _address(text: str) -> str:
    """Return the address with its port and without a password, which would appear in messages."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("must be an address such as https://host:9200")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must hold no credentials: give username and password, or api_key")
    if parts.port is not None:
        return text
    port = 443 if parts.scheme == "https" else 9200
    return parts._replace(netloc=f"{parts.netloc}:{port}").geturl()


def _trusting(certificate: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=certificate)
    except OSError as error:
        field = "vector_store.config.ca_certs"
        raise ConfigError(f"{field} holds no certificate that can be read: {error}", field=field) from error


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _kept(*, with_vectors: bool) -> list[str]:
    return list(es_index.KEPT if with_vectors else es_index.KEPT[:1])


def _query(clause: es_index.Clause | None) -> es_index.Clause:
    return {"match_all": {}} if clause is None else {"bool": {"filter": [clause]}}


def _inner_product(score: float) -> float:
    """Return the inner product behind a `max_inner_product` score, which is always above 0."""
    return score - 1 if score >= 1 else 1 - 1 / score
