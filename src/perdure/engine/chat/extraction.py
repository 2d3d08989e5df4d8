"""Extract facts from a session's turns, for chat and for Responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeVar

from perdure.domain.clock import read_moment
from perdure.domain.errors import ConflictError, EmbeddingError, LLMError
from perdure.domain.event import Episode, MemoryEvent
from perdure.domain.fact import Fact
from perdure.domain.memory import NOTES
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.chat.settings import Dialect, GatewaySettings
from perdure.engine.chat.turns import is_forged
from perdure.engine.config.config import MemoryConfig, seconds_of
from perdure.engine.engine import Engine
from perdure.engine.read.profile import unnoted
from perdure.engine.requests import NOT_EVERYTHING
from perdure.engine.write.add import FORGOTTEN
from perdure.engine.write.change_set import FactContext, told_at
from perdure.engine.write.curator import Curator, Reading, ReadRequest
from perdure.engine.write.provenance import with_provenance, without_echoes
from perdure.pipeline.curation.chat import PROXY, ROUTER, ExtractionPolicy, is_chatter, limit, select

T = TypeVar("T")
logger = logging.getLogger("perdure")
PATIENCE = 30.0  # seconds that a model may take to extract facts if its settings name no `timeout`
OVERLAP = 5  # already read turns that a window includes as context
MOST_CONTEXT = 48  # messages before a chat's last one that rules use as context
_POLICIES: dict[Dialect, ExtractionPolicy] = {"chat": PROXY, "responses": ROUTER}


@dataclass(frozen=True, slots=True)
class Extracted:
    """The result of extracting facts from some turns."""

    events: list[MemoryEvent] = field(default_factory=list)
    failed: Literal["", "reader", "answer", "embedder"] = ""
    """Why they are still unread: the model failed, its answer was unusable, or the facts could not be embedded."""
    is_read: bool = False  # whether they were actually read; for greetings and thanks no model is called
    is_stale: bool = False
    """Whether some of them were forgotten meanwhile: nothing is stored, and the rest must be read again."""


class Extraction:
    """Extracts facts from turns, and reconciles them with known memories."""

    def __init__(self, engine: Engine, settings: GatewaySettings) -> None:
        self._engine = engine
        self._kernel = engine.kernel
        self._settings = settings

    def every(self, dialect: Dialect) -> int:
        """Number of turns of a session after which it is read."""
        return self._settings.extraction_batch_size or _POLICIES[dialect].every_n_turns

    def together(self, dialect: Dialect, *, borrows: bool) -> int:
        """Return how many unread turns are read at once: of a chat one, or by a model as many as it waits for.

        `borrows` says whether the caller's model reads them. A model that is slow answers one call for ten turns sooner
        than ten; rules cost nothing, and understand a turn by the answer before it.
        """
        if dialect == "responses":
            return self.every(dialect) + OVERLAP
        return self.every(dialect) if borrows or self._kernel.extractor is not None else 1

    async def read(
        self,
        dialect: Dialect,
        scope: Scope,
        before: Sequence[Episode],
        turns: Sequence[Sequence[Episode]],
        *,
        key: str | None = None,
        kept: bool = True,
        borrowed: Curator | None = None,
    ) -> Extracted:
        """Extract facts from the messages of `turns`; those in `before` are already read and serve as context.

        For a chat only the user's latest message of each turn is read, and at most three facts of it are stored. `key`
        makes the call idempotent; `kept` says whether the messages are stored, so that facts may name them. The
        configured curator reads them, unless `borrowed` is given.
        """
        earlier, read = _to_read(dialect, before, turns)
        if not read or self._says_nothing(read, borrowed):
            return Extracted()
        messages = await without_echoes(self._kernel, [_message(episode) for episode in (*earlier, *read)], scope)
        now = self._kernel.clock.moment()
        reading = await self._reading(dialect, scope, messages, len(earlier), now, borrowed=borrowed)
        if reading.unread:
            logger.warning("Extraction parse failed" if reading.unreadable else "Extraction failed, batch skipped")
            return Extracted(failed="answer" if reading.unreadable else "reader")
        forged = {place for place, episode in enumerate((*earlier, *read)) if is_forged(episode)}
        facts = await with_provenance(self._kernel, messages, _told_in(reading, messages, len(earlier)), scope, forged)
        moments = [message.timestamp or now for message in messages]
        ids = [episode.id for episode in (*earlier, *read)]
        told = [
            (fact, told_at(fact, moments, now), tuple(ids[position] for position in fact.sources) if kept else ())
            for fact in (
                *_limited([fact for fact in facts if fact.kind != NOTES], _POLICIES[dialect], len(turns)),
                *(fact for fact in facts if fact.kind == NOTES),
            )
        ]
        if not told:  # as for most turns: then other writers need not wait
            return Extracted(is_read=True)
        context = FactContext(scope=scope, metadata={}, actor="gateway")
        try:
            result = await self._engine.write.keep_facts(
                told,
                context,
                banded=dialect == "responses",
                idempotency_key=key if kept else None,
                read=ids if kept else (),
            )
        except EmbeddingError as error:  # for every message, until the embedder's service is back
            logger.warning("Embedding failed, batch skipped: %s", error.code)
            return Extracted(failed="embedder")
        except ConflictError as error:
            if error.code != FORGOTTEN:
                raise
            return Extracted(is_stale=True)
        if NOT_EVERYTHING in result.warnings:  # nobody sees the result; other warnings quote what people say
            logger.warning(NOT_EVERYTHING)
        stored = sum(1 for event in result.results if event.event in ("ADD", "UPDATE"))
        if stored:
            logger.info("Memory: Stored %d facts", stored)
        return Extracted(result.results, is_read=True)

    def _says_nothing(self, read: Sequence[Episode], borrowed: Curator | None) -> bool:
        """Whether no model is needed, because the user said only greetings or thanks."""
        said = [episode.content for episode in read if episode.role == "user"]
        return self._asks_a_model(borrowed) and all(map(is_chatter, said))

    def _asks_a_model(self, borrowed: Curator | None) -> bool:
        return borrowed is not None or self._kernel.extractor is not None

    async def _reading(
        self,
        dialect: Dialect,
        scope: Scope,
        messages: list[Message],
        earlier: int,
        now: datetime,
        *,
        borrowed: Curator | None,
    ) -> Reading:
        """Run the curator; a chat's earlier messages are context for rules, and a model is not shown them."""
        reader, answers = borrowed or self._kernel.reader, self._kernel.answers(scope)
        seconds = patience(self._kernel.config)
        if dialect == "chat" and self._asks_a_model(borrowed):
            request = ReadRequest(messages=messages[earlier:], now=now, answers=answers)
            reading = await _patient(reader.read(request), seconds)
            reading.facts = [fact.moved(earlier) for fact in reading.facts]
            return reading
        request = ReadRequest(messages=messages, read_before=earlier, now=now, answers=answers, whole=True)
        return await _patient(reader.read(request), seconds)


def _to_read(
    dialect: Dialect, before: Sequence[Episode], turns: Sequence[Sequence[Episode]]
) -> tuple[Sequence[Episode], Sequence[Episode]]:
    """Return the messages that give context, and those that are read."""
    if len(turns) > 1 and dialect == "chat":
        return before[-MOST_CONTEXT:], [episode for turn in turns for episode in _to_read(dialect, (), [turn])[1]]
    fresh = [episode for turn in turns for episode in turn]
    if dialect == "responses":
        return before, fresh
    selection = select([_message(episode) for episode in fresh], PROXY)
    context = [*before, *(fresh[place] for place in selection.context)]
    return context[-MOST_CONTEXT:], [fresh[place] for place in selection.positions]


def _limited(facts: Sequence[Fact], policy: ExtractionPolicy, turns: int) -> list[Fact]:
    """Return the facts that a policy keeps: of several turns as many for each message as of one."""
    if turns == 1 or policy.max_facts is None:
        return limit(facts, policy)
    kept: list[Fact] = []
    for sources in {fact.sources: None for fact in facts}:
        own = replace(policy, max_facts=policy.max_facts * max(1, len(sources)))
        kept += limit([fact for fact in facts if fact.sources == sources], own)
    return [fact for fact in facts if fact in kept]


def _told_in(reading: Reading, messages: Sequence[Message], earlier: int) -> list[Fact]:
    """Return the facts, and the standing instructions in the messages read now."""
    noted = unnoted(messages, reading.facts)
    return [fact for fact in noted if fact in reading.facts or max(fact.sources, default=earlier) >= earlier]


def patience(config: MemoryConfig) -> float:
    """Return the seconds that a model may take to read or summarise the gateway's turns."""
    return seconds_of(config.extraction_llm or config.llm) or PATIENCE


async def answer_in_time(config: MemoryConfig, answer: Awaitable[T]) -> T:
    """Return a model's answer; LLMError if it takes longer than `patience`."""
    try:
        async with asyncio.timeout(patience(config)):
            return await answer
    except TimeoutError as error:
        raise LLMError("the model did not answer in time", code="timeout") from error


async def _patient(reading: Awaitable[Reading], seconds: float) -> Reading:
    """Return the reading, or an unread one if it takes too long."""
    try:
        async with asyncio.timeout(seconds):
            return await reading
    except TimeoutError:
        return Reading([], unread=True)


def _message(episode: Episode) -> Message:
    return Message(episode.role, episode.content, episode.name, read_moment(episode.told_at))
