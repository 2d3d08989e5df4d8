"""The read side of the gateway: search memory for a message before the model is asked."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal

from perdure.backends.markdown.base import FileStore
from perdure.domain.errors import EmbeddingError, PerdureError, VectorStoreError
from perdure.domain.event import SearchResult
from perdure.domain.filter import Filter, Not, all_of, eq
from perdure.domain.memory import MemoryItem
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import LateTasks, degrade, guarded, never_fail
from perdure.engine.aio.priority import PriorityGate
from perdure.engine.chat.rolling_summary import told_summary
from perdure.engine.chat.settings import Conversation, GatewaySettings
from perdure.engine.chat.turns import SMALL_TALK
from perdure.engine.core.kernel import Kernel
from perdure.engine.engine import Engine
from perdure.engine.requests import Query
from perdure.engine.team.items import read_member
from perdure.engine.team.reads import TeamReader
from perdure.engine.write.provenance import bare_sentence
from perdure.pipeline.curation.rules.relations.clauses import sentences
from perdure.pipeline.prompting.quoting import fingerprint, injected_in, one_line, sanitised
from perdure.pipeline.quarantine import is_forgery
from perdure.pipeline.retrieval.presets import PROXY, ROUTER, Preset
from perdure.pipeline.retrieval.search_gate import is_general, is_greeting, should_search

# Remove from an injection what it would say twice, or what the request's own messages already contain.


def shown_in(texts: Iterable[str]) -> frozenset[str]:
    """Return the marks of all sentences in perdure's own blocks in these texts; forged blocks are ignored."""
    blocks = [block for text in texts for block in injected_in(text) if not is_forgery(block)]
    return frozenset(mark for block in blocks for line in block.splitlines() for mark, _ in _marked(line))


def untold(items: Iterable[MemoryItem], told: set[str]) -> tuple[MemoryItem, ...]:
    """Return the memories that say something new, and add their marks to `told`."""
    kept: list[MemoryItem] = []
    ids: set[str] = set()
    for item in items:
        marks = {mark for mark, _ in _marked(item.memory)}
        if item.id not in ids and not marks <= told:
            kept.append(item)
            ids.add(item.id)
            told |= marks
    return tuple(kept)


def untold_of(text: str | None, told: Set[str]) -> str | None:
    """Return the new sentences of a text; the text itself if all are new, None if none is."""
    said = _marked(text or "")
    left = [sentence for mark, sentence in said if mark not in told]
    return text if len(left) == len(said) and left else " ".join(left) or None


def _marked(text: str) -> list[tuple[str, str]]:
    """Return the sentences of a text as they appear in a prompt, each after its mark."""
    found = [(bare_sentence(sentence), sentence) for sentence in sentences(one_line(text))]
    return [(fingerprint(bare), sentence) for bare, sentence in found if bare]


logger = logging.getLogger("perdure")
CANONICAL_FACTS = 5  # maximum number of a team's facts in one request
AT_ONCE = 16
"""Concurrent searches: half of perdure's threads, so that a store that hangs does not block everything else."""
RETRY_SECONDS = 30.0
"""Seconds before a store that could not be opened is tried again; until then no request waits for it."""
MOST_ASKED = 10_000
"""Maximum characters of the message, and of each before it, used as the query: more would take all the time of this and
other requests. A longer message was pasted, and its beginning says what it is."""
REWRITE_SHARE = 0.5  # share of the time that a model may take to rewrite the question; after that the original is used
Status = Literal["used", "missing", "ignored", "disabled", "policy_blocked", "unavailable"]  # the outcome of the search


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """What to recall for one request."""

    conversation: Conversation
    query: str  # the text of the user's last message
    history: tuple[Message, ...] = ()  # the messages before it, oldest first
    requires_tool: bool = False  # whether a tool answers it: a forced `tool_choice`, or a last message of role `tool`
    limit: int | None = None  # maximum number of memories, if the request sets it; 0 is no memory at all
    threshold: float | None = None
    recency_weight: float | None = None
    types: tuple[str, ...] = ()
    filters: Filter | None = None
    order: str = "score"  # one of `requests.ORDERS`
    shown: frozenset[str] = frozenset()  # marks of the memories that its own messages already contain, from `shown_in`


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The recalled memories, and the reason for the outcome."""

    status: Status
    reason: str
    """injected; no_results, filtered, empty_context; query_ineligible; global_config; request_opt_out;
    store_unavailable, retrieval_error."""
    hits: tuple[MemoryItem, ...] = ()  # the relevant memories, best first
    directives: tuple[MemoryItem, ...] = ()
    """The user's wishes for how to be answered, oldest first; also if no search ran."""
    canonical: tuple[MemoryItem, ...] = ()  # the CANONICAL facts of the request's team
    summary: str | None = None  # the rolling summary of the conversation

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to inject."""
        return not (self.hits or self.directives or self.canonical or self.summary)

    def block_arguments(self, max_tokens: int) -> dict[str, Any]:
        """Return the arguments of a prompt block other than the hits."""
        named = {"directives": self.directives, "canonical": self.canonical, "summary": self.summary}
        return {**named, "max_tokens": max_tokens}


@dataclass(slots=True)
class _Found:
    hits: Sequence[MemoryItem] | None = None  # none while the search is running
    considered: int = 0
    directives: Sequence[MemoryItem] = ()
    canonical: Sequence[MemoryItem] = ()
    summary: str | None = None


class MemoryReader:
    """Searches memory for one request at a time, on one event loop; on any failure the request goes on.

    `is_fact` detects questions of general knowledge, which need no memory.
    """

    def __init__(
        self, engine: Engine, settings: GatewaySettings, *, is_fact: Callable[[str], bool] = is_general
    ) -> None:
        self._engine = engine
        self._kernel = engine.kernel
        self._settings = settings
        self._is_fact = is_fact
        self._teams = TeamReader(self._kernel, engine.read)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._late = LateTasks()
        self._rests_until = 0.0
        self.way = PriorityGate()  # pauses other work of the same event loop while a search is running

    async def __call__(self, ask: RecallRequest, *, within: float | None = None) -> Recalled:
        """Recall memories for a message within `within` seconds (default `recall_seconds`); never fails."""
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
        except Exception as error:  # whatever it is: an answer never depends on memory
            # Its text is not logged: a backend's error may contain the question.
            logger.warning("Memory retrieval failed: %s", type(error).__name__)
            reason = "store_unavailable" if isinstance(error, VectorStoreError) else "retrieval_error"
            return Recalled(status="unavailable", reason=reason)

    async def search(self, ask: RecallRequest) -> SearchResult:
        """Run the same steps without the gate and the time limit; failures are PerdureError."""
        return await self._engine.read.search(self._query(ask))

    async def warm(self) -> None:
        """Load a local embedding model, so that the first request does not wait for it."""
        embedding = self._kernel.embedding
        what = "the model that makes vectors is loaded with the first message"
        if embedding.embedder.local:
            with never_fail(what, []), degrade(what):
                await embedding.query("warm")

    async def close(self) -> None:
        """Cancel late searches."""
        for task in list(self._late.tasks):
            task.cancel()

    async def _in_time(self, ask: RecallRequest, seconds: float) -> Recalled:
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
        return self._told(ask, found, skipped)

    def _too_late(self) -> Recalled:
        logger.warning("Memory search timeout, skipping")
        return Recalled(status="unavailable", reason="retrieval_error")

    def _skipped(self, ask: RecallRequest) -> Recalled | None:
        """Return the outcome if no search runs, else None."""
        if not ask.query.strip():
            return Recalled(status="missing", reason="empty_context")
        is_fact = self._is_fact(ask.query)
        if should_search(ask.query, is_fact=is_fact, requires_tool=ask.requires_tool):
            return None
        what = "tool query" if ask.requires_tool else "greeting" if is_greeting(ask.query) else "general fact query"
        logger.debug("Memory: Skipping - %s", what)
        return Recalled(status="ignored", reason="query_ineligible")

    async def _look(self, ask: RecallRequest, found: _Found) -> None:
        async with self._slots:
            try:
                await self._kernel.ready()
            except PerdureError as error:
                raise _NotOpenError from error
            is_searched = found.hits is None
            looks: list[Coroutine[Any, Any, None]] = [self._directives(ask.conversation, found)]
            if ask.conversation.team is not None and ask.query.strip():
                looks.append(self._canonical(ask, found))
            if is_searched:  # first, because it takes longest: its vector is computed while the others run
                looks = [self._search(ask, found), *looks]
                if not ask.types:  # a summary has no type
                    looks.append(self._summary(ask, found))
            await asyncio.gather(*looks)

    async def _search(self, ask: RecallRequest, found: _Found) -> None:
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
        with degrade("how the user wants to be answered is not told"):
            told = await self._engine.read.directives(conversation.scope)
            if conversation.shared is not None and conversation.shared != conversation.scope:
                told = [*await self._engine.read.directives(conversation.shared), *told]
            found.directives = told

    async def _canonical(self, ask: RecallRequest, found: _Found) -> None:
        with degrade("what the team holds for true is not told"):
            conversation = ask.conversation
            projects = () if conversation.project is None else (conversation.project,)
            name = conversation.scope.user_id or "gateway"
            member = read_member(team=conversation.team, member=name, projects=projects)
            found.canonical = await self._teams.canonical(member, _beginning(ask.query), CANONICAL_FACTS)

    async def _summary(self, ask: RecallRequest, found: _Found) -> None:
        with degrade("the summary of the conversation is not told"):
            asked = self._query(ask)
            threshold = asked.preset.threshold if asked.threshold is None else asked.threshold
            found.summary = await self._rolling(ask.conversation.scope, asked.text, threshold)

    @guarded
    async def _rolling(self, scope: Scope, query: str, threshold: float | None) -> str | None:
        return await told_summary(self._kernel, scope, query, threshold)

    def _query(self, ask: RecallRequest) -> Query:
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
            order=ask.order,
        )

    def _findable(self, ask: RecallRequest) -> Filter | None:
        """Return the filter for what can be found: messages have no type, except files without content."""
        if ask.types:
            return eq("kind", "facts")
        return Not(eq("type", SMALL_TALK)) if isinstance(self._kernel.store, FileStore) else None

    def _said(self, ask: RecallRequest) -> frozenset[str]:
        """Return what the request itself says, if messages are searched: it need not be repeated."""
        if ask.types or "messages" not in self._engine.read.kinds:
            return frozenset()
        texts = (ask.query, *(each.content for each in ask.history))
        return frozenset(fingerprint(sanitised(text) or text) for text in texts)  # as it would be stored

    def _preset(self, ask: RecallRequest) -> Preset:
        """Return the search steps of the conversation's API, with the weights of the settings and the request."""
        settings = self._settings
        if ask.conversation.dialect == "chat":
            weight = settings.recency_weight if ask.recency_weight is None else ask.recency_weight
            return replace(PROXY, recency_weight=weight, diversity=settings.mmr_lambda)
        assert ROUTER.reflection is not None, "the preset of Responses has its gate"
        reflection = replace(ROUTER.reflection, max_inject_tokens=settings.injected_tokens)
        return replace(ROUTER, recency_weight=ask.recency_weight or 0.0, reflection=reflection)

    def _told(self, ask: RecallRequest, found: _Found, skipped: Recalled | None) -> Recalled:
        """Combine the results, each sentence once; a limit in the request includes the summary."""
        said = set(ask.shown)
        canonical, directives, hits = (
            untold((item for item in items or () if not ask.types or item.type in ask.types), said)
            for items in (found.canonical, found.directives, found.hits)
        )
        has_room = ask.limit is None or len(hits) < ask.limit
        summary = untold_of(found.summary, said) if has_room else None
        self._engine.access_counts.note(hit for hit in (*hits, *canonical) if hit.kind == "facts")
        if skipped is not None:
            return replace(skipped, directives=directives, canonical=canonical)
        logger.info("Memory: Retrieved %d memories", len(hits))
        if found.hits:
            logger.debug("Retrieved %d memories", len(hits))
        else:
            logger.debug("No memories above threshold")
        told = Recalled(
            status="used", reason="injected", hits=hits, directives=directives, canonical=canonical, summary=summary
        )
        if not told.is_empty:
            return told
        return replace(told, status="missing", reason="filtered" if found.considered else "no_results")


class _CancelledInsideError(Exception):
    """Something that a search waited for was cancelled, not the search itself: the request is not cancelled."""


class _NotOpenError(Exception):
    """The store could not be opened."""


def _beginning(text: str) -> str:
    """Return the part of a text that is used as the query."""
    return text if len(text) <= MOST_ASKED else text.strip()[:MOST_ASKED]


_NOT_NOTED = "what was injected is not noted: an echo of it may be read as something said"


async def injected(kernel: Kernel, scope: Scope, items: Iterable[MemoryItem], summary: str | None = None) -> None:
    """Record for 30 days that these memories, and this summary, were put into a prompt of the scope.

    This writes to the ledger: call it after the answer, not before. It never fails. If something could not be recorded,
    a repetition of it may be extracted again, as an exact repeat of an existing memory.
    """
    marks = marks_of(items, summary)
    with never_fail(_NOT_NOTED, []), degrade(_NOT_NOTED), kernel.lifecycle.in_flight():
        if kernel.ledger is not None and marks:
            await kernel.ledger.add_fingerprints(scope, marks)


def marks_of(items: Iterable[MemoryItem], summary: str | None = None) -> frozenset[str]:
    """Return the fingerprints of memories and of a summary, which identify later repetitions."""
    texts = [item.memory for item in items]
    if summary is not None:
        texts += [summary, *summary.splitlines()]
    return frozenset(fingerprint(bare_sentence(text)) for text in texts if text.strip())


def standing_in(body: bytes, recalled: Recalled) -> tuple[Sequence[MemoryItem], str | None]:
    """Return the memories and the summary that a JSON body contains: those beyond the budget were not injected."""

    def stands(said: str) -> bool:
        line = one_line(said)
        return bool(line) and json.dumps(line)[1:-1].encode() in body

    items = [each for each in (*recalled.canonical, *recalled.directives, *recalled.hits) if stands(each.memory)]
    return items, recalled.summary if recalled.summary and stands(recalled.summary) else None
