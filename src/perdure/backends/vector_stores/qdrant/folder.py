"""Qdrant without a server: its own engine (Qdrant Edge) in this process, on an exclusive folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar
from uuid import UUID, uuid4, uuid5

import qdrant_edge as edge

from perdure.backends.file_lock import FolderLock
from perdure.backends.vector_stores.base import Names, Shape, Shapes, Vector
from perdure.backends.vector_stores.common.document_store import Failure, MissingCollection
from perdure.backends.vector_stores.common.documents import Document, digest
from perdure.backends.vector_stores.common.scoring import K1, B
from perdure.backends.vector_stores.qdrant import filter

RECORD = "record"
DENSE = "dense"  # the name of the embedder's vector
WORDS = "words"  # the name of the sparse vector of the memory's words, which Qdrant weighs by how rare each is
TYPICAL_WORDS = 16  # words of a usual memory: BM25 wants the average length, and what is stored cannot follow it
_NAMESPACE = UUID("8f4a1c9e-52cb-5d0b-9e37-3f6f0f7f6d11")
_OURS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-46-9a-f][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""Ids of rows that are points' ids too: UUIDs as Qdrant writes them, but none of version 5, which `point_id` makes."""


@dataclass(frozen=True, slots=True)
class Words:
    """A sparse vector."""

    places: list[int]
    weights: list[float]


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """A point to be written."""

    id: str
    dense: Vector | None
    words: Words | None
    payload: dict[str, Any]


def point_id(id: str) -> str:
    return id if _OURS.fullmatch(id) else str(uuid5(_NAMESPACE, id.encode("utf-8", "surrogatepass").hex()))


def point_of(document: Document) -> StoredPoint:
    payload: dict[str, Any] = {
        RECORD: document.record,
        **{name: value for name, value in document.scope.items() if filter.is_native(value)},
        filter.TOKENS: document.tokens,
        filter.MEMORY: document.memory,
    }
    if document.numbers:
        payload[filter.NUMBERS] = _nested(
            {path: filter.kept_number(number) for path, number in document.numbers.items()}
        )
    if document.moments:
        payload[filter.MOMENTS] = _nested({path: filter.date_of(moment) for path, moment in document.moments.items()})
    return StoredPoint(point_id(document.id), document.vector, _word_vector(document.stems), payload)


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, value in values.items():
        *outer, last = filter.steps_of(path)
        inner = found
        for step in outer:
            inner = inner.setdefault(step, {})
        inner[last] = value
    return found


def _word_vector(stems: Sequence[str]) -> Words | None:
    """Return BM25's weight of each stem in its text, as in `word_scores`; the engine adds its rarity."""
    if not stems:
        return None
    weight = (K1 + 1) / (1 + K1 * (1 - B + B * len(stems) / TYPICAL_WORDS))
    places = asked(stems).places
    return Words(places, [weight] * len(places))


def asked(stems: Iterable[str]) -> Words:
    places = list(dict.fromkeys(place_of(stem) for stem in stems))
    return Words(places, [1.0] * len(places))


@lru_cache(maxsize=16384)
def place_of(stem: str) -> int:
    """Return the dimension of a stem, of 2**32."""
    return int(digest(stem, 4), 16)


TENANT = filter.SCOPES[0]
KEYWORDS = (*filter.SCOPES[1:], filter.TOKENS)
DATES = tuple(f"{filter.MOMENTS}.{field}" for field in ("created_at", "expires_at", "valid_to"))
"""Fields that are indexed: the tenant, keywords, dates."""

Stored: TypeAlias = tuple[str, Sequence[float] | None]  # a record, and its vector where it was asked for and is there
Scored: TypeAlias = tuple[str, float]  # a record and its score


def write_label(name: str, shape: Shape) -> str:
    """Return a collection's name, dimension and model as ASCII text."""
    return json.dumps({"name": name, "dimension": shape.dimension, "model": shape.model})


def read_label(label: object) -> tuple[str, Shape] | None:
    """Return the name and shape of a label; None if it is not ours."""
    try:
        shape: Any = json.loads(label) if isinstance(label, str) else None
        return str(shape["name"]), Shape(int(shape["dimension"]), str(shape["model"]))
    except (ValueError, KeyError, TypeError):
        return None


P = ParamSpec("P")


class EdgeError(Exception):
    """A failure of the engine, whose own exceptions are plain Exception."""


def call_engine(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call the engine; raise EdgeError with its words if it fails."""
    try:
        return call(*args, **kwargs)
    except Exception as error:
        raise EdgeError(str(error)) from None


def new_shard(folder: Path, shape: Shape) -> tuple[str, edge.EdgeShard]:
    """Make a shard without a graph, because every search here is exact."""
    name = f"shard-{uuid4().hex}"
    place = folder / name
    place.mkdir(parents=True, mode=0o700)
    config = edge.EdgeConfig(
        vectors={DENSE: edge.EdgeVectorParams(size=shape.dimension, distance=edge.Distance.Dot)},
        sparse_vectors={WORDS: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        hnsw_config=edge.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
    )
    shard = call_engine(edge.EdgeShard.create, str(place), config)
    index = edge.UpdateOperation.create_field_index
    call_engine(shard.update, index(TENANT, edge.KeywordIndexParams(is_tenant=True)))
    for keyword in KEYWORDS:
        call_engine(shard.update, index(keyword, edge.PayloadSchemaType.Keyword))
    for date in DATES:
        call_engine(shard.update, index(date, edge.PayloadSchemaType.Datetime))
    return name, shard


def query_of(query: Vector | Words) -> edge.Query:
    if isinstance(query, Words):
        return edge.Query.Nearest(edge.SparseVector(indices=query.places, values=query.weights), using=WORDS)
    return edge.Query.Nearest(query.tolist(), using=DENSE)


def wanted(with_vectors: bool) -> bool | list[str]:
    return [DENSE] if with_vectors else False


def edge_point(point: StoredPoint) -> edge.Point:
    vectors: dict[str, Any] = {}
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    if point.words is not None:
        vectors[WORDS] = edge.SparseVector(indices=point.words.places, values=point.words.weights)
    return edge.Point(id=point.id, vector=vectors, payload=point.payload)


def stored(point: edge.Record) -> Stored:
    vectors = point.vector if isinstance(point.vector, dict) else {}
    return (point.payload or {})[RECORD], vectors.get(DENSE)  # type: ignore[return-value]  # a dense one is of floats


def edge_filter(clause: filter.Clause | None) -> edge.Filter | None:
    whole = filter.as_filter(clause)
    if whole is None:
        return None
    parts: dict[str, Any] = {occurs: [_edge_clause(part) for part in inner] for occurs, inner in whole.items()}
    return edge.Filter(**parts)


def _edge_clause(clause: filter.Clause) -> edge.FieldCondition | edge.Filter:
    if "key" not in clause:
        found = edge_filter(clause)
        assert found is not None, "only a missing clause has no filter"
        return found
    if "range" in clause:
        bounds = clause["range"]
        dates = isinstance(next(iter(bounds.values())), str)
        return edge.FieldCondition(
            key=clause["key"], range=edge.RangeDateTime(**bounds) if dates else edge.RangeFloat(**bounds)
        )
    ((how, operand),) = clause["match"].items()
    return edge.FieldCondition(key=clause["key"], match=_MATCHES[how](operand))


_MATCHES: dict[str, Callable[[Any], Any]] = {
    "value": edge.MatchValue,
    "any": edge.MatchAny,
    "substring": edge.MatchSubstring,
}


T = TypeVar("T")
LABEL = "collection.json"
"""The file that says whose folder it is and which of its shards is the collection's; without it there is none."""
IDENTITY = "identity"
COPIED = 500  # points copied at a time


def failure_in(path: Path, error: Exception) -> Failure | None:
    """Map an exception of the engine or of the file system."""
    return Failure(f"the folder {path}: {error}") if isinstance(error, (EdgeError, OSError)) else None


@dataclass
class Collection:
    """An open collection."""

    name: str
    shape: Shape
    folder: Path
    shard: edge.EdgeShard
    writing: threading.Lock = field(default_factory=threading.Lock)
    stale: bool = True  # whether the files may hold text that was overwritten or deleted


class QdrantFolder:
    """Collections in a folder, each an EdgeShard."""

    substrings = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._collections: dict[str, Collection] = {}
        self._guard = threading.Lock()
        self._lock = FolderLock(
            path,
            "lock",
            f"qdrant: the folder {path} is open elsewhere: one store at a time can have it, and a server is for "
            "several",
        )
        try:
            self._load()
        except BaseException:
            self.close()
            raise

    def _load(self) -> None:
        for folder in sorted(one for one in self._path.iterdir() if one.is_dir()):
            label = _label_in(folder)
            if label is None:  # its making or its removal was not finished
                shutil.rmtree(folder, ignore_errors=True)
                continue
            name, shape, shard = label
            for other in folder.iterdir():
                if other.is_dir() and other.name != shard:
                    shutil.rmtree(other, ignore_errors=True)
            loaded = call_engine(edge.EdgeShard.load, str(folder / shard))
            self._collections[name] = Collection(name, shape, folder, loaded)

    def close(self) -> None:
        """Close every collection and release the folder."""
        with self._guard:
            found, self._collections = list(self._collections.values()), {}
            for collection in found:
                with collection.writing:
                    collection.shard.close()
            self._lock.release()

    def identity(self) -> str:
        file = self._path / IDENTITY
        with self._guard:
            if not file.exists():
                _write_file(file, str(uuid4()))
            return file.read_text()

    def find(self, name: str) -> Shape | None:
        found = self._collections.get(name)
        return None if found is None else found.shape

    def names(self) -> Names:
        return list(self._collections)

    def make(self, name: str, shape: Shape) -> None:
        """Create a collection; writing its label last makes it valid."""
        with self._guard:
            if name in self._collections:
                return
            folder = self._path / folder_name(name)
            shutil.rmtree(folder, ignore_errors=True)  # of a removal that failed
            shard_name, shard = new_shard(folder, shape)
            with _whole_or_gone(shard, folder):
                _write_label(folder, name, shape, shard_name)
            self._collections[name] = Collection(name, shape, folder, shard, stale=False)

    def drop(self, name: str) -> None:
        """Delete a collection, its label first."""
        with self._guard:
            found = self._collections.pop(name, None)
            if found is not None:
                with found.writing:
                    found.shard.close()
                    (found.folder / LABEL).unlink()
                    shutil.rmtree(found.folder, ignore_errors=True)

    def clear(self, name: str) -> None:
        self._update(name, [edge.UpdateOperation.delete_points_by_filter(edge.Filter())])

    def _collection(self, name: str) -> Collection:
        found = self._collections.get(name)
        if found is None:
            raise MissingCollection
        return found

    def _read(self, name: str, read: Callable[[edge.EdgeShard], T]) -> T:
        """Read from the collection's shard, or from its replacement."""
        while True:
            shard = self._collection(name).shard
            try:
                return call_engine(read, shard)
            except EdgeError:
                if self._collection(name).shard is shard:
                    raise

    def _update(self, name: str, operations: Sequence[edge.UpdateOperation]) -> None:
        collection = self._collection(name)
        with collection.writing:
            if self._collections.get(name) is not collection:
                raise MissingCollection
            collection.stale = True
            for operation in operations:
                call_engine(collection.shard.update, operation)

    def write(self, name: str, points: Sequence[StoredPoint], deletes: Sequence[str]) -> None:
        """Write whole points, then delete others; both are in the engine's log on return."""
        operations = []
        if points:
            operations.append(edge.UpdateOperation.upsert_points([edge_point(point) for point in points]))
        if deletes:
            operations.append(edge.UpdateOperation.delete_points(list(deletes)))
        self._update(name, operations)

    def fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Stored]:
        found = self._read(name, lambda shard: shard.retrieve(list(ids), [RECORD], wanted(with_vectors)))
        return [stored(point) for point in found]

    def nearest(self, name: str, query: Vector | Words, limit: int, clause: filter.Clause | None) -> list[Scored]:
        request = edge.QueryRequest(
            limit=limit,
            query=query_of(query),
            filter=edge_filter(clause),
            with_payload=[RECORD],
            params=edge.SearchParams(exact=True),
        )
        found = self._read(name, lambda shard: shard.query(request))
        return [((point.payload or {})[RECORD], point.score) for point in found]

    def page(
        self, name: str, clause: filter.Clause | None, after: Any, limit: int, *, with_vectors: bool
    ) -> tuple[list[Stored], Any]:
        request = edge.ScrollRequest(
            offset=after,
            limit=limit,
            filter=edge_filter(clause),
            with_payload=[RECORD],
            with_vector=wanted(with_vectors),
        )
        found, following = self._read(name, lambda shard: shard.scroll(request))
        return [stored(point) for point in found], following

    def count(self, name: str, clause: filter.Clause | None) -> int:
        request = edge.CountRequest(filter=edge_filter(clause), exact=True)
        return self._read(name, lambda shard: shard.count(request))

    def sync(self) -> None:
        for collection in list(self._collections.values()):
            with collection.writing:
                if self._collections.get(collection.name) is collection:
                    call_engine(collection.shard.flush)

    def scrub(self) -> None:
        """Copy collections that may hold deleted text to new files; the engine itself only reuses the space."""
        for collection in list(self._collections.values()):
            with self._guard, collection.writing:
                if collection.stale and self._collections.get(collection.name) is collection:
                    self._rewrite(collection)

    def _rewrite(self, collection: Collection) -> None:
        shard_name, copy = new_shard(collection.folder, collection.shape)
        with _whole_or_gone(copy, collection.folder / shard_name):
            _copy_points(collection.shard, copy)
            _write_label(collection.folder, collection.name, collection.shape, shard_name)
        old, collection.shard, collection.stale = collection.shard, copy, False
        old.close()
        for other in collection.folder.iterdir():
            if other.is_dir() and other.name != shard_name:
                shutil.rmtree(other, ignore_errors=True)


@contextmanager
def _whole_or_gone(shard: edge.EdgeShard, folder: Path) -> Iterator[None]:
    """Remove a new shard's folder if the block fails; an open shard would write on into it meanwhile."""
    try:
        yield
    except BaseException:
        shard.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _copy_points(shard: edge.EdgeShard, copy: edge.EdgeShard) -> None:
    after: Any = None
    while True:
        request = edge.ScrollRequest(offset=after, limit=COPIED, with_payload=True, with_vector=True)
        found, after = call_engine(shard.scroll, request)
        points = [edge.Point(id=point.id, vector=point.vector or {}, payload=point.payload) for point in found]
        call_engine(copy.update, edge.UpdateOperation.upsert_points(points))
        if after is None:
            break
    call_engine(copy.flush)


def collections_in(path: Path) -> Shapes:
    """Return the collections of a folder by their labels; creates nothing."""
    labels = [_label_in(file.parent) for file in path.glob(f"*/{LABEL}")]
    return {label[0]: label[1] for label in labels if label is not None}


def folder_name(name: str) -> str:
    """Return a unique folder name, also on file systems that ignore case."""
    return f"{re.sub('[^a-z0-9_-]+', '-', name.lower())[:40]}.{digest(name, 10)}"


def _label_in(folder: Path) -> tuple[str, Shape, str] | None:
    try:
        content = json.loads((folder / LABEL).read_text())
        label = read_label(content["collection"])
        return None if label is None else (*label, str(content["shard"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_label(folder: Path, name: str, shape: Shape, shard_name: str) -> None:
    _write_file(folder / LABEL, json.dumps({"collection": write_label(name, shape), "shard": shard_name}))


def _write_file(file: Path, text: str) -> None:
    part = file.with_name(f"{file.name}.part")
    with part.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)
