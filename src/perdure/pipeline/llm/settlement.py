"""From a model's operations to decisions that lose no fact (K46, K47, K51, K64, K65; A19)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.domain.memory import MemoryItem
from perdure.pipeline.llm.parsing import Operation, Reading

_SAME_STATEMENT: Final = 0.8
"""Share of a fact's words in a memory from which a NONE that names only the memory is taken to mean that fact."""
_SAME_MATTER: Final = 0.5
"""Share of a fact's words in an operation's text from which an operation without a fact is taken to be about it."""
_WORD = re.compile(r"\w+")


def settle(
    facts: Sequence[Fact],
    neighbours: Sequence[Sequence[Neighbour]],
    shown: Mapping[int, MemoryItem],
    operations: Reading[Operation],
) -> list[list[Decision]]:
    """The decisions of each fact, in their order; `shown` are the memories by the number that the model saw.

    An operation on a memory that was not shown is ignored. A fact that is left without a decision is added, and so is
    one whose only operations are DELETE. A memory is updated or deleted by one fact alone: what a later fact wants
    done with it becomes an ADD.
    """
    known = [operation for operation in operations if is_known(operation, shown)]
    owned: list[list[Operation]] = [[] for _ in facts]
    if _all_unowned_nones(known, facts) and not operations.warnings and len(known) == len(operations):
        owned = [known[:1] for _ in facts]
    else:
        for operation in known:
            owner = _owner(operation, facts, neighbours, shown)
            if owner is not None:
                owned[owner].append(operation)
    ground = _Ground(shown)
    return [ground.decide(fact, own) for fact, own in zip(facts, owned, strict=True)]


def is_known(operation: Operation, shown: Mapping[int, MemoryItem]) -> bool:
    """Whether the operation names a memory of the list, or needs none (K51)."""
    return operation.event == "ADD" or operation.id in shown or (operation.event == "NONE" and operation.id is None)


def say_nothing_new(operation: Operation, shown: Mapping[int, MemoryItem]) -> bool:
    """Whether an UPDATE lacks a text, or repeats the memory's own."""
    item = shown.get(operation.id) if isinstance(operation.id, int) else None
    return operation.event == "UPDATE" and (not operation.text or (item is not None and item.memory == operation.text))


def add(fact: Fact, rule: str, *links: str) -> Decision:
    """The decision that keeps a fact whatever else happened; a request to forget is nothing to keep."""
    if fact.forget:
        return Decision(event="NONE", rule=rule)
    return Decision(event="ADD", text=fact.text, rule=rule, confidence=fact.confidence, links=links)


@dataclass(slots=True)
class _Ground:
    """The memories as the decisions so far will leave them."""

    shown: Mapping[int, MemoryItem]
    updated: dict[str, str] = field(default_factory=dict)
    """New texts by id."""
    deleted: set[str] = field(default_factory=set)

    def decide(self, fact: Fact, operations: Sequence[Operation]) -> list[Decision]:
        """The decisions of one fact: what it retires, then what it adds; a NONE counts only alone."""
        if fact.forget:
            return self._forget(fact, operations)
        if fact.hedged:
            return [self._hedged(fact, operations)]
        decisions: list[Decision] = []
        for operation in operations:
            decision = self._one(fact, operation, operations)
            if decision is not None and decision not in decisions:
                decisions.append(decision)
        news = [decision for decision in decisions if decision.event in ("ADD", "UPDATE")]
        gone = [decision for decision in decisions if decision.event == "DELETE"]
        if not news and any(operation.event == "DELETE" for operation in operations):
            news = [add(fact, "llm: only deletes")]
        return [*gone, *news] or decisions[:1] or [add(fact, "llm: not mentioned")]

    def _one(self, fact: Fact, operation: Operation, among: Sequence[Operation]) -> Decision | None:
        target = self._target(operation)
        if operation.event == "ADD":
            return Decision(event="ADD", text=operation.text or fact.text, rule="llm", confidence=fact.confidence)
        if operation.event == "NONE":
            if target in self.deleted:
                return add(fact, "llm: memory gone")
            return Decision(event="NONE", target=target, rule="llm", confidence=fact.confidence)
        assert target is not None, "unknown ids were dropped before"
        if operation.event == "DELETE":
            kept = any(other.event == "UPDATE" and other.id == operation.id for other in among)
            return None if kept else self._delete(fact, target)
        return self._update(fact, operation, target)

    def _update(self, fact: Fact, operation: Operation, target: str) -> Decision:
        if say_nothing_new(operation, self.shown):
            return add(fact, "llm: update without text", target)
        if self.updated.get(target) == operation.text:
            return Decision(event="NONE", target=target, rule="llm: merged", confidence=fact.confidence)
        if target in self.updated or target in self.deleted:
            return add(fact, "llm: memory taken")
        self.updated[target] = operation.text
        return Decision(event="UPDATE", text=operation.text, target=target, rule="llm", confidence=fact.confidence)

    def _delete(self, fact: Fact, target: str) -> Decision | None:
        if target in self.updated or target in self.deleted:
            return None
        self.deleted.add(target)
        return Decision(event="DELETE", target=target, rule="llm", confidence=fact.confidence)

    def _forget(self, fact: Fact, operations: Sequence[Operation]) -> list[Decision]:
        """What is to be forgotten goes, also where the model would rather have reworded it."""
        targets = [self._target(operation) for operation in operations if operation.event in ("DELETE", "UPDATE")]
        gone = [
            decision
            for target in dict.fromkeys(targets)
            if target is not None and (decision := self._delete(fact, target)) is not None
        ]
        return list(gone) or [Decision(event="NONE", rule="llm", confidence=fact.confidence)]

    def _hedged(self, fact: Fact, operations: Sequence[Operation]) -> Decision:
        """A maybe retires nothing: what it would have replaced becomes a soft link."""
        events = {operation.event for operation in operations}
        if events == {"NONE"}:
            target = self._target(operations[0])
            if target not in self.deleted:
                return Decision(event="NONE", target=target, rule="llm", confidence=fact.confidence)
        targets = (self._target(operation) for operation in operations if operation.event in ("UPDATE", "DELETE"))
        links = dict.fromkeys(target for target in targets if target is not None and target not in self.deleted)
        return add(fact, "llm: hedged" if links else "llm", *links)

    def _target(self, operation: Operation) -> str | None:
        return self.shown[operation.id].id if isinstance(operation.id, int) and operation.id in self.shown else None


def _all_unowned_nones(operations: Sequence[Operation], facts: Sequence[Fact]) -> bool:
    """Whether the model, in 002's form that names no facts, left every memory as it is: then nothing is added (A19)."""
    return bool(operations) and all(
        operation.event == "NONE" and not _names_fact(operation, facts) for operation in operations
    )


def _names_fact(operation: Operation, facts: Sequence[Fact]) -> bool:
    return operation.fact is not None and 0 <= operation.fact < len(facts)


def _owner(
    operation: Operation,
    facts: Sequence[Fact],
    neighbours: Sequence[Sequence[Neighbour]],
    shown: Mapping[int, MemoryItem],
) -> int | None:
    """The fact that an operation belongs to: the one it names, the only one, else the one whose words it shares.

    None where that cannot be told: dropping the operation loses nothing, for its fact is then added.
    """
    if _names_fact(operation, facts):
        return operation.fact
    if len(facts) == 1:
        return 0
    item = shown.get(operation.id) if isinstance(operation.id, int) else None
    text, least = operation.text, _SAME_MATTER
    if operation.event in ("DELETE", "NONE") or not text:
        text = item.memory if item is not None else ""
        least = _SAME_STATEMENT if operation.event == "NONE" else 0.0
    candidates = [
        position
        for position, near in enumerate(neighbours)
        if item is None or operation.event == "ADD" or any(each.item.id == item.id for each in near)
    ]
    if not candidates or not text:
        return None
    best = max(candidates, key=lambda position: _share(facts[position].text, text))
    return best if _share(facts[best].text, text) >= least else None


def _share(fact: str, text: str) -> float:
    """The share of a fact's words that a text holds."""
    words = set(_WORD.findall(fact.casefold()))
    return len(words & set(_WORD.findall(text.casefold()))) / len(words) if words else 0.0
