"""Prometheus metrics of the server; clients cannot choose the values of any label."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.multiprocess import MultiProcessCollector

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the variable for a folder in which several workers count together
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE = "none"  # the label of requests without a route
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Counters of one app, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "perdure_http_requests",
            "Requests that were answered.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "perdure_http_request_seconds",
            "Time from the request to the end of its answer.",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._in_flight = Gauge(
            "perdure_http_requests_in_flight",
            "Requests that are being served.",
            registry=self._registry,
            multiprocess_mode="livesum",
        )
        self._errors = Counter(
            "perdure_http_errors", "Requests that were refused or failed.", ["code"], registry=self._registry
        )

    @property
    def registry(self) -> CollectorRegistry:
        """The registry, to which the gateway adds its counters."""
        return self._registry

    def began(self) -> None:
        """Count a request as in flight."""
        self._in_flight.inc()

    def ended(self, method: str, route: str | None, status: int, seconds: float, code: str | None) -> None:
        """Count an answered request by route template, status and, for an error, its code."""
        self._in_flight.dec()
        method = method if method in METHODS else "other"
        route = route or NO_ROUTE
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)
        if code is not None:
            self._errors.labels(code).inc()

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus's text format; of all workers if they share a folder."""
        if not os.environ.get(SHARED_FOLDER):
            return generate_latest(self._registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)
