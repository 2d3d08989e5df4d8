"""What Prometheus reads, and the spans that OpenTelemetry is given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client.parser import text_string_to_metric_families

from perdure.domain.access import Role
from perdure.engine.chat.settings import GatewaySettings
from perdure.frontends.server.auth.jwt import mint
from tests.frontends.server.probes import SECRET_WORDS
from tests.frontends.server.running import SECRET, Running, bearer, running


def samples(server: Running, **headers: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    answer = server.client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def labels(**given: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(given.items()))


def test_requests_are_counted_by_route_template(probed: Running) -> None:
    for kind in ("NotFoundError", "LedgerError", "LedgerError"):
        probed.client.get(f"/v1/memories/probe/{kind}")
    probed.client.get("/probe/caller")
    found = samples(probed)
    route = "/v1/memories/probe/{kind}"
    total = found["perdure_http_requests_total"]
    assert total[labels(method="GET", route=route, status="404")] == 1
    assert total[labels(method="GET", route=route, status="503")] == 2
    assert total[labels(method="GET", route="/probe/caller", status="200")] == 1
    assert found["perdure_http_request_seconds_count"][labels(method="GET", route=route)] == 3
    assert found["perdure_http_errors_total"] == {labels(code="not_found"): 1, labels(code="ledger_error"): 2}
    assert found["perdure_http_requests_in_flight"][()] == 1, "the one that asks"


def test_no_label_has_values_that_a_client_could_choose(probed: Running) -> None:
    def series() -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        return {(name, label) for name, found in samples(probed).items() for label in found}

    def trouble(number: int) -> None:
        probed.client.get(f"/no/such/route/{number}")
        probed.client.get(f"/v1/memories/probe/made-up-{number}")
        probed.client.request(f"METHOD{number}", "/probe/caller")
        probed.client.get("/probe/caller", headers={"X-Request-Id": str(number), "Authorization": f"Bearer {number}"})

    trouble(0)
    samples(probed)
    before = series()
    for number in range(1, 30):
        trouble(number)
    assert series() == before


def test_metrics_ask_for_a_key_where_there_is_one(probed: Running) -> None:
    secret = probed.key("prometheus", role="reader")
    assert probed.client.get("/metrics").status_code == 401
    assert "perdure_http_requests_total" in samples(probed, **bearer(secret))


@pytest.mark.parametrize("walls", [{"user_id": "ana"}, {"project_id": "apollo"}, {"team_id": "red"}])
@pytest.mark.parametrize("role", ["reader", "admin"])
def test_the_counters_are_not_for_a_part_of_the_memory(probed: Running, walls: dict[str, str], role: Role) -> None:
    team = {"X-Team-Scope": walls["team_id"]} if "team_id" in walls else {}
    headers = bearer(probed.key("bound", role=role, **walls))
    for more in ({}, team):
        answer = probed.client.get("/metrics", headers={**headers, **more})
        assert answer.status_code == 403 and "perdure_http" not in answer.text


def test_nor_for_a_persons_token(probed: Running) -> None:
    headers = bearer(mint(SECRET, sub="ana", teams=("red",)))
    for more in ({}, {"X-Team-Scope": "red"}):
        assert probed.client.get("/metrics", headers={**headers, **more}).status_code == 403


def test_every_app_counts_for_itself(probed: Running, server: Running) -> None:
    probed.client.get("/probe/caller")
    server.client.get("/healthz")
    counted = samples(server)["perdure_http_requests_total"]
    assert {dict(label)["route"] for label in counted} == {"/healthz"}


def test_without_the_extra_nothing_is_counted_and_the_route_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "prometheus_client"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with running(tmp_path / "memory", gateway=GatewaySettings(response_cache_seconds=60)) as server:
        assert server.client.get("/healthz").status_code == 200
        gateway = server.app.state.gateway
        gateway.counting.looked(is_hit=True)
        gateway.counting.unkept("failed")
        with gateway.counting.recalling() as told:
            told("used", "injected", 1)
        answer = server.client.get("/metrics")
        assert (answer.status_code, answer.json()["code"]) == (501, "not_implemented")
        assert answer.json()["detail"].startswith("metrics needs the package prometheus_client")
        assert "[metrics]" in answer.json()["detail"]


# ------------------------------------------------------------------ spans


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", lambda name, *rest, **more: provider.get_tracer(name))
    yield exporter
    provider.shutdown()


def test_a_request_is_a_span_in_its_callers_trace(spans: InMemorySpanExporter, probed: Running) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    probed.client.get("/probe/user", params={"user_id": SECRET_WORDS}, headers={"traceparent": parent})
    probed.client.get("/v1/memories/probe/ValueError")
    probed.client.get("/no/such/route")
    probed.client.get("/healthz")  # a span ends after its answer: all before this one have ended now
    one, two, three = spans.get_finished_spans()[:3]
    assert (one.name, one.kind) == ("GET /probe/user", SpanKind.SERVER)
    assert one.context is not None
    assert one.parent is not None
    assert f"{one.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{one.parent.span_id:016x}" == "b7ad6b7169203331"
    assert dict(one.attributes or {}) == {
        "http.request.method": "GET",
        "http.route": "/probe/user",
        "http.response.status_code": 200,
    }
    assert (two.name, two.status.status_code) == ("GET /v1/memories/probe/{kind}", StatusCode.ERROR)
    assert three.name == "GET"
    for span in (one, two, three):
        assert SECRET_WORDS not in span.to_json()
