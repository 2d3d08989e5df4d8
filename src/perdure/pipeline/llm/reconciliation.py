"""Reconciliation by a language model: what becomes of new facts beside the memories near them (000 §4.3.3, 002 §4.3)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from perdure.backends.llms.base import LLM
from perdure.domain.errors import InvalidInputError, LLMError
from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.domain.memory import MemoryItem
from perdure.pipeline.llm.parsing import Operation, Reading, UnreadableAnswer, parse_operations
from perdure.pipeline.llm.settlement import add, is_known, say_nothing_new, settle
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
    open_facts = [facts[position] for position in asked]
    open_neighbours = [neighbours[position] for position in asked]
    shown = _numbered([each for near in open_neighbours for each in near])
    question = json.dumps(
        {
            "new_facts": [_shown_fact(number, fact) for number, fact in enumerate(open_facts)],
            "existing_memories": [_shown_memory(number, item) for number, item in shown.items()],
        },
        ensure_ascii=False,
    )
    outcome = await _decide(llm, prompt or load("reconcile"), question, open_facts, open_neighbours, shown)
    for position, own in zip(asked, outcome.decisions, strict=True):
        decisions[position] = own
    return Outcome(decisions, outcome.warnings, outcome.calls)


async def decide_one(llm: LLM, fact: Fact, neighbours: Sequence[Neighbour], *, prompt: str | None = None) -> Outcome:
    """What becomes of one fact, asked in the words of spec 000 §4.3.3, also where it has no neighbours.

    `decisions` holds one list. Failures and corrections are those of `decide_batch`.
    """
    shown = _numbered(neighbours)
    memories = [f"- ID: {number}, Text: {_one_line(item.memory)}" for number, item in shown.items()]
    text = _one_line(fact.text)
    if fact.forget and "forget" not in text.casefold():
        text = f"User asked to forget: {text}"
    question = "\n".join([f"New fact: {text}", "Existing memories:", *(memories or ["No existing memories found."])])
    return await _decide(llm, prompt or load("reconcile_per_fact"), question, [fact], [neighbours], shown)


async def _decide(
    llm: LLM,
    system: str,
    question: str,
    facts: Sequence[Fact],
    neighbours: Sequence[Sequence[Neighbour]],
    shown: Mapping[int, MemoryItem],
) -> Outcome:
    exchange = await _ask(llm, system, question, shown)
    if exchange.operations is None:
        kept = "the new facts were added beside what is known"
        if any(fact.forget for fact in facts):
            kept += ", and nothing was forgotten"
        warnings = [f"{exchange.failure}: {kept}"]
        return Outcome([[add(fact, "llm: failed")] for fact in facts], warnings, exchange.calls)
    warnings = list(exchange.operations.warnings)
    ignored = sum(not is_known(operation, shown) for operation in exchange.operations)
    if ignored:
        warnings.append(f"{ignored} operations of the language model named memories that it was not shown: ignored")
    return Outcome(settle(facts, neighbours, shown, exchange.operations), warnings, exchange.calls)


@dataclass(frozen=True, slots=True)
class _Exchange:
    """The best answer that a model gave, or why there is none."""

    operations: Reading[Operation] | None
    failure: str
    calls: int


async def _ask(llm: LLM, system: str, question: str, shown: Mapping[int, MemoryItem]) -> _Exchange:
    """Ask, and once more with what was wrong with the answer; an answer with faults is better than none."""
    operations: Reading[Operation] | None = None
    failure, message = "", question
    for calls in (1, 2):
        try:
            answer = await llm.generate(system, message, temperature=0, response_format="json")
            try:
                operations = parse_operations(answer)
                complaint = _faults(operations, shown)
            except UnreadableAnswer as error:
                failure = f"the decision could not be read ({error})"
                complaint = "It holds no readable JSON list of operations."
        except LLMError as error:
            return _Exchange(operations, f"the decision of the language model failed ({error})", calls)
        if not complaint:
            break
        message = (
            f"{question}\n\nYour answer was:\n{answer[:_QUOTED_ANSWER]}\n\n"
            f"It cannot be used. {complaint}\nGive the whole answer again, corrected, as JSON only."
        )
    return _Exchange(operations, failure, calls)


def _faults(operations: Sequence[Operation], shown: Mapping[int, MemoryItem]) -> str:
    """What the model must correct, in sentences; empty if nothing."""
    complaints = []
    for operation in operations:
        if not is_known(operation, shown):
            named = "no id" if operation.id is None else f"id {json.dumps(operation.id, ensure_ascii=False)}"
            allowed = (
                f"only ids from 0 to {len(shown) - 1} exist" if shown else "there are no memories: use ADD or NONE"
            )
            complaints.append(f"{operation.event} with {named}: {allowed}.")
        elif say_nothing_new(operation, shown):
            complaints.append(f"UPDATE of id {operation.id} without a new text.")
    return " ".join(dict.fromkeys(complaints))


def _numbered(neighbours: Sequence[Neighbour]) -> dict[int, MemoryItem]:
    """The memories under the small numbers that the model sees, each once: a model copies long ids wrongly."""
    return dict(enumerate({each.item.id: each.item for each in neighbours}.values()))


def _shown_fact(number: int, fact: Fact) -> dict[str, Any]:
    entry: dict[str, Any] = {"fact": number, "forget" if fact.forget else "text": fact.text}
    if fact.hedged:
        entry["uncertain"] = True
    if fact.valid_from is not None:
        entry["since"] = fact.valid_from.date().isoformat()
    return entry


def _shown_memory(number: int, item: MemoryItem) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": number, "text": item.memory}
    if item.valid_from is not None:
        entry["since"] = item.valid_from[:10]
    return entry


def _one_line(text: str) -> str:
    """The text without line breaks, so that no memory can add an entry to the list that it stands in."""
    return " ".join(text.splitlines())
