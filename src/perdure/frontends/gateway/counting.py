"""What the gateway counts (B21), without a label that a client could choose, and its spans."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from opentelemetry import trace
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_FOUND = (0, 1, 2, 3, 5, 10, 20, 50, 100)
_STATUSES = {"used": "hit", "unavailable": "error"}


class Counting:
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
