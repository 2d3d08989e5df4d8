"""Extraction by a language model: one call reads a conversation and answers with facts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from perdure.backends.llms.base import LLM
from perdure.domain.fact import Fact
from perdure.domain.message import Message, transcript
from perdure.pipeline.curation.llm.parsing import FoundFact, Reading, parse_facts
from perdure.pipeline.prompts import load

RULE: Final = "llm"  # the name under which facts and decisions of a model are recorded

_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


async def extract_facts(
    llm: LLM,
    messages: Sequence[Message],
    *,
    prompt: str | None = None,
    now: datetime,
    read_before: int = 0,
    temperature: float | None = 0,
    max_tokens: int | None = None,
) -> Reading[Fact]:
    """The facts of a conversation in one call, in JSON mode; no words, no call.

    `prompt` replaces the system prompt whole; None for `temperature` or `max_tokens` is the model's own. The first
    `read_before` messages were read by an earlier call, and stand there so that the others can be understood. Each
    fact's sources are the positions that the model gave, else those of all that people said. `now` is the moment of
    messages without a timestamp. A failed call is LLMError, an answer without a list UnreadableAnswer; `warnings` say
    what of a damaged answer was lost.
    """
    if not any(message.content.strip() for message in messages):
        return Reading()
    # What changes from call to call comes last, so that providers can reuse their cache of the long beginning.
    system = prompt or f"{load('extract')}\n\n{circumstances(messages, now, read_before)}"
    answer = await llm.generate(
        system, transcript(messages), temperature=temperature, max_tokens=max_tokens, response_format="json"
    )
    found = parse_facts(answer)
    spoken = _spoken(messages)
    spoken = tuple(position for position in spoken if position >= read_before) or spoken
    facts: dict[str, Fact] = {}
    for each in found:
        facts.setdefault(each.text, _fact(each, spoken, len(messages)))
    return Reading(facts.values(), found.warnings)


def circumstances(messages: Sequence[Message], now: datetime, read_before: int = 0) -> str:
    """When the conversation took place and who spoke in it, for the end of the system prompt.

    The transcript tells neither, and "yesterday" in an old conversation is not the day before the import.
    """
    days = [_day(message.timestamp or now) for message in messages]
    lines = [f"This conversation took place on {days[0]}."]
    notes = []
    for position, message in enumerate(messages):
        by = f" by {json.dumps(message.name, ensure_ascii=False)}" if _is_named_person(message) else ""
        on = f" on {days[position]}" if position > 0 and days[position] != days[position - 1] else ""
        if by or on:
            notes.append(f"{position}{by}{on}")
    if notes:
        lines.append(f"Its messages, counted from 0: {'; '.join(notes)}.")
    if read_before:
        lines.append(
            f"Messages 0 to {read_before - 1} were noted before and stand here to make the rest clear: "
            "note what the later ones tell."
        )
    if any(map(_is_named_person, messages)):
        lines.append('Note what each named speaker tells of themself, with their name in place of "User".')
    return "\n".join(lines)


def _is_named_person(message: Message) -> bool:
    """Whether a name says who speaks; that of a tool's message is the tool's."""
    return bool(message.name) and message.role in ("user", "assistant")


def _day(moment: datetime) -> str:
    day = moment.astimezone(UTC).date()
    return f"{_WEEKDAYS[day.weekday()]} {day.isoformat()}"


def _spoken(messages: Sequence[Message]) -> tuple[int, ...]:
    """Positions of what people said: users and named speakers; of all messages where there is none."""
    people = tuple(
        position for position, message in enumerate(messages) if message.role == "user" or _is_named_person(message)
    )
    return people or tuple(range(len(messages)))


def _fact(found: FoundFact, spoken: tuple[int, ...], count: int) -> Fact:
    given = tuple(sorted({position for position in found.sources if 0 <= position < count}))
    return Fact(
        text=found.text,
        sources=given or spoken,
        type=found.type,
        valid_from=found.valid_from,
        valid_to=found.valid_to,
        forget=found.forget,
        hedged=found.hedged,
        rule=RULE,
    )
