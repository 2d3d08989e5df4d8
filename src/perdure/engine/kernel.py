"""The kernel: the backends of one engine, opened on first use, and the one way to change anything."""

from __future__ import annotations

import json
import logging
import os
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

from perdure.backends.embedders.base import Embedder
from perdure.backends.ledgers.base import JournalEntry, Ledger, Remembered
from perdure.backends.llms.base import LLM
from perdure.backends.rerankers.base import Reranker
from perdure.backends.vector_stores.base import Point, Vector, VectorStore
from perdure.domain.clock import Clock
from perdure.domain.errors import NoCollectionError, NotFoundError, PerdureError
from perdure.domain.event import AddResult, Change, Episode
from perdure.domain.scope import Scope
from perdure.engine.calls import Calls
from perdure.engine.chronicle import Chronicle
from perdure.engine.config import MemoryConfig
from perdure.engine.curator import Curator
from perdure.engine.derived import with_derived
from perdure.engine.embedding import Embedding, wanting
from perdure.engine.finish import finish
from perdure.engine.following import Follower, Quota, Vault
from perdure.engine.generations import embedded_elsewhere, generations, open_collection
from perdure.engine.once import Once
from perdure.engine.rows import episode_item, net_rows, note_vectors, stored_as_said
from perdure.engine.soft import given_up
from perdure.engine.team.guard import check_tags
from perdure.engine.ticker import Ticker
from perdure.engine.write import Write

logger = logging.getLogger("perdure")

SYNC_EVERY = 2_000
"""Changes after which the store is synced and their journal entries dropped: a few megabytes of journal."""
EMBED_MISSING = 256
"""Memories without a vector that are embedded at a time, once an embedder is there (U21)."""


class Kernel(Chronicle):
    """Backends, clock and configuration of one engine; every path works through it.

    `reader` is the curator of what the gateway hears, and `extractor` its model; None where it goes by rules.
    """

    def __init__(
        self,
        config: MemoryConfig,
        *,
        store: VectorStore,
        embedder: Embedder,
        ledger: Ledger,
        llm: LLM | None,
        rewriter: LLM | None,
        extractor: LLM | None,
        reranker: Reranker | None,
        curator: Curator,
        reader: Curator,
        clock: Clock,
        fresh_store: Callable[[], VectorStore],
    ) -> None:
        self.config = config
        self.store = store
        self.embedding = Embedding(embedder)
        self.curator, self.reader = curator, reader
        self.ticker = Ticker(clock)
        self.collection = config.vector_store.collection_name
        self.bare = config.version == "v1.0"
        self.ledger: Ledger | None = None
        self.calls = Calls()
        self._given_ledger = ledger
        self._fresh_store = fresh_store
        self.llm = llm
        self.rewriter, self.extractor = rewriter, extractor
        self.reranker = reranker
        self.follower: Follower | None = None
        self.quota: Quota | None = None
        self.vault: Vault | None = None
        self.open = Once(self._open_all)
        self._reopen = Once(self._open_ledger)
        self._close = Once(self._close_all)
        self._identity = ""
        self._unsynced = 0
        _ALL.add(self)

    # ------------------------------------------------------------------ life
    async def ready(self) -> None:
        """Open store and ledger on first use, and apply again what a crash left over."""
        with self.calls.one():
            await self.open()

    async def open_backends(self) -> None:
        """Open store and ledger, whatever embedder the memories were made with; `ready` checks that too."""
        await self.store.open()
        self._identity = await self.store.identity()
        with given_up("the ledger could not be opened: no history, journal or episodes are kept"):
            await self._given_ledger.open()
            self.ledger = self._given_ledger

    async def required_ledger(self) -> Ledger:
        """The ledger, opened now where it could not be before; LedgerError where it still cannot.

        For who cannot work on without one: whoever only remembers goes by `ledger`, which may be None.
        """
        await self.open()
        if self.ledger is None:
            await self._reopen()
        return self._given_ledger

    async def ledger_alone(self) -> Ledger:
        """The same, though the store cannot be opened: for what stands in the ledger and in no store, as keys do."""
        if self.open.done:
            return await self.required_ledger()
        await self._given_ledger.open()
        return self._given_ledger

    async def _open_ledger(self) -> None:
        await self._given_ledger.open()
        self.ledger = self._given_ledger
        if self.store.durable:
            await self._heal()
        if self.follower is not None:
            self.follower.wake()

    @property
    def identity(self) -> str:
        """Which store this is, once it is open."""
        return self._identity

    async def _open_all(self) -> None:
        await self.open_backends()
        self.collection = await open_collection(
            self.store, self.config.vector_store.collection_name, self.embedding.embedder
        )
        if not self.store.durable:
            logger.info("memories in the `memory` store do not outlive the process")
        elif self.ledger is not None:
            await self._heal()
        if self.vault is not None:
            await self.vault.opened()
        if self.store.durable:
            await self._embed_missing()
        if self.follower is not None:
            self.follower.wake()

    async def why_gone(self, error: NoCollectionError) -> PerdureError:
        """What to tell a caller whose collection went while it was in use: another process embedded it anew (V60)."""
        found = await generations(self.store, self.config.vector_store.collection_name)
        return embedded_elsewhere(self.collection, self.embedding.embedder) if found else error

    async def close(self) -> None:
        """Let calls under way finish, sync the store, finish erasures that waited, and let go of every backend."""
        self.calls.refuse()
        await self._close()

    async def _close_all(self) -> None:
        await self.calls.ended()
        if self.vault is not None:
            await self.vault.close()
        if self.follower is not None:
            await self.follower.close()
        if self.open.done:
            with given_up("the store could not be synced: the journal keeps what it may have lost"):
                await self.sync()
        # Opening may have failed half way, so what was never in use is closed too.
        with given_up("the store could not be closed"):
            await self.store.close()
        with given_up("the ledger could not be closed"):
            await self._given_ledger.close()
        await self.embedding.embedder.close()
        for model in dict.fromkeys((self.llm, self.rewriter, self.extractor, self.reranker)):
            if model is not None:
                await model.close()

    def forsake(self) -> None:
        """This process was forked from the one that opened the backends: leave those to it, and begin anew."""
        self.calls.reset()
        self.open.reset()
        self._reopen.reset()
        self._close.reset()
        self.ticker.reset()
        self.ledger = None
        for beside in (self.follower, self.vault):
            if beside is not None:
                beside.forsake()
        if self.store.durable:
            # Connections must not be carried over a fork, closing them included (SQLite, "How To Corrupt").
            _LEFT_TO_THE_PARENT.append(self.store)
            self.store = self._fresh_store()

    # ------------------------------------------------------------------ one writer at a time
    @asynccontextmanager
    async def lock(self, scope: Scope) -> AsyncIterator[None]:
        """Hold off every other writer whose scope overlaps; what a dead one left over is applied first."""
        if self.ledger is None:
            yield
            return
        while True:
            async with self.ledger.lock(scope, self._identity if self.store.durable else None) as held:
                if not held.stranded:
                    yield
                    return
            await self._heal()

    async def _heal(self) -> None:
        """Apply again the journal entries that a dead writer, or a failed call, left over."""
        ledger = self.ledger
        assert ledger is not None, "only an engine with a ledger has a journal"
        async with ledger.lock(Scope()):
            batches: dict[str, list[JournalEntry]] = {}
            for entry in await ledger.pending(self._identity):
                batches.setdefault(entry.batch_id, []).append(entry)
            for batch, entries in batches.items():
                vectors: dict[str, Vector | None] = {}
                for entry in entries:
                    note_vectors(vectors, entry.change, entry.vector, entry.keep_vector)
                puts, deletes = await self._rows([entry.change for entry in entries], vectors)
                await self.store.apply(entries[0].collection, puts, deletes)
                await ledger.applied(batch)
            if batches:
                logger.info("applied %d batches of changes that an earlier process had left over", len(batches))

    # ------------------------------------------------------------------ the one way to change anything
    async def commit(
        self,
        changes: Sequence[Change],
        vectors: Mapping[str, Vector | None],
        *,
        episodes: Sequence[Episode] = (),
        remember: tuple[str, Scope, AddResult] | None = None,
    ) -> list[str]:
        """Make the changes of one batch true: journal, store, history; all of them or none.

        Call it with the lock of a scope that covers them. Once begun it ends, and a caller that is cancelled meanwhile
        is cancelled then. Answers with warnings of what was put off. InvalidInputError where a team's memory would
        stand without its tags, QuotaError where a user would have more than the quota.
        """
        check_tags(changes)
        if self.quota is not None:
            await self.quota.check(changes)
        batch = str(uuid4())
        puts, deletes = await self._rows(changes, vectors, episodes)
        write = Write(
            batch=batch,
            entries=[
                JournalEntry(
                    change=change,
                    batch_id=batch,
                    store_identity=self._identity,
                    collection=self.collection,
                    vector=vectors.get(change.after.id) if change.after else None,
                    keep_vector=vectors.get(change.keep.id) if change.keep else None,
                )
                for change in changes
            ],
            episodes=() if self.config.episodes == "off" else episodes,
            answer=remember and Remembered(self._answer_key(remember[0]), remember[1], _dump(remember[2])),
            puts=puts,
            deletes=deletes,
            jobs=self.follower.jobs(changes) if self.follower is not None and self.ledger is not None else [],
        )
        warnings = await finish(self._carry_out(write))
        for noting in (self.quota, self.vault):
            if noting is not None:
                noting.note(changes)
        return warnings

    async def _carry_out(self, write: Write) -> list[str]:
        ledger = self.ledger
        if ledger is not None and not self.store.durable:
            await ledger.record([entry.change for entry in write.entries], write.episodes, write.answer)
        if ledger is None or not self.store.durable:
            if write.puts or write.deletes:
                await self.store.apply(self.collection, write.puts, write.deletes)
            return await self._followed(write)
        if write.entries or write.episodes or write.answer:
            await ledger.write(write.entries, write.episodes, write.answer, write.jobs)
        warnings: list[str] = []
        if write.entries:
            await self._apply(write, ledger, warnings)
            if write.jobs and self.follower is not None:
                self.follower.wake()
        elif write.puts or write.deletes:
            # Messages alone: they are kept by now, and their rows can be made again from them.
            with given_up("the messages are kept, but cannot be searched yet", warnings):
                await self.store.apply(self.collection, write.puts, write.deletes)
        return warnings

    async def _followed(self, write: Write) -> list[str]:
        """What follows a batch without a journal: its jobs come after its rows, which nobody could find before."""
        warnings: list[str] = []
        if self.follower is None:
            return warnings
        if self.ledger is None:
            await self.follower.at_once([entry.change for entry in write.entries], warnings)
        elif write.jobs:
            with given_up("the graph does not follow this change", warnings):
                await self.ledger.jobs.add(write.jobs)
            self.follower.wake()
        return warnings

    async def _apply(self, write: Write, ledger: Ledger, warnings: list[str]) -> None:
        try:
            await self.store.apply(self.collection, write.puts, write.deletes)
        except PerdureError:
            with given_up("a refused change stays in the journal"):
                await ledger.abandon(write.batch)
            raise
        # From here on the change is acknowledged: if its history cannot be written now, the journal will do it.
        with given_up("the history is written later, from the journal", warnings):
            await ledger.applied(write.batch)
        await self._sync_now_and_then(len(write.entries))

    async def _sync_now_and_then(self, changes: int) -> None:
        self._unsynced += changes
        if self._unsynced >= SYNC_EVERY:
            with given_up("the journal is cleared later"):
                await self.sync()

    async def sync(self) -> None:
        """Make what the store holds survive power loss, and drop the journal entries that ensured it."""
        if self.ledger is None or not self.store.durable:
            return
        batches = await self.ledger.unsynced(self._identity)
        await self.store.sync()
        if batches:
            await self.ledger.synced(self._identity, batches)
        self._unsynced = 0

    # ------------------------------------------------------------------ vectors
    async def _embed_missing(self) -> None:
        """Embed the memories that were stored while no embedder was there."""
        while self.embedding.available:
            points = await wanting(self.store, self.collection, EMBED_MISSING)
            if not points:
                return
            embedded = await self.embedding.texts([point.payload.get("memory", "") for point in points])
            done = 0
            for point, vector in zip(points, embedded.vectors, strict=True):
                if vector is not None:
                    with suppress(NotFoundError):  # deleted meanwhile by another process
                        await self.store.update(self.collection, point.id, vector=vector)
                    done += 1
            if not done:
                return

    # ------------------------------------------------------------------ rows
    async def _rows(
        self, changes: Sequence[Change], vectors: Mapping[str, Vector | None], episodes: Sequence[Episode] = ()
    ) -> tuple[list[Point], list[str]]:
        """The rows that a batch writes and removes; where messages are searched too, theirs among them."""
        puts, deletes = net_rows(changes, vectors)
        if self.config.episodes == "search":
            moved = {id: change.event != "DELETE" for change in changes for id in change.hides}
            written = {point.id for point in puts}
            shown = [id for id, is_shown in moved.items() if is_shown and id not in written]
            again = await self.ledger.get_episodes(shown) if self.ledger and shown else []
            away = {id for id, is_shown in moved.items() if not is_shown} | stored_as_said(changes)
            puts += await self._episode_points([each for each in [*episodes, *again] if each.id not in away])
            deletes += [id for id, is_shown in moved.items() if not is_shown]
        return await with_derived(self.embedding, puts), deletes

    async def _episode_points(self, episodes: Sequence[Episode]) -> list[Point]:
        embedded = await self.embedding.texts([episode.content for episode in episodes])
        return [
            Point(episode.id, vector, episode_item(episode).to_payload())
            for episode, vector in zip(episodes, embedded.vectors, strict=True)
        ]


def _dump(result: AddResult) -> str:
    return json.dumps({"results": [event.model_dump() for event in result.results], "warnings": result.warnings})


_ALL: weakref.WeakSet[Kernel] = weakref.WeakSet()
_LEFT_TO_THE_PARENT: list[VectorStore] = []
"""Stores that a forked process must neither use nor close."""


def _after_fork() -> None:
    for kernel in list(_ALL):
        kernel.forsake()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
