"""Re-embed a store into the next version of its collection while others go on, then switch in one step.

Every pass makes the new collection equal to the old one, and embeds only texts that it has not embedded yet: an
interrupted run continues where it was, and the next pass catches changes made meanwhile. The last pass holds the lock
of all writers, and then dropping the old collection is the switch (`generations`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from perdure.backends.vector_stores.base import CollectionInfo, Point, Vector
from perdure.domain.errors import DependencyError, InvalidInputError
from perdure.domain.filter import Filter, all_of, eq, scope_filter
from perdure.domain.memory import LIVE, Answer
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.engine.aio.calls import shielded
from perdure.engine.core.collections import generation_name, generations
from perdure.engine.engine import Engine
from perdure.engine.transfer.copy import FEW, PASSES, Progress, RowCopier, batches

SAMPLED = 200  # memories whose neighbours are compared
NEIGHBOURS = 10  # neighbours of each that are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexReport(Answer):
    """The result of re-embedding."""

    collection: str  # the collection in use afterwards
    old_model: str
    new_model: str
    rows: int  # rows in the new collection
    embedded: int  # texts embedded in this run, without those of an earlier interrupted run
    agreement: float | None
    """Mean share of a memory's neighbours inside its scope that stay the same; None if there are none to compare."""
    compared: int  # memories on which the agreement is measured: those with more than ten others in their scope
    switched: bool
    reason: str = ""  # why it was not switched


async def reindex(
    engine: Engine, *, progress: Progress | None = None, min_agreement: float | None = None, switch: bool = True
) -> ReindexReport:
    """Embed every row with the configured embedder into a new collection, and switch to it.

    Without `switch`, or if fewer than `min_agreement` (0 to 1) of the neighbours stay the same, the old collection
    stays in use, and the new one waits for the next run. DependencyError if the embedder is not installed,
    EmbeddingError if it fails: run it again to continue.
    """
    work = _Reindexing(engine, progress or (lambda done, total: None))
    return await work.run(min_agreement, switch)


class _Reindexing:
    def __init__(self, engine: Engine, progress: Progress) -> None:
        self._kernel = engine.kernel
        self._store = engine.kernel.store
        self._embedding = engine.kernel.embedding
        self._progress = progress
        self._sample = _Sample(SAMPLED)

    async def run(self, min_agreement: float | None, switch: bool) -> ReindexReport:
        await self._kernel.open_backends()
        if not self._embedding.available:
            raise DependencyError(f"memories cannot be embedded anew: {self._embedding.embedder.unavailable()}")
        base, embedder = self._kernel.config.vector_store.collection_name, self._embedding.embedder
        existing = await generations(self._store, base)
        if not existing:
            raise InvalidInputError(
                f"there is no collection {base!r} yet, and nothing to embed anew", field="collection_name", value=base
            )
        old = await self._store.get_collection_info(generation_name(base, existing[0]))
        if (old.model, old.dimension) == (embedder.label, embedder.dimension):
            return await self._nothing_to_do(base, old, existing[1:])
        new = generation_name(base, existing[0] + 1)
        await self._make(new, already=existing[0] + 1 in existing)
        carrier = RowCopier(self._store, new, self._embedding, "perdure reindex")
        for _ in range(PASSES):
            if await self._pass(old.name, carrier) < FEW:
                break
        agreement, compared = await self._agreement(old.name, new)
        reason = _reason(agreement, min_agreement, switch)
        if not reason:
            await shielded(self._switch(old.name, carrier))
        rows = await self._store.count(new)
        return ReindexReport(
            collection=old.name if reason else new,
            old_model=old.model,
            new_model=embedder.label,
            rows=rows,
            embedded=carrier.embedded,
            agreement=agreement,
            compared=compared,
            switched=not reason,
            reason=reason,
        )

    async def _nothing_to_do(self, base: str, old: CollectionInfo, begun: Sequence[int]) -> ReindexReport:
        for number in begun:  # started for an embedder that is no longer configured
            await self._store.delete_collection(generation_name(base, number))
        return ReindexReport(
            collection=old.name,
            old_model=old.model,
            new_model=old.model,
            rows=old.count,
            embedded=0,
            agreement=None,
            compared=0,
            switched=False,
            reason="the configured embedder made these vectors",
        )

    async def _make(self, new: str, *, already: bool) -> None:
        """Make the new collection, again if it was started for another embedder."""
        embedder = self._embedding.embedder
        if already:
            begun = await self._store.get_collection_info(new)
            if (begun.model, begun.dimension) != (embedder.label, embedder.dimension):
                await self._store.delete_collection(new)
        await self._store.create_collection(new, embedder.dimension, model=embedder.label)

    async def _switch(self, old: str, carrier: RowCopier) -> None:
        async with self._kernel.lock(Scope()):
            await self._pass(old, carrier)
            await self._kernel.sync()  # the new collection, before its source is dropped
            await self._store.delete_collection(old)
            await self._store.sync()

    async def _pass(self, old: str, carrier: RowCopier) -> int:
        """Make the new collection equal to the old one; return how many rows had to change."""
        changed = 0
        async for rows in batches(self._store, old, self._progress):
            self._sample.see(rows)
            changed += await carrier.carry(rows)
        async for points in self._store.stream(carrier.collection):
            kept = {point.id for point in await self._store.get_many(old, [point.id for point in points])}
            gone = [point.id for point in points if point.id not in kept]
            if gone:
                await self._store.apply(carrier.collection, (), gone)
                changed += len(gone)
        return changed

    async def _agreement(self, old: str, new: str) -> tuple[float | None, int]:
        """Return how many of its nearest neighbours in its scope a memory keeps, each searched with its own vector."""
        ids = self._sample.ids
        before = {point.id: point for point in await self._store.get_many(old, ids)}
        after = {point.id: point for point in await self._store.get_many(new, ids)}
        shares = []
        for id in ids:
            if id not in before or id not in after:
                continue
            one, two = before[id].vector, after[id].vector
            if one is None or two is None:
                continue
            scope = Scope(**{name: before[id].payload.get(name) for name in SCOPE_FIELDS})
            within = all_of(scope_filter(scope), eq("state", LIVE))
            first = await self._neighbours(old, id, one, within)
            second = await self._neighbours(new, id, two, within)
            if len(first) == NEIGHBOURS and len(second) == NEIGHBOURS and await self._has_choice(old, within):
                shares.append(len(first & second) / NEIGHBOURS)
        return (sum(shares) / len(shares) if shares else None), len(shares)

    async def _neighbours(self, collection: str, id: str, vector: Vector, within: Filter) -> set[str]:
        hits = await self._store.search(collection, vector, NEIGHBOURS + 1, within)
        return set([hit.id for hit in hits if hit.id != id][:NEIGHBOURS])

    async def _has_choice(self, collection: str, within: Filter) -> bool:
        return await self._store.count(collection, within) > NEIGHBOURS + 1


class _Sample:
    """A sample of the live rows: those with the smallest digests of their ids, the same in every run."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._digests: dict[str, bytes] = {}

    def see(self, rows: Sequence[Point]) -> None:
        """Add rows; adding one twice changes nothing."""
        for row in rows:
            if row.payload.get("state") == LIVE:
                self._digests[row.id] = blake2b(row.id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        smallest = sorted(self._digests.items(), key=lambda pair: pair[1])[: self._size]
        self._digests = dict(smallest)

    @property
    def ids(self) -> list[str]:
        """The ids of the rows in the sample."""
        return list(self._digests)


def _reason(agreement: float | None, least: float | None, switch: bool) -> str:
    """Return why the new collection must not be used yet; "" if it may."""
    if least is not None and agreement is not None and agreement < least:
        return f"only {agreement:.2f} of the neighbours stay the same, and {least:.2f} were asked for"
    return "" if switch else "it was asked not to"
