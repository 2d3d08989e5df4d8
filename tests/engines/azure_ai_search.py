"""Azure AI Search, version 2026-04-01: indexes, documents, filters, vectors and BM25; strict, executing on numpy.

After https://learn.microsoft.com/rest/api/searchservice and its service limits. What the service refuses is refused, in
its form. Writes are seen LATE seconds after they were taken; answers come in pages of PAGE documents; equal scores come
in an order of their own.

Run as a module, it serves until its standard input ends.
"""

from __future__ import annotations

import json
import math
import re
import time
import zlib
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.backends.wire.server import Heard, Reply
from tests.engines.azure_index import BadIndex, check_index
from tests.engines.azure_odata import BadFilter, Document, read_filter
from tests.engines.service import Service, serve

KEY = "0123456789ABCDEF0123456789ABCDEF"
VERSION = "2026-04-01"
LATE = 0.01
PAGE = 400
MOST_DOCUMENTS = 1_000
MOST_BYTES = 16 * 1024 * 1024
LONGEST_TERM = 32_766
"""Bytes of a filterable, sortable or facetable text."""
_KEYS = re.compile(r"[A-Za-z0-9_\-=]{1,1024}")
_PATH = re.compile(r"/indexes(?:\('(?P<name>[^']+)'\)(?P<rest>/.*)?)?")
_SYNTAX = re.compile(r'[+|"*()~\-]')
_SEARCH = {
    "count", "filter", "orderby", "queryType", "scoringStatistics", "search", "searchFields", "searchMode", "select",
    "skip", "top", "vectorQueries", "vectorFilterMode",
}  # fmt: skip


class Refusal(Exception):
    """A refusal with its status and code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Bad(Refusal):
    def __init__(self, message: str) -> None:
        super().__init__(400, "InvalidRequestParameter", message)


@dataclass
class Index:
    definition: dict[str, Any]
    fields: dict[str, dict[str, Any]]
    documents: dict[str, Document] = field(default_factory=dict)
    words: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)
    """By searchable text field and key."""
    pending: deque[tuple[float, str, Document | None]] = field(default_factory=deque)

    @property
    def key(self) -> str:
        return next(name for name, each in self.fields.items() if each.get("key"))

    def catch_up(self) -> None:
        while self.pending and self.pending[0][0] <= time.monotonic():
            _, key, document = self.pending.popleft()
            self.documents.pop(key, None)
            if document is not None:
                self.documents[key] = document
            for name, each in self.fields.items():
                if each["type"] == "Edm.String" and each.get("searchable"):
                    text = (document or {}).get(name)
                    self.words.setdefault(name, {})[key] = Counter(text.split() if text else ())


class AzureSearch(Service):
    """One search service."""

    def __init__(self) -> None:
        super().__init__()
        self.indexes: dict[str, Index] = {}

    def respond(self, request: Heard) -> Reply:
        if request.headers.get("api-key") != KEY:
            return Reply(403)
        try:
            if request.query.get("api-version") != [VERSION]:
                raise Refusal(400, "MissingApiVersionParameter", "The api-version query parameter is invalid.")
            if request.method == "POST" and request.headers.get("content-type") != "application/json":
                raise Refusal(415, "", "The content type is not supported.")
            if len(request.body) > MOST_BYTES:
                raise Refusal(413, "RequestEntityTooLarge", "The request is too large.")
            return self._route(request)
        except (BadFilter, BadIndex) as error:
            refusal: Refusal = Bad(str(error))
        except Refusal as error:
            refusal = error
        return Reply.of({"error": {"code": refusal.code, "message": str(refusal)}}, refusal.status)

    def _route(self, request: Heard) -> Reply:
        found = _PATH.fullmatch(request.path)
        if found is None:
            raise Refusal(404, "", "No HTTP resource was found that matches the request.")
        name, rest = found["name"], found["rest"]
        if name is None:
            if request.method == "GET":
                wanted = [part for text in request.query.get("$select", []) for part in text.split(",")]
                shown = [
                    {k: v for k, v in each.definition.items() if not wanted or k in wanted} for each in self._all()
                ]
                return Reply.of({"value": shown})
            return self._create(_body(request))
        index = self.indexes.get(name)
        if index is None:
            raise Refusal(404, "ResourceNotFound", f"No index with the name '{name}' was found in the service.")
        index.catch_up()
        match request.method, rest:
            case "GET", None:
                return Reply.of(index.definition)
            case "DELETE", None:
                del self.indexes[name]
                return Reply(204)
            case "POST", "/docs/search.index":
                return self._write(index, _body(request))
            case "POST", "/docs/search.post.search":
                return self._search(index, _body(request))
        raise Refusal(404, "", "No HTTP resource was found that matches the request.")

    def _all(self) -> Iterator[Index]:
        yield from self.indexes.values()

    def _create(self, definition: dict[str, Any]) -> Reply:
        fields = check_index(definition)
        if definition["name"] in self.indexes:
            raise Refusal(
                409, "ResourceNameAlreadyInUse",
                f"Cannot create index '{definition['name']}' because it already exists.",
            )  # fmt: skip
        self.indexes[definition["name"]] = Index({**definition, "@odata.etag": '"0x1"'}, fields)
        return Reply.of(definition, 201)

    # ------------------------------------------------------------------ documents
    def _write(self, index: Index, body: dict[str, Any]) -> Reply:
        actions = body.get("value")
        if set(body) != {"value"} or not isinstance(actions, list) or not 1 <= len(actions) <= MOST_DOCUMENTS:
            raise Bad(f"The request must hold 1 to {MOST_DOCUMENTS} indexing actions in 'value'.")
        changes: list[tuple[str, Document | None]] = []
        for place, action in enumerate(actions):
            kind = action.pop("@search.action", None)
            key = action.get(index.key)
            if not isinstance(key, str) or not _KEYS.fullmatch(key):
                raise Bad(
                    f"{place}: Invalid document key: '{key}'. Keys can only contain letters, digits, underscore (_), "
                    "dash (-), or equal sign (=)."
                )
            if kind not in ("upload", "delete"):
                raise Bad(f"{place}: this fake takes 'upload' and 'delete', not '{kind}'.")
            for name, value in action.items():
                _check_value(index.fields, name, value)
            changes.append((key, action if kind == "upload" else None))
        due = time.monotonic() + LATE
        index.pending.extend((due, key, document) for key, document in changes)
        results = [
            {"key": key, "status": True, "errorMessage": None, "statusCode": 200 if document is None else 201}
            for key, document in changes
        ]
        return Reply.of({"value": results})

    # ------------------------------------------------------------------ search
    def _search(self, index: Index, body: dict[str, Any]) -> Reply:
        for name in set(body) - _SEARCH:
            raise Bad(f"The parameter '{name}' is not known, or not served by this fake.")
        top, skip = body.get("top", 50), body.get("skip", 0)
        if type(top) is not int or not 0 <= top <= 1_000:
            raise Bad("Value must be between 0 and 1000. Parameter name: $top")
        if type(skip) is not int or not 0 <= skip <= 100_000:
            raise Bad("Value must be between 0 and 100000. Parameter name: $skip")
        test = read_filter(body["filter"], index.fields) if "filter" in body else None
        held = {key: each for key, each in index.documents.items() if test is None or test(each)}
        if "vectorQueries" in body:
            ranked = _nearest(index, held, body)
        elif body.get("search", "*") != "*":
            ranked = _by_words(index, held, body)
        else:
            ranked = [(key, 1.0) for key in held]
        ranked.sort(key=lambda pair: (-pair[1], zlib.crc32(pair[0].encode())))
        if "orderby" in body:
            name, _, way = body["orderby"].partition(" ")
            if not index.fields.get(name, {}).get("sortable") or way not in ("", "asc"):
                raise Bad(f"Invalid expression: '{name}' is not a sortable field. Parameter name: $orderby")
            ranked.sort(key=lambda pair: held[pair[0]][name])
        wanted = body["select"].split(",") if "select" in body else list(index.fields)
        for name in wanted:
            if not index.fields.get(name, {}).get("retrievable"):
                raise Bad(f"Invalid expression: Could not find a property named '{name}'. Parameter name: $select")
        page = ranked[skip : skip + min(top, PAGE)]
        value = [{"@search.score": score, **{name: held[key].get(name) for name in wanted}} for key, score in page]
        said: dict[str, Any] = {"value": value}
        if body.get("count"):
            said["@odata.count"] = len(ranked)
        if len(page) == PAGE < top and skip + PAGE < len(ranked):
            said["@search.nextPageParameters"] = {**body, "skip": skip + PAGE, "top": top - PAGE}
            said["@odata.nextLink"] = (
                f"{self.address}/indexes('{index.definition['name']}')/docs/search.post.search?api-version={VERSION}"
            )
        return Reply.of(said)


def _nearest(index: Index, held: Mapping[str, Document], body: Mapping[str, Any]) -> list[tuple[str, float]]:
    (query,) = body["vectorQueries"]
    if set(query) - {"kind", "vector", "k", "fields", "exhaustive"} or query["kind"] != "vector":
        raise Bad("vectorQueries: unknown property, or a kind that this fake does not serve.")
    if "search" in body or body.get("vectorFilterMode", "preFilter") != "preFilter":
        raise Bad("this fake serves vector queries alone, with preFilter.")
    described = index.fields.get(query["fields"], {})
    if described.get("type") != "Collection(Edm.Single)":
        raise Bad(f"Unknown field '{query['fields']}' in vector field list.")
    vector = np.array(query["vector"], np.float32)
    if vector.shape != (described["dimensions"],):
        raise Bad(
            f"The vector field '{query['fields']}' dimension is {described['dimensions']}, which does not match the "
            f"dimension of the query vector, {len(vector)}."
        )
    if type(query["k"]) is not int or not 1 <= query["k"] <= 10_000:
        raise Bad("Invalid value for k: it must be between 1 and 10000.")
    keys = [key for key, each in held.items() if each.get(query["fields"]) is not None]
    if not keys:
        return []
    scores = np.array([held[key][query["fields"]] for key in keys], np.float32) @ vector
    # The service does not say how it makes a score of an inner product: larger is better is all that may be used.
    found = [(key, float((1 + score) / 2)) for key, score in zip(keys, scores, strict=True)]
    found.sort(key=lambda pair: (-pair[1], zlib.crc32(pair[0].encode())))
    return found[: query["k"]]


def _by_words(index: Index, held: Mapping[str, Document], body: Mapping[str, Any]) -> list[tuple[str, float]]:
    if body.get("queryType") != "simple" or body.get("searchMode") != "any" or _SYNTAX.search(body["search"]):
        raise Bad("this fake serves simple queries of plain words, of which any may match.")
    name = body.get("searchFields", "")
    if not index.fields.get(name, {}).get("searchable"):
        raise Bad(f"The field '{name}' in the search field list is not searchable.")
    if len(body["search"].split()) > 1024:
        raise Bad("The search text has too many clauses.")
    counts = {key: words for key, words in index.words.get(name, {}).items() if words}
    mean = sum(words.total() for words in counts.values()) / max(len(counts), 1)
    scores: Counter[str] = Counter()
    for word in set(body["search"].split()):
        having = [key for key, words in counts.items() if word in words]
        rarity = math.log(1 + (len(counts) - len(having) + 0.5) / (len(having) + 0.5))
        for key in having:
            if key in held:
                often, length = counts[key][word], counts[key].total()
                scores[key] += rarity * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * length / mean))
    return list(scores.items())


def _body(request: Heard) -> dict[str, Any]:
    try:
        body = json.loads(request.body)
    except ValueError:
        raise Bad("The request body is not valid JSON.") from None
    if not isinstance(body, dict):
        raise Bad("The request body must be an object.")
    return body


def _check_value(fields: Mapping[str, Mapping[str, Any]], name: str, value: Any) -> None:
    described = fields.get(name)
    if described is None:
        raise Bad(f"The property '{name}' does not exist on type 'search.documentFields'.")
    if value is None and described["type"] != "Collection(Edm.String)":
        return
    match described["type"]:
        case "Edm.String":
            good, texts = isinstance(value, str), [value]
        case "Edm.Int64":
            good, texts = type(value) is int and -(2**63) <= value < 2**63, []
        case "Collection(Edm.String)":
            good, texts = isinstance(value, list) and all(isinstance(each, str) for each in value), value
        case _:
            numbers = np.array(value, np.float32)
            good, texts = numbers.shape == (described["dimensions"],) and bool(np.isfinite(numbers).all()), []
    if not good:
        raise Bad(f"The value of the field '{name}' cannot be converted to {described['type']}.")
    if described.get("filterable") or described.get("sortable"):
        for text in texts:
            if len(text.encode()) > LONGEST_TERM:
                raise Bad(
                    f"Field '{name}' contains a term that is too large to process. The max length for UTF-8 encoded "
                    f"terms is {LONGEST_TERM} bytes."
                )


if __name__ == "__main__":
    serve(AzureSearch())
