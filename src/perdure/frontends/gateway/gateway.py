"""Gateway: the shared state of all routes that call a model."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from opentelemetry import trace

from perdure.backends.caches.memory import MemoryCache
from perdure.backends.http.upstream import HttpUpstream
from perdure.domain.access import Caller
from perdure.engine.aio.calls import never_fail
from perdure.engine.aio.priority import PriorityGate
from perdure.engine.chat.compaction import Compaction
from perdure.engine.chat.memory_reader import MemoryReader, Recalled, RecallRequest, marks_of, standing_in
from perdure.engine.chat.memory_writer import MemoryWriter
from perdure.engine.chat.settings import Conversation, GatewaySettings
from perdure.engine.engine import Engine
from perdure.frontends.faults import NoUpstreamError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

# Metrics and spans of the gateway; clients cannot choose the values of any label.

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_FOUND = (0, 1, 2, 3, 5, 10, 20, 50, 100)
_STATUSES = {"used": "hit", "unavailable": "error"}


class GatewayMetrics:
    """Counters of one gateway, in its server's registry; without one nothing is counted."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._counts = registry is not None
        if registry is None:
            return
        from prometheus_client import Counter, Gauge, Histogram  # of the extra `metrics`, as the registry is

        self._seconds = Histogram(
            "llm_memory_retrieval_latency_seconds",
            "Time that a request waited for memory.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._recalls = Counter(
            "llm_memory_retrieval_total",
            "Looks into memory: hit, miss or error, and why.",
            ["status", "reason"],
            registry=registry,
        )
        self._found = Histogram(
            "llm_memory_retrieval_results", "Memories that a look found.", buckets=_FOUND, registry=registry
        )
        self._cached = Counter(
            "llm_memory_cache_hits_total", "Requests that were answered from the response cache.", registry=registry
        )
        self._uncached = Counter(
            "llm_memory_cache_misses_total", "Requests that the response cache had no answer to.", registry=registry
        )
        self._waiting = Gauge(
            "llm_memory_turns_waiting", "What was said and waits to be kept, or to be found.", registry=registry
        )
        self._indexed = Gauge("llm_memory_index_bytes", "Bytes of the indexes that recall works on.", registry=registry)
        self._unkept = Counter(
            "llm_memory_turns_unkept_total",
            "Turns, or answers of turns, that are not kept.",
            ["why"],
            registry=registry,
        )

    def watches(self, *, waiting: Callable[[], int], indexed: Callable[[], int]) -> None:
        """Register functions for the number of waiting turns and the bytes of indexes."""
        if self._counts:
            self._waiting.set_function(waiting)
            self._indexed.set_function(indexed)

    def unkept(self, why: str) -> None:
        """Count a message that is not stored: `no_room` if the queue is full, `failed` otherwise."""
        if self._counts:
            self._unkept.labels(why).inc()

    @contextmanager
    def recalling(self) -> Iterator[Callable[[str, str, int], None]]:
        """Measure one recall: time, span, and the status, reason and number of memories that it reports."""
        began = time.perf_counter()

        def told(status: str, reason: str, count: int) -> None:
            if self._counts:
                self._recalls.labels(_STATUSES.get(status, "miss"), reason).inc()
                self._found.observe(count)
            span.set_attribute("perdure.memory.status", status)
            span.set_attribute("perdure.memory.count", count)

        with trace.get_tracer("perdure.gateway").start_as_current_span("memory.recall", record_exception=False) as span:
            try:
                yield told
            finally:
                if self._counts:
                    self._seconds.observe(time.perf_counter() - began)

    def looked(self, *, is_hit: bool) -> None:
        """Count a lookup in the response cache."""
        if self._counts:
            (self._cached if is_hit else self._uncached).inc()


# Background tasks: no answer waits for them; the server finishes them before it ends.


class BackgroundTasks:
    """Background work, in order within each line and after recalls; it lives as long as the server."""

    def __init__(self, way: PriorityGate) -> None:
        self._way = way
        self._under_way: set[asyncio.Task[Any]] = set()
        self._last: dict[str, asyncio.Task[Any]] = {}

    def spawn(self, work: Coroutine[Any, Any, T], line: str) -> asyncio.Task[T]:
        """Start work once the earlier work of its line has ended, in whatever way."""
        task = asyncio.create_task(self._after(self._last.get(line), work), name="perdure-gateway")
        self._under_way.add(task)
        self._last[line] = task
        task.add_done_callback(self._under_way.discard)
        task.add_done_callback(lambda done: self._last.pop(line) if self._last.get(line) is done else None)
        return task

    async def _after(self, before: asyncio.Task[Any] | None, work: Coroutine[Any, Any, T]) -> T:
        try:
            if before is not None:
                await asyncio.wait({before})
        except asyncio.CancelledError:
            work.close()
            raise
        return await self._way.behind(work)

    async def so_far(self) -> None:
        """Wait until all work started so far is done."""
        if self._under_way:
            await asyncio.wait(set(self._under_way))

    async def finish(self) -> None:
        """Wait until all work is done, including work started meanwhile."""
        while self._under_way:
            await asyncio.wait(set(self._under_way))

    def __len__(self) -> int:
        return len(self._under_way)


# Response cache: identical requests get the same answer; an erasure empties it.


class ResponseCache:
    """Keeps answers in this process for some seconds.

    An answer may contain text that was forgotten since: after an erasure in this process, which `erasures` counts,
    older answers are not returned.
    """

    def __init__(self, seconds: float, erasures: Callable[[], int]) -> None:
        self._cache = MemoryCache(MemoryCache.Settings())
        self._seconds = seconds
        self._erasures = erasures
        self._seen = erasures()

    @property
    def now(self) -> int:
        """Return the current number of erasures, to pass to `put`."""
        return self._erasures()

    def get(self, key: str) -> bytes | None:
        """Return the cached answer to a request, or None."""
        if self._seen != self._erasures():
            self._seen = self._erasures()
            self._cache.close()
        return self._cache.get([key])[0]

    def put(self, key: str, answer: bytes, asked: int) -> None:
        """Cache an answer to a request that began at `asked`."""
        if asked == self._erasures():
            self._cache.put({key: answer}, self._seconds)


T = TypeVar("T")
MODEL_ROUTES = ("/v1/chat/completions", "/v1/responses", "/chat/completions", "/responses")
"""The routes with memory, also for clients whose base URL has no /v1; paths below them count too."""

BEGINNING_SHARE = 0.5  # share of memory's time that may be spent on reading earlier conversations
_ENCODED = 3  # maximum levels of percent-encoding that are decoded
logger = logging.getLogger("perdure.gateway")


class Gateway:
    """The model's server, both sides of the memory, and background work; on `app.state.gateway`."""

    def __init__(
        self,
        engine: Engine,
        settings: GatewaySettings,
        *,
        trust_client_user_id: bool,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.trust_client_user_id = trust_client_user_id  # whether a request's body may name the user
        self.recalling = MemoryReader(engine, settings)
        self.counting = GatewayMetrics(registry)
        self.remembering = MemoryWriter(engine, settings, way=self.recalling.way, lost=self.counting.unkept)
        self.turns = self.remembering.turns  # the queue of turns
        self.compressing = Compaction(engine, settings, self.turns.enqueue_injected)
        self.counting.watches(waiting=lambda: self.remembering.waiting, indexed=lambda: engine.read.index_bytes)
        seconds = settings.response_cache_seconds
        self.cache = ResponseCache(seconds, lambda: engine.read.erasures) if seconds else None
        """The response cache; None if it is off."""
        self._tasks = BackgroundTasks(self.recalling.way)
        self._upstream = _upstream(settings)
        self._own: frozenset[str] = frozenset()

    @property
    def passes(self) -> bool:
        """Whether unknown paths are forwarded: if there is a model's server."""
        return self._upstream is not None

    @property
    def upstream(self) -> HttpUpstream:
        """The model's server; NoUpstreamError if none is configured."""
        if self._upstream is None:
            raise NoUpstreamError(
                "no model's server is set: gateway.upstream.base_url in perdure.toml, PERDURE_GATEWAY__UPSTREAM__"
                "BASE_URL, or `perdure proxy --openai-base-url`"
            )
        return self._upstream

    def keep_own(self, paths: Sequence[str]) -> None:
        """Register this server's own path templates: nothing at or below them is ever forwarded."""
        fixed = {path.partition("{")[0].rstrip("/") for path in paths}
        self._own = frozenset(path for path in fixed if path and not path.startswith(MODEL_ROUTES))

    def takes(self, path: str) -> bool:
        """Whether a request goes to the model's server, with memory or without."""
        if not path.startswith("/") or self.is_own(path):
            return False
        # In another spelling a model's route would bypass the checks of that route.
        return is_model_route(path) or (self.passes and not is_model_route("/" + "/".join(_plain(path))))

    def is_own(self, path: str) -> bool:
        """Whether a path is this server's own, or below one, in any spelling."""
        spellings = (path.split("/")[1:], _plain(path))
        return any(
            "/" + "/".join(parts[:count]) in self._own for parts in spellings for count in range(1, len(parts) + 1)
        )

    async def recall(self, ask: RecallRequest, *, within: float) -> Recalled:
        """Recall memories for a request, in at most so many seconds.

        A request that begins a conversation waits, for a part of that time, until the user's other sessions are read.
        If many messages wait to be stored, it waits for these too, for the rest of the time.
        """
        until = time.monotonic() + within
        if not ask.history and self.settings.enabled:
            await self.remembering.begins(ask.conversation, within * BEGINNING_SHARE)
            within = max(0.0, until - time.monotonic())
        with self.counting.recalling() as told:
            recalled = await self.recalling(ask, within=within)
            await self.turns.room(until - time.monotonic())
            told(recalled.status, recalled.reason, len(recalled.hits))
        return recalled

    async def shortened(
        self, conversation: Conversation, messages: list[dict[str, Any]], *, began: float
    ) -> list[dict[str, Any]]:
        """Return a request's messages without those that its state replaces; the same list if there is no state.

        `began` is when the request came, by the monotonic clock: the time that recall took is subtracted.
        """
        return await self.compressing(conversation, messages, within=began + self.settings.recall_seconds)

    def note(self, conversation: Conversation, recalled: Recalled, body: bytes) -> None:
        """Record what was injected into a body, so that a repetition is not learned; later writes wait for it."""
        if not recalled.is_empty:
            with never_fail("what was injected is not noted: an echo of it may be read as something said", []):
                items, summary = standing_in(body, recalled)
                self.turns.enqueue_injected(conversation.scope, marks_of(items, summary))

    def later(self, work: Coroutine[Any, Any, T], line: str) -> asyncio.Task[T]:
        """Run work in the background, after the earlier work of its line."""
        return self._tasks.spawn(work, line)

    async def written(self) -> None:
        """Wait until all messages so far are stored."""
        await self.remembering.written()
        await self._tasks.so_far()

    async def start(self) -> None:
        """Start working on due jobs."""
        if self.settings.enabled:
            if self.passes:
                self.later(self.recalling.warm(), "warm")
            await self.remembering.start()
            await self.compressing.start()

    async def close(self) -> None:
        """Finish running work, and close every connection to the model's server."""
        await self._tasks.finish()
        await self.recalling.close()
        if self.settings.enabled:
            await self.remembering.close()
            await self.compressing.close()
        if self._upstream is not None:
            await self._upstream.close()

    @property
    def under_way(self) -> int:
        """Number of unfinished background tasks."""
        return len(self._tasks) + self.remembering.waiting


def is_model_route(path: str) -> bool:
    """Whether a path belongs to the routes with memory."""
    return any(path == route or path.startswith(f"{route}/") for route in MODEL_ROUTES)


def climbs(path: str) -> bool:
    """Whether a path contains `.` or `..` as a segment, in any encoding: servers disagree on its target."""
    return any(name in (".", "..") for name in _names(path))


def _names(path: str) -> Iterator[str]:
    """Yield the segments of a path as the most lenient server would read them, in lower case."""
    for _ in range(_ENCODED):
        path = unquote(path)
    return (part.partition(";")[0] for part in path.replace("\\", "/").lower().split("/"))


def _plain(path: str) -> list[str]:
    """Return the segments of a path as the most lenient server would read it, so that no spelling bypasses a check."""
    names: list[str] = []
    for name in _names(path):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return names


def may_store(caller: Caller) -> bool:
    """Whether a caller's messages are stored: not if the caller may only read."""
    return caller.role != "reader"


def _upstream(settings: GatewaySettings) -> HttpUpstream | None:
    chosen = settings.upstream
    if chosen.base_url is None:
        return None
    key = chosen.api_key.get_secret_value() if chosen.api_key else os.environ.get("OPENAI_API_KEY", "").strip()
    return HttpUpstream(
        chosen.base_url,
        api_key=key or None,
        connect_seconds=chosen.connect_seconds,
        silent_seconds=chosen.silent_seconds,
    )
