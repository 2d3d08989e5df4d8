"""Search, list and history of a team's memory: a member sees only the memories that they may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perdure.backends.vector_stores.base import Point
from perdure.domain.errors import InvalidInputError, NotFoundError
from perdure.domain.event import HistoryRecord, ListResult, SearchResult
from perdure.domain.filter import And, Filter, all_of, eq, matches, scope_filter
from perdure.domain.memory import VISIBILITIES, Answer, MemoryItem
from perdure.domain.scope import Scope
from perdure.domain.text.readable import shown
from perdure.engine.aio.calls import guarded
from perdure.engine.core.access import visible
from perdure.engine.core.kernel import Kernel
from perdure.engine.read.access_counts import recalled
from perdure.engine.read.search import ReadPath
from perdure.engine.requests import Query, invalid, read_limit, read_memory_id, read_one_of, read_text
from perdure.engine.team.items import PUBLISHED, Member, at_least, read_project
from perdure.pipeline.prompting.context_block import render
from perdure.pipeline.retrieval.presets import PLAIN

MOST_RESULTS = 100  # the largest limit of a team search
FACT_CHARACTERS = 280  # maximum characters of each fact in a system prompt
_FACT_TOKENS = 2 * FACT_CHARACTERS  # more tokens than a fact of that length can take, in any script


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSearchOptions:
    """A member's search options, validated."""

    truth_level_min: str = "EPHEMERAL"
    project_scope: str | None = None
    visibility: str | None = None
    limit: int = 10

    def filter(self) -> And:
        """The filter of the matching memories."""
        project = None if self.project_scope is None else eq("project_id", self.project_scope)
        level = None if self.visibility is None else eq("visibility", self.visibility)
        return all_of(at_least(self.truth_level_min), project, level)


def read_team_search(
    *, truth_level_min: object, project_scope: object, visibility: object, limit: object, most: int = MOST_RESULTS
) -> TeamSearchOptions:
    """Validate the arguments of a search or list; InvalidInputError names the wrong one."""
    if not isinstance(truth_level_min, str):
        raise invalid("truth_level_min", "text", truth_level_min)
    try:
        at_least(truth_level_min)
    except InvalidInputError as error:
        sentence = error.message.replace("truth_level", "truth_level_min", 1)
        raise InvalidInputError(sentence, field="truth_level_min", value=truth_level_min) from error
    if visibility is not None:
        read_one_of(visibility, VISIBILITIES, "visibility")
    checked = read_limit(limit)
    if checked > most:
        raise invalid("limit", f"from 1 to {most}", limit)
    return TeamSearchOptions(
        truth_level_min=truth_level_min,
        project_scope=read_project(project_scope),
        visibility=None if visibility is None else str(visibility),
        limit=checked,
    )


@dataclass(frozen=True, slots=True)
class SystemAddendum(Answer):
    """A team's facts about a question, as a block for a system prompt; empty if there are none."""

    system_addendum: str
    fact_count: int


class TeamReader:
    """Searches and lists a team's memories, and returns their history."""

    def __init__(self, kernel: Kernel, read_path: ReadPath) -> None:
        self._kernel = kernel
        self._read_path = read_path

    @guarded
    async def search(self, member: Member, query: str, looking: TeamSearchOptions) -> SearchResult:
        """Return the memories visible to the member that answer the query, best first by `score`."""
        found = await self._search(member.walls, query, all_of(member.sees(), looking.filter()), looking.limit)
        return self._noted(found)

    @guarded
    async def public_search(self, query: str, looking: TeamSearchOptions) -> SearchResult:
        """Return the PUBLIC memories of any team that answer the query."""
        filters = all_of(PUBLISHED, looking.filter())
        return self._noted(await self._search(Scope(), query, filters, looking.limit, related=False))

    def _noted(self, found: SearchResult) -> SearchResult:
        """Count the results as recalled, and return them."""
        self._read_path.access_counts.note(recalled(found.results, None))
        return found

    async def _search(
        self, scope: Scope, query: str, filters: Filter, limit: int, *, related: bool = True, trusted: bool = False
    ) -> SearchResult:
        """Search by meaning alone; `related` adds the graph's results, which depend on its progress."""
        asked = Query(
            text=read_text(query, "query"),
            scope=scope,
            filters=filters,
            limit=limit,
            preset=PLAIN,
            related=related,
            trusted=trusted,
        )
        return await self._read_path.find(asked)

    @guarded
    async def get(self, member: Member, id: str) -> MemoryItem | None:
        """Return the memory with this id, or None, also if the member cannot see it, or it has expired."""
        found = await self.standing(member, id)
        return None if found is None else found[0]

    @guarded
    async def get_all(self, member: Member, looking: TeamSearchOptions, cursor: str | None) -> ListResult:
        """Return a page of what the member sees, oldest first."""
        kernel = self._kernel
        within = self._shown_to(member, looking.filter())
        page = await kernel.store.list(kernel.collection, within, looking.limit, cursor)
        return ListResult([MemoryItem.from_payload(point.payload) for point in page.points], page.next_cursor)

    @guarded
    async def history(self, member: Member, id: str) -> list[HistoryRecord]:
        """Return a memory's history, oldest first, as far as the member sees; empty if they cannot see it now.

        For a deleted memory its last state decides. A text that the member could not see at the time is left out of its
        record.
        """
        kernel = self._kernel
        records = await kernel.history(read_memory_id(id))
        stands = await self.standing(member, id) is not None
        told = [(record, await self._told(member, record, stands)) for record in records]
        if not told or not told[-1][1].is_seen:
            return []
        return [
            replace(
                record,
                old_value=record.old_value if each.sees_before else None,
                new_value=record.new_value if each.sees_after else None,
            )
            for record, each in told
            if each.is_seen
        ]

    async def _told(self, member: Member, record: HistoryRecord, stands: bool) -> _Told:
        """Return the visible part of a record; of one without its change, erased or imported, only its existence."""
        ledger = self._kernel.ledger
        change = None if record.erased or ledger is None else await ledger.event(record.id)
        if change is None:
            return _Told(is_seen=stands, sees_before=False, sees_after=False)
        seen = all_of(scope_filter(member.walls), member.sees())
        before, after = (
            item is not None and matches(seen, item.to_payload()) for item in (change.before, change.after)
        )
        return _Told(is_seen=before if change.after is None else after, sees_before=before, sees_after=after)

    @guarded
    async def system_addendum(self, member: Member, query: str, *, top_k: int, min_level: str) -> SystemAddendum:
        """Return the facts about a query, of a level or above it, quoted and delimited as data."""
        looking = read_team_search(truth_level_min=min_level, project_scope=None, visibility=None, limit=top_k)
        filters = all_of(member.sees(), looking.filter())
        facts = await self._for_prompts(member, query, filters, looking.limit)
        self._read_path.access_counts.note(facts)
        return SystemAddendum(render(facts, max_tokens=_FACT_TOKENS * (len(facts) + 1)), len(facts))

    @guarded
    async def canonical(self, member: Member, query: str, limit: int) -> list[MemoryItem]:
        """Return the facts about a member's message that are CANONICAL or higher."""
        return await self._for_prompts(member, query, all_of(member.sees(), at_least("CANONICAL")), limit)

    async def _for_prompts(self, member: Member, query: str, filters: Filter, limit: int) -> list[MemoryItem]:
        found = await self._search(member.walls, query, filters, limit, related=False, trusted=True)
        return [item.with_(memory=_cut(item.memory)) for item in found.results]

    async def standing(self, member: Member, id: str) -> tuple[MemoryItem, Point] | None:
        """Return a current memory that the member sees, with its row."""
        kernel = self._kernel
        try:
            point = await kernel.store.get(kernel.collection, read_memory_id(id))
        except NotFoundError:  # text that cannot be an id
            return None
        if point is None or not matches(self._shown_to(member), point.payload):
            return None
        return MemoryItem.from_payload(point.payload), point

    async def required(self, member: Member, id: str) -> tuple[MemoryItem, Point]:
        """`standing`, or NotFoundError."""
        found = await self.standing(member, id)
        if found is None:
            raise NotFoundError(f"there is no memory with the id {shown(id)} in the team {member.team!r}")
        return found

    async def seen_of(self, member: Member, ids: Sequence[str]) -> set[str]:
        """Return which of these memories exist and are visible to the member."""
        kernel = self._kernel
        shown_to = self._shown_to(member)
        points = await kernel.store.get_many(kernel.collection, list(dict.fromkeys(ids)))
        return {point.id for point in points if matches(shown_to, point.payload)}

    def _shown_to(self, member: Member, filters: Filter | None = None) -> Filter:
        return visible(member.walls, now=self._kernel.clock.now(), filters=all_of(member.sees(), filters))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """The visible part of one history record."""

    is_seen: bool
    sees_before: bool
    sees_after: bool


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= FACT_CHARACTERS else line[: FACT_CHARACTERS - 1].rstrip() + "…"
