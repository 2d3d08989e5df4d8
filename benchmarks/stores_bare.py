"""The same question asked of each engine's own client, as one would write it by hand: one user's ten nearest rows.

Each function gets a store that holds the rows and gives `ask(user, query)`, which answers from the same collection with
the user as its only filter, the engine's exact search and the payload's text; nothing else of ours takes part.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from perdure.domain.filter import eq

LIMIT = 10
Ask = Callable[[str, Any], list[Any]]


def numpy_ask(store: Any, collection: str) -> Ask:
    """What this process could do at best: the user's vectors as a matrix, one product."""
    held: dict[str, tuple[list[str], Any]] = {}

    def ask(user: str, query: Any) -> list[Any]:
        if user not in held:
            page = asyncio.run(store.list(collection, eq("user_id", user), with_vectors=True))
            matrix = np.stack([point.vector for point in page.points])
            held[user] = [json.dumps(point.payload) for point in page.points], matrix
        texts, matrix = held[user]
        best = np.argsort(-(matrix @ query))[:LIMIT]
        return [json.loads(texts[place]) for place in best]

    return ask


def pgvector_ask(store: Any, collection: str) -> Ask:
    from pgvector import Vector

    table = store._tables.name_of(collection)
    sql = (
        f"SELECT record, (vector <#> %s) + 0 AS distance FROM {table} WHERE payload->>'user_id' = %s"
        " ORDER BY distance LIMIT 10"
    )

    def ask(user: str, query: Any) -> list[Any]:
        with store._server.connection() as connection:
            return [json.loads(row[0]) for row in connection.execute(sql, (Vector(query), user), binary=True)]

    return ask


def qdrant_ask(store: Any, collection: str) -> Ask:
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

    return ask


def chroma_ask(store: Any, collection: str) -> Ask:
    held = store._look(collection).collection

    def ask(user: str, query: Any) -> list[Any]:
        found = held.query(
            query_embeddings=query[None, :],
            n_results=LIMIT,
            where={"user_id": user},
            include=["documents", "distances"],
        )
        return [json.loads(text) for text in found["documents"][0]]

    return ask


def elasticsearch_ask(store: Any, collection: str) -> Ask:
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

    return ask


def milvus_ask(store: Any, collection: str) -> Ask:
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

    return ask


def redis_ask(store: Any, collection: str) -> Ask:
    rows = store._in(collection, lambda found: found)

    def ask(user: str, query: Any) -> list[Any]:
        text = f"@user_id:{{{user.replace('-', chr(92) + '-')}}}=>[KNN $count @vector $query AS distance]"
        _, found = rows._search(
            text,
            *["PARAMS", 4, "count", LIMIT, "query", query.astype("<f4").tobytes()],
            *["RETURN", 2, "record", "distance", "SORTBY", "distance", "LIMIT", 0, LIMIT],
        )
        return [json.loads(fields[b"record"]) for fields in found]

    return ask


def hook_ask(store: Any, collection: str) -> Ask:
    """For clients of which the store uses the wire alone: one plain request by the user, without what we add to it."""

    def ask(user: str, query: Any) -> list[Any]:
        clause = store.grammar.scope_is("user_id", [user])
        return list(store._nearest(collection, query, LIMIT, clause))

    return ask


BARE: dict[str, Callable[[Any, str], Ask]] = {
    "memory": numpy_ask,
    "sqlite": numpy_ask,
    "cached": numpy_ask,
    "faiss": hook_ask,
    "pgvector": pgvector_ask,
    "qdrant": qdrant_ask,
    "qdrant-path": hook_ask,
    "chroma": chroma_ask,
    "chroma-path": chroma_ask,
    "elasticsearch": elasticsearch_ask,
    "milvus": milvus_ask,
    "redis": redis_ask,
    "weaviate": hook_ask,
}
