"""AsyncMemory and Memory: the library, with and without `await`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from perdure.domain.clock import parse_moment
from perdure.domain.errors import ConfigError, ForbiddenError, InvalidInputError, NotFoundError
from perdure.domain.event import Absence, AddResult, ErasureReport, HistoryRecord, ListResult, SearchResult
from perdure.domain.filter import parse_filter
from perdure.domain.maintenance import BenchReport, Consolidation, Reflected
from perdure.domain.memory import MemoryItem, check_metadata
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine import requests
from perdure.engine.core.access import UNRESTRICTED, scoped
from perdure.engine.requests import Filters, Messages, Moment, SearchOptions, TimeWindow
from perdure.frontends.library.closing import AsyncClosing, Closing
from perdure.frontends.library.portal import blocking, view

if TYPE_CHECKING:
    from perdure.backends.embedders.base import Embedder
    from perdure.engine.config.config import MemoryConfig
    from perdure.engine.engine import Engine
    from perdure.frontends.library.graph import AsyncGraph, Graph
    from perdure.frontends.library.sync_embedder import SyncEmbedder
    from perdure.frontends.library.versions import AsyncVersions, Versions

# The imports inside functions bring NumPy and pydantic: `from perdure import Memory` must not wait for them.

DISTRUSTED = "distrusted"  # the reason of a quarantine when none is given
LONGEST_REASON = 200


class AsyncMemory(AsyncClosing):
    """Long-term memory for agents: stores facts, corrects them, recalls them, and loses nothing.

    Constructing one validates every setting and opens nothing: the first use opens the files, and finishes what a crash
    interrupted. Many tasks and threads may use it at once. Times are aware datetimes or ISO 8601 text. All errors are
    PerdureError.
    """

    def __init__(self, config: MemoryConfig | dict[str, Any] | None = None) -> None:
        from perdure.engine.build import build
        from perdure.engine.config.config import read_config

        self._config = read_config(config)
        self._engine: Engine = build(self._config)
        self._walls = UNRESTRICTED
        self._is_view = False

    @classmethod
    def local(cls, path: str | os.PathLike[str] = "~/.memory") -> Self:
        """Open a memory in one folder with the embedded providers: no key, no server, no download.

        A folder with memories as files, such as a git clone of one, is opened with the `markdown` store.
        """
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise ConfigError(f"path must name a folder, not {path!r}", field="path", value=path)
        from perdure.engine.config.config import read_folder

        return cls(read_folder(path))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Open a memory with the configuration of a TOML file such as `perdure init` writes."""
        from perdure.engine.config.config import read_file

        return cls(read_file(path))

    def within(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        project_id: str | None = None,
        room_id: str | None = None,
        world_id: str | None = None,
    ) -> Self:
        """Return a view of this memory that is limited to a scope: calls read, change and write only inside it.

        Calls on the view may leave out the ids that are given here; a different id is a ForbiddenError. Memories
        outside the scope do not exist for the view, whatever id a call names. A view of a view has the limits of both.
        Closing a view closes nothing.
        """
        given = Scope(user_id, agent_id, run_id, project_id, room_id=room_id, world_id=world_id)
        view = copy(self)
        view._walls = scoped(self._walls, given)
        view._is_view = True
        return view

    @property
    def config(self) -> MemoryConfig:
        """The configuration in force."""
        return self._config

    @property
    def embedder(self) -> Embedder:
        """The embedder in use: `embed`, `embed_batch`, `dimension`."""
        return self._engine.kernel.embedding.embedder

    @property
    def graph(self) -> AsyncGraph:
        """The entities in memories and the relations between them, if a `graph_store` is configured."""
        from perdure.frontends.library.graph import AsyncGraph

        return AsyncGraph(self._engine, self._walls)

    @property
    def versions(self) -> AsyncVersions:
        """The versions of a memory whose records are files: log, diff, revert, branches, merges, and a remote."""
        from perdure.frontends.library.versions import AsyncVersions

        return AsyncVersions(self._engine, self._walls)

    async def add(
        self,
        messages: Messages,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        filters: Filters | None = None,
        prompt: str | None = None,
        infer: bool = True,
        timestamp: Moment | None = None,
        type: str | None = None,
        expires_at: Moment | None = None,
        idempotency_key: str | None = None,
    ) -> AddResult:
        """Extract the facts of a conversation and store them: each is added, updates or retires another, or is known.

        `infer=False` stores each message as it is. `filters` restricts which memories may be changed, `prompt` replaces
        the extraction prompt of a language model, `timestamp` is when it was said (else a message's own, else now). A
        repeated `idempotency_key` returns the first result again and changes nothing.
        """
        addition = requests.read_addition(
            messages,
            self._scope(user_id, agent_id, run_id),
            metadata=metadata,
            filters=filters,
            prompt=prompt,
            infer=infer,
            timestamp=timestamp,
            type=type,
            expires_at=expires_at,
            idempotency_key=idempotency_key,
        )
        return await self._engine.write.add(addition)

    async def add_facts(
        self,
        facts: Sequence[str],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> AddResult:
        """Store texts that are already facts: nothing is extracted, but each is reconciled with known memories."""
        scope = self._scope(user_id, agent_id, run_id)
        return await self._engine.write.add_facts(requests.read_texts(facts, "facts"), scope, check_metadata(metadata))

    async def update(self, id: str, text: str, *, metadata: dict[str, Any] | None = None) -> MemoryItem:
        """Overwrite a memory's text; the id stays, metadata is merged, the old text stays as a version."""
        memory_id = requests.read_memory_id(id)
        new_text = requests.read_text(text, "text")
        return await self._engine.revise.update(memory_id, new_text, check_metadata(metadata), self._walls)

    async def delete(self, id: str, *, erase: bool = False) -> None:
        """Delete a memory from all current reads; with `erase` also from history and versions, like `forget`."""
        memory_id = requests.read_memory_id(id)
        if requests.read_flag(erase, "erase"):
            if await self._engine.lookup.get(memory_id, self._walls) is None:
                raise NotFoundError(f"there is no memory with the id {id!r}")
            await self.forget(id=memory_id)
        else:
            await self._engine.revise.delete(memory_id, self._walls)

    async def delete_all(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None, erase: bool = False
    ) -> None:
        """Delete every memory of a scope; with `erase` like `forget`."""
        scope = self._scope(user_id, agent_id, run_id)
        if requests.read_flag(erase, "erase"):
            await self.forget(user_id=user_id, agent_id=agent_id, run_id=run_id)
        else:
            await self._engine.revise.delete_all(scope, self._walls)

    async def forget(
        self,
        *,
        id: str | requests.LeftOut = requests.LEFT_OUT,
        query: str | requests.LeftOut = requests.LEFT_OUT,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        threshold: float | requests.LeftOut = requests.LEFT_OUT,
        erase: bool = True,
        dry_run: bool = False,
    ) -> ErasureReport:
        """Erase one memory, what a query finds in a scope, or a whole scope.

        A query finds what has all of its words, and what scores at least `threshold`, default .75, and is about the
        same matter.

        The whole scope goes where neither `id` nor `query` is given; None is refused for both, and `threshold` without
        a query.
        The source messages of a forgotten fact are erased whole, with its versions and history values; the report names
        each place. `dry_run` only reports; `erase=False` deletes, so that `undo` can restore it.
        """
        return await self._engine.forget(
            requests.read_forget(
                id=id,
                query=query,
                user_id=user_id,
                agent_id=agent_id,
                run_id=run_id,
                threshold=threshold,
                erase=erase,
                dry_run=dry_run,
                walls=self._walls,
            )
        )

    async def feedback(self, id: str, verdict: str | None, *, reason: str | None = None) -> MemoryItem:
        """Rate a memory as positive, negative or very_negative; None withdraws the rating.

        Only the last rating counts. It adds .25, -.25 or -.5 to the importance, within [0, 1], which decides when the
        memory is pruned. It is stored in the metadata as `feedback` and `feedback_reason`.
        """
        from perdure.engine.maintenance.tasks import read_verdict

        memory_id, told = requests.read_memory_id(id), read_verdict(verdict)
        return await self._engine.maintenance.feedback(memory_id, told, reason, self._walls)

    async def undo(self, event_id: str) -> AddResult:
        """Revert one event, named by its history record's `id`; ConflictError if a later one built on it.

        Undoing the addition of a merged memory also brings its originals back.
        """
        return await self._engine.revise.undo(requests.read_text(event_id, "event_id"), self._walls)

    async def rollback(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None, to: Moment
    ) -> AddResult:
        """Restore a scope to its state at a clock time, by inverse events; erased text stays gone."""
        scope = self._scope(user_id, agent_id, run_id)
        return await self._engine.revise.rollback(scope, parse_moment(to, "to"))

    async def reset(self) -> None:
        """Delete all memories, history, episodes and journal; ForbiddenError on a view limited to a scope."""
        if self._walls != UNRESTRICTED:
            raise ForbiddenError("reset clears what lies outside of these walls too: use delete_all or forget")
        await self._engine.reset()

    async def consolidate(
        self,
        memory_ids: Sequence[str] | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        at_least: int = 2,
        dry_run: bool = False,
    ) -> list[Consolidation]:
        """Merge the named memories, which must have one scope and one type, or related memories of a scope.

        Where values of the same attribute differ, the newest stays, with the first one beside it. Named memories about
        different things are joined; in a scope they stay apart, only the newest 100 are examined, and nothing is done
        if there are fewer than `at_least`. The originals stay as versions; `undo` of the merged memory's addition
        brings them back. `dry_run` only returns the result.
        """
        only_told = requests.read_flag(dry_run, "dry_run")
        if memory_ids is None:
            scope, least = self._scope(user_id, agent_id, run_id), requests.read_limit(at_least, "at_least")
            return await self._engine.consolidate.scope(scope, at_least=least, dry_run=only_told)
        if Scope(user_id, agent_id, run_id).given():
            raise InvalidInputError(
                "consolidate takes the ids of memories or a scope, not both", field="memory_ids", value=memory_ids
            )
        ids = [requests.read_memory_id(id) for id in requests.read_texts(memory_ids, "memory_ids")]
        return [await self._engine.consolidate(ids, self._walls, dry_run=only_told)]

    async def reflect(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        about: str | None = None,
        dry_run: bool = False,
    ) -> Reflected:
        """Find patterns in a scope's memories, in `insights`: counts, common issues, approaches, styles, lessons.

        Each names its source memories, and is stored as a memory of type `reflective` that is forgotten with them.
        Running it again updates the stored insights, and removes those that no longer hold. `about` limits the result
        to insights with one of its words, in themselves or in their memories; with `dry_run` none is stored.
        """
        scope, only_told = self._scope(user_id, agent_id, run_id), requests.read_flag(dry_run, "dry_run")
        wanted = None if about is None else requests.read_text(about, "about")
        return await self._engine.reflect(scope, store=not only_told, about=wanted)

    async def trust(self, id: str) -> MemoryItem:
        """Release a memory from quarantine; `undo` reverts it, NotFoundError for an unknown id."""
        return await self._engine.quarantine.trust(requests.read_memory_id(id), self._walls)

    async def distrust(self, id: str, reason: str = DISTRUSTED) -> MemoryItem:
        """Keep a memory out of prompts, for a reason of at most 200 characters; searches still return it."""
        why = requests.read_text(reason, "reason")
        if len(why) > LONGEST_REASON:
            raise InvalidInputError(
                f"reason may have {LONGEST_REASON} characters, not {len(why)}", field="reason", value=why
            )
        return await self._engine.quarantine.distrust(requests.read_memory_id(id), why, self._walls)

    async def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        filters: Filters | None = None,
        threshold: float | None = None,
        types: Sequence[str] | None = None,
        rerank: bool = False,
        history: Sequence[Message | Mapping[str, Any]] | None = None,
        as_of: Moment | None = None,
        include_past: bool = False,
        preset: str | None = None,
        explain: bool = False,
        hydrate: bool = False,
        reference_time: Moment | None = None,
        time_window: TimeWindow | None = None,
        order: str = "score",
    ) -> SearchResult:
        """Find the memories that answer a query, best first; with `order="time"` the same ones, oldest first.

        `threshold` is the least `score` in [0, 1]; `types` keeps only those types; `history` provides key words for a
        query that is unclear alone; `as_of` searches what was known then; `include_past` adds what is no longer valid;
        `preset` names the steps; `rerank` uses the configured reranker; `explain` shows how each score came about;
        `hydrate` adds the source messages of each memory; `reference_time` is the time that "last week" in the query is
        relative to, and `time_window` a (start, end) to use instead.
        """
        options = SearchOptions(
            limit=limit,
            filters=filters,
            threshold=threshold,
            types=types,
            rerank=rerank,
            history=history,
            as_of=as_of,
            include_past=include_past,
            preset=preset,
            explain=explain,
            hydrate=hydrate,
            reference_time=reference_time,
            time_window=time_window,
            order=order,
        )
        return await run_search(self, query, options, user_id=user_id, agent_id=agent_id, run_id=run_id)

    async def why_not(
        self,
        id: str,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        filters: Filters | None = None,
        threshold: float | None = None,
        types: Sequence[str] | None = None,
        history: Sequence[Message | Mapping[str, Any]] | None = None,
        as_of: Moment | None = None,
        include_past: bool = False,
        preset: str | None = None,
        reference_time: Moment | None = None,
        time_window: TimeWindow | None = None,
    ) -> Absence:
        """Explain why `search` with the same arguments does not return a memory: the first step that dropped it."""
        options = SearchOptions(
            limit=limit,
            filters=filters,
            threshold=threshold,
            types=types,
            history=history,
            as_of=as_of,
            include_past=include_past,
            preset=preset,
            reference_time=reference_time,
            time_window=time_window,
        )
        request = requests.read_query(self._engine.kernel, query, self._scope(user_id, agent_id, run_id), options)
        return await self._engine.why_not(requests.read_memory_id(id), request)

    async def get(self, id: str) -> MemoryItem | None:
        """Return the memory with this id, or None."""
        try:
            memory_id = requests.read_memory_id(id)
        except NotFoundError:
            return None
        return await self._engine.lookup.get(memory_id, self._walls)

    async def get_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        filters: Filters | None = None,
        cursor: str | None = None,
        as_of: Moment | None = None,
        include_past: bool = False,
        kind: str | None = None,
        deleted: bool = False,
    ) -> ListResult:
        """Return a page of a scope's memories, oldest first; pass its `next_cursor` as the next `cursor`.

        With `kind="notes"` it returns the sentences that are kept as they were said, because no fact says them. With
        `deleted` it returns what was deleted, the last first: `deleted` of each says when, why and what `undo` takes.
        Without a kind those are facts and notes. Of what was erased there is nothing to list.
        """
        return await self._engine.lookup.get_all(
            self._scope(user_id, agent_id, run_id),
            limit=requests.read_limit(limit),
            filters=parse_filter(filters),
            cursor=cursor,
            as_of=None if as_of is None else parse_moment(as_of, "as_of"),
            include_past=requests.read_flag(include_past, "include_past"),
            kinds=requests.read_kinds(kind, deleted=requests.read_flag(deleted, "deleted")),
            deleted=deleted,
        )

    async def history(self, id: str) -> list[HistoryRecord]:
        """Return the history of a memory, oldest first; empty for an unknown id."""
        try:
            memory_id = requests.read_memory_id(id)
        except NotFoundError:
            return []
        return await self._engine.lookup.history(memory_id, self._walls)

    async def context(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        max_tokens: int = 2000,
        order: str = "score",
    ) -> str:
        """Format the memories that answer a query as a prompt block: quoted data, delimited, within `max_tokens`.

        The best ones that fit come best first; with `order="time"` the same ones come oldest first.
        """
        from perdure.engine.read.search import CONTEXT_CANDIDATES

        scope = self._scope(user_id, agent_id, run_id)
        request = requests.read_query(
            self._engine.kernel, query, scope, SearchOptions(limit=CONTEXT_CANDIDATES, order=order)
        )
        return await self._engine.read.context(request, max_tokens=requests.read_limit(max_tokens, "max_tokens"))

    async def bench(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        probes: int = 200,
        preset: str | None = None,
        limit: int = 10,
    ) -> BenchReport:
        """Measure how well `search` finds what was told and stored, with at most `probes` questions made from it.

        Half of the questions ask for what users told (`report.told`). Without a scope, each is asked in its own. Only
        reads, and needs no language model.
        """
        from perdure.engine.maintenance.recall_benchmark import read_bench

        request = read_bench(
            self._engine.kernel,
            scope=scoped(self._walls, Scope(user_id=user_id, agent_id=agent_id, run_id=run_id)),
            probes=probes,
            preset=preset,
            limit=limit,
        )
        return await self._engine.bench(request)

    async def close(self) -> None:
        """Finish running work and close every file; closing twice is no error."""
        if not self._is_view:
            await self._engine.close()

    def _scope(self, user_id: str | None, agent_id: str | None, run_id: str | None) -> Scope:
        return requests.read_scope(user_id, agent_id, run_id, self._walls)


async def run_search(
    memory: AsyncMemory,
    query: str,
    options: SearchOptions,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
) -> SearchResult:
    """Run `AsyncMemory.search` with its options as one value."""
    scope = memory._scope(user_id, agent_id, run_id)
    return await memory._engine.read.search(requests.read_query(memory._engine.kernel, query, scope, options))


class Memory(Closing[AsyncMemory]):
    """AsyncMemory without `await`: usable from any thread, and inside a running event loop, which it blocks."""

    def __init__(self, config: MemoryConfig | dict[str, Any] | None = None) -> None:
        self._asynchronous = AsyncMemory(config)

    @classmethod
    def local(cls, path: str | os.PathLike[str] = "~/.memory") -> Self:
        """Open a memory in one folder with the embedded providers: no key, no server, no download.

        A folder with memories as files, such as a git clone of one, is opened with the `markdown` store.
        """
        return cls._over(AsyncMemory.local(path))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Open a memory with the configuration of a TOML file such as `perdure init` writes."""
        return cls._over(AsyncMemory.from_file(path))

    within = view(AsyncMemory.within)

    @property
    def config(self) -> MemoryConfig:
        """The configuration in force."""
        return self._memory.config

    @property
    def embedder(self) -> SyncEmbedder:
        """The embedder in use: `embed`, `embed_batch`, `dimension`."""
        from perdure.frontends.library.sync_embedder import SyncEmbedder

        return SyncEmbedder(self._memory.embedder)

    @property
    def graph(self) -> Graph:
        """The entities in memories and the relations between them, if a `graph_store` is configured."""
        from perdure.frontends.library.graph import Graph

        return Graph._over(self._memory.graph)

    @property
    def versions(self) -> Versions:
        """The versions of a memory whose records are files: log, diff, revert, branches, merges, and a remote."""
        from perdure.frontends.library.versions import Versions

        return Versions._over(self._memory.versions)

    add = blocking(AsyncMemory.add)
    add_facts = blocking(AsyncMemory.add_facts)
    update = blocking(AsyncMemory.update)
    delete = blocking(AsyncMemory.delete)
    delete_all = blocking(AsyncMemory.delete_all)
    forget = blocking(AsyncMemory.forget)
    feedback = blocking(AsyncMemory.feedback)
    undo = blocking(AsyncMemory.undo)
    rollback = blocking(AsyncMemory.rollback)
    reset = blocking(AsyncMemory.reset)
    consolidate = blocking(AsyncMemory.consolidate)
    reflect = blocking(AsyncMemory.reflect)
    trust = blocking(AsyncMemory.trust)
    distrust = blocking(AsyncMemory.distrust)
    search = blocking(AsyncMemory.search)
    why_not = blocking(AsyncMemory.why_not)
    get = blocking(AsyncMemory.get)
    get_all = blocking(AsyncMemory.get_all)
    history = blocking(AsyncMemory.history)
    context = blocking(AsyncMemory.context)
    bench = blocking(AsyncMemory.bench)

    @property
    def _memory(self) -> AsyncMemory:
        return self._asynchronous
