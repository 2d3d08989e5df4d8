"""The kernel: the backends of one engine, opened on first use, and the only way to change anything."""

from __future__ import annotations

import json
import logging
import os
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from perdure.backends.ledgers.base import JournalEntry, Remembered
from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import MonotonicClock
from perdure.domain.errors import (
    ConflictError,
    LedgerError,
    NotFoundError,
    PerdureError,
    ReadOnlyError,
)
from perdure.domain.event import AddResult, MemoryEvent
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import Lifecycle, RunOnce, degrade, shielded
from perdure.engine.core import rows
from perdure.engine.core.collections import embedded_elsewhere, generations, open_collection
from perdure.engine.core.embedding import Embedding, embed_missing, put_rows, vectors_again, with_derived
from perdure.engine.core.store_identity import LossCheck

if TYPE_CHECKING:
    from perdure.backends.embedders.base import Embedder
    from perdure.backends.ledgers.base import Ledger
    from perdure.backends.llms.base import LLM
    from perdure.backends.rerankers.base import Reranker
    from perdure.backends.vector_stores.base import Vector, VectorStore
    from perdure.domain.clock import Clock
    from perdure.domain.errors import NoCollectionError
    from perdure.domain.event import Change, Episode, HistoryRecord
    from perdure.domain.job import Job
    from perdure.domain.memory import MemoryItem
    from perdure.engine.config.config import MemoryConfig
    from perdure.engine.write.curator import Answers, Curator


class ChangeObserver(Protocol):
    """Derives data from changes outside of the store; never fails a write, nor delays one if there is a queue."""

    def jobs(self, changes: Sequence[Change]) -> list[Job]:
        """Return the jobs of these changes, to be stored in the same transaction."""

    async def at_once(self, changes: Sequence[Change], warnings: list[str]) -> None:
        """Run the jobs now, without a ledger; append a warning for each that failed."""

    async def arrived(self, items: Sequence[MemoryItem]) -> None:
        """Note memories that were imported into the store without a change."""

    def wake(self) -> None:
        """Look for jobs now."""

    async def close(self) -> None:
        """Stop, and leave unfinished jobs to the next process."""

    def forsake(self) -> None:
        """Reset after a fork, and leave open connections to the parent process."""


class Quota(Protocol):
    """Limits how many memories one user may have."""

    async def check(self, changes: Sequence[Change]) -> None:
        """Raise QuotaError if these changes exceed the limit and the configuration refuses more."""

    def note(self, changes: Sequence[Change]) -> None:
        """Note that these changes were made."""


class FileObserver(Protocol):
    """Turns other programs' edits of memory files into changes, and changes into versions of the files."""

    async def opened(self) -> None:
        """Read the edits made while no process had the files open."""

    def watch(self) -> None:
        """Read edits as they happen, from now on or from when the backends are opened."""

    def note(self, changes: Sequence[Change]) -> None:
        """Note that these changes were made."""

    async def forget_again(self, ids: Sequence[str]) -> None:
        """Erase forgotten memories whose files another version of the files brought back."""

    async def state_at(self, scope: Scope, moment: datetime) -> dict[str, MemoryItem]:
        """Return a scope's memories at a time, by the versions of the files; empty without versions."""

    async def close(self) -> None:
        """Stop watching, and finish running work."""

    def forsake(self) -> None:
        """Reset after a fork, and leave running work to the parent process."""


def check_writable(store: VectorStore, config: MemoryConfig) -> None:
    """Raise ReadOnlyError if the store can only be read."""
    if store.read_only:
        raise ReadOnlyError(
            f"the memory in {config.home or 'its store'} may only be read, because its folder or disk is read-only: "
            "nothing was changed"
        )


async def open_beside(ledger: Ledger, store: VectorStore) -> None:
    """Open an open store's ledger; LedgerError if it is read-only and the store is not."""
    await ledger.open()
    if ledger.read_only and not store.read_only:
        await ledger.close()
        raise LedgerError("it may only be read, because its file, folder or disk is read-only")


class HistoryQueries:
    """The kernel's queries to the ledger."""

    config: MemoryConfig
    ledger: Ledger | None
    bare: bool
    _identity: str

    def answers(self, scope: Scope) -> Answers:
        """Return the cache of a language model's answers in exactly this scope."""
        from perdure.engine.write.curator import Answers

        return Answers(self.ledger, scope)

    def _answer_key(self, key: str) -> str:
        """Return the ledger's key, with the store's mark, because stores may share a ledger."""
        return f"{self._identity}/{self.config.vector_store.collection_name}/{key}"

    async def remembered(self, key: str | None, scope: Scope) -> AddResult | None:
        """Return the answer given for this idempotency key, or None."""
        if key is None or self.ledger is None:
            return None
        text = await self.ledger.remembered(self._answer_key(key), scope)
        if text is None:
            return None
        loaded = json.loads(text)
        events = [MemoryEvent(**event) for event in loaded.pop("results")]
        return AddResult(events, bare=self.bare, **loaded)

    async def recent_episodes(self, scope: Scope, limit: int, before: str) -> list[Episode]:
        """Return the last messages before a time in a scope; none without a ledger."""
        return await self.ledger.recent_episodes(scope, limit, before) if self.ledger else []

    async def mark_extracted(self, ids: Sequence[str]) -> None:
        """Mark these messages as read."""
        if self.ledger and ids:
            await self.ledger.mark_extracted(ids)

    async def history(self, id: str) -> list[HistoryRecord]:
        """Return a memory's history; LedgerError without a ledger, because that is not the same as no history."""
        return await self.history_ledger().history(id)

    async def event(self, event_id: str) -> tuple[Change, int]:
        """Return a history record's change and its sequence; otherwise an error with the reason."""
        ledger = self.history_ledger()
        record = await ledger.history_record(event_id)
        if record is None:
            raise NotFoundError(f"there is no event with the id {event_id!r}")
        change = None if record.erased else await ledger.event(event_id)
        if change is None:
            why = "its text was erased" if record.erased else "it was imported without its change"
            raise ConflictError(f"event {event_id} cannot be undone: {why}", code="erased" if record.erased else None)
        return change, record.sequence

    async def events_since(self, scope: Scope, moment: str) -> list[Change]:
        """Return the changes of a scope after a clock time, newest first."""
        return await self.history_ledger().events_since(scope, moment)

    def history_ledger(self) -> Ledger:
        """Return the ledger; LedgerError without one."""
        if self.ledger is None:
            raise LedgerError("there is no ledger: it could not be opened, so no history is kept (see the log)")
        return self.ledger


logger = logging.getLogger("perdure")
BULK = 64
"""Changes of one batch from which the store is synced at once, so that their entries need not be marked; and from which
new memories are in the journal without vectors, which are six tenths of an entry, where the embedder is a local one."""
SYNC_EVERY = 2_000
"""Changes after which the store is synced and their journal entries dropped: a few megabytes of journal."""


class Kernel(HistoryQueries):
    """Backends, clock and configuration of one engine; every path works through it.

    `reader` is the curator of gateway conversations, and `extractor` its model, if any. The observers are made here,
    for this kernel.
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
        curator: Callable[[], Curator],
        reader: Callable[[], Curator],
        clock: Clock,
        fresh_store: Callable[[], VectorStore],
        change_observer: Callable[[Kernel], ChangeObserver] | None = None,
        file_observer: Callable[[Kernel], FileObserver] | None = None,
        quota: Callable[[Kernel], Quota] | None = None,
    ) -> None:
        self.config = config
        self.store = store
        self.embedding = Embedding(embedder)
        self._make_curator, self._make_reader = curator, reader
        self.clock = MonotonicClock(clock)
        self.collection = config.vector_store.collection_name
        self.bare = config.version == "v1.0"
        self.ledger: Ledger | None = None
        self.lifecycle = Lifecycle()
        self._given_ledger = ledger
        self._fresh_store = fresh_store
        self.llm = llm
        self.rewriter, self.extractor = rewriter, extractor
        self.reranker = reranker
        self.open = RunOnce(self._open_all)
        self._reopen = RunOnce(self._open_ledger)
        self._close = RunOnce(self._close_all)
        self.loss_check = LossCheck(config)
        self._identity = ""
        self._unsynced = 0
        self.change_observer = None if change_observer is None else change_observer(self)
        self.file_observer = None if file_observer is None else file_observer(self)
        self.quota = None if quota is None else quota(self)
        _ALL.add(self)

    @cached_property
    def curator(self) -> Curator:
        """The curator, made by the first write, because its rules take a while to import."""
        return self._make_curator()

    @cached_property
    def reader(self) -> Curator:
        """The curator of gateway conversations."""
        return self._make_reader()

    # ------------------------------------------------------------------ life
    async def ready(self) -> None:
        """Open store and ledger on first use, and repair what a crash left over."""
        with self.lifecycle.in_flight():
            await self.open()

    async def open_backends(self) -> None:
        """Open store and ledger without checking the embedder, which `ready` does."""
        await self.store.open()
        self._identity = await self.store.identity()
        with degrade("the ledger could not be opened: no history, journal or episodes are kept"):
            await open_beside(self._given_ledger, self.store)
            self.ledger = self._given_ledger

    async def required_ledger(self) -> Ledger:
        """Return the ledger, opened now if it could not be opened before; LedgerError if it still cannot.

        Callers that can work without one use `ledger`, which may be None.
        """
        await self.open()
        if self.ledger is None:
            await self._reopen()
        return self._given_ledger

    async def ledger_alone(self) -> Ledger:
        """Return the ledger even if the store cannot be opened, for data that only the ledger has, such as keys."""
        if self.open.done:
            return await self.required_ledger()
        await self._given_ledger.open()
        return self._given_ledger

    async def _open_ledger(self) -> None:
        await self._given_ledger.open()
        self.ledger = self._given_ledger
        if self.store.durable:
            await self._heal()
        if self.change_observer is not None:
            self.change_observer.wake()

    @property
    def identity(self) -> str:
        """The open store's identity."""
        return self._identity

    async def _open_all(self) -> None:
        await self.open_backends()
        self.collection = await open_collection(
            self.store, self.config.vector_store.collection_name, self.embedding.embedder
        )
        if not self.store.durable:
            logger.info("memories in the `memory` store do not outlive the process")
        elif self.store.read_only:
            logger.warning("the memory may only be read where it lies: it is searched, and nothing can be changed")
            return
        elif self.ledger is not None:
            if await self.ledger.may_have_pending(self._identity):
                await self._heal()
            with degrade("it cannot be told whether the store holds what the ledger knows"):
                await self.loss_check.look(self.store, self.collection, self.ledger, self._identity)
        if self.file_observer is not None:
            await self.file_observer.opened()
        if self.store.durable:
            await embed_missing(self.store, self.collection, self.embedding)
        if self.change_observer is not None:
            self.change_observer.wake()

    async def why_gone(self, error: NoCollectionError) -> PerdureError:
        """Return the error for a collection that another process re-embedded during the call."""
        found = await generations(self.store, self.config.vector_store.collection_name)
        return embedded_elsewhere(self.collection, self.embedding.embedder) if found else error

    async def close(self) -> None:
        """Wait for running calls, sync the store, finish waiting erasures, and close all backends."""
        self.lifecycle.refuse()
        await self._close()

    async def _close_all(self) -> None:
        await self.lifecycle.wait_until_idle()
        if self.file_observer is not None:
            await self.file_observer.close()
        if self.change_observer is not None:
            await self.change_observer.close()
        if self.open.done:
            with degrade("the store could not be synced: the journal keeps what it may have lost"):
                await self.sync()
        # Opening may have failed half way, so what was never in use is closed too.
        with degrade("the store could not be closed"):
            await self.store.close()
        with degrade("the ledger could not be closed"):
            await self._given_ledger.close()
        await self.embedding.embedder.close()
        for model in dict.fromkeys((self.llm, self.rewriter, self.extractor, self.reranker)):
            if model is not None:
                await model.close()

    def forsake(self) -> None:
        """Leave the open backends to the parent process after a fork, and start over."""
        self.lifecycle.reset()
        self.open.reset()
        self._reopen.reset()
        self._close.reset()
        self.clock.reset()
        self.ledger = None
        for beside in (self.change_observer, self.file_observer):
            if beside is not None:
                beside.forsake()
        if self.store.durable:
            # Connections must not be carried over a fork, closing them included (SQLite, "How To Corrupt").
            _LEFT_TO_THE_PARENT.append(self.store)
            self.store = self._fresh_store()

    # ------------------------------------------------------------------ one writer at a time
    @asynccontextmanager
    async def lock(self, scope: Scope) -> AsyncIterator[None]:
        """Exclude every other writer with an overlapping scope; a dead writer's changes are applied first."""
        check_writable(self.store, self.config)
        if self.ledger is None:
            yield
            return
        while True:
            async with self.ledger.lock(scope, self._identity if self.store.durable else None) as held:
                if not held.stranded:
                    yield
                    return
            try:
                await self._heal()
            except PerdureError as error:
                error.amend("nothing of this call was changed: what the journal holds of an earlier one comes first")
                raise

    async def _heal(self) -> None:
        """Apply journal entries of a dead writer or a failed call."""
        ledger = self.ledger
        assert ledger is not None, "only an engine with a ledger has a journal"
        async with ledger.lock(Scope()):
            batches = await self.replay(ledger, self._identity)
        if batches:
            logger.info("applied %d batches of changes that an earlier process had left over", batches)

    async def replay(self, ledger: Ledger, identity: str) -> int:
        """Apply dead writers' entries of a store's journal; return how many batches. Hold the lock of everything."""
        batches: dict[str, list[JournalEntry]] = {}
        for entry in await ledger.pending(identity):
            batches.setdefault(entry.batch_id, []).append(entry)
        for batch, entries in batches.items():
            vectors: dict[str, Vector | None] = {}
            for entry in entries:
                rows.note_vectors(vectors, entry.change, entry.vector, entry.keep_vector)
            collection = entries[0].collection if identity == self._identity else self.collection
            bare = [entry.change.after for entry in entries if entry.change.after is not None and entry.vector is None]
            vectors |= await vectors_again(self.store, collection, self.embedding, bare)
            puts, deletes = await self._rows([entry.change for entry in entries], vectors)
            await self.put_rows(puts, deletes, collection)
            await ledger.applied(batch)
        return len(batches)

    # ------------------------------------------------------------------ the one way to change anything
    async def commit(
        self,
        changes: Sequence[Change],
        vectors: Mapping[str, Vector | None],
        *,
        episodes: Sequence[Episode] = (),
        remember: tuple[str, Scope, AddResult] | None = None,
        said_until: str | None = None,
    ) -> list[str]:
        """Apply the changes of one batch to journal, store and history; all of them or none. Returns warnings.

        After `said_until` the episodes are no longer searched.
        Hold the lock of a scope that covers them. Once begun it runs to its end, and a cancelled caller is cancelled
        then. InvalidInputError for a team's memory without its tags, QuotaError if a user would exceed the quota.
        """
        check_writable(self.store, self.config)
        rows.check_tags(changes)
        if self.quota is not None:
            await self.quota.check(changes)
        batch = str(uuid4())
        puts, deletes = await self._rows(changes, vectors, episodes, said_until)
        bare = len(changes) >= BULK and self.embedding.compares_words
        write = rows.Write(
            batch=batch,
            entries=[
                JournalEntry(
                    change=change,
                    batch_id=batch,
                    store_identity=self._identity,
                    collection=self.collection,
                    vector=vectors.get(change.after.id)
                    if change.after and not (bare and change.event == "ADD")
                    else None,
                    keep_vector=vectors.get(change.keep.id) if change.keep else None,
                )
                for change in changes
            ],
            episodes=() if self.config.episodes == "off" else episodes,
            answer=remember and Remembered(self._answer_key(remember[0]), remember[1], _dump(remember[2])),
            puts=puts,
            deletes=deletes,
            jobs=self.change_observer.jobs(changes)
            if self.change_observer is not None and self.ledger is not None
            else [],
        )
        warnings = await shielded(self._carry_out(write))
        for noting in (self.quota, self.file_observer):
            if noting is not None:
                noting.note(changes)
        return warnings

    async def _carry_out(self, write: rows.Write) -> list[str]:
        ledger = self.ledger
        if ledger is not None and not self.store.durable:
            await ledger.record([entry.change for entry in write.entries], write.episodes, write.answer)
        if ledger is None or not self.store.durable:
            if write.puts or write.deletes:
                await self.put_rows(write.puts, write.deletes)
            return await self._followed(write)
        if write.entries or write.episodes or write.answer:
            await ledger.write(write.entries, write.episodes, write.answer, write.jobs)
        warnings: list[str] = []
        if write.entries:
            await self._apply(write, ledger, warnings)
            if write.jobs and self.change_observer is not None:
                self.change_observer.wake()
        elif write.puts or write.deletes:
            # Messages alone: they are kept by now, and their rows can be made again from them.
            with degrade("the messages are kept, but cannot be searched yet", warnings):
                await self.put_rows(write.puts, write.deletes)
        return warnings

    async def _followed(self, write: rows.Write) -> list[str]:
        """Enqueue the jobs of a batch without a journal, after its rows are stored."""
        warnings: list[str] = []
        if self.change_observer is None:
            return warnings
        if self.ledger is None:
            await self.change_observer.at_once([entry.change for entry in write.entries], warnings)
        elif write.jobs:
            with degrade("the graph does not follow this change", warnings):
                await self.ledger.jobs.add(write.jobs)
            self.change_observer.wake()
        return warnings

    async def _apply(self, write: rows.Write, ledger: Ledger, warnings: list[str]) -> None:
        try:
            await self.put_rows(write.puts, write.deletes)
        except PerdureError as error:
            refused = False
            with degrade("a refused change stays in the journal"):
                await ledger.abandon(write.batch)
                refused = True
            rows.tell_what_became(error, refused=refused)
            raise
        synced = await self._sync_bulk(ledger) if len(write.entries) >= BULK else None
        # From here on the change is acknowledged: if its history cannot be written now, the journal will do it.
        with degrade("the history is written later, from the journal", warnings):
            await (ledger.applied(write.batch) if synced is None else ledger.applied(write.batch, synced))
        await self._sync_now_and_then(0 if synced is not None else len(write.entries))

    async def _sync_bulk(self, ledger: Ledger) -> list[str] | None:
        """Sync the store after a bulk write; the earlier batches that are safe now too, or None where it failed."""
        with degrade("the journal is cleared later"):
            batches = await ledger.unsynced(self._identity)
            await self.store.sync()
            self._unsynced = 0
            return batches
        return None

    async def _sync_now_and_then(self, changes: int) -> None:
        self._unsynced += changes
        if self._unsynced >= SYNC_EVERY:
            with degrade("the journal is cleared later"):
                await self.sync()

    async def sync(self) -> None:
        """Make the store's content survive power loss, and drop the journal entries that ensured it."""
        if self.ledger is None or not self.store.durable:
            return
        batches = await self.ledger.unsynced(self._identity)
        await self.store.sync()
        if batches:
            await self.ledger.synced(self._identity, batches)
        self._unsynced = 0

    # ------------------------------------------------------------------ rows
    async def put_rows(self, puts: Sequence[Point], deletes: Sequence[str] = (), collection: str | None = None) -> None:
        """Write rows, of this collection unless another is named, delete others, and store their words' vectors."""
        await put_rows(self.store, collection or self.collection, self.embedding, puts, deletes)

    async def _rows(
        self,
        changes: Sequence[Change],
        vectors: Mapping[str, Vector | None],
        episodes: Sequence[Episode] = (),
        said_until: str | None = None,
    ) -> tuple[list[Point], list[str]]:
        """Return the rows that a batch writes and deletes, with those of searchable messages."""
        puts, deletes = rows.net_rows(changes, vectors)
        if self.config.searches_messages:
            moved = {id: change.event != "DELETE" for change in changes for id in change.hides}
            written = {point.id for point in puts}
            shown = [id for id, is_shown in moved.items() if is_shown and id not in written]
            again = await self.ledger.get_episodes(shown) if self.ledger and shown else []
            away = {id for id, is_shown in moved.items() if not is_shown} | rows.stored_as_said(changes)
            away.update(each.id for each in episodes if each.hidden)
            puts += await self._episode_points(
                [each for each in [*episodes, *again] if each.id not in away], said_until
            )
            deletes += [id for id, is_shown in moved.items() if not is_shown]
        return await with_derived(self.embedding, puts) if puts else puts, deletes

    async def _episode_points(self, episodes: Sequence[Episode], until: str | None) -> list[Point]:
        embedded = await self.embedding.texts([episode.content for episode in episodes])
        return [
            Point(episode.id, vector, rows.episode_item(episode).with_(expires_at=until).to_payload())
            for episode, vector in zip(episodes, embedded.vectors, strict=True)
        ]


def _dump(result: AddResult) -> str:
    events = [event.model_dump() for event in result.results]
    told = {"warnings": result.warnings, "notes": result.notes, "waiting": result.waiting}
    return json.dumps({"results": events, **told})


_ALL: weakref.WeakSet[Kernel] = weakref.WeakSet()
_LEFT_TO_THE_PARENT: list[VectorStore] = []  # stores that a forked process must neither use nor close


def _after_fork() -> None:
    for kernel in list(_ALL):
        kernel.forsake()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
