"""Prometheus metrics of the server; clients cannot choose the values of any label.

They are counted where the extra `metrics` is installed; without it nothing is, and `/metrics` says what to install.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perdure.backends.registry import missing_driver
from perdure.frontends.faults import UnsupportedError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"  # the one that every Prometheus reads
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the variable for a folder in which several workers count together
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE = "none"  # the label of requests without a route
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Counters of one app, in a registry of their own."""

    def __init__(self) -> None:
        self.registry: CollectorRegistry | None = None
        """The registry, to which the gateway adds its counters; None without the extra."""
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        except ImportError as error:
            self._missing = error
            return
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "perdure_http_requests",
            "Requests that were answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "perdure_http_request_seconds",
            "Time from the request to the end of its answer.",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._in_flight = Gauge(
            "perdure_http_requests_in_flight",
            "Requests that are being served.",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self._errors = Counter(
            "perdure_http_errors", "Requests that were refused or failed.", ["code"], registry=self.registry
        )

    def began(self) -> None:
        """Count a request as in flight."""
        if self.registry is not None:
            self._in_flight.inc()

    def ended(self, method: str, route: str | None, status: int, seconds: float, code: str | None) -> None:
        """Count an answered request by route template, status and, for an error, its code."""
        if self.registry is None:
            return
        self._in_flight.dec()
        method = method if method in METHODS else "other"
        route = route or NO_ROUTE
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)
        if code is not None:
            self._errors.labels(code).inc()

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus's text format; of all workers if they share a folder.

        UnsupportedError with the pip line without the extra.
        """
        if self.registry is None:
            raise UnsupportedError(missing_driver("metrics", self._missing).message) from self._missing
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        if not os.environ.get(SHARED_FOLDER):
            return generate_latest(self.registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)
