"""Extract facts from a session's turns, for chat and for Responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from perdure.domain.clock import read_moment
from perdure.domain.errors import ConflictError, EmbeddingError
from perdure.domain.event import Episode, MemoryEvent
from perdure.domain.fact import Fact
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.chat.settings import Dialect, GatewaySettings
from perdure.engine.chat.turns import is_forged
from perdure.engine.config.config import MemoryConfig, seconds_of
from perdure.engine.engine import Engine
from perdure.engine.read.profile import unnoted
from perdure.engine.write.add import FORGOTTEN
from perdure.engine.write.change_set import FactContext, told_at
from perdure.engine.write.curator import Curator, Reading
from perdure.engine.write.provenance import with_provenance, without_echoes
from perdure.pipeline.curation.chat import PROXY, ROUTER, ExtractionPolicy, is_chatter, limit, select

logger = logging.getLogger("perdure")

PATIENCE = 30.0
"""Seconds that a model may take to read, where its settings name no `timeout`."""
OVERLAP = 5
"""Turns that a window reaches back beyond those that nobody has read."""
MOST_CONTEXT = 48
"""Messages before a chat's last that make it clear to the rules."""
_POLICIES: dict[Dialect, ExtractionPolicy] = {"chat": PROXY, "responses": ROUTER}


@dataclass(frozen=True, slots=True)
class Extracted:
    """What became of some turns."""

    events: list[MemoryEvent] = field(default_factory=list)
    failed: Literal["", "reader", "answer", "embedder"] = ""
    """Why they could not be read, and still wait: nobody read them, a model's answer says nothing of use, or no vector
    could be had of what was read."""
    is_read: bool = False
    """Whether somebody read them; of hello and thanks no model is asked."""
    is_stale: bool = False
    """Whether some of them were forgotten meanwhile: nothing is kept, and what is left is to be read anew."""


class Extraction:
    """Reads turns for facts, and has these reconciled with what is known."""

    def __init__(self, engine: Engine, settings: GatewaySettings) -> None:
        self._engine = engine
        self._kernel = engine.kernel
        self._settings = settings

    def every(self, dialect: Dialect) -> int:
        """Turns of a session after which it is read."""
        return self._settings.extraction_batch_size or _POLICIES[dialect].every_n_turns

    async def read(
        self,
        dialect: Dialect,
        scope: Scope,
        before: Sequence[Episode],
        fresh: Sequence[Episode],
        *,
        key: str | None = None,
        kept: bool = True,
        borrowed: Curator | None = None,
    ) -> Extracted:
        """Read the `fresh` messages; those `before` them have been read, and make these clear.

        Of a chat the user's latest message alone is read, and at most three facts are kept of it. `key`
        makes that it happens once; `kept` says whether the messages are, so that facts may name them. Who reads them
        is the configuration's reader, unless one is borrowed.
        """
        earlier, read = _to_read(dialect, before, fresh)
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
            for fact in limit(facts, _POLICIES[dialect])
        ]
        if not told:  # as most turns: there is nothing to hold off other writers for
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
        except EmbeddingError as error:  # for whatever is said, until the embedder's service is back
            logger.warning("Embedding failed, batch skipped: %s", error.code)
            return Extracted(failed="embedder")
        except ConflictError as error:
            if error.code != FORGOTTEN:
                raise
            return Extracted(is_stale=True)
        stored = sum(1 for event in result.results if event.event in ("ADD", "UPDATE"))
        if stored:
            logger.info("Memory: Stored %d facts", stored)
        return Extracted(result.results, is_read=True)

    def _says_nothing(self, read: Sequence[Episode], borrowed: Curator | None) -> bool:
        """Whether a model need not be asked, as the user said nothing but hello or thanks."""
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
        """What the curator reads; a chat's earlier messages are context to rules, and a model is not shown them."""
        reader, answers = borrowed or self._kernel.reader, self._kernel.answers(scope)
        seconds = patience(self._kernel.config)
        if dialect == "chat" and self._asks_a_model(borrowed):
            reading = await _patient(
                reader.read(messages[earlier:], context=(), now=now, prompt=None, answers=answers), seconds
            )
            reading.facts = [_moved(fact, earlier) for fact in reading.facts]
            return reading
        return await _patient(
            reader.read(messages, context=(), now=now, prompt=None, answers=answers, read_before=earlier, whole=True),
            seconds,
        )


def _to_read(
    dialect: Dialect, before: Sequence[Episode], fresh: Sequence[Episode]
) -> tuple[Sequence[Episode], Sequence[Episode]]:
    """What stands before it as context, and what is read."""
    if dialect == "responses":
        return before, fresh
    selection = select([_message(episode) for episode in fresh], PROXY)
    context = [*before, *(fresh[place] for place in selection.context)]
    return context[-MOST_CONTEXT:], [fresh[place] for place in selection.positions]


def _told_in(reading: Reading, messages: Sequence[Message], earlier: int) -> list[Fact]:
    """The facts, and the standing instructions of what is read now."""
    noted = unnoted(messages, reading.facts)
    return [fact for fact in noted if fact in reading.facts or max(fact.sources, default=earlier) >= earlier]


def patience(config: MemoryConfig) -> float:
    """Seconds that the model may take which reads and tells of the gateway's turns."""
    return seconds_of(config.extraction_llm or config.llm) or PATIENCE


async def _patient(reading: Awaitable[Reading], seconds: float) -> Reading:
    """What is read in time; else nothing is."""
    try:
        async with asyncio.timeout(seconds):
            return await reading
    except TimeoutError:
        return Reading([], unread=True)


def _message(episode: Episode) -> Message:
    return Message(episode.role, episode.content, episode.name, read_moment(episode.told_at))


def _moved(fact: Fact, places: int) -> Fact:
    return replace(fact, sources=tuple(position + places for position in fact.sources))
