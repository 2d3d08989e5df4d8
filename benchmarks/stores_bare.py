"""The same question asked of each engine's own client, as one would write it by hand: one user's ten nearest rows.

Each function gets a store that holds the rows, and the rows, and gives `ask(user, query)` while it is open: it answers
with the user as the only filter, the engine's exact search and the payload, and nothing of ours takes part. A server is
asked for the collection that the store wrote; NumPy, SQLite and FAISS, being libraries, hold the rows themselves.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from perdure.backends.vector_stores.base import Point

LIMIT = 10
Ask = Callable[[str, Any], list[Any]]
Batches = Iterable[list[Point]]


def unit(point: Point) -> Any:
    return point.vector / np.linalg.norm(point.vector)


@contextmanager
def numpy_ask(store: Any, collection: str, batches: Batches) -> Iterator[Ask]:
    """What this process could do at best: the user's vectors as a matrix, one product."""
    texts: dict[str, list[str]] = {}
    vectors: dict[str, list[Any]] = {}
    for point in (point for batch in batches for point in batch):
        texts.setdefault(point.payload["user_id"], []).append(json.dumps(point.payload))
        vectors.setdefault(point.payload["user_id"], []).append(unit(point))
    held = {user: np.stack(rows) for user, rows in vectors.items()}

    def ask(user: str, query: Any) -> list[Any]:
        best = np.argsort(-(held[user] @ query))[:LIMIT]
        return [json.loads(texts[user][place]) for place in best]

    yield ask


@contextmanager
def sqlite_ask(store: Any, collection: str, batches: Batches) -> Iterator[Ask]:
    """A table with an index on the user; the vectors are compared by NumPy."""
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(Path(folder) / "bare.db")) as file:
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("CREATE TABLE rows (user_id TEXT, record TEXT, vector BLOB)")
        for batch in batches:
            values = [(point.payload["user_id"], json.dumps(point.payload), unit(point).tobytes()) for point in batch]
            file.executemany("INSERT INTO rows VALUES (?, ?, ?)", values)
        file.execute("CREATE INDEX by_user ON rows (user_id)")
        file.commit()

        def ask(user: str, query: Any) -> list[Any]:
            rows = file.execute("SELECT rowid, vector FROM rows WHERE user_id = ?", (user,)).fetchall()
            matrix = np.stack([np.frombuffer(vector, np.float32) for _, vector in rows])
            best = [rows[place][0] for place in np.argsort(-(matrix @ query))[:LIMIT]]
            marks = ", ".join("?" * len(best))
            found = dict(file.execute(f"SELECT rowid, record FROM rows WHERE rowid IN ({marks})", best))
            return [json.loads(found[number]) for number in best]

        yield ask


@contextmanager
def faiss_ask(store: Any, collection: str, batches: Batches) -> Iterator[Ask]:
    """A flat index of all vectors, asked for the user's numbers alone; the payloads are in a dictionary."""
    import faiss

    index: faiss.IndexFlatIP | None = None
    texts: list[str] = []
    numbers: dict[str, list[int]] = {}
    for batch in batches:
        index = index or faiss.IndexFlatIP(len(batch[0].vector))
        for point in batch:
            numbers.setdefault(point.payload["user_id"], []).append(len(texts))
            texts.append(json.dumps(point.payload))
        index.add(np.stack([unit(point) for point in batch]))

    def ask(user: str, query: Any) -> list[Any]:
        among = faiss.SearchParameters(sel=faiss.IDSelectorBatch(np.array(numbers[user], np.int64)))
        _, found = index.search(query[None, :], min(LIMIT, len(numbers[user])), params=among)
        return [json.loads(texts[number]) for number in found[0]]

    yield ask


@contextmanager
def weaviate_ask(store: Any, collection: str, batches: Batches) -> Iterator[Ask]:
    import weaviate
    from weaviate.classes.query import Filter, MetadataQuery

    http, grpc = store.settings.url.removeprefix("http://").split(":"), store._grpc_address.split(":")
    client = weaviate.connect_to_custom(
        http_host=http[0],
        http_port=int(http[1]),
        http_secure=False,
        grpc_host=grpc[0],
        grpc_port=int(grpc[1]),
        grpc_secure=False,
        skip_init_checks=True,
    )
    with client:
        rows = client.collections.use(store._class(collection))

        def ask(user: str, query: Any) -> list[Any]:
            found = rows.query.near_vector(
                query.tolist(),
                target_vector="default",
                limit=LIMIT,
                filters=Filter.by_property("user_id").equal(user),
                return_properties=["record"],
                return_metadata=MetadataQuery(distance=True),
            )
            return [json.loads(each.properties["record"]) for each in found.objects]

        yield ask


@contextmanager
def pgvector_ask(store: Any, collection: str, batches: Batches) -> Iterator[Ask]:
    from pgvector import Vector

    table = store._tables.name_of(collection)
    sql = (
        f"SELECT record, (vector <#> %s) + 0 AS distance FROM {table} WHERE payload->>'user_id' = %s"
        " ORDER BY distance LIMIT 10"
    )

    def ask(user: str, query: Any) -> list[Any]:
        with store._server.connection() as connection:
            return [json.loads(row[0]) for row in connection.execute(sql, (Vector(query), user), binary=True)]

    yield ask


@contextmanager
def qdrant_ask(store: Any, collection: str, batches: Batches) -> Iterator[Ask]:
    from qdrant_client import models

    engine = store._engine
    name, client = engine._stored_name(collection), engine._client

    def ask(user: str, query: Any) -> list[Any]:
        among = models.Filter(must=[models.FieldCondition(key="user_id", match=models.MatchValue(value=user))])
        found = client.query_points(
            name,
            query.tolist(),
            using="dense",
            query_filter=among,
            limit=LIMIT,
            search_params=models.SearchParams(exact=True),
            with_payload=["record"],
        )
        return [json.loads(point.payload["record"]) for point in found.points]

    yield ask


@contextmanager
def chroma_ask(store: Any, collection: str, batches: Batches) -> Iterator[Ask]:
    held = store._look(collection).collection

    def ask(user: str, query: Any) -> list[Any]:
        found = held.query(
            query_embeddings=query[None, :],
            n_results=LIMIT,
            where={"user_id": user},
            include=["documents", "distances"],
        )
        return [json.loads(text) for text in found["documents"][0]]

    yield ask


@contextmanager
def elasticsearch_ask(store: Any, collection: str, batches: Batches) -> Iterator[Ask]:
    client, index = store._client(), store._alias(collection)

    def ask(user: str, query: Any) -> list[Any]:
        knn = {
            "field": "vector",
            "query_vector": query.tolist(),
            "k": LIMIT,
            "num_candidates": LIMIT,
            "filter": {"term": {"user_id": user}},
        }
        body = {"knn": knn, "size": LIMIT, "_source": ["record"]}
        versioned = "application/vnd.elasticsearch+json; compatible-with=8"
        headers = {"accept": versioned, "content-type": versioned}
        found = client.perform_request("POST", f"/{index}/_search", headers=headers, body=body)
        return [json.loads(hit["_source"]["record"]) for hit in found["hits"]["hits"]]

    yield ask


@contextmanager
def milvus_ask(store: Any, collection: str, batches: Batches) -> Iterator[Ask]:
    def ask(user: str, query: Any) -> list[Any]:
        (hits,) = store._call(
            collection,
            "search",
            data=[query],
            anns_field="vector",
            filter=f'user_id == "{user}"',
            limit=LIMIT,
            output_fields=["record"],
            search_params={"metric_type": "IP", "params": {}},
            consistency_level="Strong",
        )
        return [hit["entity"] for hit in hits]

    yield ask


@contextmanager
def redis_ask(store: Any, collection: str, batches: Batches) -> Iterator[Ask]:
    rows = store._in(collection, lambda found: found)

    def ask(user: str, query: Any) -> list[Any]:
        text = f"@user_id:{{{user.replace('-', chr(92) + '-')}}}=>[KNN $count @vector $query AS distance]"
        _, found = rows._search(
            text,
            *["PARAMS", 4, "count", LIMIT, "query", query.astype("<f4").tobytes()],
            *["RETURN", 2, "record", "distance", "SORTBY", "distance", "LIMIT", 0, LIMIT],
        )
        return [json.loads(fields[b"record"]) for fields in found]

    yield ask


BARE: dict[str, Callable[[Any, str, Batches], AbstractContextManager[Ask]]] = {
    "memory": numpy_ask,
    "sqlite": sqlite_ask,
    "cached": sqlite_ask,
    "faiss": faiss_ask,
    "pgvector": pgvector_ask,
    "qdrant": qdrant_ask,
    "chroma": chroma_ask,
    "chroma-path": chroma_ask,
    "elasticsearch": elasticsearch_ask,
    "milvus": milvus_ask,
    "milvus-lite": milvus_ask,
    "redis": redis_ask,
    "weaviate": weaviate_ask,
}
