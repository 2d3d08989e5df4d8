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
from perdure.engine.team.items import Member, read_member
from perdure.engine.team.reads import TeamReader
from perdure.engine.write.provenance import bare_sentence
from perdure.pipeline.curation.rules.relations.clauses import sentences
from perdure.pipeline.prompting.quoting import fingerprint, injected_in, one_line, sanitised
from perdure.pipeline.quarantine import is_forgery
from perdure.pipeline.retrieval.presets import PROXY, ROUTER, Preset
from perdure.pipeline.retrieval.search_gate import is_general, is_greeting, should_search

# Leave out of an injection what it would say twice, or what the request's own messages already hold of memory.


def shown_in(texts: Iterable[str]) -> frozenset[str]:
    """The marks of all sentences in blocks that perdure itself put into these texts; of a forged one none."""
    blocks = [block for text in texts for block in injected_in(text) if not is_forgery(block)]
    return frozenset(mark for block in blocks for line in block.splitlines() for mark, _ in _marked(line))


def untold(items: Iterable[MemoryItem], told: set[str]) -> tuple[MemoryItem, ...]:
    """The memories that say something that is not told yet; then that is told too."""
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
    """The sentences of a text that are not told yet; the text itself where that is all of them, None for none."""
    said = _marked(text or "")
    left = [sentence for mark, sentence in said if mark not in told]
    return text if len(left) == len(said) and left else " ".join(left) or None


def _marked(text: str) -> list[tuple[str, str]]:
    """The sentences of a text as they stand in a prompt, each after its mark."""
    found = [(bare_sentence(sentence), sentence) for sentence in sentences(one_line(text))]
    return [(fingerprint(bare), sentence) for bare, sentence in found if bare]


logger = logging.getLogger("perdure")

CANONICAL_FACTS = 5
"""Facts of a team that a request is given."""
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
"""What came of the look into memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """What memory is asked for one request."""

    conversation: Conversation
    query: str
    """The text of the user's last message."""
    history: tuple[Message, ...] = ()
    """What was said before it, oldest first."""
    requires_tool: bool = False
    """Whether a tool answers it: a forced `tool_choice`, or a last message of role `tool`."""
    limit: int | None = None
    """Memories at most, where the request says so; 0 is no memory at all."""
    threshold: float | None = None
    recency_weight: float | None = None
    types: tuple[str, ...] = ()
    filters: Filter | None = None
    shown: frozenset[str] = frozenset()
    """What its own messages tell of memory already, by `shown_in`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What is remembered, and why no more."""

    status: Status
    reason: str
    """injected; no_results, filtered, empty_context; query_ineligible; global_config; request_opt_out;
    store_unavailable, retrieval_error."""
    hits: tuple[MemoryItem, ...] = ()
    """What bears on the message, best first."""
    directives: tuple[MemoryItem, ...] = ()
    """How the user wants to be answered, oldest first; also where nothing is searched for."""
    canonical: tuple[MemoryItem, ...] = ()
    """What the request's team holds for true."""
    summary: str | None = None
    """The rolling summary of the conversation."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to put into a prompt."""
        return not (self.hits or self.directives or self.canonical or self.summary)

    def block_arguments(self, max_tokens: int) -> dict[str, Any]:
        """Return the arguments of a prompt block beside the hits."""
        named = {"directives": self.directives, "canonical": self.canonical, "summary": self.summary}
        return {**named, "max_tokens": max_tokens}


@dataclass(slots=True)
class _Found:
    """What has been found so far."""

    hits: Sequence[MemoryItem] | None = None
    """None as long as the search is under way."""
    considered: int = 0
    directives: Sequence[MemoryItem] = ()
    canonical: Sequence[MemoryItem] = ()
    summary: str | None = None


class MemoryReader:
    """Looks into memory for one request at a time, on one event loop; whatever fails, the request goes on.

    `is_fact` says which questions are of general knowledge, and so none of memory's.
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
        self.way = PriorityGate()
        """What lets other work of the same event loop stand back while one of these looks is under way."""

    async def __call__(self, ask: RecallRequest, *, within: float | None = None) -> Recalled:
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

    async def search(self, ask: RecallRequest) -> SearchResult:
        """What the same steps find, whatever the gate and the clock say; its failures are PerdureError."""
        return await self._engine.read.search(self._query(ask))

    async def warm(self) -> None:
        """Load the model that makes vectors, where it runs on this machine: the first request must not wait for it."""
        embedding = self._kernel.embedding
        what = "the model that makes vectors is loaded with the first message"
        if embedding.embedder.local:
            with never_fail(what, []), degrade(what):
                await embedding.query("warm")

    async def close(self) -> None:
        """Give up what is still looked for in vain."""
        for task in list(self._late.tasks):
            task.cancel()

    # ------------------------------------------------------------------ time
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

    # ------------------------------------------------------------------ looking
    def _skipped(self, ask: RecallRequest) -> Recalled | None:
        """Why nothing is searched for, if so."""
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
            if is_searched:  # first, for it takes longest: its vector is made while the others are looked up
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
            member = _member(ask.conversation)
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
        )

    def _findable(self, ask: RecallRequest) -> Filter | None:
        """What can be found at all: what was said has no type, save what is a file and says nothing."""
        if ask.types:
            return eq("kind", "facts")
        return Not(eq("type", SMALL_TALK)) if isinstance(self._kernel.store, FileStore) else None

    def _said(self, ask: RecallRequest) -> frozenset[str]:
        """What the request says itself, where messages are searched: it need not be told again."""
        if ask.types or "messages" not in self._engine.read.kinds:
            return frozenset()
        texts = (ask.query, *(each.content for each in ask.history))
        return frozenset(fingerprint(sanitised(text) or text) for text in texts)  # as it would be kept

    def _preset(self, ask: RecallRequest) -> Preset:
        """Return the search steps of the conversation's API, with the weights of the settings and the request."""
        settings = self._settings
        if ask.conversation.dialect == "chat":
            weight = settings.recency_weight if ask.recency_weight is None else ask.recency_weight
            return replace(PROXY, recency_weight=weight, diversity=settings.mmr_lambda)
        assert ROUTER.reflection is not None, "the preset of Responses has its gate"
        reflection = replace(ROUTER.reflection, max_inject_tokens=settings.injected_tokens)
        return replace(ROUTER, recency_weight=ask.recency_weight or 0.0, reflection=reflection)

    # ------------------------------------------------------------------ telling
    def _told(self, ask: RecallRequest, found: _Found, skipped: Recalled | None) -> Recalled:
        """What is found, each sentence of it once; a limit that the request names is one of the summary too."""
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
            status="used",
            reason="injected",
            hits=hits,
            directives=directives,
            canonical=canonical,
            summary=summary,
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


def _why_none(found: _Found) -> str:
    return "filtered" if found.considered else "no_results"


_NOT_NOTED = "what was injected is not noted: an echo of it may be read as something said"


async def injected(kernel: Kernel, scope: Scope, items: Iterable[MemoryItem], summary: str | None = None) -> None:
    """Remember for 30 days that these memories, and this summary, were put into a prompt of the scope.

    A write into the ledger: call it after the answer, not before. It never fails; what could not be noted may be
    extracted again from an echo, where it is an exact repeat of a memory that stands.
    """
    marks = marks_of(items, summary)
    with never_fail(_NOT_NOTED, []), degrade(_NOT_NOTED), kernel.lifecycle.in_flight():
        if kernel.ledger is not None and marks:
            await kernel.ledger.add_fingerprints(scope, marks)


def marks_of(items: Iterable[MemoryItem], summary: str | None = None) -> frozenset[str]:
    """The fingerprints of memories and of a summary, by which an echo of them is known again."""
    texts = [item.memory for item in items]
    if summary is not None:
        texts += [summary, *summary.splitlines()]
    return frozenset(fingerprint(bare_sentence(text)) for text in texts if text.strip())


def standing_in(body: bytes, recalled: Recalled) -> tuple[Sequence[MemoryItem], str | None]:
    """The memories, and the summary, that stand in a JSON body: what its budget left out was not injected."""

    def stands(said: str) -> bool:
        line = one_line(said)
        return bool(line) and json.dumps(line)[1:-1].encode() in body

    items = [each for each in (*recalled.canonical, *recalled.directives, *recalled.hits) if stands(each.memory)]
    return items, recalled.summary if recalled.summary and stands(recalled.summary) else None
