"""Embed texts; a failure of one text does not affect the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from perdure.backends.blocking import run_blocking
from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import EARLIEST, read_moment
from perdure.domain.errors import EmbeddingError, NotFoundError
from perdure.domain.memory import LIVE, NOTES
from perdure.domain.scope import SCOPE_FIELDS
from perdure.domain.text.terms import key_of
from perdure.engine.aio.calls import degrade

if TYPE_CHECKING:
    from perdure.backends.embedders.base import Embedder
    from perdure.backends.vector_stores.base import Vector, VectorStore
    from perdure.domain.memory import MemoryItem
    from perdure.pipeline.retrieval.features import Cues, Entry

logger = logging.getLogger("perdure")
SERVICE_WIDE = frozenset({"connection", "authentication", "quota"})
"""Codes of failures that concern every text: after the batch's retries there are no further ones."""

EMBED_MISSING = 256  # memories without a vector that are embedded at a time, once an embedder is available
_NOT_STORED = "not stored, because it could not be embedded"


@dataclass(slots=True)
class Embedded:
    """Vectors in the order of the texts, None for a missing one, and the texts whose embedding failed."""

    vectors: list[Vector | None]
    failed: set[int] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    down: EmbeddingError | None = None  # why none could be embedded, if the cause is the service and not a text


class Embedding:
    """The engine's embedder; an absent one is logged once, and memory works without it."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.words_given: set[str] = set()  # words whose vectors a store is known to have
        self._said = False
        self._found = False

    @property
    def available(self) -> bool:
        """Whether texts can be embedded; logs once what to install if not."""
        if self._found:
            return True
        reason = self.embedder.unavailable()
        self._found = reason is None
        if reason is not None and not self._said:
            self._said = True
            logger.warning("memories are searched by their words alone: %s", reason)
        return self._found

    async def query(self, text: str) -> Vector | None:
        """Return the vector of a query, or None without an embedder; EmbeddingError if it fails."""
        return await self.embedder.embed(text) if self.available else None

    @property
    def compares_words(self) -> bool:
        """Whether single words are embedded: not by a service, which would be called for each of them."""
        return self.available and self.embedder.local

    async def texts(self, texts: Sequence[str]) -> Embedded:
        """Embed texts in one batch, or one by one and name the failed ones; a blank text gets no vector."""
        places = [place for place, text in enumerate(texts) if text.strip()]
        if not places or not self.available:
            return Embedded([None] * len(texts))
        if len(places) == len(texts):
            return await self._all(texts)
        some = await self._all([texts[place] for place in places])
        vectors: list[Vector | None] = [None] * len(texts)
        for place, vector in zip(places, some.vectors, strict=True):
            vectors[place] = vector
        return Embedded(vectors, {places[place] for place in some.failed}, some.warnings)

    async def _all(self, texts: Sequence[str]) -> Embedded:
        try:
            return Embedded(list(await self.embedder.embed_batch(texts)))
        except EmbeddingError as error:
            if error.code in SERVICE_WIDE:
                return self._none(texts, error)
            return await self._one_by_one(texts)

    def _none(self, texts: Sequence[str], error: EmbeddingError) -> Embedded:
        result = Embedded([None] * len(texts), failed=set(range(len(texts))), down=error)
        for text in texts:
            with degrade(_NOT_STORED, result.warnings, text=text[:80]):
                raise error
        return result

    async def _one_by_one(self, texts: Sequence[str]) -> Embedded:
        result = Embedded([None] * len(texts))
        for position, text in enumerate(texts):
            result.failed.add(position)
            with degrade(_NOT_STORED, result.warnings, text=text[:80]):
                result.vectors[position] = await self.embedder.embed(text)
                result.failed.discard(position)
        return result


WORDS_AT_ONCE = 512  # words encoded in one batch
MOST_GIVEN = 200_000  # maximum words in the cache of words whose vectors a store has: 20 MB


async def put_rows(
    store: VectorStore, collection: str, embedding: Embedding, puts: Sequence[Point], deletes: Sequence[str] = ()
) -> None:
    """Write rows and delete others, and store vectors of new words, whose failure only slows the next search."""
    await store.apply(collection, puts, deletes)
    if not embedding.compares_words:
        return
    embedded = [point.kept for point in puts if point.kept is not None and point.vector is not None]
    words = {word for kept in embedded for word in kept.words} - embedding.words_given
    if not words:
        return
    with degrade("words get their vectors when they are first searched"):
        kept = await store.words(collection, [key_of(word) for word in words])
        bare = [word for word, is_given in zip(kept.texts, kept.given, strict=True) if not is_given]
        await give_words(store, collection, embedding, bare)
        if len(embedding.words_given) > MOST_GIVEN:
            embedding.words_given.clear()
        embedding.words_given.update(kept.texts)


async def give_words(
    store: VectorStore, collection: str, embedding: Embedding, words: Sequence[str]
) -> dict[str, Vector]:
    """Embed words, and give their vectors to the store."""
    made: dict[str, Vector] = {}
    for start in range(0, len(words), WORDS_AT_ONCE):
        part = words[start : start + WORDS_AT_ONCE]
        vectors = dict(zip(part, await embedding.embedder.embed_batch(part), strict=True))
        await store.give_words(collection, vectors)
        made |= vectors
    return made


async def wanting(store: VectorStore, collection: str, most: int) -> list[Point]:
    """Return at most so many rows that have a text and no vector."""
    asked = most
    while True:
        rows = await store.unembedded(collection, asked)
        found = [row for row in rows if str(row.payload.get("memory", "")).strip()]
        if len(found) >= most or len(rows) < asked:
            return found[:most]
        asked *= 2


async def embed_missing(store: VectorStore, collection: str, embedding: Embedding) -> None:
    """Embed memories that were stored without an embedder."""
    while embedding.available:
        points = await wanting(store, collection, EMBED_MISSING)
        if not points:
            return
        embedded = await embedding.texts([point.payload.get("memory", "") for point in points])
        done = 0
        for point, vector in zip(points, embedded.vectors, strict=True):
            if vector is not None:
                with suppress(NotFoundError):  # deleted meanwhile by another process
                    await store.update(collection, point.id, vector=vector)
                done += 1
        if not done:
            return


async def vectors_again(
    store: VectorStore, collection: str, embedding: Embedding, items: Sequence[MemoryItem]
) -> dict[str, Vector | None]:
    """Return the vectors of memories by id: the stored row's if it has this text, else newly made."""
    stored = {row.id: row for row in await store.get_many(collection, [item.id for item in items])} if items else {}
    found: dict[str, Vector | None] = {}
    for item in items:
        row = stored.get(item.id)
        if row is not None and row.vector is not None and row.payload.get("memory") == item.memory:
            found[item.id] = row.vector
    bare = [item for item in items if item.id not in found]
    embedded = await embedding.texts([item.memory for item in bare])
    return found | {item.id: vector for item, vector in zip(bare, embedded.vectors, strict=True)}


# The imports inside functions bring NumPy and the rules of reading, which opening a memory must not wait for.

# Recall data computed when a memory is written, and stored in its row: cues, and the vectors of passages.

# The cues of a row: read out of its text when it is written, and kept in it, for reading them takes a third of a
# millisecond and a scope may have a hundred thousand rows.

CUES = "cues"  # the payload's key; not a field of an item, so that a rewritten row gets new cues


def read_cues(payload: Mapping[str, Any]) -> Cues:
    """Return the cues of a row's text that its role and speaker allow."""
    from perdure.pipeline.retrieval.directives import directive, preference
    from perdure.pipeline.retrieval.features import Cues
    from perdure.pipeline.retrieval.names import proper_nouns
    from perdure.pipeline.retrieval.standing_facts import is_standing
    from perdure.pipeline.retrieval.time_window import temporal_words

    text = payload.get("memory")
    role = payload.get("role", "memory")
    if not isinstance(text, str):
        return Cues()
    if role == "memory":
        return Cues(directive=is_standing(text))
    named = bool(payload.get("speaker"))
    user = role == "user"  # an assistant's advice is not an instruction
    return Cues(
        temporal=temporal_words(text) if named else 0,
        proper=len(proper_nouns(text)) if named else 0,
        directive=user and directive(text) is not None,
        preference=user and preference(text) is not None,
    )


def pack_cues(cues: Cues) -> str:
    """Encode the cues as text of a few letters."""
    marks = ("d" if cues.directive else "") + ("p" if cues.preference else "")
    return f"{cues.temporal}.{cues.proper}.{marks}"


def cues_of(payload: Mapping[str, Any]) -> Cues:
    """Return the stored cues of a row, else those of its text."""
    from perdure.pipeline.retrieval.features import Cues

    kept = payload.get(CUES)
    parts = kept.split(".") if isinstance(kept, str) else []
    if len(parts) != 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return read_cues(payload)
    return Cues(int(parts[0]), int(parts[1]), "d" in parts[2], "p" in parts[2])


PASSAGES = "passages"
"""The payload's key of the passages' vectors; not a field of an item, so that a rewritten row gets new ones."""
AT_ONCE = 20  # rows processed for recall on the event loop itself: three milliseconds
MOST = 64  # passages of one memory that are embedded: some 5,000 words. Later words are still found by keyword.
WHOLE_ROLES = frozenset({"assistant", "tool", "system"})
"""Long messages of these roles are found by the vector of the whole and by their words: 78 % of what BEAM asks for is
the user's own, and an assistant writes ten times as much."""


DERIVED = frozenset({PASSAGES, CUES})  # keys of a payload that are derived from the rest of it


async def with_derived(embedding: Embedding, points: Sequence[Point]) -> list[Point]:
    """Return the rows with newly derived data; if embedding fails they have no passages."""
    done = await _with_passages(embedding, points)
    dimension = embedding.embedder.dimension
    if len(done) <= AT_ONCE:
        return [with_kept(point, dimension) for point in done]
    return await run_blocking(lambda: [with_kept(point, dimension) for point in done])


async def _with_passages(embedding: Embedding, points: Sequence[Point]) -> list[Point]:
    import numpy as np

    from perdure.pipeline.retrieval.features import pack, passages

    done = [_with_cues(point) for point in points]
    cut = {
        place: passages(point.payload["memory"])[:MOST]
        for place, point in enumerate(points)
        if point.vector is not None and _is_live(point) and point.payload.get("role") not in WHOLE_ROLES
    }
    cut = {place: found for place, found in cut.items() if len(found) > 1}
    if not cut:
        return done
    embedded = await embedding.texts([passage for found in cut.values() for passage in found])
    vectors = iter(embedded.vectors)
    for place, found in cut.items():
        known = [vector for vector in islice(vectors, len(found)) if vector is not None]
        if len(known) == len(found):
            point = done[place]
            done[place] = Point(point.id, point.vector, {**point.payload, PASSAGES: pack(np.stack(known))})
    return done


# A row as input of the recall index.

DAY = 86_400.0
_MICROSECOND = timedelta(microseconds=1)


def stamp_of(payload: Mapping[str, Any]) -> str:
    """Return a value that changes with every change of a row."""
    return f"{payload.get('updated_at', '')}/{payload.get('version', 1)}"


def entry_of(point: Point, dimension: int) -> Entry:
    """Return the row as an entry of an index whose vectors have this dimension."""
    import numpy as np

    from perdure.pipeline.retrieval.features import Entry, read, unpack

    payload = point.payload
    told = read_moment(payload.get("told_at", ""))
    made = read_moment(payload.get("created_at", ""))
    role = str(payload.get("role", "memory"))
    vector = point.vector
    if vector is not None:
        length = float(np.linalg.norm(vector))
        vector = vector / length if length > 0 else None
    speaker = payload.get("speaker")
    return Entry(
        id=point.id,
        stamp=stamp_of(payload),
        track=tuple(payload.get(field) for field in SCOPE_FIELDS),
        place=(
            0.0 if told is None else told.timestamp() / DAY,
            0 if made is None else (made - EARLIEST) // _MICROSECOND,
            int(payload.get("position") or 0),
        ),
        turn=role != "memory",
        note=payload.get("kind") == NOTES,
        role=role,
        speaker=speaker if isinstance(speaker, str) and speaker else None,
        features=read(str(payload.get("memory", ""))),
        cues=cues_of(payload),
        vector=vector,
        passages=unpack(payload.get(PASSAGES), dimension),
    )


def with_kept(point: Point, dimension: int) -> Point:
    """Return the row with its recall data for the store; rows that are not live are not searched, and have none."""
    if not _is_live(point):
        return point
    from perdure.pipeline.retrieval.features import pack_entry

    return Point(point.id, point.vector, point.payload, pack_entry(entry_of(point, dimension)))


def without_derived(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload without derived data."""
    return {key: value for key, value in payload.items() if key not in DERIVED}


def _is_live(point: Point) -> bool:
    return point.payload.get("state", LIVE) == LIVE and isinstance(point.payload.get("memory"), str)


def _with_cues(point: Point) -> Point:
    plain = without_derived(point.payload)
    if not _is_live(point) or point.payload.get("role", "memory") == "memory":
        return Point(point.id, point.vector, plain)  # those of a fact are computed quickly
    return Point(point.id, point.vector, {**plain, CUES: pack_cues(read_cues(plain))})
