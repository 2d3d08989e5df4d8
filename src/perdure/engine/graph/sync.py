"""The graph store of one engine, and the jobs that keep it in step with the memories."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from perdure.backends.graphs.base import GraphStore
from perdure.backends.ledgers.repositories.base import Jobs
from perdure.backends.llms.base import LLM
from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import iso
from perdure.domain.errors import GraphDownError, LLMError, PerdureError
from perdure.domain.event import Change
from perdure.domain.filter import all_of, eq, scope_filter
from perdure.domain.graph import Entity, Mention, Relation, Statement, entity_key
from perdure.domain.job import Job
from perdure.domain.memory import LIVE, VERSION, MemoryItem, new_id
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade, never_fail, shielded
from perdure.engine.aio.worker import Worker, is_ending
from perdure.engine.core.kernel import Kernel
from perdure.engine.graph import jobs as job_queue
from perdure.pipeline.curation.rules.relations.model import choose, read_with_model
from perdure.pipeline.curation.rules.relations.names import read_mentions, resolve
from perdure.pipeline.curation.rules.relations.roles import slot_of
from perdure.pipeline.curation.rules.relations.rules import USER, read_relations

# Entity resolution: map a name in a memory to the scope's known entity (deterministic first).

Read = tuple[tuple[Mention, ...], tuple[Relation, ...]]  # the mentions and relations of a memory
CANDIDATES = 5  # known entities shown to a model for one name
MOST_ASKED = 8  # maximum names of one memory that a model resolves
LOOKED_AT = 20  # memories of a known entity that are examined


class EntityResolver:
    """Resolves names against entities of the memory's own scope that all its readers may know."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def __call__(self, graph: GraphStore, item: MemoryItem, read: Read, llm: LLM | None) -> Read:
        """Return the mentions and relations with known names; `llm` resolves names that rules leave open."""
        mentions, relations = read
        types = {each.name: each.type for each in reversed(mentions)}
        for relation in relations:
            types.setdefault(relation.source, "")
            types.setdefault(relation.target, "")
        known: dict[str, str] = {}
        asked = 0
        for name, type in types.items():
            if name == USER:
                continue
            near = await graph.similar_names(item.scope, name)
            others = [entity for entity in near if entity.memory_ids != (item.id,)]
            candidates = [entity for entity in others if item.tags is None or await self._is_common(entity, item)]
            found = resolve(name, type, candidates)
            if found is None and candidates and llm is not None and asked < MOST_ASKED:
                asked += 1
                found = await choose(llm, name, item.memory, candidates[:CANDIDATES])
            if found is not None and entity_key(found) != entity_key(name):
                known[name] = found
        return (
            tuple(dict.fromkeys(replace(each, name=known.get(each.name, each.name)) for each in mentions)),
            tuple(dict.fromkeys(_renamed(each, known) for each in relations)),
        )

    async def _is_common(self, entity: Entity, item: MemoryItem) -> bool:
        """Whether all readers of a team's memory may read one that mentions the entity: else its name would leak."""
        kernel = self._kernel
        rows = await kernel.store.get_many(kernel.collection, entity.memory_ids[:LOOKED_AT])
        return any(_is_wider(MemoryItem.from_payload(row.payload), item) for row in rows)


def _is_wider(known: MemoryItem, item: MemoryItem) -> bool:
    """Whether all readers of another memory may read an existing one."""
    if known.state != LIVE or known.tags is None or item.tags is None:
        return False
    if known.tags.visibility == "team":
        return True
    same_project = known.scope.project_id == item.scope.project_id
    if known.tags.visibility == "project":
        return item.tags.visibility == "project" and same_project
    return item.tags.visibility == "private" and known.tags.written_by == item.tags.written_by


def _renamed(relation: Relation, known: Mapping[str, str]) -> Relation:
    source, target = known.get(relation.source, relation.source), known.get(relation.target, relation.target)
    if (source, target) == (relation.source, relation.target):
        return relation
    slot = slot_of(relation.relation, source, target) if relation.slot is not None else None
    return replace(relation, source=source, target=target, slot=slot)


# Extraction: the statements of a memory, by the caller's own list, by rules, or by the configured model.


class StatementReader:
    """Extracts the statements of one engine's memories."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._resolving = EntityResolver(kernel)

    @property
    def is_quick(self) -> bool:
        """Whether no language model is called."""
        return self._kernel.llm is None or self._kernel.config.chosen_curator != "llm"

    def is_due(self, item: MemoryItem) -> bool:
        """Whether the graph must contain something of a memory; for a model that is unknown."""
        return bool(listed(item) or (self.is_quick and any(_by_rules(item))))

    def listed(self, item: MemoryItem) -> Statement:
        """Return the statement of the caller's own list of entities."""
        return _statement(item, job_queue.ENTITIES, listed(item), ())

    async def told(self, graph: GraphStore, item: MemoryItem) -> Statement:
        """Return the statement of the text, limited to its validity."""
        llm = None if self.is_quick else self._kernel.llm
        read = _by_rules(item) if llm is None else await read_with_model(llm, item.memory, told_at=item.told_at)
        mentions, relations = await self._resolving(graph, item, read, llm)
        return _statement(
            item, job_queue.TEMPORAL, mentions, tuple(_bounded(each, item.valid_to) for each in relations)
        )

    def until(self, item: MemoryItem, end: str) -> list[Relation]:
        """Return what an earlier text stated, by rules, from its own time until a given time."""
        start = item.valid_from or item.told_at
        return [
            _bounded(replace(each, valid_from=each.valid_from or start), end)
            for each in _by_rules(item)[1]
            if each.polarity and (each.valid_from or start) < end
        ]


def listed(item: MemoryItem) -> tuple[Mention, ...]:
    """Return the entities in the metadata; names that no graph can store are left out."""
    return tuple(mention for mention in read_mentions(item.metadata.get("entities")) if _can_be_held(mention))


def _can_be_held(mention: Mention) -> bool:
    return bool(mention.key) and not any("\x00" in part for part in (mention.name, mention.type, mention.description))


def _by_rules(item: MemoryItem) -> Read:
    me = item.speaker or ("Assistant" if item.role == "assistant" else None)
    return read_relations(item.memory, told_at=item.told_at, speaker=me, about=item.scope.project_id)


def _bounded(relation: Relation, end: str | None) -> Relation:
    if end is None or (relation.valid_to is not None and relation.valid_to <= end):
        return relation
    return replace(relation, valid_to=end)


def _statement(item: MemoryItem, by: str, mentions: tuple[Mention, ...], relations: tuple[Relation, ...]) -> Statement:
    return Statement(
        memory_id=item.id, by=by, scope=item.scope, told_at=item.told_at, mentions=mentions, relations=relations
    )


# Reconciliation: a job reads its memory's current state and updates the graph to match.
#
# Whatever the order and number of runs, the graph ends in the state of the memories.


class Reconciliation:
    """Runs jobs, one at a time."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._reading = StatementReader(kernel)

    @property
    def is_quick(self) -> bool:
        """Whether no language model is called."""
        return self._reading.is_quick

    async def __call__(self, graph: GraphStore, job: Job) -> None:
        """Update the graph from one memory; fails as graph, store and model do, and may be repeated."""
        kind = job_queue.JobKinds.bare(job.kind)
        item = None if kind == job_queue.ERASE else await self._present(job.memory_id)
        moment = str(job.payload.get("at") or iso(self._kernel.clock.now()))
        if item is None:
            await self._leave(graph, job.memory_id, moment)
            return
        await graph.state(await self._statement(graph, kind, item), max(moment, item.told_at))
        if await self._present(job.memory_id) is None:
            # It was erased meanwhile, and the erasure may have run on the graph before this write.
            await self._leave(graph, job.memory_id, moment)

    async def _present(self, id: str) -> MemoryItem | None:
        kernel = self._kernel
        point = await kernel.store.get(kernel.collection, id)
        item = None if point is None else MemoryItem.from_payload(point.payload)
        if item is None or item.state != LIVE or item.kind != "facts":
            return None
        return None if item.expires_at and item.expires_at <= iso(kernel.clock.now()) else item

    async def _leave(self, graph: GraphStore, id: str, moment: str) -> None:
        """Withdraw a deleted memory's statements, or remove them if nothing keeps its text."""
        if await self._earlier(id) or await self._present_row(id):
            await graph.take_back([id], moment)
        else:
            await graph.erase([id])

    async def _present_row(self, id: str) -> bool:
        return await self._kernel.store.get(self._kernel.collection, id) is not None

    async def _earlier(self, id: str) -> list[Point]:
        kernel = self._kernel
        return (await kernel.store.list(kernel.collection, eq("version_of", id))).points

    async def _statement(self, graph: GraphStore, kind: str, item: MemoryItem) -> Statement:
        if kind == job_queue.ENTITIES:
            return self._reading.listed(item)
        read = await self._reading.told(graph, item)
        present = {_pair(relation) for relation in read.relations}
        past = [relation for relation in await self._outlived(item) if _pair(relation) not in present]
        return replace(read, relations=tuple(dict.fromkeys((*read.relations, *past))))

    async def _outlived(self, item: MemoryItem) -> list[Relation]:
        """Return the statements of earlier texts until they were replaced by a change in the world.

        An `add` that updates a memory says from when the new text holds; a corrected text, or an undone update, never
        held.
        """
        if item.version == 1:
            return []
        line = sorted((MemoryItem.from_payload(row.payload) for row in await self._line(item)), key=_version)
        found: list[Relation] = []
        for earlier, following in zip(line, [*line[1:], item], strict=True):
            end = following.valid_from
            if end is not None and end > (earlier.valid_from or earlier.told_at):
                found += self._reading.until(earlier, end)
        return found

    async def _line(self, item: MemoryItem) -> list[Point]:
        """Return the earlier texts of a memory, under any id it had."""
        if item.lineage_id is None:
            return await self._earlier(item.id)
        kernel = self._kernel
        line = all_of(scope_filter(item.scope), eq("lineage_id", item.lineage_id), eq("state", VERSION))
        return (await kernel.store.list(kernel.collection, line)).points


def _pair(relation: Relation) -> tuple[str, str, str]:
    return relation.source_key, relation.relation, relation.target_key


def _version(item: MemoryItem) -> int:
    return item.version


logger = logging.getLogger("perdure")
AT_A_TIME = 16  # jobs taken in one go
LANES = 4  # workers if a model reads the texts: one that hangs delays only its own scope
IDLE = 30.0  # seconds after which the worker checks for work that a dead process has left
BUSY = 0.05  # seconds until the next check while another process runs the due jobs
MOST_SETTLED = 200  # maximum jobs that a read runs itself before it answers
SETTLE_SECONDS = 10.0  # seconds after which a read answers, whatever is still running
QUICK_SETTLE_SECONDS = 0.5  # the same for a search
_FIRST_LOOK = 0.001
_SLOWEST_LOOK = 0.02
_PASSING = ("rate_limit", "timeout", "server", "connection", "authentication")
"""Error codes of a model that do not concern the text."""


class GraphSync:
    """Updates a graph from the changes of one kernel; nothing here ever fails a write."""

    def __init__(self, kernel: Kernel, fresh: Callable[[], GraphStore]) -> None:
        self._kernel = kernel
        self._fresh = fresh
        self._store = fresh()
        self._conforming = Reconciliation(kernel)
        self._workers = [Worker(self._work) for _ in range(1 if self.is_quick else LANES)]
        self._under_way: dict[str, Job] = {}
        self._taking: set[object] = set()
        self._at_work: dict[str, Scope] = {}
        self._pauses = 0
        self._batch = AT_A_TIME if self.is_quick else 1

    async def store(self) -> GraphStore:
        """The open graph; GraphDownError if it cannot be reached."""
        await self._store.open()
        return self._store

    @property
    def kinds(self) -> job_queue.JobKinds:
        """The kinds of this store's jobs."""
        return job_queue.JobKinds(self._kernel.identity, self._kernel.config.vector_store.collection_name)

    @property
    def queue(self) -> Jobs | None:
        """The ledger's queue; None without a ledger."""
        return None if self._kernel.ledger is None else self._kernel.ledger.jobs

    @property
    def is_quick(self) -> bool:
        """Whether the work needs no language model, so that a search may wait for it."""
        return self._conforming.is_quick

    def jobs(self, changes: Sequence[Change]) -> list[Job]:
        """Return the jobs of these changes, for the ledger to store with them."""
        return self.kinds.of_changes(changes)

    async def at_once(self, changes: Sequence[Change], warnings: list[str]) -> None:
        """Update the graph now if there is no ledger; a graph that fails falls behind."""
        what = "the graph does not follow this change"
        for job in self.kinds.of_changes(changes):
            with never_fail(what, warnings), degrade(what, warnings):
                await self.do_now([job])

    async def do_now(self, jobs: Sequence[Job]) -> None:
        """Run jobs that no queue holds."""
        for job in jobs:
            await self._conforming(await self.store(), job)

    async def arrived(self, items: Sequence[MemoryItem]) -> None:
        """Enqueue imported memories; failures are left to the doctor."""
        jobs, what = self.kinds.of_items(items, new_id()), "the graph does not hold what was imported"
        with degrade(what):
            if self.queue is not None:
                await self.queue.add(jobs)
                self.wake()
            else:
                await self.do_now(jobs)

    def wake(self) -> None:
        """Wake the worker: there may be work."""
        if self._kernel.ledger is not None:
            for worker in self._workers:
                worker.wake()

    async def close(self) -> None:
        """Stop the worker, leave unfinished jobs to the next process, and close the graph."""
        for worker in self._workers:
            await worker.stop()
        with degrade("the graph could not be closed"):
            await self._store.close()

    def forsake(self) -> None:
        """Start afresh after a fork, and leave open connections to the parent."""
        _LEFT_TO_THE_PARENT.append(self._store)
        self._store = self._fresh()
        for worker in self._workers:
            worker.reset()
        self._under_way.clear()
        self._taking.clear()
        self._at_work.clear()

    async def _work(self) -> float:
        """Run some due jobs; return the seconds until there may be more."""
        queue = self.queue
        if queue is None:
            return IDLE
        try:
            taken = await self._take(queue, self._batch)
            if taken:
                await self._do(queue, taken)
                return 0.0
            due = await queue.next_due(self.kinds.all)
        except PerdureError as error:  # the ledger is locked or full: writers get its errors
            if is_ending(error):
                raise
            logger.warning("the graph's jobs wait: %s", error.message)
            return job_queue.pause_after(3)
        return IDLE if due is None else min(IDLE, max(BUSY, job_queue.seconds_until(due)))

    async def settle(self, scope: Scope) -> None:
        """Run the due jobs of a scope, or wait for them, so that a read sees earlier writes; within limits."""
        await self._settle_within(scope, MOST_SETTLED, SETTLE_SECONDS, others=True)

    async def settle_quickly(self, scope: Scope) -> int:
        """The same for a search, without waiting for a model or many jobs; return how many of the scope's are left."""
        queue = self.queue
        if queue is None:
            return 0
        if self.is_quick:
            await self._settle_within(scope, MOST_SETTLED, QUICK_SETTLE_SECONDS, others=True)
        status = await queue.status(self.kinds.all, scope)
        return status.pending + status.processing

    async def _settle_within(self, scope: Scope, most: int, patience: float, *, others: bool) -> None:
        if self.queue is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._settle(self.queue, scope, most, others)

    async def _settle(self, queue: Jobs, scope: Scope, left: int, others: bool) -> None:
        look = _FIRST_LOOK
        while left > 0:
            is_busy = self._is_at(scope)
            taken = [] if is_busy else await self._take(queue, min(self._batch, left), scope)
            left -= len(taken)
            if taken:
                reached = False
                try:
                    reached = await self._do(queue, taken)
                finally:
                    if not reached:
                        self.wake()  # it may have found nothing due while these were taken, which are given back
                if not reached:
                    return
                continue
            is_busy = is_busy or self._is_at(scope)
            if not is_busy and others:  # another process may have taken these jobs
                is_busy = (await queue.status(self.kinds.all, scope)).processing > 0
            if not is_busy:
                return
            await asyncio.sleep(look)
            look = min(2 * look, _SLOWEST_LOOK)

    def _is_at(self, scope: Scope) -> bool:
        """Whether another task of this process runs jobs of a scope, or is about to."""
        return bool(self._taking) or any(scope.holds(job.scope) for job in list(self._under_way.values()))

    async def _take(self, queue: Jobs, limit: int, scope: Scope | None = None) -> list[Job]:
        """Take jobs; others see them as running from before they are taken until they are done."""
        mine = object()
        self._taking.add(mine)
        try:
            taken = await queue.take(self.kinds.all, limit, scope)
            self._under_way.update({job.id: job for job in taken})
        finally:
            self._taking.discard(mine)
        return taken

    async def _do(self, queue: Jobs, taken: Sequence[Job]) -> bool:
        """Run taken jobs in order; return whether the graph could be reached."""
        done: list[str] = []
        waiting = {job.id: job for job in taken}
        try:
            for job in taken:
                if any(worker.is_paused for worker in self._workers):
                    return True
                async with self._alone(job):
                    reached = await self._try(queue, job, waiting)
                if not reached:
                    return False
                if job.id in waiting:
                    done.append(job.id)
                    del waiting[job.id]
            return True
        finally:
            # A cancelled task still reports its finished jobs, and returns the others.
            await shielded(job_queue.hand_in(queue, done, list(waiting), "jobs of the graph will be done again"))
            for job in taken:
                self._under_way.pop(job.id, None)

    @asynccontextmanager
    async def _alone(self, job: Job) -> AsyncIterator[None]:
        """Run one at a time where scopes overlap, so that a name is resolved against earlier memories."""
        look = _FIRST_LOOK
        while any(scope.overlaps(job.scope) for scope in list(self._at_work.values())):
            await asyncio.sleep(look)
            look = min(2 * look, _SLOWEST_LOOK)
        self._at_work[job.id] = job.scope
        try:
            yield
        finally:
            del self._at_work[job.id]

    async def _try(self, queue: Jobs, job: Job, waiting: dict[str, Job]) -> bool:
        """Run one job, and report a failure to the queue; False if nothing can be done for now."""
        try:
            await self._conforming(await self.store(), job)
        except Exception as error:  # whatever it is, it must not stop the jobs after it
            if is_ending(error):
                raise
            if isinstance(error, GraphDownError) or (isinstance(error, LLMError) and error.code in _PASSING):
                self._pauses += 1
                logger.warning("the graph's jobs wait: %s", job_queue.failure_line(error))
                await queue.give_back(list(waiting), not_before=job_queue.later(job_queue.pause_after(self._pauses)))
                waiting.clear()
                return False
            del waiting[job.id]
            park = job.attempts + 1 >= job_queue.PARKED_AFTER
            logger.warning(
                "a job %s of memory %s failed: %s",
                job_queue.JobKinds.bare(job.kind),
                job.memory_id,
                job_queue.failure_line(error),
            )
            pause = job_queue.pause_after(job.attempts + 1, job_queue.GROWTH)
            await queue.failed(job.id, job_queue.failure_line(error), not_before=job_queue.later(pause), park=park)
            return True
        self._pauses = 0
        return True


_LEFT_TO_THE_PARENT: list[GraphStore] = []  # graphs that a forked process must neither use nor close
