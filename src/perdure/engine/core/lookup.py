"""Look up memories and rows: by id inside the access scope, page by page, and rows that belong to other memories."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from perdure.backends.ledgers.base import read_cursor
from perdure.domain.errors import InvalidInputError, NotFoundError
from perdure.domain.event import ListResult
from perdure.domain.filter import Condition, Or, all_of, eq, matches, scope_filter
from perdure.domain.memory import LIVE, VERSION, Deleted, MemoryItem
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.engine.aio.calls import guarded
from perdure.engine.core.access import UNRESTRICTED, is_inside, reaches, records_inside, scope_of, scoped, visible

if TYPE_CHECKING:
    from perdure.backends.ledgers.base import Ledger
    from perdure.backends.vector_stores.base import Hit, Point, Vector
    from perdure.domain.event import Change, Episode, HistoryRecord
    from perdure.domain.filter import Filter
    from perdure.engine.core.kernel import Kernel
    from perdure.engine.read.access_counts import AccessCounts

SESSION = "session"  # the source of summaries of a whole session, which no later fact overwrites
ERASER = "forget"  # the actor of what `forget` deletes, and erases then unless its history is to stay
CURATORS = frozenset({"add", "add_facts", "gateway", "repair"})
"""Actors of changes that follow from what was told."""
RETOLD = 50
"""Messages nearest to a deleted memory that are looked at for it, by meaning and by words."""
AT_A_TIME = 500  # ids in one filter, and rows of a page


# The imports inside functions bring the rules of ranking: a list of memories must not wait for them.


class Lookup:
    """Returns single memories, pages of them, and their history, without ranking any."""

    def __init__(self, kernel: Kernel, accesses: AccessCounts) -> None:
        self._kernel = kernel
        self.access_counts = accesses

    @guarded
    async def get(self, id: str, walls: Scope = UNRESTRICTED) -> MemoryItem | None:
        """Return the current memory with this id, or None, also if it is outside the access scope."""
        kernel = self._kernel
        found = await kernel.store.payloads(kernel.collection, [id])
        if not found:
            return None
        item = MemoryItem.from_payload(found[0].payload)
        return self.access_counts.counted(item) if item.state == LIVE and is_inside(walls, item) else None

    @guarded
    async def get_all(
        self,
        scope: Scope,
        *,
        limit: int,
        filters: Filter | None,
        cursor: str | None,
        as_of: datetime | None,
        include_past: bool,
        kinds: tuple[str, ...] = ("facts",),
        deleted: bool = False,
    ) -> ListResult:
        """Return a page of the scope's memories, oldest first by (created_at, id); of deleted ones the last first."""
        kernel = self._kernel
        if deleted:
            if as_of is not None:
                raise InvalidInputError("deleted memories are listed as of now: leave as_of out", field="as_of")
            wanted = all_of(Condition("kind", "in", kinds), filters)
            return await _deleted_page(kernel, scope, wanted, limit, cursor)
        within = visible(
            scope, now=kernel.clock.now(), kinds=kinds, as_of=as_of, include_past=include_past, filters=filters
        )
        page = await kernel.store.list(kernel.collection, within, limit, cursor)
        return ListResult(
            [self.access_counts.counted(as_shown(point.payload)) for point in page.points], page.next_cursor
        )

    @guarded
    async def history(self, id: str, walls: Scope = UNRESTRICTED) -> list[HistoryRecord]:
        """Return every event of the memory, and of its line of replacements, oldest first."""
        return records_inside(walls, await self._kernel.history(id))


# Deleted memories, as the ledger knows them: what `undo` brings back. Of what was erased it keeps no text.


async def _deleted_page(kernel: Kernel, scope: Scope, wanted: Filter, limit: int, cursor: str | None) -> ListResult:
    ledger, before = kernel.history_ledger(), None if cursor is None else read_cursor(cursor)
    found: list[tuple[HistoryRecord, MemoryItem]] = []
    while len(found) <= limit:
        page = await ledger.deletions(scope, AT_A_TIME, before)
        items = await _deleted_items(kernel, ledger, scope, page)
        found += [(record, item) for record, item in items if matches(wanted, item.to_payload())]
        if len(page) < AT_A_TIME:
            break
        before = page[-1].timestamp, page[-1].sequence
    last = found[limit - 1][0] if len(found) > limit else None
    next_cursor = None if last is None else f"{last.timestamp}|{last.sequence}"
    return ListResult([item for _, item in found[:limit]], next_cursor)


async def _deleted_items(
    kernel: Kernel, ledger: Ledger, scope: Scope, records: Sequence[HistoryRecord]
) -> list[tuple[HistoryRecord, MemoryItem]]:
    """Return the memories that these records deleted, without those that stand in the store."""
    records = [record for record in records if reaches(scope, scope_of(record))]
    standing = {row.id for row in await kernel.store.get_many(kernel.collection, [each.memory_id for each in records])}
    changes = await ledger.events([record.id for record in records])
    sources = [id for change in changes.values() for id in change.sources]
    messages = {each.id: each for each in await ledger.get_episodes(list(dict.fromkeys(sources)))}
    found: list[tuple[HistoryRecord, MemoryItem]] = []
    for record in records:
        change = changes.get(record.id)
        if record.memory_id in standing or (record.actor == ERASER and change is not None and change.keep is None):
            continue  # a deletion without a version begins an erasure
        said = [messages[id] for id in (change.sources if change else ()) if id in messages]
        deleted = Deleted(
            at=record.timestamp,
            told_at=record.told_at,
            actor=record.actor,
            reason=record.reason,
            said="\n".join(each.content for each in said if reaches(scope, Scope(**each.scope))) or None,
            event_id=None if change is None else record.id,
        )
        item = await _imported(ledger, record) if change is None else change.item
        found.append((record, item.with_(deleted=deleted)))
    return found


async def _imported(ledger: Ledger, record: HistoryRecord) -> MemoryItem:
    """Return what is known of a deleted memory whose history came without its contents."""
    first, *_ = [*await ledger.history(record.memory_id), record]
    return MemoryItem.new(record.memory_id, record.old_value or "", scope_of(record), first.timestamp)


def as_shown(payload: dict[str, Any], score: float | None = None, similarity: float | None = None) -> MemoryItem:
    """Build the returned item: an earlier version has the id of its memory."""
    item = MemoryItem.from_payload(payload, score=score, similarity=similarity)
    return item if item.version_of is None else item.with_(id=item.version_of)


async def live_row(kernel: Kernel, id: str, walls: Scope) -> tuple[MemoryItem, Point]:
    """Return the current memory with this id, and its row; NotFoundError if the access scope has none."""
    row = await kernel.store.get(kernel.collection, id)
    item = None if row is None else MemoryItem.from_payload(row.payload)
    if row is None or item is None or item.state != LIVE or not is_inside(walls, item):
        raise NotFoundError(f"there is no memory with the id {id!r}")
    return item, row


async def scan(
    kernel: Kernel, within: Filter, *, page: int = AT_A_TIME, with_vectors: bool = False
) -> AsyncIterator[list[Point]]:
    """Yield the rows that match a filter, oldest first, a page at a time."""
    cursor: str | None = None
    while True:
        found = await kernel.store.list(kernel.collection, within, page, cursor, with_vectors=with_vectors)
        if found.points:
            yield found.points
        cursor = found.next_cursor
        if cursor is None:
            return


async def scan_episodes(
    ledger: Ledger | None, scope: Scope, *, page: int = AT_A_TIME, include_hidden: bool = False
) -> AsyncIterator[list[Episode]]:
    """Yield the messages of a scope, oldest first, a page at a time; none without a ledger."""
    cursor: str | None = None
    while ledger is not None:
        found = await ledger.list_episodes(scope, page, cursor, include_hidden=include_hidden)
        if found.episodes:
            yield found.episodes
        cursor = found.next_cursor
        if cursor is None:
            return


async def derived_from(kernel: Kernel, ids: Iterable[str], scopes: Iterable[Scope], walls: Scope) -> list[Point]:
    """Return the rows, versions too, that name one of the memories in `derived_from`, inside the access scope.

    `scopes` are those of the memories. A derived memory shares at least one field of their scopes: an insight of a user
    may come from memories of one of their projects.
    """
    return await _naming(kernel, "derived_from", ids, scopes, walls)


async def fragments_of(kernel: Kernel, ids: Iterable[str], walls: Scope) -> list[Point]:
    """Return the rows inside the access scope that are fragments of these documents."""
    stated = Condition("unique", "in", (True, False))  # only an agent's runtime sets the flag
    found: list[Point] = []
    for some in _some(list(ids)):
        within = all_of(scope_filter(walls), eq("state", LIVE), stated, Condition("derived_from", "in", some))
        found += (await kernel.store.list(kernel.collection, within, with_vectors=True)).points
    return [row for row in found if reaches(walls, MemoryItem.from_payload(row.payload).scope)]


async def cut_from(kernel: Kernel, items: Iterable[MemoryItem], walls: Scope) -> list[Point]:
    """Return the fragments of the documents among the memories: their own agent's, inside the access scope."""
    of_agent: dict[str | None, list[str]] = {}
    for item in items:
        if item.meta_type == "document":
            of_agent.setdefault(item.scope.agent_id, []).append(item.id)
    found: list[Point] = []
    for agent, ids in of_agent.items():
        found += await fragments_of(kernel, ids, scoped(walls, Scope(agent_id=agent)))
    return found


async def summaries_of(kernel: Kernel, items: Sequence[MemoryItem], walls: Scope) -> list[Point]:
    """Return the live summaries of the memories' sessions inside the access scope, which repeat their text."""
    rows = await _naming(
        kernel, "derived_from", [item.id for item in items], [item.scope for item in items], walls,
        eq("state", LIVE), eq("source", SESSION),
    )  # fmt: skip
    return list({row.id: row for row in rows}.values())


async def taken_in_by(kernel: Kernel, ids: Iterable[str], scopes: Iterable[Scope], walls: Scope) -> list[str]:
    """Return the memories that these replaced and that were not restored since, inside the access scope."""
    rows = await _naming(kernel, "replaced_by", ids, scopes, walls, eq("state", VERSION))
    replaced = list(dict.fromkeys(str(row.payload["version_of"]) for row in rows if "version_of" in row.payload))
    standing = {row.id for row in await kernel.store.get_many(kernel.collection, replaced)}
    return [id for id in replaced if id not in standing]


async def kept_hidden(
    kernel: Kernel, messages: Collection[str], restored: Collection[str], scopes: Iterable[Scope], walls: Scope
) -> set[str]:
    """Return those of these messages that the deletion of another memory hides too, inside the access scope.

    `restored` are memories that come back at the same time.
    """
    deletions = await _deletions(kernel, messages, scopes, walls)
    hidden = {id for memory_id, (change, _) in deletions.items() if memory_id not in restored for id in change.hides}
    return hidden.intersection(messages)


async def retellings(kernel: Kernel, item: MemoryItem, vector: Vector | None) -> tuple[str, ...]:
    """Return the searched messages of a memory's scope that tell it again: an answer, or the same said once more.

    They are looked for among those nearest in meaning and in words.
    """
    if item.is_said or not kernel.config.searches_messages:
        return ()
    from perdure.pipeline.retrieval.rescoring import tells_again, topics

    within = all_of(scope_filter(item.scope), eq("state", LIVE), eq("kind", "messages"))
    hits: dict[str, Hit] = {}
    if vector is not None:
        hits.update((hit.id, hit) for hit in await kernel.store.search(kernel.collection, vector, RETOLD, within))
    for hit in await kernel.store.keyword_search(kernel.collection, item.memory, RETOLD, within) or ():
        hits.setdefault(hit.id, hit)
    told = topics(item.memory)
    return tuple(id for id, hit in hits.items() if tells_again(told, topics(str(hit.payload["memory"]))))


async def told_in_words(kernel: Kernel, scope: Scope, matter: str, language: str, vector: Vector | None) -> set[str]:
    """Return the user's searched messages, but questions, that hold each topic word of a matter in another language."""
    if not kernel.config.searches_messages:
        return set()
    from perdure.pipeline.retrieval.words import holds_topic

    within = all_of(scope_filter(scope), eq("state", LIVE), eq("kind", "messages"), eq("role", "user"))
    hits = list(await kernel.store.keyword_search(kernel.collection, matter, RETOLD, within) or ())
    if vector is not None:
        hits += await kernel.store.search(kernel.collection, vector, RETOLD, within)
    told = {hit.id: str(hit.payload["memory"]).strip() for hit in hits}
    return {id for id, text in told.items() if not text.endswith("?") and holds_topic(matter, text, language)}


async def tell_what_is_deleted(kernel: Kernel, episodes: Sequence[Episode]) -> set[str]:
    """Return those of these messages that tell a deleted memory, unless later messages ended it.

    The deletion may have left them in sight, since messages were not searched then.
    """
    from perdure.pipeline.retrieval.rescoring import tells_again, topics

    deletions = await _deletions(kernel, {episode.id for episode in episodes}, [Scope()], UNRESTRICTED)
    unwanted = [(change, ids) for change, ids in deletions.values() if change.actor not in CURATORS or change.hides]
    found = {id for _, ids in unwanted for id in ids}.intersection(episode.id for episode in episodes)
    gone = [(change.item.scope, topics(change.item.memory)) for change, _ in unwanted]
    for episode in episodes if gone else ():
        scope, told = Scope(**episode.scope), topics(episode.content)
        if any(walls.holds(scope) and tells_again(memory, told) for walls, memory in gone):
            found.add(episode.id)
    return found


async def _deletions(
    kernel: Kernel, messages: Collection[str], scopes: Iterable[Scope], walls: Scope
) -> dict[str, tuple[Change, set[str]]]:
    """Return the last deletion of each deleted memory that names one of the messages, with all that it named."""
    if not messages or kernel.ledger is None:
        return {}
    named: dict[str, set[str]] = {}
    for row in await _naming(kernel, "sources", messages, scopes, walls, eq("state", VERSION)):
        if "version_of" in row.payload:
            named.setdefault(str(row.payload["version_of"]), set()).update(row.payload["sources"])
    standing = {row.id for row in await kernel.store.get_many(kernel.collection, list(named))}
    found: dict[str, tuple[Change, set[str]]] = {}
    for id, sources in named.items():
        if id in standing:
            continue
        deleted = [record for record in await kernel.ledger.history(id) if record.event == "DELETE"]
        change = await kernel.ledger.event(deleted[-1].id) if deleted else None
        if change is not None:
            found[id] = (change, sources)
    return found


async def _naming(
    kernel: Kernel, field: str, ids: Iterable[str], scopes: Iterable[Scope], walls: Scope, *more: Filter
) -> list[Point]:
    near = _near(scopes)
    found: list[Point] = []
    for some in _some(list(ids)):
        page = await kernel.store.list(
            kernel.collection, all_of(near, Condition(field, "in", some), *more), with_vectors=True
        )
        found += [row for row in page.points if reaches(walls, MemoryItem.from_payload(row.payload).scope)]
    return found


def _near(scopes: Iterable[Scope]) -> Filter | None:
    """Return the filter for rows that share a scope field with one of the scopes; None (any) for an empty scope."""
    values: dict[str, dict[str, None]] = {}
    for scope in scopes:
        if not scope.given():
            return None
        for name, value in scope.given().items():
            values.setdefault(name, {})[value] = None
    parts: list[Filter] = [Condition(name, "in", tuple(values[name])) for name in SCOPE_FIELDS if name in values]
    return Or(tuple(parts)) if parts else None


def _some(ids: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(ids), AT_A_TIME):
        yield tuple(ids[start : start + AT_A_TIME])
