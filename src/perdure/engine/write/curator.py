"""Curators extract facts from messages and reconcile them with known memories: by rules, or by a language model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from perdure.backends.blocking import run_blocking
from perdure.backends.ledgers.base import Ledger
from perdure.backends.llms.base import LLM, LLMRequest, RequestLLM, ToolAnswer
from perdure.domain.errors import PerdureError
from perdure.domain.fact import Decision, Fact, Neighbour, PairJudge
from perdure.domain.memory import MemoryItem
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade, never_fail
from perdure.pipeline.curation.chat import decide_by_bands
from perdure.pipeline.curation.llm.extraction import Refusal, extract_facts, refused_notes, shown_memories
from perdure.pipeline.curation.llm.parsing import UnreadableAnswer
from perdure.pipeline.curation.llm.reconciliation import Outcome, decide_batch, decide_one
from perdure.pipeline.curation.rules.extraction import beginning, read_messages
from perdure.pipeline.curation.rules.extraction.worth import learned
from perdure.pipeline.curation.rules.reconciliation import decide, renewed, same_matter

_log = logging.getLogger("perdure.curator")

# The cache of a language model's valid answers: the same question in one scope is asked once.


class Answers:
    """The cached answers of one scope, in the ledger; without a ledger there are none."""

    def __init__(self, ledger: Ledger | None, scope: Scope) -> None:
        self._ledger = ledger
        self.scope = scope

    async def find(self, key: str) -> str | None:
        """Return the answer under a key, or None."""
        return await self._ledger.cached(key, self.scope) if self._ledger is not None else None

    async def keep(self, answers: Mapping[str, str]) -> None:
        """Store answers by their keys."""
        if self._ledger is not None:
            for key, answer in answers.items():
                await self._ledger.cache(key, self.scope, answer)


class RememberingLLM(RequestLLM):
    """Calls a model only for questions without a cached answer; caches answers once the caller accepts them.

    So an answer that could not be parsed is requested again, and does not block a later repair. `label` names the model
    and its settings, because another model's answers must not be reused. `aside` begins a question without being part
    of it: memories that are shown for reference change with every call, and the same conversation is asked once.
    """

    name = "remembering"

    def __init__(self, llm: LLM, label: str, answers: Answers, aside: str = "") -> None:
        self.takes_schema = llm.takes_schema
        self._aside = aside
        self.has_recalled = False
        self._llm = llm
        self._label = label
        self._answers = answers
        self._fresh: dict[str, str] = {}

    async def _generate(self, request: LLMRequest) -> str:
        """Return the cached answer, else the model's."""
        question = [
            self._label,
            request.system_prompt,
            request.user_message.removeprefix(self._aside),
            request.temperature,
            request.max_tokens,
            request.response_format,
        ]
        form = {} if request.schema is None else {"schema": request.schema}
        key = f"llm:{hashlib.sha256(json.dumps(question).encode()).hexdigest()}"
        found = await self._answers.find(key)
        self.has_recalled = found is not None
        if found is None:
            found = self._fresh[key] = await self._llm.generate(
                request.system_prompt,
                request.user_message,
                temperature=request.temperature,
                max_tokens=request.max_tokens,
                response_format=request.response_format,
                **form,
            )
        return found

    async def _generate_with_tool_calls(self, request: LLMRequest) -> ToolAnswer:
        """Return the model's answer; answers with tool calls are not cached."""
        return await self._llm.generate_with_tool_calls(
            request.system_prompt, request.user_message, request.tools, temperature=request.temperature
        )

    async def good(self) -> None:
        """Cache the answers since the last call."""
        fresh, self._fresh = self._fresh, {}
        await self._answers.keep(fresh)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Messages to extract facts from, and their context."""

    messages: Sequence[Message]
    context: Sequence[Message] = ()
    """Earlier messages, oldest first; no facts are extracted from them."""
    read_before: int = 0
    """The first so many of `messages` are only context."""
    now: datetime
    prompt: str | None = None
    answers: Answers
    """The cache of a model's answers to the same questions in the same scope."""
    whole: bool = False
    """Read everything, however long, for work that nobody waits for."""
    reference: Callable[[], Awaitable[Sequence[MemoryItem]]] | None = None
    """Finds the memories nearest to the messages, which a model is shown for reference."""


@dataclass(slots=True)
class Reading:
    """Facts and notes of a conversation; `unread` if the curator failed and the messages must be read later."""

    facts: list[Fact]
    endings: list[tuple[MemoryItem, Fact]] = field(default_factory=list)
    """Memories that a user said are no longer true, each with the words that say so."""
    unread: bool = False
    unreadable: bool = False
    """The model answered, but not in the requested form."""
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Judgement:
    """The decision about each fact, in their order."""

    decisions: list[list[Decision]]
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Renewed:
    """The earlier statements that a new one most likely replaces."""

    links: tuple[str, ...] = ()
    """Their ids: the newer one comes first where both answer, and nothing is hidden."""
    over: str | None = None
    """The id of a note among them that a fact surely replaces."""


Earlier = Callable[[], Awaitable[Sequence[Neighbour]]]
"""Finds the statements near a new one that were made before it."""


class Curator(Protocol):
    """Extracts facts from messages, and decides each against the memories near it."""

    one_at_a_time: bool
    """Whether each fact is decided after the earlier ones have taken effect."""
    asks_again: bool
    """Whether a fact is decided again if an earlier one of its batch has changed its target."""

    async def read(self, request: ReadRequest) -> Reading:
        """Extract the facts of the messages."""

    async def judge(
        self, facts: Sequence[Fact], neighbours: Sequence[Sequence[Neighbour]], *, answers: Answers
    ) -> Judgement:
        """Decide about the facts."""

    async def renewed(self, fact: Fact, find: Earlier) -> Renewed:
        """Return which of the earlier statements a new one most likely replaces; none in doubt."""


RENEWABLE_NEAR = 0.3
"""Cosine from which an earlier statement is compared with a note: three quarters of what is replaced is nearer."""


class RulesCurator:
    """Extracts and decides by rules: no language model, no key, no network.

    `judge` makes the learned judge of two statements, if the embedder has one; without it structure and likeness alone
    tell what a fact replaces.
    """

    one_at_a_time = True
    asks_again = False

    def __init__(
        self, limit: int, *, keeps_words: bool, takes_notes: bool, judge: Callable[[], PairJudge | None]
    ) -> None:
        self._make_judge = judge
        self._limit = limit
        self._takes_notes = takes_notes
        self._rest = "kept as words" if keeps_words else "not kept"

    async def read(self, request: ReadRequest) -> Reading:
        """Extract the facts in a thread; a custom prompt cannot be followed, which becomes a warning.

        Even a short message takes some milliseconds, which would delay other tasks of the event loop.
        """
        warnings = (
            [] if request.prompt is None else ["the rules curator follows no prompt: configure an llm to use one"]
        )
        reading = Reading([], unread=True, warnings=warnings)
        read_before = request.read_before
        earlier, fresh = [*request.context, *request.messages[:read_before]], list(request.messages[read_before:])
        if not request.whole:
            fresh, missing = beginning(fresh, self._limit)
            if missing:
                warnings.append(
                    f"{missing} characters were not read for facts, and are {self._rest}: one call reads {self._limit} "
                    "(reading_limit); add the rest in calls of its own to have it read"
                )
        with never_fail("no facts were extracted, the messages are kept", warnings):
            found = await run_blocking(
                read_messages, fresh, now=request.now, context=earlier, judge=learned(self._judge)
            )
            kept = [*found.facts, *(found.notes if self._takes_notes else ())]
            reading.facts = [fact.moved(read_before) for fact in kept]
            reading.unread = False
        return reading

    async def judge(
        self, facts: Sequence[Fact], neighbours: Sequence[Sequence[Neighbour]], *, answers: Answers
    ) -> Judgement:
        """Decide about the facts, in a thread, because a batch of facts beside many memories takes time."""

        judgement = Judgement([])

        def every() -> None:
            for fact, near in zip(facts, neighbours, strict=True):
                decisions = [Decision(event="ADD", text=fact.text, rule="undecided")]
                with never_fail("a fact was added without being reconciled", judgement.warnings):
                    decisions = decide(fact, near, self._judge)
                judgement.decisions.append(decisions)

        await run_blocking(every)
        return judgement

    async def renewed(self, fact: Fact, find: Earlier) -> Renewed:
        """Return what the judge says is replaced; without a judge nothing is."""
        judge = await run_blocking(self._judge)
        if judge is None:
            return Renewed()
        is_note = fact.kind == "notes"
        near = enumerate(each for each in await find() if (each.similarity or 0.0) >= RENEWABLE_NEAR)
        # A fact was compared with facts when it was decided.
        asked = [(place, each) for place, each in near if is_note or each.item.kind == "notes"]
        if not asked:
            return Renewed()

        def judged() -> Renewed:
            found = Renewed()
            with never_fail("a statement was not compared with earlier ones", []):
                found = Renewed(*renewed(fact, asked, judge))
            return found

        return await run_blocking(judged)

    def _judge(self) -> PairJudge | None:
        """Return the learned judge; a failure is logged, and the rules go on without it."""
        try:
            return self._make_judge()
        except PerdureError as error:
            _log.warning("there is no learned judge: %s", error)
            return None


class LLMCurator:
    """Extracts and decides by a language model: the model proposes, the engine decides what may retire what."""

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
        takes_notes: bool = False,
    ) -> None:
        self.asks_again = mode == "per_fact"
        self._llm = llm
        self._label = label
        self._mode = mode
        self._extraction_prompt = extraction_prompt
        self._decision_prompt = decision_prompt
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._takes_notes = takes_notes

    async def read(self, request: ReadRequest) -> Reading:
        """Extract the facts in one call; after a failed or unreadable answer the messages are read later."""
        reading = Reading([], unread=True)
        with degrade("no facts were extracted, the messages are kept", reading.warnings):
            prompt = request.prompt or self._extraction_prompt
            known = [] if request.reference is None or prompt else await request.reference()
            shown = [item.memory for item in known]
            llm = RememberingLLM(self._llm, self._label, request.answers, shown_memories(shown))
            try:
                facts = await extract_facts(
                    llm,
                    request.messages,
                    prompt=prompt,
                    now=request.now,
                    read_before=request.read_before,
                    temperature=self._temperature,
                    max_tokens=self._max_tokens,
                    known=request.answers.scope.given().values(),
                    reference=shown,
                    context=request.context,
                )
            except UnreadableAnswer:
                reading.unreadable = True
                raise
            reading.facts = list(facts)
            reading.warnings += facts.warnings
            if facts.refused:
                self._report(facts.refused, reading)
                notes = refused_notes(facts, request.messages, request.read_before)
                reading.facts += notes if self._takes_notes else []
                if notes and not reading.facts:  # what was said would be neither a fact nor a note
                    reading.unreadable = True
                    raise UnreadableAnswer("none of the language model's facts is in the messages")
            if not llm.has_recalled:  # an answer from the cache numbers the memories of its own day
                reading.endings = [
                    (known[end.memory], Fact(text=end.quote, sources=(end.place,), rule="llm: ended"))
                    for end in facts.ends
                ]
            reading.unread = False
            if not facts.warnings and (facts or not facts.refused):
                await llm.good()
        return reading

    async def judge(
        self, facts: Sequence[Fact], neighbours: Sequence[Sequence[Neighbour]], *, answers: Answers
    ) -> Judgement:
        """Decide about the facts: in one call, in one call each, or by adding all (`append`)."""
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

    async def renewed(self, fact: Fact, find: Earlier) -> Renewed:
        """Return nothing: what replaces what is the model's to say."""
        return Renewed()

    def _report(self, refused: Sequence[Refusal], reading: Reading) -> None:
        """Warn of the facts that nobody said; their texts stay out of the log."""
        reasons = Counter(each.missing for each in refused)
        told = ", ".join(f"{count} by {missing}" for missing, count in sorted(reasons.items()))
        are = (
            "1 fact of the language model is"
            if len(refused) == 1
            else f"{len(refused)} facts of the language model are"
        )
        sentence = f"{are} not in the messages ({told}): refused"
        _log.warning(sentence)
        reading.warnings.append(sentence)

    async def _one(self, fact: Fact, near: Sequence[Neighbour], answers: Answers) -> Outcome:
        llm = RememberingLLM(self._llm, self._label, answers)
        outcome = await decide_one(llm, fact, near, prompt=self._decision_prompt)
        if not outcome.warnings:
            await llm.good()
        return outcome


def by_bands(fact: Fact, type: str | None, decision: Decision, near: Sequence[Neighbour]) -> Decision:
    """Return the decision, or an UPDATE instead of an ADD by the bands of similarity; links stay."""
    if decision.event != "ADD" or fact.forget or fact.hedged:
        return decision
    kind = type or fact.type
    stated = replace(fact, text=decision.text or fact.text)
    banded = decide_by_bands(stated, [each for each in near if each.item.type == kind and not each.beside], same_matter)
    return replace(banded, links=decision.links) if banded.event == "UPDATE" else decision
