"""The core profile: recall, remember, learn, correct, undo, history and context. `forget` is in erasure.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import mcp_types as types
from pydantic import Field

from perdure.domain.errors import InvalidInputError, NotFoundError
from perdure.domain.event import ErasureReport
from perdure.domain.memory import TRUSTED, MemoryItem, oldest_first
from perdure.engine.requests import LEFT_OUT
from perdure.frontends.mcp.answers import Changed, Changes, Known, Named, Recorded
from perdure.frontends.mcp.consent import Act, Decision
from perdure.frontends.mcp.tool import Arguments, Tool, ToolAnswer, ToolCall
from perdure.pipeline.prompting.quoting import estimate_tokens

ASK = "Nothing is erased yet. Show this to the user; if they say yes, call forget again with `confirm` added."
MISMATCH = "The handle has expired or is for other memories, so nothing is erased. " + ASK
DECLINED = "The user did not agree, so nothing is erased."
NOTHING = "Nothing was found to erase. recall gives ids; a query has to match closely."
ERASE = Act(
    name="erase",
    heading="Erase for good, without undo:",
    yes="Erase for good",
    explanation="Yes erases; no keeps all.",
)
PENDING = "Some bytes go when another process closes the file."


class ForgetArguments(Arguments):
    """Arguments of forget."""

    id: str | None = Field(None, description="from recall")
    query: str | None = Field(None, description="or all that closely match")
    confirm: str | None = Field(None, description="from the first answer")


class Place(ToolAnswer):
    """How much one place held."""

    place: str
    count: int
    status: str


class Going(Named):
    """A memory that goes, and why: it matched, or is a part or a message of one that did."""

    why: str

    @classmethod
    def all_of(cls, report: ErasureReport, why: Mapping[str, str], text: str | None = None) -> list[Going]:
        """Build them from a report, with the reasons of the plan before it; `text` replaces what is erased."""
        found = [(Named.of(item), why.get(item.id) or report.reasons[item.id]) for item in report.results]
        return [cls(id=named.id, memory=text or named.memory, why=reason) for named, reason in found]


class Forgotten(ToolAnswer):
    """Answer of forget."""

    status: Literal["needs_confirmation", "erased", "declined", "nothing_found"] = Field(description="how it stands")
    memories: list[Going] = Field(description="that go")
    places: list[Place] = Field(description="stored copies")
    confirm: str | None = Field(None, description="handle")
    note: str | None = Field(None, description="what to do")


async def forget(call: ToolCall, given: ForgetArguments) -> Forgotten | types.InputRequiredResult:
    """Report what would go, get the consent for exactly that, and erase it."""
    if (given.id is None) == (given.query is None):
        raise InvalidInputError("give either id or query", field="id", value=given.id)
    id, query = (LEFT_OUT if value is None else value for value in (given.id, given.query))
    planned = await call.memory.forget(id=id, query=query, dry_run=True)
    found = planned.results
    if not found and not any(place.count for place in planned.places):
        return Forgotten(status="nothing_found", memories=[], places=[], note=NOTHING)
    copies = sum(place.count for place in planned.places)
    note = f"With them go {copies} stored copies: versions, history and the messages they came from." * bool(copies)
    decision = await call.decide(ERASE, found, given.confirm, note=" ".join(filter(None, (note, _staying(planned)))))
    if isinstance(decision, types.InputRequiredResult):
        return decision
    if decision is Decision.YES:
        return await _erase(call, given, planned)
    if decision is Decision.NO:
        return _refused(planned)
    return Forgotten(
        status="needs_confirmation",
        memories=Going.all_of(planned, planned.reasons),
        places=_places(planned),
        confirm=call.consent.handle(ERASE, call.access.caller, found),
        note=" ".join(filter(None, (MISMATCH if decision is Decision.MISMATCH else ASK, _staying(planned)))),
    )


async def _erase(call: ToolCall, given: ForgetArguments, planned: ErasureReport) -> Forgotten:
    """Erase what the person has agreed to: these ids, not what the query finds by now."""
    ids = [given.id] if given.id is not None else [item.id for item in planned.results]
    reports = [await call.memory.forget(id=id) for id in ids]
    counts: dict[tuple[str, str], int] = {}
    for report in reports:
        for place in _places(report):
            key = place.place, place.status
            counts[key] = counts.get(key, 0) + place.count
    return Forgotten(
        status="erased",
        memories=[one for report in reports for one in Going.all_of(report, planned.reasons, "(erased)")],
        places=[Place(place=place, status=status, count=count) for (place, status), count in counts.items()],
        note=" ".join(filter(None, (PENDING * any(each.pending for each in reports), _staying(planned)))) or None,
    )


def _staying(planned: ErasureReport) -> str:
    """Name the memories that stay, but lose a message that they came from."""
    texts = [Named.of(item).memory for item in planned.unsourced]
    return f"These stay, without a message that they came from: {'; '.join(texts)}" if texts else ""


def _refused(planned: ErasureReport) -> Forgotten:
    return Forgotten(status="declined", memories=Going.all_of(planned, planned.reasons), places=[], note=DECLINED)


def _places(report: ErasureReport) -> list[Place]:
    return [Place(place=place.place, count=place.count, status=place.status) for place in report.places if place.count]


FORGET = Tool(
    name="forget",
    title="Forget for good",
    description=(
        "Erase memories for good, with versions, history and source messages. The first call only reports and asks "
        "the user. To change a fact use correct."
    ),
    arguments=ForgetArguments,
    answer=Forgotten,
    run=forget,
    destroys=True,
    repeatable=True,
)

LEAST_COVERAGE = 0.3
"""Coverage below which an answer says that the question is not covered."""
TOKENS_PER_HIT = 40
"""Tokens of a hit's other fields."""
MOST_LINES = 3
"""Memories whose history `about` shows."""

Query = Annotated[str, Field(min_length=1, description="a question or topic")]
Budget = Annotated[int, Field(ge=50, le=20_000, description="of the answer")]


class RecallArguments(Arguments):
    """Arguments of recall."""

    query: Query
    limit: Annotated[int, Field(ge=1, le=50, description="most results")] = 8
    as_of: str | None = Field(None, description="ISO time: what was known then")
    include_past: bool = Field(False, description="also what no longer holds")
    order: Literal["score", "time"] = Field("score", description="time: oldest first")
    max_tokens: Budget = 1500


class Recalled(ToolAnswer):
    """Answer of recall."""

    results: list[Known] = Field(description="by `order`")
    coverage: float = Field(description="0 to 1")
    held_back: int = Field(description="older texts, left out")
    note: str | None = Field(None, description="how to read it")


async def recall(call: ToolCall, given: RecallArguments) -> Recalled:
    """Find memories; quarantined ones stay out, because the answer enters a prompt."""
    found = await call.memory.search(
        given.query, limit=given.limit, as_of=given.as_of, include_past=given.include_past, filters=TRUSTED
    )
    kept = within_tokens(found.results, given.max_tokens)  # the best ones, whatever the order
    notes = list(found.warnings)
    if not found.results:
        notes.append("nothing is known about this")
    elif found.coverage < LEAST_COVERAGE:
        notes.append("these hardly cover the question: do not take them for its answer")
    if left_out := len(found.results) - len(kept):
        notes.append(f"{left_out} more did not fit into max_tokens")
    return Recalled(
        results=[Known.of(item) for item in (oldest_first(kept) if given.order == "time" else kept)],
        coverage=round(found.coverage, 3),
        held_back=found.held_back,
        note="; ".join(notes) or None,
    )


def within_tokens(items: Sequence[MemoryItem], budget: int) -> list[MemoryItem]:
    """Return the items that fit into a budget of tokens, in order; one that does not fit is skipped."""
    kept = []
    for item in items:
        cost = estimate_tokens(item.memory) + TOKENS_PER_HIT
        if cost <= budget:
            kept.append(item)
            budget -= cost
    return kept


class RememberArguments(Arguments):
    """Arguments of remember."""

    facts: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=20)] = Field(
        description="each a whole sentence that is clear alone: 'User lives in Lisbon'"
    )
    metadata: dict[str, Any] | None = Field(None, description="kept with each")


async def remember(call: ToolCall, given: RememberArguments) -> Changes:
    """Store facts; each is reconciled with what is known."""
    return Changes.of(await call.memory.add_facts(given.facts, metadata=noted(call, given.metadata)))


class Said(Arguments):
    """One message of a conversation."""

    role: Literal["user", "assistant", "tool", "system"]
    content: Annotated[str, Field(min_length=1)]
    timestamp: str | None = None


class LearnArguments(Arguments):
    """Arguments of learn."""

    messages: Annotated[list[Said], Field(min_length=1, max_length=200, description="oldest first")]


async def learn(call: ToolCall, given: LearnArguments) -> Changes:
    """Extract facts from messages; the messages themselves are kept too."""
    messages = [message.model_dump(exclude_none=True) for message in given.messages]
    result = await call.memory.add(messages, metadata=noted(call, None))
    return Changes.of(result, nothing="no fact was found; the messages are kept and can be searched")


def noted(call: ToolCall, metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the metadata with the client's name, unless the caller set one."""
    return metadata if call.client is None else {"client": call.client, **(metadata or {})}


class CorrectArguments(Arguments):
    """Arguments of correct."""

    id: str = Field(description="from recall")
    text: Annotated[str, Field(min_length=1)] = Field(description="the whole new text")


class Corrected(Changed):
    """Answer of correct."""

    event: str = Field(description="UPDATE")
    id: str = Field(description="of the memory")
    memory: str = Field(description="new text")
    old_memory: str | None = Field(None, description="old text")
    event_id: str | None = Field(None, description="for undo")
    reason: str | None = Field(None, description="why")


async def correct(call: ToolCall, given: CorrectArguments) -> Corrected:
    """Replace a memory's text; the old one stays as a version."""
    item = await call.memory.update(given.id, given.text)
    records = await call.memory.history(item.id)
    last = records[-1] if records else None
    return Corrected(
        event="UPDATE",
        id=item.id,
        memory=item.memory,
        old_memory=last.old_value if last else None,
        event_id=last.id if last else None,
    )


class UndoArguments(Arguments):
    """Arguments of undo."""

    event_id: str = Field(description="from a write or history")


async def undo(call: ToolCall, given: UndoArguments) -> Changes:
    """Take one event back; ConflictError names a later one that stands in the way."""
    return Changes.of(await call.memory.undo(given.event_id))


class HistoryArguments(Arguments):
    """Arguments of history."""

    id: str | None = Field(None, description="from recall")
    about: str | None = Field(None, description="or a question")


class History(ToolAnswer):
    """Answer of history."""

    events: list[Recorded] = Field(description="oldest first")


async def history(call: ToolCall, given: HistoryArguments) -> History:
    """List what happened to a memory, or to those that answer a question, oldest first."""
    if (given.id is None) == (given.about is None):
        raise InvalidInputError("give either id or about", field="id", value=given.id)
    if given.about is not None:
        found = await call.memory.search(given.about, limit=MOST_LINES, filters=TRUSTED)
        lines = [await call.memory.history(item.id) for item in found.results]
        records = sorted((record for line in lines for record in line), key=lambda record: record.timestamp)
        return History(events=[Recorded.of(record) for record in records])
    assert given.id is not None, "checked above"
    records = await call.memory.history(given.id)
    if not records:
        raise NotFoundError(f"there is no memory with the id {given.id!r}")
    item = await call.memory.get(given.id)
    withheld = item is not None and item.quarantined is not None
    return History(events=[Recorded.of(record, withheld=withheld) for record in records])


class ContextArguments(Arguments):
    """Arguments of context."""

    query: Query
    max_tokens: Budget = 800
    order: Literal["score", "time"] = Field("score", description="time: oldest first")


class ContextBlock(ToolAnswer):
    """Answer of context."""

    context: str = Field(description="quoted memories")


async def context(call: ToolCall, given: ContextArguments) -> ContextBlock:
    """Write the memories for a task as one quoted block."""
    return ContextBlock(context=await call.memory.context(given.query, max_tokens=given.max_tokens, order=given.order))


RECALL = Tool(
    name="recall",
    title="Recall memories",
    description=(
        "Search what is remembered about the user and earlier work. Call it before you assume or ask again. `valid_to` "
        "marks what no longer holds; low `coverage`: it is not known."
    ),
    arguments=RecallArguments,
    answer=Recalled,
    run=recall,
    reads=True,
)
REMEMBER = Tool(
    name="remember",
    title="Remember facts",
    description=(
        "Store lasting facts: preferences, decisions, people, dates, corrections. Known facts are not stored twice, "
        "a changed one replaces the old. Never secrets."
    ),
    arguments=RememberArguments,
    answer=Changes,
    run=remember,
    repeatable=True,
)
LEARN = Tool(
    name="learn",
    title="Learn from a conversation",
    description="Extract lasting facts from messages, which are kept as evidence.",
    arguments=LearnArguments,
    answer=Changes,
    run=learn,
)
CORRECT = Tool(
    name="correct",
    title="Correct a memory",
    description="Replace the text of a memory that is wrong. The old text stays in its history.",
    arguments=CorrectArguments,
    answer=Corrected,
    run=correct,
    repeatable=True,
)
UNDO = Tool(
    name="undo",
    title="Undo a change",
    description="Take back one change, by its event_id.",
    arguments=UndoArguments,
    answer=Changes,
    run=undo,
)
HISTORY = Tool(
    name="history",
    title="Show history",
    description="Show how a memory came about and changed.",
    arguments=HistoryArguments,
    answer=History,
    run=history,
    reads=True,
)
CONTEXT = Tool(
    name="context",
    title="Context for a task",
    description="One block for a task: standing instructions, then what matters.",
    arguments=ContextArguments,
    answer=ContextBlock,
    run=context,
    reads=True,
)
TOOLS = (RECALL, REMEMBER, LEARN, CORRECT, FORGET, UNDO, HISTORY, CONTEXT)
