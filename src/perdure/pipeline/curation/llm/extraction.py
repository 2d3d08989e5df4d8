"""Extraction by a language model: one call reads a conversation and answers with facts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from perdure.backends.llms.base import LLM
from perdure.domain.fact import Fact
from perdure.domain.memory import NOTES
from perdure.domain.message import Message, transcript
from perdure.pipeline.curation.llm.evidence import Evidence, holds_quote, squeeze, topic_words
from perdure.pipeline.curation.llm.parsing import FoundEnd, FoundFact, Reading, parse_ends, parse_facts
from perdure.pipeline.curation.rules.extraction import filters
from perdure.pipeline.curation.rules.extraction.notes import MOST, TypedSentence, sentences
from perdure.pipeline.prompting.quoting import one_line
from perdure.pipeline.prompts import load

RULE: Final = "llm"  # the name under which facts and decisions of a model are recorded

_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_QUOTE: Final = {"message": {"type": "integer"}, "quote": {"type": "string"}}
_DAY: Final = {"type": ["string", "null"]}


def _strict(properties: Mapping[str, Any]) -> dict[str, Any]:
    """An object with exactly these keys: OpenAI's strict mode takes no optional ones."""
    return {"type": "object", "properties": dict(properties), "required": [*properties], "additionalProperties": False}


FACTS_SCHEMA: Final = _strict(
    {
        "facts": {
            "type": "array",
            "items": _strict(
                {
                    "text": {"type": "string"},
                    "type": {"type": "string", "enum": ["semantic", "procedural", "episodic"]},
                    **_QUOTE,
                    "valid_from": _DAY,
                    "valid_to": _DAY,
                    "hedged": {"type": "boolean"},
                    "forget": {"type": "boolean"},
                }
            ),
        },
        "ends": {"type": "array", "items": _strict({"memory": {"type": "integer"}, **_QUOTE})},
    }
)
"""The answer that the built-in prompt asks for, for services that take a schema."""
_LONGEST_SHOWN: Final = 300
"""Characters of a memory that is shown for reference."""
_CONTEXT_CHARACTERS: Final = 4_000
"""Characters of the messages before a call that are shown, the last ones."""
_LONGEST_BEFORE: Final = 600
"""Characters of one of them."""
_LEAST_SHARED: Final = 2
"""Words that a sentence shares with a refused fact to be taken for what the fact was made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A fact of a model that was not taken, because nobody said what it says."""

    text: str
    missing: str
    """What is not in the messages: "quote", "number or name", "word"."""
    quote: str
    sources: tuple[int, ...]
    """The message in which the quote stands, else those that the model named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A known memory that a user says is no longer true; `quote` says so in the message `place`."""

    memory: int
    """Its place in the list that the model was shown."""
    quote: str
    place: int


class Extraction(Reading[Fact]):
    """The facts of a conversation; `refused` are those without evidence, `ends` the memories that it ends."""

    def __init__(
        self,
        facts: Iterable[Fact] = (),
        warnings: Sequence[str] = (),
        refused: Sequence[Refusal] = (),
        ends: Sequence[Ending] = (),
    ) -> None:
        super().__init__(facts, warnings)
        self.refused = tuple(refused)
        self.ends = tuple(ends)


async def extract_facts(
    llm: LLM,
    messages: Sequence[Message],
    *,
    prompt: str | None = None,
    now: datetime,
    read_before: int = 0,
    temperature: float | None = 0,
    max_tokens: int | None = None,
    known: Iterable[str] = (),
    reference: Sequence[str] = (),
    context: Sequence[Message] = (),
) -> Extraction:
    """The facts of a conversation in one call, in JSON mode; no words, no call.

    `prompt` replaces the system prompt whole; None for `temperature` or `max_tokens` is the model's own. The first
    `read_before` messages were read by an earlier call, and stand there so that the others can be understood. Each
    fact's sources are the positions that the model gave, else those of all that people said. `now` is the moment of
    messages without a timestamp. A failed call is LLMError, an answer without a list UnreadableAnswer; `warnings` say
    what of a damaged answer was lost.

    The built-in prompt asks for a quote with each fact. A fact counts only if its quote, where it has one, its numbers
    and its names were said (`known` are texts whose names count as said). The answer to a prompt of one's own is taken
    as it is.

    `reference` are memories that are shown beside the conversation, so that the model knows who and what is meant.
    Their names and numbers count as said. The model may end one of them by a user's words; a prompt of one's own is
    not shown any.

    `context` are messages said before, which are shown so that "she" and "yes" are understood, their last
    `_CONTEXT_CHARACTERS` characters. Their names and numbers count as said, but no fact is taken by a quote of theirs:
    it was noted when they were read. A prompt of one's own is not shown them either.
    """
    if not any(message.content.strip() for message in messages):
        return Extraction()
    # What changes from call to call comes last, so that providers can reuse their cache of the long beginning.
    system = prompt or f"{load('extract')}\n\n{circumstances(messages, now, read_before)}"
    shown = () if prompt else reference
    before = () if prompt else said_before(context, messages)
    question = f"{shown_memories(shown)}{_shown_context(before)}{transcript(messages)}"
    form: dict[str, Any] = {"schema": FACTS_SCHEMA} if llm.takes_schema and not prompt else {}
    answer = await llm.generate(
        system, question, temperature=temperature, max_tokens=max_tokens, response_format="json", **form
    )
    found, ended = parse_facts(answer), parse_ends(answer) if shown else []
    earlier = [message.content for message in before]
    names = [message.name for message in before if message.name]
    evidence = None if prompt else Evidence(messages, now, [*known, *names], [*shown, *earlier])
    spoken = _spoken(messages)
    spoken = tuple(position for position in spoken if position >= read_before) or spoken
    facts: dict[str, Fact] = {}
    refused: list[Refusal] = []
    for each in found:
        taken = _fact(each, spoken, len(messages)) if evidence is None else _proven(each, evidence, spoken)
        if isinstance(taken, Refusal) and _is_said_in(earlier, each.quote):
            continue
        if isinstance(taken, Refusal):
            refused.append(taken)
        else:
            facts.setdefault(each.text, taken)
    ends = [] if evidence is None else _proven_ends(ended, evidence, messages, read_before, shown)
    return Extraction(facts.values(), found.warnings, refused, ends)


def shown_memories(texts: Sequence[str]) -> str:
    """The memories as they stand before a conversation: numbered JSON, of which no text can pass for a message."""
    if not texts:
        return ""
    listed = [{"memory": number, "text": one_line(text)[:_LONGEST_SHOWN]} for number, text in enumerate(texts)]
    return f"Known memories: {json.dumps(listed, ensure_ascii=False)}\n\n"


def said_before(context: Sequence[Message], messages: Sequence[Message]) -> list[Message]:
    """The last earlier messages of people and assistants that are shown, each cut to what is read of it.

    A conversation that is added once more is not its own context: it is asked as it was, and answered from the cache.
    """
    again = {(message.role, message.content) for message in messages}
    shown: list[Message] = []
    left = _CONTEXT_CHARACTERS
    for message in reversed(context):
        text = one_line(message.content)[:_LONGEST_BEFORE]
        if message.role not in ("user", "assistant") or not text or (message.role, message.content) in again:
            continue
        if len(text) > left:
            break
        left -= len(text)
        shown.append(replace(message, content=text))
    return shown[::-1]


def _shown_context(messages: Sequence[Message]) -> str:
    """Earlier messages as they stand before a conversation: JSON, of which no text can pass for a message of it."""
    if not messages:
        return ""
    listed = [
        {"role": message.role, **({"name": message.name} if message.name else {}), "text": message.content}
        for message in messages
    ]
    return f"Said before, for reference only: {json.dumps(listed, ensure_ascii=False)}\n\n"


def _is_said_in(texts: Sequence[str], quote: str | None) -> bool:
    """Whether a quote stands in one of the texts."""
    return bool(quote) and any(holds_quote(squeeze(text), quote or "") for text in texts)


def _proven_ends(
    found: Sequence[FoundEnd],
    evidence: Evidence,
    messages: Sequence[Message],
    read_before: int,
    shown: Sequence[str],
) -> list[Ending]:
    """The ends whose quote stands in a user's message, each memory once: nothing is retired on a model's word alone."""
    ends: dict[int, Ending] = {}
    for each in found:
        users = [place for place in each.sources if 0 <= place < len(messages) and messages[place].role == "user"]
        place = evidence.place(each.quote, users)
        if place is None or place < read_before or messages[place].role != "user":
            continue
        if 0 <= each.memory < len(shown) and evidence.is_telling(each.quote, place, shown[each.memory]):
            ends.setdefault(each.memory, Ending(memory=each.memory, quote=each.quote, place=place))
    return list(ends.values())


def _proven(found: FoundFact, evidence: Evidence, spoken: tuple[int, ...]) -> Fact | Refusal:
    """The fact with the message of its quote as its source, or why it is refused.

    What a user wants forgotten may be named by what is remembered of it, so of its quote only the place is looked up.
    """
    fact = _fact(found, spoken, evidence.count)
    if not evidence.is_statement(found.text):
        return Refusal(text=found.text, missing="word", quote=found.quote or "", sources=fact.sources)
    if found.quote is not None:
        place = evidence.place(found.quote, fact.sources)
        if place is None or not (found.forget or evidence.is_telling(found.quote, place, found.text)):
            return Refusal(text=found.text, missing="quote", quote=found.quote, sources=fact.sources)
        others = tuple(position for position in found.sources if len(found.sources) > 1 and position != place)
        fact = _fact(replace(found, sources=(place, *others)), spoken, evidence.count)
    if (found.quote is None or not found.forget) and evidence.missing(found.text):
        return Refusal(text=found.text, missing="number or name", quote=found.quote or "", sources=fact.sources)
    return fact


def refused_notes(read: Extraction, messages: Sequence[Message], read_before: int = 0) -> list[Fact]:
    """The sentences that refused facts were made of, as notes, each once: what people said there is not lost.

    A sentence has the quote, else it shares most words with the fact, two at least. A message of which facts were
    refused and none is left tells no sentence apart, so all of it is noted that is no courtesy, question or request.
    """
    people = [position for position in _spoken(messages) if position >= read_before]
    typed = {position: sentences(messages[position].content) for position in people}
    found = [each for refusal in read.refused if (each := _sentence(refusal, typed)) is not None]
    told = {position for position, _ in found}.union(*(fact.sources for fact in read))
    named = {position for refusal in read.refused for position in refusal.sources}
    found += [
        (position, sentence.text)
        for position in people
        if position in named - told
        for sentence in [each for each in typed[position] if _may_tell(each.text)][:MOST]
    ]
    notes: dict[str, Fact] = {}
    for position, text in found:
        name = (messages[position].name or "").strip()
        said = f"{name}: {text}" if name else text
        notes.setdefault(said, Fact(text=said, kind=NOTES, sources=(position,), rule="llm: refused"))
    return list(notes.values())


def _may_tell(sentence: str) -> bool:
    """Whether a sentence is no courtesy, question or request."""
    asks = filters.is_question(sentence, sentence.endswith("?")) or filters.is_request(sentence)
    return not asks and not filters.is_chatter(sentence)


def _sentence(refusal: Refusal, typed: Mapping[int, Sequence[TypedSentence]]) -> tuple[int, str] | None:
    asked = frozenset(topic_words(f"{refusal.text} {refusal.quote}"))
    best, most = None, _LEAST_SHARED - 1
    order = [*(position for position in refusal.sources if position in typed), *typed]
    for position in dict.fromkeys(order):
        for sentence in typed[position]:
            if refusal.missing != "quote" and refusal.quote and holds_quote(squeeze(sentence.text), refusal.quote):
                return position, sentence.text
            shared = len(asked.intersection(topic_words(sentence.text)))
            if shared > most:
                best, most = (position, sentence.text), shared
    return best


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
