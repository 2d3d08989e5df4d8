"""The read side of the gateway: what is remembered of a message before a model is asked (001 §5, 002 §3)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from perdure.backends.vault.base import FileStore
from perdure.domain.errors import EmbeddingError, PerdureError, VectorStoreError
from perdure.domain.event import SearchResult
from perdure.domain.filter import Filter, Not, all_of, eq
from perdure.domain.memory import MemoryItem
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.calls import call
from perdure.engine.engine import Engine
from perdure.engine.gateway.conversation import Conversation
from perdure.engine.gateway.giving_way import GivingWay
from perdure.engine.gateway.settings import GatewaySettings
from perdure.engine.gateway.summaries import told_summary
from perdure.engine.gateway.turns import SMALL_TALK
from perdure.engine.in_time import Late
from perdure.engine.queries import Query
from perdure.engine.soft import given_up, kept_from_failing
from perdure.engine.team.member import Member, read_member
from perdure.engine.team.reading import TeamReading
from perdure.pipeline.echo import fingerprint
from perdure.pipeline.fact_question import is_general
from perdure.pipeline.gate import is_greeting, should_search
from perdure.pipeline.recall.presets import PROXY, ROUTER, Preset
from perdure.pipeline.sanitise import sanitised

logger = logging.getLogger("perdure")

CANONICAL_FACTS = 5
"""Facts of a team that a request is given (X55)."""
AT_ONCE = 16
"""Looks into memory at one time: half of perdure's threads, so that a store that hangs does not hold up all else."""
RETRY_SECONDS = 30.0
"""Seconds for which a store that could not be opened is not asked again: until then no request waits for it."""
MOST_ASKED = 10_000
"""Characters of the message, and of each before it, that are looked up: more would take all the time there is, of this
request and of the others beside it. What is longer was pasted, and its beginning says what it is."""
REWRITE_SHARE = 0.5
"""Of the time, what a model may take to put the question anew; after that it is searched as it was asked."""

Status = Literal["used", "missing", "ignored", "disabled", "policy_blocked", "unavailable"]
"""What came of the look into memory (B15)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What memory is asked for one request."""

    conversation: Conversation
    query: str
    """The text of the user's last message."""
    history: tuple[Message, ...] = ()
    """What was said before it, oldest first."""
    requires_tool: bool = False
    """Whether a tool answers it: a forced `tool_choice`, or a last message of role `tool` (V13)."""
    limit: int | None = None
    """Memories at most, where the request says so; 0 is no memory at all (A4)."""
    threshold: float | None = None
    recency_weight: float | None = None
    types: tuple[str, ...] = ()
    filters: Filter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What is remembered, and why no more."""

    status: Status
    reason: str
    """B15's words: injected; no_results, filtered, empty_context; query_ineligible; global_config; request_opt_out;
    store_unavailable, retrieval_error."""
    hits: tuple[MemoryItem, ...] = ()
    """What bears on the message, best first."""
    directives: tuple[MemoryItem, ...] = ()
    """How the user wants to be answered, oldest first; also where nothing is searched for."""
    canonical: tuple[MemoryItem, ...] = ()
    """What the request's team holds for true (X56)."""
    summary: str | None = None
    """The rolling summary of the conversation (K35)."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to put into a prompt."""
        return not (self.hits or self.directives or self.canonical or self.summary)


@dataclass(slots=True)
class _Found:
    """What has been found so far."""

    hits: Sequence[MemoryItem] | None = None
    """None as long as the search is under way."""
    considered: int = 0
    directives: Sequence[MemoryItem] = ()
    canonical: Sequence[MemoryItem] = ()
    summary: str | None = None


class Recalling:
    """Looks into memory for one request at a time, on one event loop; whatever fails, the request goes on (001 §11).

    `is_fact` says which questions are of general knowledge, and so none of memory's (V82).
    """

    def __init__(
        self, engine: Engine, settings: GatewaySettings, *, is_fact: Callable[[str], bool] = is_general
    ) -> None:
        self._engine = engine
        self._kernel = engine.kernel
        self._settings = settings
        self._is_fact = is_fact
        self._teams = TeamReading(self._kernel, engine.read)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._late = Late()
        self._rests_until = 0.0
        self.way = GivingWay()
        """What lets other work of the same event loop stand back while one of these looks is under way."""

    async def __call__(self, ask: Ask, *, within: float | None = None) -> Recalled:
        """What is remembered of a message, in `within` seconds, by default `recall_seconds`.

        Raises nothing but CancelledError.
        """
        if not self._settings.enabled:
            return Recalled(status="disabled", reason="global_config")
        if ask.limit is not None and ask.limit <= 0:
            return Recalled(status="policy_blocked", reason="request_opt_out")
        if time.monotonic() < self._rests_until:
            return Recalled(status="unavailable", reason="store_unavailable")
        try:
            with self.way.first():
                return await self._in_time(ask, self._settings.recall_seconds if within is None else within)
        except EmbeddingError:
            logger.warning("Embedding failed, skipping memory")
            return Recalled(status="unavailable", reason="retrieval_error")
        except _NotOpenError:
            self._rests_until = time.monotonic() + RETRY_SECONDS
            logger.error("%s unavailable, memory disabled", self._kernel.store.name.capitalize())
            return Recalled(status="unavailable", reason="store_unavailable")
        except Exception as error:  # whatever it is: memory is no condition of an answer
            # Its text stays out of the log: a backend's may hold what was asked.
            logger.warning("Memory retrieval failed: %s", type(error).__name__)
            reason = "store_unavailable" if isinstance(error, VectorStoreError) else "retrieval_error"
            return Recalled(status="unavailable", reason=reason)

    async def search(self, ask: Ask) -> SearchResult:
        """What the same steps find, whatever the gate and the clock say; its failures are PerdureError."""
        return await self._engine.read.search(self._query(ask))

    async def warm(self) -> None:
        """Load the model that makes vectors, where it runs on this machine: the first request must not wait for it."""
        embedding = self._kernel.embedding
        what = "the model that makes vectors is loaded with the first message"
        if embedding.embedder.local:
            with kept_from_failing(what, []), given_up(what):
                await embedding.query("warm")

    async def close(self) -> None:
        """Give up what is still looked for in vain."""
        for task in list(self._late.tasks):
            task.cancel()

    # ------------------------------------------------------------------ time
    async def _in_time(self, ask: Ask, seconds: float) -> Recalled:
        if len(self._late.tasks) >= AT_ONCE:
            return self._too_late()
        skipped = self._skipped(ask)
        found = _Found(hits=() if skipped else None)
        task = asyncio.create_task(self._look(ask, found))
        try:
            await asyncio.wait((task,), timeout=seconds)
        except asyncio.CancelledError:
            self._late.note(task)
            raise
        if task.cancelled():
            raise _CancelledInsideError
        if task.done():
            await task
        else:
            self._late.note(task)
        if found.hits is None:
            return self._too_late()
        return self._told(found, skipped)

    def _too_late(self) -> Recalled:
        logger.warning("Memory search timeout, skipping")
        return Recalled(status="unavailable", reason="retrieval_error")

    # ------------------------------------------------------------------ looking
    def _skipped(self, ask: Ask) -> Recalled | None:
        """Why nothing is searched for, if so (V11 to V16)."""
        if not ask.query.strip():
            return Recalled(status="missing", reason="empty_context")
        is_fact = self._is_fact(ask.query)
        if should_search(ask.query, is_fact=is_fact, requires_tool=ask.requires_tool):
            return None
        what = "tool query" if ask.requires_tool else "greeting" if is_greeting(ask.query) else "general fact query"
        logger.debug("Memory: Skipping - %s", what)
        return Recalled(status="ignored", reason="query_ineligible")

    async def _look(self, ask: Ask, found: _Found) -> None:
        async with self._slots:
            try:
                await self._kernel.ready()
            except PerdureError as error:
                raise _NotOpenError from error
            is_searched = found.hits is None
            looks: list[Coroutine[Any, Any, None]] = [self._directives(ask.conversation, found)]
            if ask.conversation.team is not None and ask.query.strip():
                looks.append(self._canonical(ask, found))
            if is_searched:  # first, for it takes longest: its vector is made while the others are looked up
                looks = [self._search(ask, found), *looks, self._summary(ask.conversation, found)]
            await asyncio.gather(*looks)

    async def _search(self, ask: Ask, found: _Found) -> None:
        if not ask.history:
            logger.debug("No history, query-only search")
        asked = self._query(ask)
        try:
            async with asyncio.timeout(self._settings.recall_seconds * REWRITE_SHARE):
                asked = await self._engine.read.rewritten(asked, [])
        except TimeoutError:
            logger.warning("the question is searched as it was asked: putting it anew took too long")
        result = await self._engine.read.look(asked)
        found.considered = result.considered
        found.hits = result.results

    async def _directives(self, conversation: Conversation, found: _Found) -> None:
        with given_up("how the user wants to be answered is not told"):
            told = await self._engine.read.directives(conversation.scope)
            if conversation.shared is not None and conversation.shared != conversation.scope:
                told = [*await self._engine.read.directives(conversation.shared), *told]
            found.directives = told

    async def _canonical(self, ask: Ask, found: _Found) -> None:
        with given_up("what the team holds for true is not told"):
            member = _member(ask.conversation)
            found.canonical = await self._teams.canonical(member, _beginning(ask.query), CANONICAL_FACTS)

    async def _summary(self, conversation: Conversation, found: _Found) -> None:
        with given_up("the summary of the conversation is not told"):
            found.summary = await self._rolling(conversation.scope)

    @call
    async def _rolling(self, scope: Scope) -> str | None:
        return await told_summary(self._kernel, scope)

    def _query(self, ask: Ask) -> Query:
        settings, conversation = self._settings, ask.conversation
        threshold = settings.threshold(conversation.dialect) if ask.threshold is None else ask.threshold
        return Query(
            text=_beginning(ask.query),
            scope=conversation.scope,
            also=conversation.shared,
            history=tuple(replace(each, content=_beginning(each.content)) for each in ask.history),
            limit=ask.limit or settings.default_retrieval_limit,
            threshold=threshold,
            types=ask.types,
            filters=all_of(ask.filters, self._findable(ask)),
            preset=self._preset(ask),
            trusted=settings.quarantine,
            told=self._said(ask),
        )

    def _findable(self, ask: Ask) -> Filter | None:
        """What can be found at all: what was said has no type, save what is a file and says nothing."""
        if ask.types:
            return eq("kind", "facts")
        return Not(eq("type", SMALL_TALK)) if isinstance(self._kernel.store, FileStore) else None

    def _said(self, ask: Ask) -> frozenset[str]:
        """What the request says itself, where messages are searched: it need not be told again."""
        if ask.types or "messages" not in self._engine.read.kinds:
            return frozenset()
        texts = (ask.query, *(each.content for each in ask.history))
        return frozenset(fingerprint(sanitised(text) or text) for text in texts)  # as it would be kept

    def _preset(self, ask: Ask) -> Preset:
        """002's steps for a chat, 001's for Responses, with what settings and request say of them."""
        settings = self._settings
        if ask.conversation.dialect == "chat":
            weight = settings.recency_weight if ask.recency_weight is None else ask.recency_weight
            return replace(PROXY, recency_weight=weight, diversity=settings.mmr_lambda)
        assert ROUTER.reflection is not None, "001's preset has its gate"
        reflection = replace(ROUTER.reflection, max_inject_tokens=settings.injected_tokens)
        return replace(ROUTER, recency_weight=ask.recency_weight or 0.0, reflection=reflection)

    # ------------------------------------------------------------------ telling
    def _told(self, found: _Found, skipped: Recalled | None) -> Recalled:
        canonical = _new(found.canonical, ())
        directives = _new(found.directives, canonical)
        hits = _new(found.hits or (), (*canonical, *directives))
        self._engine.accesses.note(hit for hit in hits if hit.kind == "facts")
        if skipped is not None:
            return replace(skipped, directives=directives, canonical=canonical)
        logger.info("Memory: Retrieved %d memories", len(hits))
        if found.hits:
            logger.debug("Retrieved %d memories", len(hits))
        else:
            logger.debug("No memories above threshold")
        told = Recalled(
            status="used",
            reason="injected",
            hits=hits,
            directives=directives,
            canonical=canonical,
            summary=found.summary,
        )
        return replace(told, status="missing", reason=_why_none(found)) if told.is_empty else told


class _CancelledInsideError(Exception):
    """Something that a look waited for was cancelled, and not the look itself: that is no cancellation of a request."""


class _NotOpenError(Exception):
    """The store could not be opened."""


def _member(conversation: Conversation) -> Member:
    """Whoever asks, as a member of the request's team; without a name they see what the team shares."""
    projects = () if conversation.project is None else (conversation.project,)
    name = conversation.scope.user_id or "gateway"
    return read_member(team=conversation.team, member=name, projects=projects)


def _beginning(text: str) -> str:
    """What of a text is looked up."""
    return text if len(text) <= MOST_ASKED else text.strip()[:MOST_ASKED]


def _new(items: Iterable[MemoryItem], before: Iterable[MemoryItem]) -> tuple[MemoryItem, ...]:
    """Those that say something that neither an earlier one nor one of `before` says (U14)."""
    ids = {item.id for item in before}
    texts = {fingerprint(item.memory) for item in before}
    kept: list[MemoryItem] = []
    for item in items:
        text = fingerprint(item.memory)
        if item.id not in ids and text not in texts:
            kept.append(item)
            ids.add(item.id)
            texts.add(text)
    return tuple(kept)


def _why_none(found: _Found) -> str:
    return "filtered" if found.considered else "no_results"
