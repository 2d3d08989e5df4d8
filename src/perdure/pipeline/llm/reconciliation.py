"""Reconciliation by a language model: what becomes of new facts beside the memories near them.

Spec 000 §4.3.3 (one fact a call) and 002 §4.3 (all facts in one call).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from perdure.backends.llms.base import LLM
from perdure.domain.errors import InvalidInputError, LLMError
from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.domain.memory import MemoryItem
from perdure.pipeline.llm.parsing import Operation, Reading, UnreadableAnswer, parse_operations
from perdure.pipeline.llm.settlement import Case, add, settle
from perdure.pipeline.prompts import load

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

    Facts without neighbours are added without a call (K44). A call that fails, or whose answer cannot be read even
    after the correction, adds all facts (K46). Only a wrong number of neighbour lists is an error (InvalidInputError).
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
