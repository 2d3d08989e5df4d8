"""Pinecone's control plane and data plane, version 2026-07, as the service documents them; strict, executing on numpy.

After https://docs.pinecone.io/reference/api, its operation and identifier limits and the official client's source. What
the service refuses is refused, in its form. Writes are seen LATE seconds after they were taken, and queries tell by the
log sequence number what they show. A query that more records match than it may return misses some, as an approximate
index does; one that fewer match returns them all.

Run as a module, it serves until its standard input ends.
"""

from __future__ import annotations

import json
import re
import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from tests.backends.wire.server import Heard, Reply
from tests.engines.pinecone_filter import BadRequest, Metadata, check_metadata, read_filter
from tests.engines.service import Service, serve

KEY = "pcsk_test_0123456789abcdef"
VERSION = "2026-07"
MOST_RECORDS = 1_000
MOST_BYTES = 2 * 1024 * 1024
MOST_RESULT = 4 * 1024 * 1024
LATE = 0.01
"""Seconds after which a write is seen."""
LONGEST_LINE = 16 * 1024
"""Bytes of a request's path and query, as common proxies have it."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,43}[a-z0-9])?")


class Refusal(Exception):
    """A refusal of another status than 400."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass
class Record:
    values: NDArray[np.float32]
    metadata: Metadata


@dataclass
class Namespace:
    """What is read, and what was written since."""

    fields: dict[str, Any] | None = None
    records: dict[str, Record] = field(default_factory=dict)
    pending: deque[tuple[float, Callable[[dict[str, Record]], object]]] = field(default_factory=deque)
    committed: int = 0
    indexed: int = 0

    def write(self, change: Callable[[dict[str, Record]], object]) -> dict[str, str]:
        self.pending.append((time.monotonic() + LATE, change))
        self.committed += 1
        return {"x-pinecone-request-lsn": str(self.committed)}

    def catch_up(self) -> None:
        while self.pending and self.pending[0][0] <= time.monotonic():
            self.pending.popleft()[1](self.records)
            self.indexed += 1

    def described(self, name: str) -> dict[str, Any]:
        schema = {"schema": {"fields": self.fields}} if self.fields is not None else {}
        return {"name": name, "record_count": str(len(self.records)), **schema}


@dataclass
class Index:
    dimension: int
    metric: str
    described: dict[str, Any]
    namespaces: dict[str, Namespace] = field(default_factory=dict)


class Pinecone(Service):
    """One project; the host of an index is the service's address and `/host/NAME`."""

    def __init__(self) -> None:
        super().__init__()
        self.indexes: dict[str, Index] = {}

    def respond(self, request: Heard) -> Reply:
        if request.headers.get("api-key") != KEY:
            return Reply(401, b"Invalid API Key", {"content-type": "text/plain"})
        on_data = request.path.startswith("/host/")
        try:
            if request.headers.get("x-pinecone-api-version") != VERSION:
                raise BadRequest("Invalid API version")
            if request.method in ("POST", "PATCH") and request.headers.get("content-type") != "application/json":
                raise Refusal(415, 3, "Unsupported media type")
            return self._data(request) if on_data else self._control(request)
        except BadRequest as error:
            refusal = Refusal(400, 3, str(error))
        except Refusal as error:
            refusal = error
        said: dict[str, Any] = {"code": refusal.code, "message": str(refusal), "details": []}
        if not on_data:
            code = {404: "NOT_FOUND", 409: "ALREADY_EXISTS"}.get(refusal.status, "INVALID_ARGUMENT")
            said = {"error": {"code": code, "message": str(refusal)}, "status": refusal.status}
        return Reply.of(said, refusal.status)

    # ------------------------------------------------------------------ control plane
    def _control(self, request: Heard) -> Reply:
        match request.method, request.path.split("/")[1:]:
            case "GET", ["indexes"]:
                return Reply.of({"indexes": [index.described for index in self.indexes.values()]})
            case "POST", ["indexes"]:
                return self._create(_body(request, {"schema", "name"}, {"deployment", "tags", "deletion_protection"}))
            case "GET", ["indexes", name] if name in self.indexes:
                return Reply.of(self.indexes[name].described)
            case "DELETE", ["indexes", name] if name in self.indexes:
                del self.indexes[name]
                return Reply(202)
            case _, ["indexes", name]:
                raise Refusal(404, 5, f"Resource {name} not found")
        raise Refusal(404, 5, "Not found")

    def _create(self, body: dict[str, Any]) -> Reply:
        name, deployment = body["name"], body.get("deployment", {"deployment_type": "managed"})
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BadRequest("Name must consist of lower case alphanumeric characters or '-', at most 45")
        if set(body["schema"]) != {"fields"} or set(body["schema"]["fields"]) != {"_values"}:
            raise BadRequest("this fake serves indexes of dense vectors for the vectors API only")
        values = body["schema"]["fields"]["_values"]
        if set(values) != {"type", "dimension", "metric"} or values["type"] != "dense_vector":
            raise BadRequest("schema.fields._values: invalid value")
        if type(values["dimension"]) is not int or not 1 <= values["dimension"] <= 20_000:
            raise BadRequest("dimension must be between 1 and 20000")
        if values["metric"] not in ("cosine", "euclidean", "dotproduct"):
            raise BadRequest("metric must be one of cosine, euclidean, dotproduct")
        if set(deployment) != {"deployment_type", "cloud", "region"} or deployment["cloud"] not in (
            "aws", "gcp", "azure",
        ):  # fmt: skip
            raise BadRequest("deployment: invalid value")
        tags = body.get("tags") or {}
        if len(tags) > 20 or any(len(key) > 80 or len(value) > 120 for key, value in tags.items()):
            raise BadRequest("tags: at most 20, of 80 and 120 characters")
        if name in self.indexes:
            raise Refusal(409, 6, "Resource  already exists")
        described = {
            "name": name,
            "host": f"{self.address}/host/{name}",
            "schema": body["schema"],
            "deployment": {**deployment, "environment": "test"},
            "deletion_protection": "disabled",
            "status": {"ready": True, "state": "Ready"},
            "tags": tags or None,
        }
        self.indexes[name] = Index(values["dimension"], values["metric"], described)
        return Reply.of(described, 201)

    # ------------------------------------------------------------------ data plane
    def _data(self, request: Heard) -> Reply:
        name, _, route = request.path.removeprefix("/host/").partition("/")
        index = self.indexes.get(name)
        if index is None:
            raise Refusal(404, 5, "Index not found")
        for space in index.namespaces.values():
            space.catch_up()
        match request.method, route.split("/"):
            case "POST", ["vectors", "upsert"]:
                return self._upsert(index, request)
            case "POST", ["query"]:
                return self._query(index, request)
            case "GET", ["vectors", "fetch"]:
                return self._fetch(index, request)
            case "POST", ["vectors", "fetch_by_metadata"]:
                return self._fetch_by_metadata(index, request)
            case "POST", ["vectors", "delete"]:
                return self._delete(index, request)
            case "POST", ["describe_index_stats"]:
                _body(request, set(), set())
                counts = {name: {"vectorCount": len(each.records)} for name, each in index.namespaces.items()}
                total = sum(each["vectorCount"] for each in counts.values())
                return Reply.of({"namespaces": counts, "dimension": index.dimension, "totalVectorCount": total})
            case "POST", ["namespaces"]:
                return self._create_namespace(index, request)
            case "GET", ["namespaces", quoted] if unquote(quoted) in index.namespaces:
                return Reply.of(index.namespaces[unquote(quoted)].described(unquote(quoted)))
            case "DELETE", ["namespaces", quoted] if unquote(quoted) in index.namespaces:
                del index.namespaces[unquote(quoted)]
                return Reply.of({})
            case _, ["namespaces", _]:
                raise Refusal(404, 5, "Namespace not found")
        raise Refusal(404, 5, "Not found")

    def _create_namespace(self, index: Index, request: Heard) -> Reply:
        body = _body(request, {"name"}, {"schema"})
        name = _namespace_name(body["name"])
        fields = None
        if "schema" in body:
            fields = body["schema"]["fields"]
            if set(body["schema"]) != {"fields"} or any(value != {"filterable": True} for value in fields.values()):
                raise BadRequest("Only filterable: true is supported")
        if name in index.namespaces:
            raise Refusal(409, 6, "Namespace already exists")
        index.namespaces[name] = Namespace(fields)
        return Reply.of(index.namespaces[name].described(name))

    def _upsert(self, index: Index, request: Heard) -> Reply:
        if len(request.body) > MOST_BYTES:
            raise Refusal(413, 11, f"message length too large: found {len(request.body)} bytes, limit {MOST_BYTES}")
        body = _body(request, {"vectors"}, {"namespace"})
        if not 1 <= len(body["vectors"]) <= MOST_RECORDS:
            raise BadRequest(f"Number of vectors must be between 1 and {MOST_RECORDS}")
        records: dict[str, Record] = {}
        for vector in body["vectors"]:
            if set(vector) - {"id", "values", "metadata"} or not {"id", "values"} <= set(vector):
                raise BadRequest(f"vectors: unknown or missing field among {sorted(vector)}")
            id = _record_id(vector["id"])
            if id in records:
                raise BadRequest(f"Duplicate vector ID: {id}")
            values = _vector(vector["values"], index.dimension)
            records[id] = Record(values, check_metadata(vector.get("metadata", {})))
        space = index.namespaces.setdefault(_namespace_name(body.get("namespace", "__default__")), Namespace())
        return Reply.of({"upsertedCount": len(records)}, **space.write(lambda held: held.update(records)))

    def _query(self, index: Index, request: Heard) -> Reply:
        body = _body(request, {"topK", "vector"}, {"namespace", "filter", "includeValues", "includeMetadata"})
        top = body["topK"]
        if type(top) is not int or not 1 <= top <= 10_000:
            raise BadRequest("topK must be between 1 and 10000")
        query = _vector(body["vector"], index.dimension)
        space = index.namespaces.get(body.get("namespace", "__default__"), Namespace())
        test = read_filter(body["filter"], space.fields) if "filter" in body else None
        found = [(id, each) for id, each in space.records.items() if test is None or test(each.metadata)]
        if len(found) > top:  # an approximate index does not look at all of them
            seen = [(id, each) for id, each in found if zlib.crc32(id.encode()) % 10]
            found = seen if len(seen) >= top else found
        matches = []
        if found:
            scores = np.stack([each.values for _, each in found]) @ query
            for place in np.argsort(-scores, kind="stable")[:top]:
                id, each = found[place]
                match = {"id": id, "score": float(scores[place]), "values": []}
                if body.get("includeValues"):
                    match["values"] = each.values.tolist()
                if body.get("includeMetadata"):
                    match["metadata"] = each.metadata
                matches.append(match)
        said = Reply.of(
            {"results": [], "matches": matches, "namespace": body.get("namespace", ""), "usage": {"readUnits": 1}},
            **{"x-pinecone-max-indexed-lsn": str(space.indexed)},
        )
        if len(said.body) > MOST_RESULT:
            raise BadRequest("query result exceeds the limit of 4 MB: lower top_k, or leave out values and metadata")
        return said

    def _fetch(self, index: Index, request: Heard) -> Reply:
        if set(request.query) - {"ids", "namespace"} or len(str(request.query)) > LONGEST_LINE:
            raise Refusal(414, 3, "URI too long") if "ids" in request.query else BadRequest("unknown parameter")
        ids = [_record_id(id) for id in request.query.get("ids", [])]
        if not 1 <= len(ids) <= MOST_RECORDS:
            raise BadRequest(f"Number of ids must be between 1 and {MOST_RECORDS}")
        name = request.query.get("namespace", ["__default__"])[0]
        held = index.namespaces.get(name, Namespace()).records
        return Reply.of({"vectors": {id: _shown(id, held[id]) for id in ids if id in held}, "namespace": name})

    def _fetch_by_metadata(self, index: Index, request: Heard) -> Reply:
        body = _body(request, {"filter"}, {"namespace", "limit", "paginationToken"})
        if body["filter"] == {}:
            raise BadRequest("Empty filter provided for fetch by metadata request")
        limit = body.get("limit", 100)
        if type(limit) is not int or not 1 <= limit <= 10_000:
            raise BadRequest("limit must be between 1 and 10000")
        name = body.get("namespace", "__default__")
        space = index.namespaces.get(name, Namespace())
        test = read_filter(body["filter"], space.fields)
        after = urlsafe_b64decode(body["paginationToken"]).decode() if "paginationToken" in body else ""
        found = sorted(id for id, each in space.records.items() if id > after and test(each.metadata))
        said: dict[str, Any] = {"vectors": {id: _shown(id, space.records[id]) for id in found[:limit]}}
        if len(found) > limit:
            said["pagination"] = {"next": urlsafe_b64encode(found[limit - 1].encode()).decode()}
        return Reply.of({**said, "namespace": name, "usage": {"readUnits": 1}})

    def _delete(self, index: Index, request: Heard) -> Reply:
        body = _body(request, {"namespace"}, {"ids", "deleteAll"})
        space = index.namespaces.get(body["namespace"] or "__default__")
        if ("ids" in body) == (body.get("deleteAll") is True):
            raise BadRequest("one of ids and deleteAll must be given")
        if space is None:
            raise Refusal(404, 5, "Namespace not found")
        ids = [_record_id(id) for id in body.get("ids", [])]
        if len(ids) > MOST_RECORDS:
            raise BadRequest(f"Number of ids must be between 1 and {MOST_RECORDS}")
        if "ids" in body:
            return Reply.of({}, **space.write(lambda held: [held.pop(id, None) for id in ids]))
        return Reply.of({}, **space.write(lambda held: held.clear()))


def _body(request: Heard, needed: set[str], allowed: set[str]) -> dict[str, Any]:
    try:
        body = json.loads(request.body)
    except ValueError:
        raise BadRequest("request body is not JSON") from None
    if not isinstance(body, dict):
        raise BadRequest("request body must be an object")
    for name in needed - set(body):
        raise BadRequest(f"missing field: {name}")
    for name in set(body) - needed - allowed:
        raise BadRequest(f"{name}: Cannot find field.")
    return body


def _ascii(value: Any, what: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 512 or not value.isascii() or "\0" in value:
        raise BadRequest(f"{what} must be 1 to 512 ASCII characters other than NUL")
    return value


def _record_id(value: Any) -> str:
    return _ascii(value, "Vector ID")


def _namespace_name(value: Any) -> str:
    return _ascii(value, "Namespace")


def _vector(values: Any, dimension: int) -> NDArray[np.float32]:
    numbers = np.array(values, np.float32)
    if numbers.shape != (dimension,):
        raise BadRequest(f"Vector dimension {len(values)} does not match the dimension of the index {dimension}")
    if not np.isfinite(numbers).all():
        raise BadRequest("Vector values must be finite")
    if not numbers.any():
        raise BadRequest("Dense vectors must contain at least one non-zero value.")
    return numbers


def _shown(id: str, record: Record) -> dict[str, Any]:
    return {"id": id, "values": record.values.tolist(), "metadata": record.metadata}


if __name__ == "__main__":
    serve(Pinecone())
