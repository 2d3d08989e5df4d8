"""Gateway: what every route that speaks to a model works with."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import unquote

from opentelemetry import trace
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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

# Metrics and spans of the gateway; no label holds a value that a client chose.

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_FOUND = (0, 1, 2, 3, 5, 10, 20, 50, 100)
_STATUSES = {"used": "hit", "unavailable": "error"}


class GatewayMetrics:
    """Counters of one gateway, in its server's registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
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
        """What counts that which waits, and the bytes of indexes, whenever they are asked for."""
        self._waiting.set_function(waiting)
        self._indexed.set_function(indexed)

    def unkept(self, why: str) -> None:
        """Something that was said is not kept: `no_room` where too much waits, `failed` where it cannot be."""
        self._unkept.labels(why).inc()

    @contextmanager
    def recalling(self) -> Iterator[Callable[[str, str, int], None]]:
        """One look into memory: its time, its span, and what it tells of its status, reason and number of memories."""
        began = time.perf_counter()

        def told(status: str, reason: str, count: int) -> None:
            self._recalls.labels(_STATUSES.get(status, "miss"), reason).inc()
            self._found.observe(count)
            span.set_attribute("perdure.memory.status", status)
            span.set_attribute("perdure.memory.count", count)

        with trace.get_tracer("perdure.gateway").start_as_current_span("memory.recall", record_exception=False) as span:
            try:
                yield told
            finally:
                self._seconds.observe(time.perf_counter() - began)

    def looked(self, *, is_hit: bool) -> None:
        """The response cache was asked."""
        (self._cached if is_hit else self._uncached).inc()


# Background tasks: no answer waits for them; the server finishes them before it ends.


class BackgroundTasks:
    """Work in the background, in order within each line and behind recalls; it lasts as long as the server does."""

    def __init__(self, way: PriorityGate) -> None:
        self._way = way
        self._under_way: set[asyncio.Task[Any]] = set()
        self._last: dict[str, asyncio.Task[Any]] = {}

    def spawn(self, work: Coroutine[Any, Any, T], line: str) -> asyncio.Task[T]:
        """Begin some work when what was begun before it in its line has ended, however it ended."""
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
        """Wait until what has been begun by now is done."""
        if self._under_way:
            await asyncio.wait(set(self._under_way))

    async def finish(self) -> None:
        """Wait until all of it is done, also what is begun meanwhile."""
        while self._under_way:
            await asyncio.wait(set(self._under_way))

    def __len__(self) -> int:
        return len(self._under_way)


# Response cache: identical requests get the same answer; an erasure empties it.


class ResponseCache:
    """Keeps answers in this process for some seconds.

    An answer may tell of what is forgotten since: after an erasure in this process, which `erasures` counts, none is
    given that was asked for before it.
    """

    def __init__(self, seconds: float, erasures: Callable[[], int]) -> None:
        self._cache = MemoryCache(MemoryCache.Settings())
        self._seconds = seconds
        self._erasures = erasures
        self._seen = erasures()

    @property
    def now(self) -> int:
        """What `put` wants to know of the moment at which an answer was asked for."""
        return self._erasures()

    def get(self, key: str) -> bytes | None:
        """The answer to a request, if it is known."""
        if self._seen != self._erasures():
            self._seen = self._erasures()
            self._cache.close()
        return self._cache.get([key])[0]

    def put(self, key: str, answer: bytes, asked: int) -> None:
        """Keep an answer to a request that was `asked` then."""
        if asked == self._erasures():
            self._cache.put({key: answer}, self._seconds)


T = TypeVar("T")

MODEL_ROUTES = ("/v1/chat/completions", "/v1/responses", "/chat/completions", "/responses")
"""The routes that have memory, for clients whose base URL has no /v1 too; what stands below them is theirs as well."""

BEGINNING_SHARE = 0.5
"""Of the time that memory may take, what may go by until earlier conversations are read."""
_ENCODED = 3
"""Times that a path may be encoded and is still known."""

logger = logging.getLogger("perdure.gateway")


class Gateway:
    """The model's server, the memory's two sides, and the work between them; on `app.state.gateway`."""

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
        self.trust_client_user_id = trust_client_user_id
        """Whether the user that a request's body names is believed."""
        self.recalling = MemoryReader(engine, settings)
        self.counting = GatewayMetrics(registry)
        self.remembering = MemoryWriter(engine, settings, way=self.recalling.way, lost=self.counting.unkept)
        self.turns = self.remembering.turns
        """Where routes put the turns that are to be kept."""
        self.compressing = Compaction(engine, settings, self.turns.enqueue_injected)
        self.counting.watches(waiting=lambda: self.remembering.waiting, indexed=lambda: engine.read.index_bytes)
        seconds = settings.response_cache_seconds
        self.cache = ResponseCache(seconds, lambda: engine.read.erasures) if seconds else None
        """Answers to the very same requests; None where none is given twice."""
        self._tasks = BackgroundTasks(self.recalling.way)
        self._upstream = _upstream(settings)
        self._own: frozenset[str] = frozenset()

    @property
    def passes(self) -> bool:
        """Whether what is not ours is passed on to the model's server: where there is one."""
        return self._upstream is not None

    @property
    def upstream(self) -> HttpUpstream:
        """The model's server; NoUpstreamError where no setting names one."""
        if self._upstream is None:
            raise NoUpstreamError(
                "no model's server is set: gateway.upstream.base_url in perdure.toml, PERDURE_GATEWAY__UPSTREAM__"
                "BASE_URL, or `perdure proxy --openai-base-url`"
            )
        return self._upstream

    # ------------------------------------------------------------------ what is ours
    def keep_own(self, paths: Sequence[str]) -> None:
        """Take the templates of this server's own routes: nothing at or below them is ever passed on."""
        fixed = {path.partition("{")[0].rstrip("/") for path in paths}
        self._own = frozenset(path for path in fixed if path and not path.startswith(MODEL_ROUTES))

    def takes(self, path: str) -> bool:
        """Whether a request goes to the model's server, with memory or without."""
        if not path.startswith("/") or self.is_own(path):
            return False
        # In another spelling a model's route would pass without what is looked at there.
        return is_model_route(path) or (self.passes and not is_model_route("/" + "/".join(_plain(path))))

    def is_own(self, path: str) -> bool:
        """Whether a path is this server's, or below one that is, in whichever of its spellings."""
        spellings = (path.split("/")[1:], _plain(path))
        return any(
            "/" + "/".join(parts[:count]) in self._own for parts in spellings for count in range(1, len(parts) + 1)
        )

    # ------------------------------------------------------------------ memory
    async def recall(self, ask: RecallRequest, *, within: float) -> Recalled:
        """What is remembered for a request, in so many seconds at most.

        One that begins a conversation waits for what is unread of the same user's others, for a part of that time.
        Where much that was said waits to be kept, the request waits too, for the rest of it.
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
        """A request's messages without those that its state stands for; the very same list where none does.

        `began` is when the request came, by the monotonic clock: what recall took of the time that memory may take is
        gone.
        """
        return await self.compressing(conversation, messages, within=began + self.settings.recall_seconds)

    def note(self, conversation: Conversation, recalled: Recalled, body: bytes) -> None:
        """Remember what of this was put into a body, so that no echo of it is learned; what is kept after it waits."""
        if not recalled.is_empty:
            with never_fail("what was injected is not noted: an echo of it may be read as something said", []):
                items, summary = standing_in(body, recalled)
                self.turns.enqueue_injected(conversation.scope, marks_of(items, summary))

    def later(self, work: Coroutine[Any, Any, T], line: str) -> asyncio.Task[T]:
        """Do some work that no answer waits for, after what was begun before it in its line."""
        return self._tasks.spawn(work, line)

    async def written(self) -> None:
        """Wait until what was said by now is kept, for who asks for it."""
        await self.remembering.written()
        await self._tasks.so_far()

    # ------------------------------------------------------------------ life
    async def start(self) -> None:
        """Begin to work on what is due."""
        if self.settings.enabled:
            if self.passes:
                self.later(self.recalling.warm(), "warm")
            await self.remembering.start()
            await self.compressing.start()

    async def close(self) -> None:
        """Finish what is under way, and close every connection to the model's server."""
        await self._tasks.finish()
        await self.recalling.close()
        if self.settings.enabled:
            await self.remembering.close()
            await self.compressing.close()
        if self._upstream is not None:
            await self._upstream.close()

    @property
    def under_way(self) -> int:
        """Work that nobody waits for and that is not done."""
        return len(self._tasks) + self.remembering.waiting


def is_model_route(path: str) -> bool:
    """Whether a path is of the routes that have memory."""
    return any(path == route or path.startswith(f"{route}/") for route in MODEL_ROUTES)


def climbs(path: str) -> bool:
    """Whether a path has `.` or `..` for a part, however it is encoded: what it leads to is not what was looked at."""
    return any(name in (".", "..") for name in _names(path))


def _names(path: str) -> Iterator[str]:
    """The parts of a path as the most lenient server would read them, in lower case."""
    for _ in range(_ENCODED):
        path = unquote(path)
    return (part.partition(";")[0] for part in path.replace("\\", "/").lower().split("/"))


def _plain(path: str) -> list[str]:
    """The names of a path as the most lenient server would read it: one misspelt is still not the model's to see."""
    names: list[str] = []
    for name in _names(path):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return names


def may_store(caller: Caller) -> bool:
    """Whether what a caller says is kept: not of one who may only read."""
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
