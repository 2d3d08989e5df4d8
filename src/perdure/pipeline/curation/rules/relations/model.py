"""Extract entities and relations with a language model: two tool calls, each retried once.

Answers are validated: a relation between entities that the model did not name, or of another shape than the schema
asks for, is dropped. The text goes into the question as quoted data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from perdure.backends.llms.base import LLM
from perdure.domain.clock import iso, parse_moment, read_moment
from perdure.domain.graph import DEFAULT_TYPE, ENTITY_TYPES, Entity, Mention, Relation, entity_key
from perdure.domain.text.readable import is_unicode
from perdure.pipeline.curation.rules.relations.names import LONGEST_NAME, table
from perdure.pipeline.curation.rules.relations.roles import slot_of
from perdure.pipeline.prompts import load

T = TypeVar("T")
TRIES: Final = 2
MOST: Final = 100  # entities, or relations, kept of one memory

ENTITIES_TOOL: Final[Mapping[str, Any]] = {
    "name": "extract_entities",
    "description": "Extract entities (people, organizations, concepts, locations, events) from the conversation",
    "parameters": {
        "type": "object",
        "properties": {
            "entities": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "description": "Entity name (normalized, title case)"},
                        "type": {"type": "string", "enum": list(ENTITY_TYPES)},
                        "description": {"type": "string", "description": "Brief description of the entity"},
                    },
                    "required": ["name", "type"],
                },
            }
        },
    },
}
"""The schema of the first call; its wording is part of the public contract."""

RELATIONS_TOOL: Final[Mapping[str, Any]] = {
    "name": "extract_relations",
    "description": "Extract relationships between entities",
    "parameters": {
        "type": "object",
        "properties": {
            "relations": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "source": {"type": "string", "description": "Source entity name"},
                        "relation": {
                            "type": "string",
                            "description": "Relationship type (e.g., works_at, located_in, uses, knows)",
                        },
                        "target": {"type": "string", "description": "Target entity name"},
                        "valid_from": {"type": "string", "description": "First day on which it holds (YYYY-MM-DD)"},
                        "valid_to": {"type": "string", "description": "First day on which it is over (YYYY-MM-DD)"},
                    },
                    "required": ["source", "relation", "target"],
                },
            }
        },
    },
}
"""The schema of the second call, with the time for which a relation holds."""

_SAME_TOOL: Final[Mapping[str, Any]] = {
    "name": "same_entity",
    "description": "Tell which of the known entities the name means",
    "parameters": {
        "type": "object",
        "properties": {"number": {"type": "integer", "description": "Its number, or -1 for none of them"}},
        "required": ["number"],
    },
}


async def read_with_model(
    llm: LLM, text: str, *, told_at: str, user_name: str = "User"
) -> tuple[tuple[Mention, ...], tuple[Relation, ...]]:
    """The entities and relations of a text in two calls at temperature 0; no entities, no second call.

    `told_at` is ISO 8601, else InvalidInputError. A failed call is LLMError. An answer that cannot be read is asked for
    again once, and then there is nothing.
    """
    day = parse_moment(told_at, "told_at").date().isoformat()
    system = f"{load('relate_entities')}\n\nThe text was written on {day}."
    mentions = await _ask(llm, system, {"text": text}, ENTITIES_TOOL, _read_mentions) if text.strip() else None
    if not mentions:
        return (), ()
    by_key = {mention.key: mention for mention in mentions}
    named = [mention.name for mention in by_key.values()]
    system = f"{load('relate_relations')}\n\nThe text was written on {day}. Its user is called {json.dumps(user_name)}."

    def read(arguments: Mapping[str, Any]) -> list[Relation] | None:
        return _read_relations(arguments, by_key)

    relations = await _ask(llm, system, {"text": text, "entities": named}, RELATIONS_TOOL, read)
    return tuple(by_key.values()), tuple(dict.fromkeys(relations or ()))


async def choose(llm: LLM, name: str, text: str, candidates: Sequence[Entity]) -> str | None:
    """Which candidate a name in a text means, by a model that sees them by number; None if it says none, or too much.

    A failed call is LLMError. For names that `resolve.resolve` leaves open.
    """
    if not candidates:
        return None
    known = [
        {"number": number, "name": each.name, "type": each.type, "description": each.description}
        for number, each in enumerate(candidates)
    ]

    def read(arguments: Mapping[str, Any]) -> int | None:
        number = arguments.get("number")
        is_one = isinstance(number, int) and not isinstance(number, bool) and -1 <= number < len(candidates)
        return number if is_one else None

    asked = {"name": name, "text": text, "known": known}
    number = await _ask(llm, load("relate_same"), asked, _SAME_TOOL, read)
    return None if number is None or number < 0 else candidates[number].name


async def _ask(
    llm: LLM,
    system: str,
    asked: Mapping[str, Any],
    tool: Mapping[str, Any],
    read: Callable[[Mapping[str, Any]], T | None],
) -> T | None:
    """What is read from the model's call of a tool; None if it made no call that can be read, nor when asked again."""
    question = json.dumps(asked, ensure_ascii=False)
    message = question
    for _ in range(TRIES):
        answer = await llm.generate_with_tool_calls(system, message, [tool], temperature=0)
        for call in answer.tool_calls:
            found = read(call.arguments) if call.name == tool["name"] else None
            if found is not None:
                return found
        message = f"{question}\n\nCall the tool {tool['name']} once, with arguments as its schema says."
    return None


def _read_mentions(arguments: Mapping[str, Any]) -> list[Mention] | None:
    """The entities of an answer; None if it is none, or names nothing that can be used."""
    entries = arguments.get("entities")
    if not isinstance(entries, list):
        return None
    found = []
    for entry in entries[:MOST]:
        name = _text(entry, "name")
        if name:
            kind = _text(entry, "type").casefold()
            known = kind if kind in ENTITY_TYPES else DEFAULT_TYPE
            found.append(Mention(name=name, type=known, description=_text(entry, "description")))
    return found if found or not entries else None


def _read_relations(arguments: Mapping[str, Any], known: Mapping[str, Mention]) -> list[Relation] | None:
    """The relations of an answer between known entities; None if it is none, or holds nothing that can be used."""
    entries = arguments.get("relations")
    if not isinstance(entries, list):
        return None
    found = [relation for entry in entries[:MOST] if (relation := _relation(entry, known)) is not None]
    return found if found or not entries else None


def _relation(entry: object, known: Mapping[str, Mention]) -> Relation | None:
    source = known.get(entity_key(_text(entry, "source")))
    target = known.get(entity_key(_text(entry, "target")))
    written = re.sub(r"[^\w]+", "_", _text(entry, "relation").casefold()).strip("_")
    relation = _synonyms().get(written, written)
    if source is None or target is None or source.key == target.key or not relation or len(relation) > 60:
        return None
    start, end = (read_moment(_text(entry, field)) for field in ("valid_from", "valid_to"))
    if start is not None and end is not None and end <= start:
        return None
    return Relation(
        source=source.name,
        relation=relation,
        target=target.name,
        valid_from=None if start is None else iso(start),
        valid_to=None if end is None else iso(end),
        slot=slot_of(relation, source.name, target.name),
        rule="llm",
        confidence=0.8,
    )


@cache
def _synonyms() -> dict[str, str]:
    return {row[0]: row[1] for row in table("synonyms.tsv")}


def _text(entry: object, field: str) -> str:
    """A text of an entry, without outer and double spaces; empty if it has none that may be kept."""
    value = entry.get(field) if isinstance(entry, Mapping) else None
    if not isinstance(value, str) or not is_unicode(value) or "\x00" in value:
        return ""
    text = " ".join(value.split())
    return text if len(text) <= LONGEST_NAME or field == "description" else ""
