"""Forget memories: erase their text from every place, and report each place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from perdure.backends.ledgers.base import Ledger
from perdure.backends.markdown.base import FileStore
from perdure.backends.vector_stores.base import Point
from perdure.domain.event import Change, ErasedPlace, ErasureReport
from perdure.domain.filter import Condition, Filter, Or, all_of, eq, scope_filter
from perdure.domain.memory import LIVE, NOTES, VERSION, MemoryItem, new_id
from perdure.domain.scope import Scope, shared_walls
from perdure.engine.aio.calls import degrade, guarded, shielded
from perdure.engine.core.access import reaches
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import AT_A_TIME, ERASER, as_shown, derived_from, retellings, scan_episodes, taken_in_by
from perdure.engine.core.rows import version_of
from perdure.engine.graph.erase import GraphErasure, with_status
from perdure.engine.maintenance.last_events import history_pages
from perdure.engine.read.search import ReadPath
from perdure.engine.requests import ForgetRequest, Query
from perdure.engine.transfer.backup_erasure import erase_from_backups
from perdure.pipeline.curation.rules.extraction.cleaning import LANGUAGES, language_of
from perdure.pipeline.curation.rules.extraction.forget_requests import named_in
from perdure.pipeline.curation.rules.memo import forget_texts
from perdure.pipeline.retrieval.presets import PLAIN
from perdure.pipeline.retrieval.words import NEARER, Matter, has_possessor, is_told_of, shares_topic


@dataclass(slots=True)
class _Found:
    """The rows to erase, and related data."""

    rows: dict[str, Point] = field(default_factory=dict)
    memories: dict[str, None] = field(default_factory=dict)
    episodes: dict[str, None] = field(default_factory=dict)
    derived: dict[str, None] = field(default_factory=dict)
    """Memories that are erased because they were derived from the others; messages with other sources stay."""
    reasons: dict[str, str] = field(default_factory=dict)  # why each memory goes, as `ErasureReport` says it

    @property
    def live(self) -> list[MemoryItem]:
        items = (MemoryItem.from_payload(point.payload) for point in self.rows.values())
        return [item for item in items if item.state == LIVE]

    @property
    def versions(self) -> int:
        return len(self.rows) - len(self.live)


class Forget:
    """Erases memories, their versions and their source messages from every place."""

    def __init__(self, kernel: Kernel, read_path: ReadPath, graph: GraphErasure | None = None) -> None:
        self._kernel = kernel
        self._read_path = read_path
        self._graph = graph

    @guarded
    async def __call__(self, request: ForgetRequest) -> ErasureReport:
        """Forget what the request names; with `dry_run` only report it.

        LedgerError if the ledger cannot be opened, because its texts would come back later.
        """
        if request.dry_run:
            found = await self._find(request)
            return await self._report(found, request, await self._walls(found, request), dry_run=True)
        await self._kernel.required_ledger()
        found = await self._find(request)
        async with self._kernel.lock(await self._walls(found, request)):
            found = await self._find(request)  # again: others may have written before the lock was taken
            walls = await self._walls(found, request)
            report = await self._report(found, request, walls, dry_run=False)
            return await shielded(self._forget(found, request, walls, report))

    async def again(self, ids: Sequence[str]) -> None:
        """Erase these memories, which were forgotten before, on a kernel whose backends are open.

        A later memory that replaced one of them elsewhere stays: it has not been forgotten.
        """
        found, request = _Found(), ForgetRequest(scope=Scope(), id=ids[0])
        async with self._kernel.lock(Scope()):
            for start in range(0, len(ids), AT_A_TIME):
                some = tuple(ids[start : start + AT_A_TIME])
                of_these = Or((Condition("id", "in", some), Condition("version_of", "in", some)))
                self._note(found, await self._rows(of_these), "matched")
            await self._note_retellings(found)
            await self._note_derived(found, request)
            await self._note_messages(found)
            report = await self._report(found, request, Scope(), dry_run=False)
            await shielded(self._forget(found, request, Scope(), report))

    async def _forget(
        self, found: _Found, request: ForgetRequest, walls: Scope, report: ErasureReport
    ) -> ErasureReport:
        kernel = self._kernel
        await self._take_out(found, request)
        forget_texts()
        if not request.erase:
            return report
        in_graph = self._graph is None or await self._graph.erase(list(found.memories), request.whole)
        await kernel.sync()  # before the journal drops what the store has just deleted
        if kernel.ledger is not None:
            ids = list(found.memories), list(found.episodes)
            await kernel.ledger.erase(*ids, request.whole, cached_in=walls if any(ids) else None)
        if self._graph is not None and not in_graph:  # after the ledger has deleted these memories' jobs
            await self._graph.later(list(found.memories), walls)
        self._read_path.forget_copies()
        places = [
            with_status(place, ("erased" if in_graph else "pending")) if place.place == "graph" else place
            for place in report.places
        ]
        report = replace(report, places=places)
        report.places.extend(await self._in_backups(found, request, dry_run=False))
        return await self._scrub(report)

    async def _walls(self, found: _Found, request: ForgetRequest) -> Scope:
        """Return the scope to lock: shared by all affected memories, including memories of the same messages."""
        scopes = [] if request.id is not None else [request.scope]
        scopes += [MemoryItem.from_payload(point.payload).scope for point in found.rows.values()]
        return shared_walls([*scopes, *await self._scopes_of(found.episodes)])

    async def _scopes_of(self, episodes: Iterable[str]) -> list[Scope]:
        ledger = self._kernel.ledger
        known = await ledger.get_episodes(list(episodes)) if ledger is not None else []
        return list({Scope(**episode.scope): None for episode in known})

    async def _find(self, request: ForgetRequest) -> _Found:
        found = _Found()
        if request.id is not None:
            rows = await self._rows(await self._line(request.id))
            if all(reaches(request.scope, MemoryItem.from_payload(row.payload).scope) for row in rows):
                found.reasons |= {_memory_of(row): "matched" for row in rows if request.id in (row.id, _memory_of(row))}
                self._note(found, rows, "value")
                found.memories.setdefault(request.id, None)
        elif request.query is not None:
            await self._note_answers(found, request)
        elif request.types:
            await self._note_types(found, request)
        else:
            self._note(found, await self._rows(scope_filter(request.scope)), "matched")
        await self._note_taken_in(found, request)
        if request.whole is None:
            await self._note_retellings(found)
        if self._kernel.ledger is not None:
            await self._find_in_ledger(found, request, self._kernel.ledger)
        await self._note_derived(found, request)
        await self._note_messages(found)
        return found

    async def _note_messages(self, found: _Found) -> None:
        """Note the rows of the noted messages, if messages are searched."""
        if self._kernel.config.searches_messages:
            for point in await self._kernel.store.get_many(self._kernel.collection, list(found.episodes)):
                found.rows[point.id] = point
                found.reasons.setdefault(point.id, "message")
            if found.episodes and isinstance(self._kernel.store, FileStore):  # tombstones of messages
                of_these = Condition("version_of", "in", tuple(found.episodes))
                for row in await self._rows(all_of(eq("kind", "messages"), of_these)):
                    found.rows[row.id] = row
                    found.reasons.setdefault(_memory_of(row), "message")

    async def _note_answers(self, found: _Found, request: ForgetRequest) -> None:
        """Note the memories and messages that match; deleted ones too, which `as_of` and `history` still show.

        The packaged encoder reads English: to it, most German sentences resemble each other ("meine Adresse" scored
        .74 to .87 against five messages about other things), and "User lives in Leipzig" is as near to "meine Tochter".
        So a query in one of the languages whose function words are known takes only what shares a word with it, and
        facts that were read out of a sentence which does.
        """
        text = request.query or ""
        language = "" if has_possessor(text) else language_of(text)  # "Linus's son" is not the French "son"
        query = Query(
            text=text,
            scope=request.scope,
            threshold=request.threshold,
            include_past=True,
            limit=1000,
            related=False,
            messages=True,
            preset=PLAIN,  # each memory is scored by itself, not relative to the others
        )
        matter = Matter.of(text if language in LANGUAGES else named_in(text), language)
        for earlier in (False, True):
            named = await self._all_that_name(matter, request.scope, earlier)
            near = await self._all_that_score(replace(query, versions=earlier))
            if language in LANGUAGES:
                near = [item for item in near if shares_topic(text, item.memory, language)]
            else:
                near = await self._of_the_matter(matter, replace(query, versions=earlier), near, named)
            for item in (*named, *near):
                if item.id not in found.memories:
                    rows = await self._rows(await self._line(item.id))
                    if not earlier or all(row.payload.get("state") != LIVE for row in rows):
                        self._note(found, rows, "value")
                if item.id in found.memories:
                    found.reasons[item.id] = "matched"
        if language in LANGUAGES:
            await self._note_translated(found, request.scope, text, language)

    async def _all_that_name(self, matter: Matter, scope: Scope, earlier: bool) -> list[MemoryItem]:
        """Return the memories and messages that have every topic word, whatever they score."""
        kernel = self._kernel
        kinds = Condition("kind", "in", (*(("messages",) if kernel.config.searches_messages else ()), "facts", NOTES))
        within = all_of(scope_filter(scope), kinds, eq("state", VERSION if earlier else LIVE))
        asked, limit = " ".join(matter.words.values()), 1000
        hits = await kernel.store.keyword_search(kernel.collection, asked, limit, within) if asked else []
        while hits is not None and len(hits) == limit:
            limit *= 4
            hits = await kernel.store.keyword_search(kernel.collection, asked, limit, within)
        rows = await self._rows(within) if hits is None else hits  # a store without an index of words
        return [as_shown(row.payload) for row in rows if matter.stands_in(str(row.payload.get("memory", "")))]

    async def _of_the_matter(
        self, matter: Matter, query: Query, near: Sequence[MemoryItem], named: Sequence[MemoryItem]
    ) -> list[MemoryItem]:
        """Return of the memories that score enough those that are about the matter, not only about its owner.

        Every memory about Lena is near to "Lena's allergy". Of them those go that have the words of the topic too, or
        that are nearer to the whole query than to the name alone. Where some memory has all the words, and they are
        several, one that has not needs a clearly higher score; so does one that has not the owner's name, or another's.
        """
        matter = matter.owned(query.text, [item.memory for item in (*near, *named)])
        high = (1 + (query.threshold or 0.0)) / 2
        if not matter.owners:
            precise = bool(named) and len(matter.words) > 1
            return [item for item in near if not precise or (item.score or 0.0) >= high]
        about: list[MemoryItem] = []
        open_ones: list[MemoryItem] = []
        for item in near:
            if not matter.is_of_owner(item.memory):
                if (item.score or 0.0) >= high and matter.names_nobody_else(item.memory):
                    about.append(item)
            elif matter.has_topic(item.memory):
                about.append(item)
            elif item.similarity is not None:
                open_ones.append(item)
        if not open_ones:
            return about
        ids = tuple(item.id for item in open_ones)
        of_these = Or((Condition("id", "in", ids), Condition("version_of", "in", ids)))
        owner = replace(query, text=matter.owner, threshold=0.0, filters=of_these)
        alone = {item.id: item.similarity or 0.0 for item in await self._all_that_score(owner)}
        nearer = [item for item in open_ones if (item.similarity or 0.0) - alone.get(item.id, 0.0) >= NEARER]
        return [*about, *nearer]

    async def _note_translated(self, found: _Found, scope: Scope, query: str, language: str) -> None:
        """Note the English facts of messages that share a word with a query in another language."""
        said: dict[str, str] = {}
        async for episodes in scan_episodes(self._kernel.ledger, scope, include_hidden=True):
            said |= {each.id: each.content for each in episodes if shares_topic(query, each.content, language)}
        of_these = all_of(scope_filter(scope), eq("kind", "facts"), Condition("sources", "in", tuple(said)))
        for row in await self._rows(of_these) if said else ():
            fact = MemoryItem.from_payload(row.payload)
            texts = (said[source] for source in fact.sources if source in said)
            if any(is_told_of(fact.memory, query, text, language) for text in texts):
                id = fact.version_of or fact.id
                found.reasons.setdefault(id, "sentence")
                self._note(found, await self._rows(await self._line(id)), "value")

    async def _note_types(self, found: _Found, request: ForgetRequest) -> None:
        """Note the memories of some types with all their versions; deleted ones too, which history still shows."""
        typed = all_of(Condition("kind", "in", ("facts", NOTES)), Condition("type", "in", request.types))
        for row in await self._rows(all_of(scope_filter(request.scope), typed)):
            id = row.payload.get("version_of", row.id)
            if id not in found.memories:
                rows = await self._rows(await self._line(id))
                if all(row.payload.get("type") in request.types for row in rows if row.payload.get("state") == LIVE):
                    self._note(found, rows, "matched")

    async def _note_taken_in(self, found: _Found, request: ForgetRequest) -> None:
        """Note the originals of merged memories, and the memories that these were merged into."""
        new = list(found.memories)
        while new and found.rows:
            taken = await taken_in_by(self._kernel, new, _scopes(found), request.reach)
            known = set(found.memories)
            for id in taken:
                if id not in known:
                    self._note(found, await self._rows(await self._line(id)), "merged")
            new = [id for id in found.memories if id not in known]

    async def _note_retellings(self, found: _Found) -> None:
        """Note the searched messages that tell a noted memory again; those of a deleted one are named in history."""
        for point in list(found.rows.values()):
            again = await retellings(self._kernel, MemoryItem.from_payload(point.payload), point.vector)
            found.episodes.update(dict.fromkeys(again))

    async def _note_derived(self, found: _Found, request: ForgetRequest) -> None:
        """Note the memories and messages derived from the noted ones, transitively."""
        new = [*found.memories, *(found.episodes if request.whole is None else ())]  # a whole scope is erased entirely
        while new and found.rows:
            rows = await derived_from(self._kernel, new, _scopes(found), request.reach)
            known = set(found.memories)
            for id in dict.fromkeys(_memory_of(row) for row in rows):
                for row in await self._rows(await self._line(id)) if id not in known else ():
                    found.rows[row.id] = row
                    found.reasons.setdefault(_memory_of(row), "derived")
                    found.memories[_memory_of(row)] = found.derived[_memory_of(row)] = None
            new = [id for id in found.memories if id not in known]

    async def _all_that_score(self, query: Query) -> list[MemoryItem]:
        while True:
            results = (await self._read_path.find(query)).results
            if len(results) < query.limit:
                return results
            query = replace(query, limit=4 * query.limit)

    async def _line(self, id: str) -> Filter:
        """Return the filter for a memory, its versions and its line of replacements, whichever of them is named."""
        ledger, point = self._kernel.ledger, await self._kernel.store.get(self._kernel.collection, id)
        records = await ledger.history(id) if ledger is not None else []
        ids = {id: None, **dict.fromkeys(record.memory_id for record in records)}
        scope = Scope()
        if point is not None:
            item = MemoryItem.from_payload(point.payload)
            scope, ids = item.scope, {**ids, **dict.fromkeys([item.lineage_id] if item.lineage_id else [])}
        elif records:
            last = records[-1]
            scope = Scope(user_id=last.user_id, agent_id=last.agent_id, run_id=last.run_id)
        one_of = [Condition(field, "in", tuple(ids)) for field in ("id", "version_of", "lineage_id")]
        return all_of(scope_filter(scope), Or(tuple(one_of)))

    async def _find_in_ledger(self, found: _Found, request: ForgetRequest, ledger: Ledger) -> None:
        """Add what only the ledger knows: sources of deleted texts, and a scope's episodes and history."""
        for memory_id in list(found.memories):
            for record in await ledger.history(memory_id):
                found.memories.setdefault(record.memory_id, None)
                change = None if record.erased else await ledger.event(record.id)
                for episode in (*change.sources, *change.hides) if change else ():
                    found.episodes.setdefault(episode, None)
        if request.whole is not None:
            async for episodes in scan_episodes(ledger, request.whole, include_hidden=True):
                found.episodes.update(dict.fromkeys(episode.id for episode in episodes))
            async for records in history_pages(ledger, request.whole):
                found.memories.update(dict.fromkeys(record.memory_id for record in records))

    def _note(self, found: _Found, rows: Iterable[Point], reason: str) -> None:
        for point in rows:
            item = MemoryItem.from_payload(point.payload)
            found.rows[point.id] = point
            found.reasons.setdefault(item.version_of or item.id, reason)
            found.memories.setdefault(item.version_of or item.id, None)
            found.episodes.update(dict.fromkeys(item.sources))

    async def _rows(self, filter: Filter) -> list[Point]:
        page = await self._kernel.store.list(self._kernel.collection, filter, with_vectors=True)
        return page.points

    async def _take_out(self, found: _Found, request: ForgetRequest) -> None:
        """Delete the memories as ordinary changes; then versions, and references to the messages in other memories."""
        kernel = self._kernel
        # Messages are deleted as rows: their history is that of their facts.
        items = [item for item in found.live if not (request.erase and item.is_said)]
        changes = [self._deletion(item, request.erase, is_derived=item.id in found.derived) for item in items]
        if not request.erase:
            vectors = {change.keep.id: found.rows[change.memory_id].vector for change in changes if change.keep}
            await kernel.commit(changes, vectors)
            return
        await kernel.commit(changes, {})
        kept = await self._without_sources(found, request)
        deleted = {change.memory_id for change in changes}
        rest = [id for id in found.rows if id not in deleted]
        if kept or rest:
            await kernel.store.apply(kernel.collection, kept, rest)

    def _deletion(self, item: MemoryItem, erase: bool, *, is_derived: bool) -> Change:
        moment = self._kernel.clock.tick()
        keep = None if erase else version_of(item, untold_at=moment)
        return Change(
            id=new_id(), event="DELETE", memory_id=item.id, at=moment, told_at=moment, before=item,
            keep=keep, actor=ERASER, reason="derived" if is_derived else "explicit", sources=(),
            hides=() if is_derived else item.sources,
        )  # fmt: skip

    async def _without_sources(self, found: _Found, request: ForgetRequest) -> list[Point]:
        """Return rows of other memories with the same source messages: they keep their text and lose the source."""
        if not found.episodes:
            return []
        scopes = dict.fromkeys(MemoryItem.from_payload(point.payload).scope for point in found.rows.values())
        scopes.update(dict.fromkeys(await self._scopes_of(found.episodes)))
        shared = Condition("sources", "in", tuple(found.episodes))
        rows: dict[str, Point] = {}
        for scope in scopes:
            if request.whole is not None and request.whole.holds(scope):
                continue  # everything in the scope is erased
            for point in await self._rows(all_of(scope_filter(scope), shared)):
                if point.id not in found.rows:
                    left = [id for id in point.payload.get("sources", []) if id not in found.episodes]
                    rows[point.id] = replace(point, payload={**point.payload, "sources": left})
        return list(rows.values())

    async def _report(self, found: _Found, request: ForgetRequest, walls: Scope, *, dry_run: bool) -> ErasureReport:
        kernel = self._kernel
        counts = {"history": 0, "episodes": 0, "journal": 0, "cache": 0}
        if kernel.ledger is not None:
            ids = list(found.memories), list(found.episodes)
            cached_in = walls if any(ids) else None
            counts |= await kernel.ledger.count_places(*ids, request.whole, cached_in=cached_in)
        live = found.live
        numbers = {"store": len(live), "text_index": len(found.rows), "versions": found.versions, **counts}
        order = ("store", "text_index", "history", "episodes", "versions", "journal", "cache")
        places = [_place(name, numbers.get(name, 0), request, dry_run) for name in order]
        optional = ("jobs", "promotions", "sessions", "chains")
        places += [_place(name, numbers[name], request, dry_run) for name in optional if numbers.get(name)]
        if self._graph is not None:
            in_graph = await self._graph.found(list(found.memories))
            places.append(in_graph if dry_run or request.erase else with_status(in_graph, "kept"))
        if dry_run and request.erase:
            places += await self._in_backups(found, request, dry_run=True)
        results = live or [MemoryItem.from_payload(point.payload) for point in found.rows.values()]
        bare = await self._without_sources(found, request) if request.erase else []
        unsourced = [MemoryItem.from_payload(row.payload) for row in bare]
        return ErasureReport(
            results,
            places,
            dry_run=dry_run,
            erase=request.erase,
            reasons={item.id: found.reasons[item.version_of or item.id] for item in results},
            unsourced=[item for item in unsourced if item.state == LIVE],
        )

    async def _in_backups(self, found: _Found, request: ForgetRequest, *, dry_run: bool) -> list[ErasedPlace]:
        """Return the result for the backups of this memory; empty if there are none."""
        ids = list(found.memories), list(found.episodes)
        place = await erase_from_backups(self._kernel, *ids, request.whole, dry_run=dry_run)
        return [] if place is None else [place]

    async def _scrub(self, report: ErasureReport) -> ErasureReport:
        """Make the bytes unreadable: now, or when the last process that holds a file closes it."""
        kernel = self._kernel
        done = {"store": False, "ledger": kernel.ledger is None}
        with degrade("the store's bytes are cleaned later"):
            done["store"] = await kernel.store.scrub()
        if kernel.ledger is not None:
            with degrade("the ledger's bytes are cleaned later"):
                done["ledger"] = await kernel.ledger.scrub()
        places: list[ErasedPlace] = []
        for place in report.places:
            where = "store" if place.place in ("store", "text_index", "versions") else "ledger"
            if place.place == "graph":
                places.append(place)
            elif done[where] or place.status != "erased":
                note = _scrub_note(kernel, where)
                places.append(replace(place, note=note) if note and place.status == "erased" else place)
            else:
                note = "gone from every read; its bytes go when the file is closed by all"
                places.append(replace(place, status="pending", note=note))
        return replace(report, places=places)


def _memory_of(row: Point) -> str:
    return str(row.payload.get("version_of", row.id))


def _scopes(found: _Found) -> list[Scope]:
    return list({MemoryItem.from_payload(point.payload).scope: None for point in found.rows.values()})


def _scrub_note(kernel: Kernel, where: str) -> str:
    """Return a note about copies of the erased text that perdure cannot reach."""
    if where == "store":
        return kernel.store.scrub_note
    return kernel.ledger.scrub_note if kernel.ledger is not None else ""


def _place(name: str, count: int, request: ForgetRequest, dry_run: bool) -> ErasedPlace:
    status: Literal["erased", "pending", "kept", "found", "none"]
    if count == 0:
        status = "none"
    elif dry_run:
        status = "found"
    else:
        status = "erased" if request.erase or name in ("store",) else "kept"
    return ErasedPlace(name, count, status)
