"""AsyncMemory: the library, awaited (spec 000 §3 and §11, DESIGN §6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.domain.bench import BenchReport
from perdure.domain.clock import parse_moment
from perdure.domain.errors import ForbiddenError, NotFoundError
from perdure.domain.event import Absence, AddResult, ErasureReport, HistoryRecord, ListResult, SearchResult
from perdure.domain.filter import parse_filter
from perdure.domain.memory import MemoryItem, check_metadata
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine import requests, search_requests
from perdure.engine.bench import read_bench
from perdure.engine.read_path import CONTEXT_CANDIDATES
from perdure.engine.requests import Filters, Messages, Moment
from perdure.engine.search_requests import TimeWindow
from perdure.engine.upkeep.feedback import read_verdict
from perdure.engine.walls import OPEN, inside
from perdure.frontends.library.tidying import Tidying
from perdure.frontends.library.verdicts import Verdicts


class AsyncMemory(Verdicts, Tidying):
    """Long-term memory for agents: facts are kept, corrected and recalled, and nothing is lost.

    Making one checks every setting and opens nothing: files are opened, and what a crash left over is finished, on
    first use. It may be used from many tasks and threads at once. Times are aware datetimes or ISO 8601 text. All
    errors are PerdureError.
    """

    # ------------------------------------------------------------------ writing
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
        """Read a conversation and keep its facts: each is added, updates or retires another, or was known.

        `infer=False` stores each message as it is. `filters` narrows which memories may be changed, `prompt` replaces
        the extraction prompt of a language model, `timestamp` is when it was said (else a message's own, else now). A
        repeated `idempotency_key` gives the first answer again and changes nothing.
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
        """Keep texts that are facts already: nothing is extracted, but each is reconciled with what is known."""
        scope = self._scope(user_id, agent_id, run_id)
        return await self._engine.write.add_facts(requests.read_texts(facts, "facts"), scope, check_metadata(metadata))

    async def update(self, id: str, text: str, *, metadata: dict[str, Any] | None = None) -> MemoryItem:
        """Overwrite a memory's text; the id stays, metadata is merged, the old text stays as a version."""
        memory_id = requests.read_memory_id(id)
        new_text = requests.read_text(text, "text")
        return await self._engine.revise.update(memory_id, new_text, check_metadata(metadata), self._walls)

    async def delete(self, id: str, *, erase: bool = False) -> None:
        """Remove a memory from every read of the present; with `erase` from history and versions too, like `forget`."""
        memory_id = requests.read_memory_id(id)
        if requests.read_flag(erase, "erase"):
            if await self._engine.read.get(memory_id, self._walls) is None:
                raise NotFoundError(f"there is no memory with the id {id!r}")
            await self.forget(id=memory_id)
        else:
            await self._engine.revise.delete(memory_id, self._walls)

    async def delete_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        erase: bool = False,
    ) -> None:
        """Remove every memory of a scope; with `erase` as `forget` does."""
        scope = self._scope(user_id, agent_id, run_id)
        if requests.read_flag(erase, "erase"):
            await self.forget(user_id=user_id, agent_id=agent_id, run_id=run_id)
        else:
            await self._engine.revise.delete_all(scope, self._walls)

    async def forget(
        self,
        *,
        id: str | None = None,
        query: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        threshold: float = 0.75,
        erase: bool = True,
        dry_run: bool = False,
    ) -> ErasureReport:
        """Forget one memory, what a query finds in a scope at a score of `threshold`, or all of a scope.

        The messages that a forgotten fact came from go whole, with its versions and history values; the report names
        each place. `dry_run` only says what would go; `erase=False` deletes so that `undo` can bring it back.
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
        """Say what a memory is worth: positive, negative or very_negative; None takes back what was said.

        The last verdict counts. It adds .25, -.25 or -.5 to the importance, within [0, 1], by which a memory lasts
        longer or shorter before it is pruned, and stands in the metadata as `feedback` and `feedback_reason`.
        """
        memory_id, told = requests.read_memory_id(id), read_verdict(verdict)
        return await self._engine.chores.feedback(memory_id, told, reason, self._walls)

    async def undo(self, event_id: str) -> AddResult:
        """Take back one event, named by its history record's `id`; ConflictError where a later one built on it."""
        return await self._engine.revise.undo(requests.read_text(event_id, "event_id"), self._walls)

    async def rollback(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        to: Moment,
    ) -> AddResult:
        """Bring a scope back to how it stood at a moment of the clock, by inverse events; erased text stays gone."""
        scope = self._scope(user_id, agent_id, run_id)
        return await self._engine.revise.rollback(scope, parse_moment(to, "to"))

    async def reset(self) -> None:
        """Clear all memories, history, episodes and journal of this memory; ForbiddenError behind walls."""
        if self._walls != OPEN:
            raise ForbiddenError("reset clears what lies outside of these walls too: use delete_all or forget")
        await self._engine.reset()

    # ------------------------------------------------------------------ reading
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
    ) -> SearchResult:
        """The memories that answer a query, best first.

        `threshold` is the least `score` in [0, 1]; `types` keeps only those types; `history` lends its key words to a
        query that cannot stand alone; `as_of` reads what had been told by then; `include_past` adds what is no longer
        valid; `preset` names the steps; `rerank` lets the configured reranker order what was found; `explain` tells how
        each score came about; `hydrate` brings the messages behind each memory; `reference_time` is the now of "last
        week" in the query, and `time_window` a (start, end) that is asked about instead.
        """
        request = search_requests.read_query(
            self._engine.kernel,
            query,
            self._scope(user_id, agent_id, run_id),
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
        )
        return await self._engine.read.search(request)

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
        """Why `search` with the same arguments does not give a memory: the first step that it did not pass."""
        request = search_requests.read_query(
            self._engine.kernel,
            query,
            self._scope(user_id, agent_id, run_id),
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
        return await self._engine.why_not(requests.read_memory_id(id), request)

    async def get(self, id: str) -> MemoryItem | None:
        """The memory with this id, or None."""
        try:
            memory_id = requests.read_memory_id(id)
        except NotFoundError:
            return None
        return await self._engine.read.get(memory_id, self._walls)

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
    ) -> ListResult:
        """A page of a scope's memories, oldest first; `next_cursor` of one page is the `cursor` of the next."""
        return await self._engine.read.get_all(
            self._scope(user_id, agent_id, run_id),
            limit=requests.read_limit(limit),
            filters=parse_filter(filters),
            cursor=cursor,
            as_of=None if as_of is None else parse_moment(as_of, "as_of"),
            include_past=requests.read_flag(include_past, "include_past"),
        )

    async def history(self, id: str) -> list[HistoryRecord]:
        """Everything that happened to a memory, oldest first; empty for an id that never was."""
        try:
            memory_id = requests.read_memory_id(id)
        except NotFoundError:
            return []
        return await self._engine.read.history(memory_id, self._walls)

    async def context(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        max_tokens: int = 2000,
    ) -> str:
        """What is remembered of a query as a block for a prompt: quoted data, delimited, within `max_tokens`."""
        scope = self._scope(user_id, agent_id, run_id)
        request = search_requests.read_query(self._engine.kernel, query, scope, limit=CONTEXT_CANDIDATES)
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
        """How well `search` finds what is held: at most `probes` questions made from the memories themselves.

        Without a scope each memory is asked for in its own. Only reads, and needs no language model.
        """
        request = read_bench(
            self._engine.kernel,
            scope=inside(self._walls, Scope(user_id=user_id, agent_id=agent_id, run_id=run_id)),
            probes=probes,
            preset=preset,
            limit=limit,
        )
        return await self._engine.bench(request)
