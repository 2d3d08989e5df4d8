"""Operations that /v1/memories and mem0's routes share: calls of the library within the caller's scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from perdure.domain.clock import iso, system_clock
from perdure.domain.errors import InvalidInputError, NotFoundError
from perdure.domain.event import AddResult, HistoryRecord, SearchResult
from perdure.domain.filter import Condition, Filter, Moment
from perdure.domain.memory import MemoryItem, check_metadata, oldest_first
from perdure.domain.message import read_messages
from perdure.domain.scope import Scope
from perdure.engine.requests import SearchOptions, read_memory_id, read_text
from perdure.frontends.library.memory import run_search
from perdure.frontends.server.dependencies import MISSING, PersonalMemory
from perdure.frontends.server.routes.scope_resolver import ScopedFilter, resolve_one_scope, resolve_scopes
from perdure.frontends.server.schemas.fields import DEFAULT_PROJECT, ScopeFields, day_end, is_day, read_time
from perdure.frontends.server.schemas.filters import dated, read_filters
from perdure.frontends.server.schemas.memories import AddForm, ListForm, ReadForm, UpdateForm
from perdure.frontends.server.schemas.views import NumberedPage
from perdure.pipeline.curation.llm.extraction import circumstances
from perdure.pipeline.prompts import load


def project_of(personal: PersonalMemory) -> str:
    """Return the project of a caller."""
    return personal.walls.project_id or DEFAULT_PROJECT


async def settings_of(personal: PersonalMemory) -> dict[str, Any]:
    """Return the settings of the caller's project; none without a ledger, where memory still works."""
    await personal.engine.kernel.open()
    ledger = personal.engine.kernel.ledger
    return {} if ledger is None else await ledger.settings.get(settings_key(personal))


def settings_key(personal: PersonalMemory) -> str:
    """Build the ledger key of the settings of a caller's project."""
    return f"mem0 project {project_of(personal)}"


async def prompt_of(personal: PersonalMemory, form: AddForm, scope: Scope) -> str | None:
    """Return the extraction prompt of an `add`: the caller's, or the default with instructions; None is the default.

    Instructions of the request come before the project's; those for agents apply if an agent is named and no user.
    """
    if form.prompt is not None or personal.engine.kernel.llm is None:
        return form.prompt
    lines = _instructions(form, personal.inside(scope), await settings_of(personal))
    messages = read_messages(form.messages)
    if not lines or not messages:
        return None
    usual = personal.memory.config.custom_prompts.fact_extraction
    if usual is None:
        now = system_clock() if form.timestamp is None else read_time(form.timestamp, "timestamp")
        usual = f"{load('extract')}\n\n{circumstances(messages, now)}"
    return "\n\n".join([usual, *lines])


def _instructions(form: AddForm, scope: Scope, project: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    is_agents = scope.agent_id is not None and scope.user_id is None
    names = ("agent_custom_instructions", "custom_instructions") if is_agents else ("custom_instructions",)
    chosen = next((text for name in names if (text := getattr(form, name) or project.get(name))), None)
    if chosen:
        lines.append(f"Instructions of this memory's owner:\n{chosen}")
    if form.includes:
        lines.append(f"Keep only what concerns: {form.includes}")
    if form.excludes:
        lines.append(f"Leave out what concerns: {form.excludes}")
    return lines


WALK = 500  # memories read at a time when all are processed
_NOT_KEPT = {
    "custom_categories": "nothing is sorted into custom_categories: put categories into the metadata",
    "structured_data_schema": "structured_data_schema has no effect here",
    "immutable": "immutable has no effect here: memories can be changed",
}


async def add(
    personal: PersonalMemory, form: AddForm, reach: ScopedFilter, *, idempotency_key: str | None
) -> AddResult:
    """Extract and store the facts of a conversation; they can be read when this returns."""
    view, ids = personal.at(reach.scope)
    type = form.type or form.memory_type
    result = await view.add(
        form.messages,
        **ids,
        metadata=form.metadata,
        filters=reach.expression(),
        prompt=await prompt_of(personal, form, reach.scope),
        infer=form.infer is not False,
        timestamp=None if form.timestamp is None else read_time(form.timestamp, "timestamp"),
        type="procedural" if type == "procedural_memory" else type,
        expires_at=_end(form),
        idempotency_key=idempotency_key,
    )
    ignored = [told for name, told in _NOT_KEPT.items() if getattr(form, name)]
    return replace(result, warnings=[*result.warnings, *ignored]) if ignored else result


def _end(form: AddForm) -> datetime | None:
    if form.expires_at is not None:
        return read_time(form.expires_at, "expires_at")
    return None if form.expiration_date is None else day_end(form.expiration_date, "expiration_date")


async def search_in(
    personal: PersonalMemory, places: Sequence[ScopedFilter], query: str, options: SearchOptions
) -> SearchResult:
    """Search several scopes and merge the best memories; each scope's filters replace the options'."""
    found: list[SearchResult] = []
    for reach in places:
        view, ids = personal.at(reach.scope)
        found.append(await run_search(view, query, replace(options, filters=reach.expression()), **ids))
    return found[0] if len(found) == 1 else _merged(found, options)


def _merged(found: list[SearchResult], options: SearchOptions) -> SearchResult:
    """Return the best of several scopes in the asked order; a memory in two of them appears once."""
    best: dict[str, MemoryItem] = {}
    for item in (item for each in found for item in each.results):
        known = best.get(item.id)
        if known is None or (item.score or 0.0) > (known.score or 0.0):
            best[item.id] = item
    kept = sorted(best.values(), key=lambda item: (-(item.score or 0.0), item.id))[: options.limit]
    return SearchResult(
        oldest_first(kept) if options.order == "time" else kept,
        coverage=max(each.coverage for each in found),
        warnings=[warning for each in found for warning in each.warnings],
        held_back=sum(each.held_back for each in found),
    )


async def list_page(personal: PersonalMemory, form: ListForm, filters: Filter | None) -> NumberedPage:
    """Return one page of the memories of all requested scopes, oldest first."""
    size = form.size
    first = ((form.page or 1) - 1) * size
    include_past = bool(form.show_expired)
    places = scopes_to_read(personal, form, filters)
    if len(places) > 1:
        items = await all_memories(personal, places, include_past=include_past)
        return NumberedPage(items[first : first + size], len(items))
    scope, within = personal.inside(places[0].scope), places[0].filters
    count = await personal.overview.count(scope, within, include_past=include_past)
    if first >= count:
        return NumberedPage([], count)
    view, ids = personal.at(places[0].scope)
    found = await view.get_all(**ids, limit=first + size, filters=places[0].expression(), include_past=include_past)
    return NumberedPage(found.results[first:], count)


async def all_memories(
    personal: PersonalMemory, places: Sequence[ScopedFilter], *, include_past: bool = False
) -> list[MemoryItem]:
    """Return all memories of some scopes, oldest first; one in two of them appears once."""
    found: dict[str, MemoryItem] = {}
    for reach in places:
        view, ids = personal.at(reach.scope)
        cursor: str | None = None
        while True:
            page = await view.get_all(
                **ids, limit=WALK, filters=reach.expression(), cursor=cursor, include_past=include_past
            )
            found.update({item.id: item for item in page.results})
            cursor = page.next_cursor
            if cursor is None:
                break
    return sorted(found.values(), key=lambda item: (item.created_at, item.id))


async def delete_all(personal: PersonalMemory, given: Scope, filters: Filter | None, *, erase: bool = False) -> Scope:
    """Delete the memories of one scope that match a filter; ScopeError if the request names no scope.

    A key that is bound to a scope does not count as naming it: a client that forgot its arguments must not clear it.
    """
    reach = resolve_one_scope(given, filters, Scope())
    view, ids = personal.at(reach.scope)
    if not reach.narrows:
        await view.delete_all(**ids, erase=erase)
        return personal.inside(reach.scope)
    for item in await all_memories(personal, [reach], include_past=True):
        await _delete(personal, item.id, erase=erase)
    return personal.inside(reach.scope)


async def delete(personal: PersonalMemory, id: str, *, erase: bool = False, linked: bool = False) -> int:
    """Delete a memory, and with `linked` the older ones that it may have replaced; return the number of those."""
    item = await personal.existing(id)
    older = await _older(personal, item) if linked else []
    await personal.memory.delete(item.id, erase=erase)
    return sum([await _delete(personal, each, erase=erase) for each in older])


async def _delete(personal: PersonalMemory, id: str, *, erase: bool) -> bool:
    try:
        await personal.memory.delete(id, erase=erase)
    except NotFoundError:  # another caller deleted it first
        return False
    return True


async def _older(personal: PersonalMemory, item: MemoryItem) -> list[str]:
    seen = {item.id}
    waiting, found = list(item.older), []
    while waiting:
        id = waiting.pop()
        if id in seen:
            continue
        seen.add(id)
        if (older := await personal.memory.get(id)) is not None:
            found.append(id)
            waiting += older.older
    return found


async def update(personal: PersonalMemory, id: str, form: UpdateForm) -> MemoryItem:
    """Change the given fields of a memory; InvalidInputError if there are none."""
    given = {name for name in form.model_fields_set if name == "expiration_date" or getattr(form, name) is not None}
    if not given:
        raise InvalidInputError("give text, metadata, timestamp or expiration_date", field="text")
    times: dict[str, str | None] = {}
    if form.timestamp is not None:
        times["valid_from"] = iso(read_time(form.timestamp, "timestamp"))
    if "expiration_date" in given:
        end = form.expiration_date
        times["expires_at"] = None if end is None else iso(day_end(end, "expiration_date"))
    text = None if form.text is None else read_text(form.text, "text")
    memory_id, metadata = read_memory_id(id), check_metadata(form.metadata)
    return await personal.engine.revise.update(memory_id, text, metadata, personal.walls, times)


def named_scopes(personal: PersonalMemory, ids: ScopeFields, filters: object) -> list[ScopedFilter]:
    """Return the scopes that a request names by ids and filters, in mem0's form."""
    return resolve_scopes(ids.scope(), read_filters(filters), personal.walls)


def scopes_to_read(personal: PersonalMemory, form: ReadForm, filters: Filter | None) -> list[ScopedFilter]:
    """Return the scopes of a read, with all conditions given beside its filters."""
    conditions: list[Filter] = []
    if form.categories:
        conditions.append(Condition("metadata.categories", "in", tuple(form.categories)))
    if form.metadata:
        parsed = read_filters({"metadata": form.metadata})
        conditions += [] if parsed is None else [parsed]
    if form.start_date is not None:
        start = Moment(iso(read_time(form.start_date, "start_date")))
        conditions.append(dated(Condition("created_at", "gte", start)))
    if form.end_date is not None:
        operator = "lt" if is_day(form.end_date) else "lte"
        end = Moment(iso(day_end(form.end_date, "end_date")))
        conditions.append(dated(Condition("created_at", operator, end)))
    return [reach.also(*conditions) for reach in resolve_scopes(form.scope(), filters, personal.walls)]


async def history(personal: PersonalMemory, id: str) -> list[HistoryRecord]:
    """Return all events of a memory, oldest first; NotFoundError if there are none."""
    records = await personal.memory.history(id)
    if not records:
        raise NotFoundError(MISSING)
    return records
