"""The one table of errors: status and shape in each dialect, and nothing of the inside."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime

import pytest

from perdure.domain import errors
from perdure.domain.errors import PerdureError
from perdure.frontends.faults import fault_of
from tests.frontends.server.probes import SECRET_WORDS, probes
from tests.frontends.server.running import SECRET, Running, as_member, running

pytestmark = pytest.mark.covers("U19")

TABLE = {
    "ScopeError": (400, 401, 400),
    "InvalidInputError": (400, 400, 422),
    "FilterError": (400, 400, 422),
    "AuthenticationError": (401, 401, 401),
    "ForbiddenError": (403, 403, 403),
    "ReadOnlyError": (403, 403, 403),
    "NotFoundError": (404, 404, 404),
    "PromotionRequiredError": (405, 405, 405),
    "ConflictError": (409, 409, 409),
    "NoGraphError": (501, 501, 501),
    "LLMError": (502, 502, 502),
    "EmbeddingError": (502, 502, 502),
    "RerankerError": (502, 502, 502),
    "VectorStoreError": (503, 503, 503),
    "GraphDownError": (503, 503, 503),
    "GraphError": (503, 503, 503),
    "LedgerError": (503, 503, 503),
    "ClosedError": (503, 503, 503),
    "ConfigError": (500, 500, 500),
    "DependencyError": (500, 500, 500),
    "ValueError": (500, 500, 500),
}
TEAM = as_member("red")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("faults")
    with running(folder, routes=probes(), env={"PERDURE_JWT_SECRET": SECRET}) as found:
        yield found


@pytest.mark.covers("U19")
@pytest.mark.parametrize("kind", TABLE)
def test_each_error_has_its_status_and_its_dialects_shape(
    asked: Running, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    facts, explicit, team = TABLE[kind]
    with caplog.at_level(logging.INFO, "perdure"):
        answers = [
            asked.client.get(f"/v1/memories/probe/{kind}"),
            asked.client.get(f"/v1/memory/probe/{kind}"),
            asked.client.get(f"/v1/memory/probe/{kind}", headers=TEAM),
        ]
    assert [answer.status_code for answer in answers] == [facts, explicit, team]
    plain = answers[0].json()
    assert {*plain} - {"field"} == {"detail", "error", "code"}
    assert plain["detail"] == plain["error"]
    named = answers[1].json()["error"]
    assert {*named} == {"code", "message", "timestamp"}
    assert datetime.fromisoformat(named["timestamp"]).tzinfo is not None
    assert {*answers[2].json()} == {"detail"}
    if facts >= 500:
        for answer in answers:
            assert "postgres://" not in answer.text, "no internals"
            assert SECRET_WORDS not in answer.text
    assert SECRET_WORDS not in caplog.text
    for answer in answers:
        assert ("WWW-Authenticate" in answer.headers) is (kind == "AuthenticationError")


@pytest.mark.covers("B20")
def test_the_words_of_001(asked: Running) -> None:
    def code(kind: str) -> str:
        return asked.client.get(f"/v1/memory/probe/{kind}").json()["error"]["code"]

    assert code("ScopeError") == "MISSING_USER_ID"
    assert code("InvalidInputError") == "INVALID_LIMIT"
    assert code("NotFoundError") == "NOT_FOUND"
    assert code("VectorStoreError") == "MEMORY_NOT_AVAILABLE"


def test_the_text_of_a_missing_scope_is_the_specs(asked: Running) -> None:
    assert asked.client.get("/v1/memories/probe/ScopeError").json() == {
        "detail": "At least one of user_id, agent_id, or run_id must be provided",
        "error": "At least one of user_id, agent_id, or run_id must be provided",
        "code": "scope_missing",
    }


def test_a_field_that_is_wrong_is_named(asked: Running) -> None:
    assert asked.client.get("/v1/memories/probe/InvalidInputError").json()["field"] == "limit"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [("/v1/memories/probe", {}, 422), ("/v1/memory/probe", {}, 400), ("/v1/memory/probe", TEAM, 422)],
    ids=["facts", "explicit", "team"],
)
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "Missing required field: count"),
        ({"count": "many"}, "count must be a whole number"),
        ({"count": 1, "cuont": 2}, "cuont is not known here"),
        (None, "Missing required body"),
        ("{", "the body is not valid JSON"),
        ('"\\ud800"', ""),
        ("[" * 100_000, ""),
        (b"\xff\xfe", ""),
    ],
    ids=["missing", "type", "unknown", "no-body", "malformed", "surrogate", "deep", "no-text"],
)
def test_a_request_that_its_schema_refuses(
    asked: Running, path: str, headers: dict[str, str], status: int, body: object, told: str
) -> None:
    if isinstance(body, dict):
        answer = asked.client.post(path, headers=headers, json=body)
    else:
        content = body if isinstance(body, (str, bytes)) else b""
        answer = asked.client.post(path, headers={**headers, "Content-Type": "application/json"}, content=content)
    assert answer.status_code in (status, 400)
    assert told in answer.text
    if told:
        assert answer.status_code == status


def test_a_body_that_is_no_json_is_named_with_the_place_of_the_fault(asked: Running) -> None:
    answer = asked.client.post(
        "/v1/memories/probe", headers={"Content-Type": "application/json"}, content='{"count": 1,, "more": 2}'
    )
    told = answer.json()
    assert (answer.status_code, told["field"]) == (422, "body")
    assert told["error"].startswith("the body is not valid JSON: ") and told["error"].endswith("at character 13")


def test_what_somebody_said_is_not_told_back(asked: Running) -> None:
    answer = asked.client.post("/v1/memories/probe", json={"count": SECRET_WORDS})
    assert answer.status_code == 422
    assert SECRET_WORDS not in answer.text


def test_unknown_routes_and_wrong_methods_speak_the_dialect(asked: Running) -> None:
    missing = asked.client.get("/v1/memories/no/such/route/at/all")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert asked.client.get("/v1/memory/no/such/route").json()["error"]["code"] == "NOT_FOUND"
    assert {*asked.client.get("/v1/memory/no/such/route", headers=TEAM).json()} == {"detail"}
    wrong = asked.client.put("/healthz")
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")
    assert wrong.headers["Allow"] == "GET"


def test_a_trailing_slash_is_as_good_as_none_and_never_redirects(asked: Running) -> None:
    for path in ("/probe/caller", "/probe/caller/", "/v1/memories/probe/NotFoundError/"):
        answer = asked.client.get(path)
        assert not answer.is_redirect
        assert answer.status_code in (200, 404)
    assert asked.client.get("/probe/caller//").status_code == 404, "one slash, not any number"
    assert asked.client.post("/v1/memories/probe/", json={"count": 3}).json() == {"count": 3}
    assert asked.client.get("/v1/memories/probe/NotFoundError%2F").status_code == 404


def all_classes(cls: type[PerdureError]) -> Iterator[type[PerdureError]]:
    for inner in cls.__subclasses__():
        yield inner
        yield from all_classes(inner)


def test_every_class_of_the_tree_has_a_row_of_its_own() -> None:
    """A new error must be given a status, not fall through to 500."""
    fallen = set()
    for cls in all_classes(PerdureError):
        if cls.__module__ != errors.__name__:
            continue
        error = cls() if cls is errors.ScopeError else cls("it broke")
        if fault_of(error, "facts").status == 500:
            fallen.add(cls.__name__)
    assert fallen == {"ConfigError", "DependencyError"}
