"""OpenTelemetry spans of requests; without an SDK in the process they are no-ops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.propagate import extract
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from starlette.datastructures import Headers


@contextmanager
def request_span(method: str, headers: Headers) -> Iterator[Span]:
    """The span of one request, inside of the trace that its `traceparent` names."""
    tracer = trace.get_tracer("perdure.server")
    with tracer.start_as_current_span(
        method,
        context=extract(dict(headers.items())),
        kind=SpanKind.SERVER,
        record_exception=False,  # its text may be what somebody said
        set_status_on_exception=False,
    ) as span:
        yield span


def record_response(span: Span, method: str, route: str | None, status: int) -> None:
    """Say what became of the request: its method, its route's template and its status, and nothing that it held."""
    span.set_attribute("http.request.method", method)
    span.set_attribute("http.response.status_code", status)
    if route is not None:
        span.update_name(f"{method} {route}")
        span.set_attribute("http.route", route)
    if status >= 500:
        span.set_status(Status(StatusCode.ERROR))
