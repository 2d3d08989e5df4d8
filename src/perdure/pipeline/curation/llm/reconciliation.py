"""Reconciliation by a language model: what becomes of new facts beside the memories near them.

Spec 000 §4.3.3 (one fact a call) and 002 §4.3 (all facts in one call).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from perdure.backends.llms.base import LLM
from perdure.domain.errors import InvalidInputError, LLMError
from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.domain.memory import MemoryItem
from perdure.domain.text.terms import split_words
from perdure.pipeline.curation.llm.parsing import Operation, Reading, UnreadableAnswer, parse_operations
from perdure.pipeline.prompts import load

_SAME_STATEMENT: Final = 0.8
"""Share of a fact's words in a memory from which a NONE that names only the memory is taken to mean that fact."""
_SAME_MATTER: Final = 0.5
"""Share of a fact's words in an operation's text from which an operation without a fact is taken to be about it."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a model decides on: facts, the neighbours of each, and the memories by the number that it sees."""

    facts: Sequence[Fact]
    neighbours: Sequence[Sequence[Neighbour]]
    shown: Mapping[int, MemoryItem]

    @classmethod
    def of(cls, facts: Sequence[Fact], neighbours: Sequence[Sequence[Neighbour]]) -> Case:
        """The case with all neighbours numbered from 0, each once: a model copies long ids wrongly."""
        union = {each.item.id: each.item for near in neighbours for each in near}
        return cls(facts, neighbours, dict(enumerate(union.values())))

    def item(self, operation: Operation) -> MemoryItem | None:
        """The memory that an operation names, if it was shown."""
        return self.shown.get(operation.id) if isinstance(operation.id, int) else None

    def is_known(self, operation: Operation) -> bool:
        """Whether the operation names a memory that was shown, or needs none."""
        if operation.event == "ADD" or (operation.event == "NONE" and operation.id is None):
            return True
        return self.item(operation) is not None

    def says_nothing_new(self, operation: Operation) -> bool:
        """Whether an UPDATE lacks a text, or repeats the memory's own."""
        item = self.item(operation)
        return operation.event == "UPDATE" and (
            not operation.text or (item is not None and item.memory == operation.text)
        )

    def is_near(self, fact: int, item: MemoryItem) -> bool:
        """Whether the memory is one of the fact's own neighbours, not only of another fact's."""
        return any(each.item.id == item.id for each in self.neighbours[fact])


def settle(case: Case, operations: Reading[Operation]) -> list[list[Decision]]:
    """The decisions of each fact, in their order.

    An operation on a memory that was not shown is ignored. A fact that is left without a decision is added, and so is
    one whose only operations are DELETE. A memory is updated or deleted by one fact alone, to which it is a neighbour;
    what another fact wants done with it becomes an ADD.
    """
    known = [operation for operation in operations if case.is_known(operation)]
    whole = len(known) == len(operations) and not operations.warnings
    owned: list[list[Operation]] = [[] for _ in case.facts]
    if whole and known and all(each.event == "NONE" and not _names_fact(case, each) for each in known):
        # 002's form: every memory stays as it is, and no fact is named. Then nothing is added.
        owned = [[max(known, key=lambda each: _likeness(case, fact, each))] for fact in case.facts]
    else:
        for operation in known:
            owner = _owner(case, operation)
            if owner is not None:
                owned[owner].append(operation)
    ground = _Ground(case)
    return [ground.decide(position, own) for position, own in enumerate(owned)]


def add(fact: Fact, rule: str, *links: str) -> Decision:
    """The decision that keeps a fact whatever else happened; a request to forget is nothing to keep."""
    if fact.forget:
        return Decision(event="NONE", rule=rule)
    return Decision(event="ADD", text=fact.text, rule=rule, confidence=fact.confidence, links=links)


@dataclass(slots=True)
class _Ground:
    """The memories as the decisions so far will leave them."""

    case: Case
    updated: dict[str, str] = field(default_factory=dict)  # new texts by id
    deleted: set[str] = field(default_factory=set)

    def decide(self, position: int, operations: Sequence[Operation]) -> list[Decision]:
        """The decisions of one fact: what it retires, then what it adds; a NONE counts only alone."""
        fact = self.case.facts[position]
        if fact.forget:
            return self._forget(fact, operations)
        if fact.hedged:
            return [self._hedge(fact, operations)]
        decisions = [made for each in operations if (made := self._one(position, each, operations)) is not None]
        retired = [decision for decision in decisions if decision.event in ("UPDATE", "DELETE")]
        texts = {decision.text for decision in retired}
        news = [*retired, *(made for made in _each_text_once(decisions) if made.text not in texts)]
        if any(operation.event == "DELETE" for operation in operations) and not any(each.text for each in news):
            news.append(add(fact, "llm: only deletes"))
        return news or decisions[:1] or [add(fact, "llm: not mentioned")]

    def _one(self, position: int, operation: Operation, among: Sequence[Operation]) -> Decision | None:
        fact, item = self.case.facts[position], self.case.item(operation)
        if operation.event == "ADD":
            repeats = any(operation.text == each.memory for each in self.case.shown.values())
            text = fact.text if repeats or not operation.text else operation.text
            return Decision(event="ADD", text=text, rule="llm", confidence=fact.confidence)
        if operation.event == "NONE":
            if item is not None and item.id in self.deleted:
                return add(fact, "llm: memory gone")
            return _none(fact, item)
        assert item is not None, "operations on unknown memories were dropped before"
        if not self.case.is_near(position, item):
            return add(fact, "llm: another fact's neighbour", item.id)
        if operation.event == "UPDATE":
            return self._update(fact, operation, item)
        reworded = any(other.event == "UPDATE" and other.id == operation.id for other in among)
        return None if reworded else self._delete(fact, item)

    def _update(self, fact: Fact, operation: Operation, item: MemoryItem) -> Decision:
        if self.case.says_nothing_new(operation):
            return add(fact, "llm: update without text", item.id)
        if self.updated.get(item.id) == operation.text:
            return _none(fact, item)
        if operation.refines and _words(operation.text) <= _words(item.memory):
            return _none(fact, item)  # less precise: the memory says all of it, and more
        if item.id in self.updated or item.id in self.deleted:
            return add(fact, "llm: memory taken")
        self.updated[item.id] = operation.text
        return Decision(event="UPDATE", text=operation.text, target=item.id, rule="llm", confidence=fact.confidence)

    def _delete(self, fact: Fact, item: MemoryItem) -> Decision | None:
        if item.id in self.updated or item.id in self.deleted:
            return None
        self.deleted.add(item.id)
        return Decision(event="DELETE", target=item.id, rule="llm", confidence=fact.confidence)

    def _forget(self, fact: Fact, operations: Sequence[Operation]) -> list[Decision]:
        """What is to be forgotten goes, also where the model would rather have reworded it."""
        items = [self.case.item(operation) for operation in operations if operation.event in ("DELETE", "UPDATE")]
        gone = [made for item in items if item is not None and (made := self._delete(fact, item)) is not None]
        return gone or [_none(fact, None)]

    def _hedge(self, fact: Fact, operations: Sequence[Operation]) -> Decision:
        """A maybe retires nothing: what it would have replaced becomes a soft link."""
        named = [(operation.event, self.case.item(operation)) for operation in operations]
        if named and all(event == "NONE" for event, _ in named):
            item = named[0][1]
            return add(fact, "llm: memory gone") if item is not None and item.id in self.deleted else _none(fact, item)
        replaced = [item.id for event, item in named if event in ("UPDATE", "DELETE") and item is not None]
        links = [id for id in dict.fromkeys(replaced) if id not in self.deleted]
        return add(fact, "llm: hedged" if links else "llm", *links)


def _each_text_once(decisions: Sequence[Decision]) -> list[Decision]:
    """The ADDs among the decisions; those of the same text are one, with the links of all."""
    added: dict[str, Decision] = {}
    for made in decisions:
        if made.event == "ADD":
            links = (*added[made.text].links, *made.links) if made.text in added else made.links
            added[made.text] = replace(made, links=tuple(dict.fromkeys(links)))
    return list(added.values())


def _none(fact: Fact, item: MemoryItem | None) -> Decision:
    return Decision(event="NONE", target=item.id if item else None, rule="llm", confidence=fact.confidence)


def _names_fact(case: Case, operation: Operation) -> bool:
    return operation.fact is not None and 0 <= operation.fact < len(case.facts)


def _owner(case: Case, operation: Operation) -> int | None:
    """The fact that an operation belongs to: the one it names, the only one, else the one whose words it shares.

    None where that cannot be told: dropping the operation loses nothing, for its fact is then added.
    """
    if _names_fact(case, operation):
        return operation.fact
    if len(case.facts) == 1:
        return 0
    item = case.item(operation)
    candidates = [
        position
        for position in range(len(case.facts))
        if item is None or operation.event == "ADD" or case.is_near(position, item)
    ]
    if not candidates:
        return None
    best = max(candidates, key=lambda position: _likeness(case, case.facts[position], operation))
    least = {"NONE": _SAME_STATEMENT, "DELETE": 0.0}.get(operation.event, _SAME_MATTER)
    return best if _likeness(case, case.facts[best], operation) >= least else None


def _likeness(case: Case, fact: Fact, operation: Operation) -> float:
    """The share of a fact's words that an operation's text holds; for DELETE and NONE, its memory's text."""
    item = case.item(operation)
    text = operation.text
    if operation.event in ("DELETE", "NONE") and item is not None:
        text = item.memory
    words = _words(fact.text)
    return len(words & _words(text)) / len(words) if words else 0.0


def _words(text: str) -> set[str]:
    return set(split_words(text.casefold(), underscore=True))


_QUOTED_ANSWER: Final = 2_000
"""Characters of a faulty answer that are shown to the model again when it is asked to correct it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The decisions of each fact in the facts' order, what went wrong (a sentence each), and the model calls made."""

    decisions: list[list[Decision]]
    warnings: list[str] = field(default_factory=list)
    calls: int = 0


async def decide_batch(
    llm: LLM, facts: Sequence[Fact], neighbours: Sequence[Sequence[Neighbour]], *, prompt: str | None = None
) -> Outcome:
    """What becomes of all facts, in one call and at most one corrective one; `neighbours` are those of each fact.

    Facts without neighbours are added without a call. A call that fails, or whose answer cannot be read even
    after the correction, adds all facts. Only a wrong number of neighbour lists is an error (InvalidInputError).
    """
    if len(facts) != len(neighbours):
        raise InvalidInputError(
            f"neighbours must hold a list for each of the {len(facts)} facts, not {len(neighbours)} lists",
            field="neighbours",
            value=len(neighbours),
        )
    decisions = [[add(fact, "llm: no neighbour")] for fact in facts]
    asked = [position for position, near in enumerate(neighbours) if near]
    if not asked:
        return Outcome(decisions)
    case = Case.of([facts[position] for position in asked], [neighbours[position] for position in asked])
    outcome = await _decide(llm, prompt or load("reconcile"), _batch_question(case), case)
    for position, own in zip(asked, outcome.decisions, strict=True):
        decisions[position] = own
    return Outcome(decisions, outcome.warnings, outcome.calls)


async def decide_one(llm: LLM, fact: Fact, neighbours: Sequence[Neighbour], *, prompt: str | None = None) -> Outcome:
    """What becomes of one fact, asked in the form of spec 000 §4.3.3, also where it has no neighbours.

    `decisions` holds one list. Failures and corrections are those of `decide_batch`.
    """
    case = Case.of([fact], [neighbours])
    return await _decide(llm, prompt or load("reconcile_per_fact"), _single_question(case), case)


async def _decide(llm: LLM, system: str, question: str, case: Case) -> Outcome:
    exchange = await _ask(llm, system, question, case)
    if exchange.operations is None:
        kept = "the new facts were added beside what is known"
        if any(fact.forget for fact in case.facts):
            kept += ", and nothing was forgotten"
        decisions = [[add(fact, "llm: failed")] for fact in case.facts]
        return Outcome(decisions, [f"{exchange.failure}: {kept}"], exchange.calls)
    warnings = list(exchange.operations.warnings)
    ignored = sum(not case.is_known(operation) for operation in exchange.operations)
    if ignored:
        warnings.append(f"{ignored} operations of the language model named memories that it was not shown: ignored")
    return Outcome(settle(case, exchange.operations), warnings, exchange.calls)


@dataclass(frozen=True, slots=True)
class _Exchange:
    """The best answer that a model gave, or why there is none."""

    operations: Reading[Operation] | None
    failure: str
    calls: int


async def _ask(llm: LLM, system: str, question: str, case: Case) -> _Exchange:
    """Ask, and once more with what was wrong with the answer; an answer with faults is better than none."""
    operations: Reading[Operation] | None = None
    failure, message, calls = "", question, 0
    while calls < 2:
        calls += 1
        try:
            answer = await llm.generate(system, message, temperature=0, response_format="json")
        except LLMError as error:
            failure = f"the decision of the language model failed ({error})"
            break
        try:
            operations = parse_operations(answer)
            complaint = _faults(case, operations)
        except UnreadableAnswer as error:
            failure = f"the decision could not be read ({error})"
            complaint = "It holds no readable JSON list of operations."
        if not complaint:
            break
        message = (
            f"{question}\n\nYour answer was:\n{answer[:_QUOTED_ANSWER]}\n\n"
            f"It cannot be used. {complaint}\nGive the whole answer again, corrected, as JSON only."
        )
    return _Exchange(operations, failure, calls)


def _faults(case: Case, operations: Sequence[Operation]) -> str:
    """What the model must correct, in sentences; empty if nothing."""
    allowed = f"only ids from 0 to {len(case.shown) - 1} exist" if case.shown else "there are no memories"
    complaints = []
    for operation in operations:
        if not case.is_known(operation):
            named = "no id" if operation.id is None else f"id {json.dumps(operation.id, ensure_ascii=False)}"
            complaints.append(f"{operation.event} with {named}: {allowed}.")
        elif case.says_nothing_new(operation):
            complaints.append(f"UPDATE of id {operation.id} without a new text.")
    return " ".join(dict.fromkeys(complaints))


def _batch_question(case: Case) -> str:
    """Facts and memories as JSON: quoted data, of which no text can pass for another entry."""
    facts = [_shown_fact(number, fact) for number, fact in enumerate(case.facts)]
    memories = [_shown_memory(number, item) for number, item in case.shown.items()]
    return json.dumps({"new_facts": facts, "existing_memories": memories}, ensure_ascii=False)


def _shown_fact(number: int, fact: Fact) -> dict[str, Any]:
    entry: dict[str, Any] = {"fact": number, "forget" if fact.forget else "text": fact.text}
    if fact.hedged:
        entry["uncertain"] = True
    if fact.valid_from is not None:
        entry["since"] = fact.valid_from.date().isoformat()
    if fact.valid_to is not None:
        entry["until"] = fact.valid_to.date().isoformat()
    return entry


def _shown_memory(number: int, item: MemoryItem) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": number, "text": item.memory}
    if item.valid_from not in (None, item.told_at):  # else nobody said when it began
        entry["since"] = item.valid_from[:10]
    return entry


def _single_question(case: Case) -> str:
    """The user message of 000 §4.3.3, an entry a line."""
    fact = case.facts[0]
    text = _one_line(fact.text)
    if fact.forget and "forget" not in text.casefold():
        text = f"User asked to forget: {text}"
    memories = [f"- ID: {number}, Text: {_one_line(item.memory)}" for number, item in case.shown.items()]
    return "\n".join([f"New fact: {text}", "Existing memories:", *(memories or ["No existing memories found."])])


def _one_line(text: str) -> str:
    """The text without line breaks, so that no memory can add an entry to the list that it stands in."""
    return " ".join(text.splitlines())
