"""The tool forget: it erases only after the person's yes, or with the handle of an earlier dry run."""

from __future__ import annotations

from typing import Literal

import mcp_types as types
from pydantic import Field

from perdure.domain.errors import InvalidInputError
from perdure.domain.event import ErasureReport
from perdure.domain.memory import MemoryItem
from perdure.frontends.mcp.answers import Named
from perdure.frontends.mcp.consent import Act, Decision, decide
from perdure.frontends.mcp.schema import Arguments, ToolAnswer
from perdure.frontends.mcp.tool import Tool, ToolCall

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

    id: str | None = None
    query: str | None = Field(None, description="instead of id: all that closely match")
    confirm: str | None = Field(None, description="handle from the first answer")


class Place(ToolAnswer):
    """How much one place held."""

    place: str
    count: int
    status: str


class Forgotten(ToolAnswer):
    """Answer of forget."""

    status: Literal["needs_confirmation", "erased", "declined", "nothing_found"]
    memories: list[Named]
    places: list[Place]
    confirm: str | None = None
    note: str | None = None


async def forget(call: ToolCall, given: ForgetArguments) -> Forgotten | types.InputRequiredResult:
    """Report what would go, get the consent for exactly that, and erase it."""
    if (given.id is None) == (given.query is None):
        raise InvalidInputError("give either id or query", field="id", value=given.id)
    planned = await call.memory.forget(id=given.id, query=given.query, dry_run=True)
    found = planned.results
    if not found and not any(place.count for place in planned.places):
        return Forgotten(status="nothing_found", memories=[], places=[], note=NOTHING)
    copies = sum(place.count for place in planned.places)
    note = f"With them go {copies} stored copies: versions, history and the messages they came from." * bool(copies)
    decision = await decide(call, ERASE, found, given.confirm, note=note)
    if isinstance(decision, types.InputRequiredResult):
        return decision
    if decision is Decision.YES:
        return await _erase(call, given, found)
    if decision is Decision.NO:
        return _refused(planned)
    return Forgotten(
        status="needs_confirmation",
        memories=[Named.of(item) for item in found],
        places=_places(planned),
        confirm=call.consent.handle(ERASE, call.access.caller, found),
        note=MISMATCH if decision is Decision.MISMATCH else ASK,
    )


async def _erase(call: ToolCall, given: ForgetArguments, found: list[MemoryItem]) -> Forgotten:
    """Erase what the person has agreed to: these ids, not what the query finds by now."""
    ids = [given.id] if given.id is not None else [item.id for item in found]
    reports = [await call.memory.forget(id=id) for id in ids]
    counts: dict[tuple[str, str], int] = {}
    for report in reports:
        for place in _places(report):
            key = place.place, place.status
            counts[key] = counts.get(key, 0) + place.count
    return Forgotten(
        status="erased",
        memories=[Named(id=item.id, memory="(erased)") for report in reports for item in report.results],
        places=[Place(place=place, status=status, count=count) for (place, status), count in counts.items()],
        note=PENDING if any(report.pending for report in reports) else None,
    )


def _refused(planned: ErasureReport) -> Forgotten:
    return Forgotten(status="declined", memories=[Named.of(item) for item in planned.results], places=[], note=DECLINED)


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
