"""What the scripted model answers: always the facts that were told, in whatever form a request asks for.

The form is read from the request, never from who sent it:

1. Tools. A tool that takes one text is called once for each fact; one that takes `json_doc_id` and `patches` once for
   each shown document that a fact makes untrue; one that only removes, never; any other once, filled in by rule 3.
2. JSON mode. Where the prompt holds a JSON Schema, rule 3. Else the example in the prompt, `{"key": [element, ...]}`,
   says under which key to answer and what an element looks like. Facts beside memories call for decisions: UPDATE of
   the memory that the fact makes untrue, where it is shown, else ADD.
3. A JSON Schema is filled in by the names of its properties: `_ITEMS` and `_OBJECTS` say how. What they do not name
   gets the empty value of its type.
4. Otherwise one sentence of summary.

"Return 1-3 ..." in a prompt is obeyed, and so is "MUST return ALL memories".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from model_cost.scenes import KNOWN, TOLD, Fact

TEXTS = ("text", "content", "fact", "memory", "statement")
"""Names under which a statement is asked for."""
REFERENCE_TIME = "2026-11-22T00:00:00Z"

_LIMIT = re.compile(r"\breturn \d+-(\d+)\b", re.IGNORECASE)
_OPENING = re.compile(r"[\[{]")
_EXAMPLE = re.compile(r'\{\s*"\w+"\s*:\s*\[')
_DOCUMENT = re.compile(r'<instance id=(\S+) schema_type="[^"]*">\n(.*?)\n</instance>', re.DOTALL)
_NUMBERED = re.compile(r"'idx': (\d+), 'fact': ([\"'])(.*?)\2\}")
_BY_TEXT = {fact.text: fact for fact in (*KNOWN, *TOLD)}


@dataclass(frozen=True, slots=True)
class Ask:
    """A request, whichever of the two chat routes it came by."""

    messages: tuple[tuple[str, str], ...]
    """Role and text of each."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Each with name, description and parameters."""
    schema: Mapping[str, Any] | None = None
    """Of the structured output that is demanded."""
    json_mode: bool = False

    @property
    def text(self) -> str:
        """All messages as one text."""
        return "\n".join(text for _, text in self.messages)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said: a text, or calls (name and arguments of each)."""

    text: str | None = None
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


def answer(ask: Ask, facts: Sequence[Fact]) -> Answer:
    """The answer to a request, while a conversation that tells these facts is being read."""
    limit = _LIMIT.search(ask.text)
    case = _Case(ask, facts[: int(limit.group(1))] if limit else facts)
    if ask.tools:
        return Answer(calls=[call for tool in ask.tools for call in case.calls(tool)])
    schema = ask.schema or (case.schema_in_prompt() if ask.json_mode else None)
    if schema is not None:
        return Answer(json.dumps(case.filled(schema, schema), ensure_ascii=False))
    if ask.json_mode:
        return Answer(json.dumps(case.as_in_example(), ensure_ascii=False))
    return Answer(case.summary())


class _Case:
    """One request and the facts to answer it with."""

    def __init__(self, ask: Ask, facts: Sequence[Fact]) -> None:
        self.ask = ask
        self.facts = facts

    def summary(self) -> str:
        return ". ".join(fact.text for fact in self.facts)[:250] + "."

    # ------------------------------------------------------------------ tools
    def calls(self, tool: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        name, parameters = tool["name"], tool["parameters"]
        names = set(parameters.get("properties", {}))
        documents = {_text_of(shown): id for id, shown in _DOCUMENT.findall(self.ask.text)}
        if "json_doc_id" in names:
            for fact in self.facts if "patches" in names else ():
                if fact.replaces in documents:
                    patch = {"op": "replace", "path": "/content", "value": fact.text}
                    plan = f"Replace the content with: {fact.text}"
                    given = {"json_doc_id": documents[fact.replaces], "planned_edits": plan, "patches": [patch]}
                    yield name, given
        elif len(names) == 1 and names <= set(TEXTS):
            for fact in self.facts:
                if fact.replaces not in documents:
                    yield name, {next(iter(names)): fact.text}
        else:
            yield name, self.filled(parameters, parameters)

    # ------------------------------------------------------------------ JSON mode
    def schema_in_prompt(self) -> Mapping[str, Any] | None:
        return next((each for each in _json_in(self.ask.text) if isinstance(each, dict) and "properties" in each), None)

    def as_in_example(self) -> dict[str, Any]:
        """`{"key": [...]}` with the key and the elements of the prompt's own example."""
        examples = [each for each in _json_in(self.ask.text, _EXAMPLE) if isinstance(each, dict)]
        new = self.new_facts()
        if new and self.memories():
            return {self._decision_key(): self.decisions(new, {"fact", "event", "id", "text"})}
        shown = [(key, value[0]) for each in examples for key, value in each.items() if value]
        fullest: tuple[str, Any] = max(
            shown, key=lambda pair: len(pair[1]) if isinstance(pair[1], dict) else 0, default=("facts", {})
        )
        key, example = fullest
        return {key: [_like(example, number, fact.text) for number, fact in enumerate(self.facts)]}

    def _decision_key(self) -> str:
        """That of the last list in the prompt, whose elements may be left out."""
        found = re.findall(r'\{"(\w+)": \[', self.ask.messages[0][1])
        return found[-1] if found else "operations"

    # ------------------------------------------------------------------ decisions
    def memories(self) -> dict[str, Any]:
        """Ids of the memories shown, by their text."""
        return {
            each["text"]: each["id"]
            for each in self._listed()
            if isinstance(each, dict) and {"id", "text"} <= set(each)
        }

    def new_facts(self) -> list[str]:
        """The facts shown beside them: texts, or entries with a number."""
        listed = self._listed()
        numbered = [each["text"] for each in listed if isinstance(each, dict) and {"fact", "text"} <= set(each)]
        return numbered or [each for each in listed if isinstance(each, str)]

    def _listed(self) -> list[Any]:
        values = _json_in(self.ask.messages[-1][1])
        lists = [inner for value in values for inner in (value.values() if isinstance(value, dict) else [value])]
        return [element for each in lists if isinstance(each, list) for element in each]

    def decisions(self, new: Sequence[str], names: set[str]) -> list[dict[str, Any]]:
        """What becomes of each new fact, with those of the names that apply; of all memories where that is asked."""
        memories = self.memories()
        made: list[dict[str, Any]] = []
        for number, text in enumerate(new):
            known = _BY_TEXT.get(text)
            id = memories.pop(known.replaces, None) if known else None
            change = {"event": "ADD"} if id is None else {"event": "UPDATE", "id": id}
            made.append({"fact": number, **change, "text": text})
        if "MUST return ALL memories" in self.ask.text:
            made = [*({"event": "NONE", "id": id} for id in memories.values()), *made]
        return [{name: value for name, value in each.items() if name in names} for each in made]

    # ------------------------------------------------------------------ JSON Schema
    def filled(self, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
        """A value that satisfies the schema and tells the facts."""
        options = _options(schema, root)
        kinds = {option.get("type") for option in options}
        if "object" in kinds:
            properties = _properties(options)
            for needed, build in _OBJECTS:
                if needed <= set(properties):
                    return _complete(build(self), properties, options, root)
            return {name: self.filled(each, root) for name, each in properties.items()}
        if "array" in kinds:
            return self._array(next(option for option in options if option.get("type") == "array"), root)
        return _empty(options)

    def _array(self, schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Any]:
        options = _options(schema.get("items", {}), root)
        if {option.get("type") for option in options} == {"string"}:
            return [fact.text for fact in self.facts]
        properties = _properties(options)
        for needed, build in _ITEMS:
            if needed <= set(properties):
                return [_complete(each, properties, options, root) for each in build(self, set(properties))]
        texts = [name for name in TEXTS if properties.get(name, {"type": "integer"}).get("type") != "integer"][:1]
        return [
            _complete({name: fact.text, "quote": fact.said}, properties, options, root)
            for fact in self.facts
            for name in texts
        ]

    def things(self) -> list[str]:
        """Everything that the facts speak of, once."""
        return list(dict.fromkeys(name for fact in self.facts for name in (fact.subject, fact.object)))

    def relations(self, _: set[str]) -> list[dict[str, Any]]:
        return [
            {
                "source_entity_name": fact.subject,
                "target_entity_name": fact.object,
                "relation_type": fact.relation,
                "fact": fact.text,
                "valid_at": REFERENCE_TIME,
            }
            for fact in self.facts
        ]

    def resolutions(self, _: set[str]) -> list[dict[str, Any]]:
        """Each listed entity beside the listed candidate of the same name."""
        listed = self._listed()
        known = {
            each["name"]: each["candidate_id"] for each in listed if isinstance(each, dict) and "candidate_id" in each
        }
        asked = [each for each in listed if isinstance(each, dict) and "id" in each and "name" in each]
        return [{**each, "duplicate_candidate_id": known.get(each["name"], -1)} for each in asked]

    def summaries(self, _: set[str]) -> list[dict[str, Any]]:
        return [
            {"name": name, "summary": ". ".join(f.text for f in self.facts if name in (f.subject, f.object))}
            for name in self.things()
        ]

    def contradictions(self) -> dict[str, Any]:
        """The numbers of the listed facts that the new fact makes untrue."""
        new = next((fact for fact in self.facts if fact.replaces and f"\n{fact.text}\n" in self.ask.text), None)
        listed = [(int(number), text) for number, _, text in _NUMBERED.findall(self.ask.text)]
        return {"contradicted_facts": [number for number, text in listed if new is not None and text == new.replaces]}


_ITEMS = (
    ({"source_entity_name", "target_entity_name", "fact"}, _Case.relations),
    ({"id", "name", "duplicate_candidate_id"}, _Case.resolutions),
    ({"name", "entity_type_id"}, lambda case, _: [{"name": name} for name in case.things()]),
    ({"name", "summary"}, _Case.summaries),
    ({"event", "id", "text"}, lambda case, names: case.decisions(case.new_facts(), names)),
)
"""How elements of an array are made, by the properties that they have."""

_OBJECTS = (
    ({"duplicate_facts", "contradicted_facts"}, _Case.contradictions),
    ({"valid_at", "invalid_at"}, lambda _: {"valid_at": REFERENCE_TIME}),
    ({"summary"}, lambda case: {"summary": case.summary()}),
)
"""How an object is made, by the properties that it has."""


# ---------------------------------------------------------------------- values and schemas
def _text_of(shown: str) -> str:
    """The statement inside a document as it is printed."""
    found = re.search(r"content['\"]?\s*[:=]\s*(['\"])(.*?)\1", shown)
    return found.group(2) if found else shown


def _like(example: Any, number: int, text: str) -> Any:
    """An element with the example's keys: the text in its place, its position as the id, lists empty."""
    if not isinstance(example, dict):
        return text
    where = next((name for name in TEXTS if name in example), "text")
    rest = {key: [] if isinstance(value, list) else value for key, value in example.items()}
    if "id" in rest:
        rest["id"] = str(number)
    return {**rest, where: text}


def _json_in(text: str, start: re.Pattern[str] = _OPENING) -> list[Any]:
    """Every JSON array and object in a text, without those inside another."""
    values, position = [], 0
    while found := start.search(text, position):
        try:
            value, position = json.JSONDecoder().raw_decode(text, found.start())
            values.append(value)
        except ValueError:
            position = found.start() + 1
    return values


def _options(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The schemas that a value may satisfy, with references followed."""
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return _options(target, root)
    if isinstance(schema.get("type"), list):
        return [{**schema, "type": kind} for kind in schema["type"]]
    parts = schema.get("anyOf") or schema.get("oneOf") or (schema.get("allOf") or [])[:1]
    return [option for part in parts for option in _options(part, root)] if parts else [schema]


def _properties(options: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {name: each for option in options for name, each in option.get("properties", {}).items()}


def _complete(
    value: dict[str, Any],
    properties: Mapping[str, Mapping[str, Any]],
    options: Sequence[Mapping[str, Any]],
    root: Mapping[str, Any],
) -> dict[str, Any]:
    """The value with what the schema still demands; of several schemas each leaves out what it does not need."""
    needed = set(properties) if len(options) == 1 else set.intersection(*(set(o.get("required", ())) for o in options))
    missing = {name: _empty(_options(properties[name], root)) for name in needed - set(value)}
    return {**{name: each for name, each in value.items() if name in properties}, **missing}


def _empty(options: Sequence[Mapping[str, Any]]) -> Any:
    kinds = {option.get("type") for option in options}
    if "null" in kinds:
        return None
    return {"integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}.get(str(options[0].get("type")), "")
