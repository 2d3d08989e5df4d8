"""One line a request, as JSON, with its id, and nothing that anybody said or keeps secret."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import pytest

from perdure.frontends.server.logging import JsonLines
from tests.frontends.server.probes import SECRET_WORDS
from tests.frontends.server.running import SECRET, Running, bearer, token


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.text: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.text.append(self.format(record))

    @property
    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.text]

    @property
    def requests(self) -> list[dict[str, object]]:
        return [line for line in self.lines if line["logger"] == "perdure.server.requests"]


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    logger = logging.getLogger("perdure")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_a_request_is_one_line_of_what_it_was_and_not_of_what_it_held(kept: Kept, probed: Running) -> None:
    secret = probed.key("app")
    kept.text.clear()
    probed.client.get("/probe/user", params={"user_id": SECRET_WORDS}, headers=bearer(secret))
    probed.client.post("/v1/memories/probe", json={"count": 1, "text": SECRET_WORDS}, headers=bearer(secret))
    probed.client.post("/v1/memories/probe", json={"count": SECRET_WORDS}, headers=bearer(secret))
    probed.client.get("/v1/memories/probe/ValueError", headers=bearer(secret))
    probed.client.get("/v1/memories/probe/VectorStoreError", headers=bearer(token("ana")))
    probed.client.get(f"/no/such/{SECRET_WORDS}", headers=bearer("perdure_wrong"))
    probed.client.get("/healthz")  # a line is written after its answer: all before this one are there now
    told = [
        (line["method"], line.get("route"), line["status"], line.get("caller"), line.get("error"))
        for line in kept.requests[:6]
    ]
    assert told == [
        ("GET", "/probe/user", 200, "app", None),
        ("POST", "/v1/memories/probe", 200, "app", None),
        ("POST", "/v1/memories/probe", 422, "app", "invalid_input"),
        ("GET", "/v1/memories/probe/{kind}", 500, "app", "internal_error"),
        ("GET", "/v1/memories/probe/{kind}", 503, "ana", "vector_store_error"),
        ("GET", None, 401, None, "unauthenticated"),
    ]
    for line in kept.requests[:6]:
        assert isinstance(line["ms"], float)
        assert {*line} >= {"time", "level", "logger", "message", "request_id"}
    everything = "\n".join(kept.text)
    for forbidden in (SECRET_WORDS, secret, SECRET, "perdure_wrong"):
        assert forbidden not in everything
    failures = [line for line in kept.lines if line["level"] == "error"]
    assert [line["message"].split(" ")[0] for line in failures] == ["ValueError", "VectorStoreError:"]  # type: ignore[attr-defined]
    assert failures[0]["request_id"] == kept.requests[3]["request_id"], "what failed names its request"


@pytest.mark.parametrize("given", ["abc-123", "0", "trace:1/2+3=", "a" * 128])
def test_a_sane_request_id_is_taken_and_echoed(kept: Kept, probed: Running, given: str) -> None:
    for path in ("/healthz", "/no/such", "/v1/memories/probe/ValueError"):
        answer = probed.client.get(path, headers={"X-Request-Id": given})
        assert answer.headers["X-Request-Id"] == given
    assert {line["request_id"] for line in kept.requests} == {given}


@pytest.mark.parametrize("given", ["", "a" * 129, "two words", '"', "<script>", "a;b", "-x"])
def test_any_other_gives_way_to_a_fresh_one(probed: Running, given: str) -> None:
    ids = [probed.client.get("/healthz", headers={"X-Request-Id": given}).headers["X-Request-Id"] for _ in range(2)]
    assert all(re.fullmatch(r"[0-9a-f]{32}", each) for each in ids)
    assert ids[0] != ids[1]


def test_an_exception_in_a_line_is_named_and_not_quoted() -> None:
    logger = logging.getLogger("perdure.test")
    kept = Kept()
    logger.addHandler(kept)
    try:
        raise ValueError(SECRET_WORDS)
    except ValueError:
        logger.exception("it broke")
    finally:
        logger.removeHandler(kept)
    assert kept.lines[0]["exception"] == "ValueError"
    assert SECRET_WORDS not in kept.text[0]
