"""Qdrant's REST API over Qdrant's own engine, as a process: `python -m tests.engines.qdrant_rest FOLDER PORT`.

No package carries Qdrant's server; `qdrant-edge-py` carries the engine that the server is built on. So filters, search,
indexes, the log and recovery are Qdrant's, one EdgeShard for each collection, and only this layer is ours: the routes
that `qdrant-client` calls for perdure, with Qdrant's status codes and error texts. It is strict: requests are held to
the published shapes (the models that are generated from Qdrant's OpenAPI file), unknown fields are refused, and what is
not served here is an error, never ignored. The key is read from the environment. It ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import qdrant_edge as edge
from pydantic import BaseModel, ValidationError
from qdrant_client import models

from tests.engines.qdrant_types import (
    Refused,
    edge_config,
    edge_filter,
    edge_index,
    edge_points,
    edge_query,
    id_of,
    told,
)

VERSION = os.environ.get("PERDURE_TEST_QDRANT_VERSION", "1.20.0")
KEY = os.environ.get("PERDURE_TEST_QDRANT_KEY", "")
LARGEST = 32 * 1024 * 1024
"""Bytes of a body that a server takes by default."""
PARAMETERS = {"wait", "ordering", "consistency", "timeout"}
DEFAULT_HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
OPTIMIZERS = {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "default_segment_number": 0}


class Collection:
    """What is kept of a collection beside its shard: how it was made, and its indexes."""

    def __init__(self, folder: Path, name: str, create: dict[str, Any]) -> None:
        self.folder = folder
        self.name = name
        self.create = create
        self.indexes: dict[str, Any] = {}
        self.shard: edge.EdgeShard | None = None
        self.writing = threading.Lock()

    def keep(self) -> None:
        part = self.folder / "collection.part"
        part.write_text(json.dumps([self.name, self.create, self.indexes]))
        part.replace(self.folder / "collection.json")

    def open(self, *, new: bool) -> None:
        config = edge_config(models.CreateCollection.model_validate(self.create))
        if config is not None:  # a collection without vectors holds metadata alone
            place = str(self.folder / "shard")
            self.shard = edge.EdgeShard.create(place, config) if new else edge.EdgeShard.load(place)

    def points(self) -> edge.EdgeShard:
        if self.shard is None:
            raise Refused(400, "Wrong input: the collection has no vectors")
        return self.shard

    def info(self) -> dict[str, Any]:
        shape = self.create
        shard = None if self.shard is None else self.shard.info()
        held = {} if shard is None else shard.payload_schema
        return {
            "status": "green",
            "optimizer_status": "ok",
            "points_count": 0 if shard is None else shard.points_count,
            "segments_count": 0 if shard is None else shard.segments_count,
            "payload_schema": {
                field: {
                    "data_type": schema if isinstance(schema, str) else schema["type"],
                    **({} if isinstance(schema, str) else {"params": schema}),
                    "points": held[field].points,
                }
                for field, schema in self.indexes.items()
            },
            "config": {
                "params": {key: shape[key] for key in ("vectors", "sparse_vectors") if key in shape},
                "hnsw_config": {**DEFAULT_HNSW, **shape.get("hnsw_config", {})},
                "optimizer_config": {**OPTIMIZERS, "flush_interval_sec": 5},
                "strict_mode_config": shape.get("strict_mode_config"),
                "metadata": shape.get("metadata"),
            },
        }


class Server:
    """The collections of a folder, and the requests on them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._guard = threading.Lock()
        self._collections: dict[str, Collection] = {}
        for place in folder.iterdir():
            if not (place / "collection.json").exists():
                shutil.rmtree(place)  # its making, or its removal, was not finished
                continue
            name, create, indexes = json.loads((place / "collection.json").read_text())
            found = self._collections[name] = Collection(place, name, create)
            found.indexes = indexes
            found.open(new=False)

    def collection(self, name: str) -> Collection:
        found = self._collections.get(name)
        if found is None:
            raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
        return found

    def list(self, body: Any) -> dict[str, Any]:
        return {"collections": [{"name": name} for name in list(self._collections)]}

    def exists(self, name: str, body: Any) -> dict[str, Any]:
        return {"exists": name in self._collections}

    def get(self, name: str, body: Any) -> dict[str, Any]:
        return self.collection(name).info()

    def create(self, name: str, body: models.CreateCollection) -> bool:
        if re.search(r'[<>:"/\\|?*\x00-\x1f]', name) or not 1 <= len(name) <= 255:
            raise Refused(422, f"Validation error in path parameters: [name: value invalid: {name!r}]")
        with self._guard:
            if name in self._collections:
                raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
            folder = self._folder / sha256(name.encode()).hexdigest()
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "shard").mkdir(parents=True)
            made = Collection(folder, name, body.model_dump(mode="json", exclude_none=True))
            made.open(new=True)
            made.keep()
            self._collections[name] = made
        return True

    def delete(self, name: str, body: Any) -> bool:
        with self._guard:
            found = self._collections.pop(name, None)
            if found is None:
                return False
            with found.writing:
                (found.folder / "collection.json").unlink()
                if found.shard is not None:
                    found.shard.close()
                shutil.rmtree(found.folder, ignore_errors=True)
        return True

    def _update(self, name: str, operation: edge.UpdateOperation) -> dict[str, Any]:
        found = self.collection(name)
        with found.writing:
            self.collection(name)
            told(found.points().update, operation)
        return {"operation_id": 0, "status": "completed"}

    def index(self, name: str, body: models.CreateFieldIndex) -> dict[str, Any]:
        field = body.field_name
        done = self._update(name, edge.UpdateOperation.create_field_index(field, edge_index(body.field_schema)))
        found = self.collection(name)
        with found.writing:
            found.indexes[field] = body.model_dump(mode="json", exclude_none=True)["field_schema"]
            found.keep()
        return done

    def upsert(self, name: str, body: models.PointsList) -> dict[str, Any]:
        create = models.CreateCollection.model_validate(self.collection(name).create)
        return self._update(name, edge.UpdateOperation.upsert_points(edge_points(body, create)))

    def delete_points(self, name: str, body: models.PointIdsList | models.FilterSelector) -> dict[str, Any]:
        if isinstance(body, models.FilterSelector):
            gone = edge.UpdateOperation.delete_points_by_filter(edge_filter(body.filter))
        else:
            gone = edge.UpdateOperation.delete_points([id_of(point) for point in body.points])
        return self._update(name, gone)

    # ------------------------------------------------------------------ reading
    def retrieve(self, name: str, body: models.PointRequest) -> list[dict[str, Any]]:
        shard = self.collection(name).points()
        ids = [id_of(point) for point in body.ids]
        found = told(shard.retrieve, ids, body.with_payload, body.with_vector or False)
        return [_record(point) for point in found]

    def scroll(self, name: str, body: models.ScrollRequest) -> dict[str, Any]:
        request = edge.ScrollRequest(
            offset=None if body.offset is None else id_of(body.offset),
            limit=_limit(body.limit),
            filter=edge_filter(body.filter),
            with_payload=body.with_payload,
            with_vector=body.with_vector or False,
        )
        found, following = told(self.collection(name).points().scroll, request)
        return {
            "points": [_record(point) for point in found],
            "next_page_offset": following if following is None or isinstance(following, int) else str(following),
        }

    def query(self, name: str, body: models.QueryRequest) -> dict[str, Any]:
        found = self.collection(name)
        create = models.CreateCollection.model_validate(found.create)
        request = edge.QueryRequest(
            limit=_limit(body.limit),
            query=edge_query(body, create),
            filter=edge_filter(body.filter),
            with_payload=body.with_payload,
            params=edge.SearchParams(exact=bool(body.params and body.params.exact)),
        )
        points = told(found.points().query, request)
        return {"points": [{**_record(point), "version": point.version, "score": point.score} for point in points]}

    def count(self, name: str, body: models.CountRequest) -> dict[str, Any]:
        request = edge.CountRequest(filter=edge_filter(body.filter), exact=body.exact is not False)
        return {"count": told(self.collection(name).points().count, request)}


def _limit(limit: int | None) -> int:
    if limit is not None and limit < 1:
        raise Refused(422, f"Validation error in JSON body: [limit: value {limit} invalid, must be 1 or larger]")
    return 10 if limit is None else limit


def _record(point: edge.Record | edge.ScoredPoint) -> dict[str, Any]:
    found: dict[str, Any] = {"id": point.id if isinstance(point.id, int) else str(point.id), "payload": point.payload}
    if point.vector is not None:
        assert isinstance(point.vector, dict)
        found["vector"] = {
            name: {"indices": value.indices, "values": value.values} if isinstance(value, edge.SparseVector) else value
            for name, value in point.vector.items()
        }
    return found


# ------------------------------------------------------------------ HTTP

_DELETED = (models.PointIdsList, models.FilterSelector)
_ROUTES: list[tuple[str, str, tuple[type[BaseModel], ...], Callable[..., Any]]] = [
    ("GET", r"/collections", (), Server.list),
    ("GET", r"/collections/([^/]+)", (), Server.get),
    ("GET", r"/collections/([^/]+)/exists", (), Server.exists),
    ("PUT", r"/collections/([^/]+)", (models.CreateCollection,), Server.create),
    ("DELETE", r"/collections/([^/]+)", (), Server.delete),
    ("PUT", r"/collections/([^/]+)/index", (models.CreateFieldIndex,), Server.index),
    ("PUT", r"/collections/([^/]+)/points", (models.PointsList,), Server.upsert),
    ("POST", r"/collections/([^/]+)/points", (models.PointRequest,), Server.retrieve),
    ("POST", r"/collections/([^/]+)/points/delete", _DELETED, Server.delete_points),
    ("POST", r"/collections/([^/]+)/points/scroll", (models.ScrollRequest,), Server.scroll),
    ("POST", r"/collections/([^/]+)/points/query", (models.QueryRequest,), Server.query),
    ("POST", r"/collections/([^/]+)/points/count", (models.CountRequest,), Server.count),
]


def _parsed(kinds: tuple[type[BaseModel], ...], body: bytes) -> Any:
    """The body as one of the models; a field that none of them has is refused, and so is a body that is not wanted."""
    if not kinds:
        if body:
            raise Refused(400, "Format error in JSON body: no body was expected")
        return None
    problem = ""
    for kind in kinds:
        strict = type(kind.__name__, (kind,), {}, extra="forbid")
        try:
            return kind.model_validate(strict.model_validate_json(body).model_dump())
        except ValidationError as error:
            first = error.errors()[0]
            problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    raise Refused(400, f"Format error in JSON body: {problem}")


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server_of: Server

    def _answer(self) -> None:
        started = time.monotonic()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if KEY and self.headers.get("api-key") != KEY and self.path != "/healthz":
            given = self.headers.get("api-key")
            text = "Invalid API key or JWT" if given else "Must provide an API key or an Authorization bearer token"
            return self._send(401, text.encode(), "text/plain")
        parts = urlsplit(self.path)
        if self.command == "GET" and parts.path in ("", "/"):
            told_of = {"title": "qdrant - vector search engine", "version": VERSION, "commit": "edge"}
            return self._send(200, json.dumps(told_of).encode())
        if self.command == "GET" and parts.path == "/healthz":
            return self._send(200, b"healthz check passed", "text/plain")
        status, found = 200, {}
        try:
            found = {"result": self._result(parts.path, parts.query, body), "status": "ok"}
        except Refused as refused:
            status, found = refused.status, {"status": {"error": refused.message}}
        return self._send(status, json.dumps({**found, "time": time.monotonic() - started}).encode())

    def _result(self, path: str, query: str, body: bytes) -> Any:
        if unknown := set(parse_qs(query)) - PARAMETERS:
            raise Refused(400, f"Format error in query parameters: unknown field `{min(unknown)}`")
        if len(body) > LARGEST:
            raise Refused(413, f"JSON payload ({len(body)} bytes) is larger than allowed (limit: {LARGEST} bytes).")
        for method, pattern, kinds, handle in _ROUTES:
            matched = re.fullmatch(pattern, path)
            if matched and method == self.command:
                return handle(self.server_of, *map(unquote, matched.groups()), _parsed(kinds, body))
        raise Refused(404, "Not found: no such route here")

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    do_GET = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main(folder: str, port: str) -> None:
    Handler.server_of = Server(Path(folder))
    with HttpServer(("127.0.0.1", int(port)), Handler) as server:
        print(server.server_address[1], flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()
        os._exit(0)  # as a kill would: what was answered is in the log


if __name__ == "__main__":
    main(*sys.argv[1:])
