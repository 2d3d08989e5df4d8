"""Who decides what to remember: the rules, or a language model, behind one pair of questions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from perdure.backends.blocking import run_blocking
from perdure.backends.llms.base import LLM
from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.domain.message import Message
from perdure.engine.answers import Answers, RememberingLLM
from perdure.engine.soft import given_up, kept_from_failing
from perdure.pipeline.extraction import Contexts, extract
from perdure.pipeline.llm.extraction import extract_facts
from perdure.pipeline.llm.parsing import UnreadableAnswer
from perdure.pipeline.llm.reconciliation import Outcome, decide_batch, decide_one
from perdure.pipeline.reconciliation import decide

INLINE_CHARACTERS = 2_000
"""Conversations up to this length are read on the event loop: about a millisecond, less than a change of thread."""


@dataclass(slots=True)
class Reading:
    """Facts read in a conversation; `unread` where the curator failed and the messages must be read later."""

    facts: list[Fact]
    unread: bool = False
    unreadable: bool = False
    """The model answered, but not with what it was asked for."""
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Judgement:
    """What becomes of each fact, in their order."""

    decisions: list[list[Decision]]
    warnings: list[str] = field(default_factory=list)


class Curator(Protocol):
    """Reads facts out of messages, and decides each against the memories near it.

    `answers` are those that a model gave to the same questions in the same scope.
    """

    one_at_a_time: bool
    """Whether each fact is to be decided with the earlier ones' effects in sight."""
    asks_again: bool
    """Whether a fact is decided anew if an earlier one of its batch has changed the memory that it meant to change."""

    async def read(
        self,
        messages: Sequence[Message],
        *,
        context: Sequence[Message],
        now: datetime,
        prompt: str | None,
        answers: Answers,
        read_before: int = 0,
    ) -> Reading:
        """The facts of the messages; of these the first `read_before` only make the others clear."""

    async def judge(
        self, facts: Sequence[Fact], neighbours: Sequence[Sequence[Neighbour]], *, answers: Answers
    ) -> Judgement:
        """What becomes of the facts."""


def _moved(fact: Fact, places: int) -> Fact:
    return replace(fact, sources=tuple(position + places for position in fact.sources))


class RulesCurator:
    """Reads and decides by rules: no model, no key, no network."""

    one_at_a_time = True
    asks_again = False

    def __init__(self) -> None:
        self._contexts = Contexts()

    async def read(
        self,
        messages: Sequence[Message],
        *,
        context: Sequence[Message],
        now: datetime,
        prompt: str | None,
        answers: Answers,
        read_before: int = 0,
    ) -> Reading:
        """The facts of the messages; a custom prompt cannot be followed and is said so."""
        warnings = [] if prompt is None else ["the rules curator follows no prompt: configure an llm to use one"]
        reading = Reading([], unread=True, warnings=warnings)
        earlier, fresh = [*context, *messages[:read_before]], messages[read_before:]
        with kept_from_failing("no facts were extracted, the messages are kept", warnings):
            if sum(len(message.content) for message in (*earlier, *fresh)) <= INLINE_CHARACTERS:
                facts = extract(fresh, now=now, context=earlier, contexts=self._contexts)
            else:
                facts = await run_blocking(extract, fresh, now=now, context=earlier, contexts=self._contexts)
            reading.facts = [_moved(fact, read_before) for fact in facts] if read_before else facts
            reading.unread = False
        return reading

    async def judge(
        self, facts: Sequence[Fact], neighbours: Sequence[Sequence[Neighbour]], *, answers: Answers
    ) -> Judgement:
        """What becomes of the facts; in a thread, for a batch of facts beside many memories is work."""

        judgement = Judgement([])

        def every() -> None:
            for fact, near in zip(facts, neighbours, strict=True):
                decisions = [Decision(event="ADD", text=fact.text, rule="undecided")]
                with kept_from_failing("a fact was added without being reconciled", judgement.warnings):
                    decisions = decide(fact, near)
                judgement.decisions.append(decisions)

        await run_blocking(every)
        return judgement


class LLMCurator:
    """Reads and decides by a language model: the model proposes, the engine decides what may retire what."""

    one_at_a_time = False

    def __init__(
        self,
        llm: LLM,
        *,
        label: str,
        mode: str,
        extraction_prompt: str | None,
        decision_prompt: str | None,
        temperature: float | None = 0,
        max_tokens: int | None = None,
    ) -> None:
        self.asks_again = mode == "per_fact"
        self._llm = llm
        self._label = label
        self._mode = mode
        self._extraction_prompt = extraction_prompt
        self._decision_prompt = decision_prompt
        self._temperature = temperature
        self._max_tokens = max_tokens

    async def read(
        self,
        messages: Sequence[Message],
        *,
        context: Sequence[Message],
        now: datetime,
        prompt: str | None,
        answers: Answers,
        read_before: int = 0,
    ) -> Reading:
        """The facts of the messages in one call; a failed or unreadable answer leaves them to be read later (T36)."""
        reading = Reading([], unread=True)
        with given_up("no facts were extracted, the messages are kept", reading.warnings):
            llm = RememberingLLM(self._llm, self._label, answers)
            try:
                facts = await extract_facts(
                    llm,
                    messages,
                    prompt=prompt or self._extraction_prompt,
                    now=now,
                    read_before=read_before,
                    temperature=self._temperature,
                    max_tokens=self._max_tokens,
                )
            except UnreadableAnswer:
                reading.unreadable = True
                raise
            reading.facts = list(facts)
            reading.warnings += facts.warnings
            reading.unread = False
            if not facts.warnings:
                await llm.good()
        return reading

    async def judge(
        self, facts: Sequence[Fact], neighbours: Sequence[Sequence[Neighbour]], *, answers: Answers
    ) -> Judgement:
        """What becomes of the facts: in one call, in one call each, or all added (`append`)."""
        if self._mode == "append":
            return Judgement([[Decision(event="ADD", text=fact.text, rule="append")] for fact in facts])
        if self._mode == "per_fact":
            outcomes = await asyncio.gather(
                *(self._one(fact, near, answers) for fact, near in zip(facts, neighbours, strict=True))
            )
            return Judgement(
                [outcome.decisions[0] for outcome in outcomes],
                [warning for outcome in outcomes for warning in outcome.warnings],
            )
        llm = RememberingLLM(self._llm, self._label, answers)
        outcome = await decide_batch(llm, facts, neighbours, prompt=self._decision_prompt)
        if not outcome.warnings:
            await llm.good()
        return Judgement(outcome.decisions, outcome.warnings)

    async def _one(self, fact: Fact, near: Sequence[Neighbour], answers: Answers) -> Outcome:
        llm = RememberingLLM(self._llm, self._label, answers)
        outcome = await decide_one(llm, fact, near, prompt=self._decision_prompt)
        if not outcome.warnings:
            await llm.good()
        return outcome
