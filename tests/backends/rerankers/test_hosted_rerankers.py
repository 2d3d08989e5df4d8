"""The rerankers of Cohere, Jina AI and Voyage AI over HTTP, at local servers that speak their wires."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.extras import extra_line
from perdure.backends.http import service
from perdure.backends.registry import build, load
from perdure.backends.rerankers import _hosted
from perdure.backends.rerankers._hosted import MOST_QUERY, batches
from perdure.backends.rerankers.base import Reranker
from perdure.domain.errors import ConfigError, DependencyError, RerankerError
from tests.backends.embedders.embedder_calls import JSON, always, replies
from tests.backends.wire.rerank import KEY, WIRES, RerankWire, relevance
from tests.backends.wire.server import Heard, Reply

pytestmark = pytest.mark.covers("K28", "U21")

T = TypeVar("T")

VARIABLES = {"cohere": "COHERE_API_KEY", "jina": "JINA_API_KEY", "voyage": "VOYAGE_API_KEY"}
SENT = {"cohere": {}, "jina": {"return_documents": False}, "voyage": {"truncation": True}}
QUERY = "who likes tea"
TEXTS = ["a dog", "Ana likes tea", "tea", ""]


@pytest.fixture(autouse=True)
def no_keys_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (*VARIABLES.values(), "CO_API_KEY"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(params=WIRES)
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param


def at(wire: RerankWire, name: str, work: Callable[[Reranker], Awaitable[T]], **config: Any) -> T:
    """What the work gives with the reranker at the server, which is closed again."""
    settings = {"base_url": wire.base_url, "api_key": KEY, "retry_delay": 0, "retries": 2, **config}

    async def whole() -> T:
        reranker = build("rerankers", name, settings)
        try:
            return await work(reranker)
        finally:
            await reranker.close()

    return asyncio.run(whole())


def rerank(wire: RerankWire, name: str, query: str, *texts: str, **config: Any) -> list[float]:
    return at(wire, name, lambda reranker: reranker.rerank(query, texts), **config)


def fails(wire: RerankWire, name: str, texts: Sequence[str] = TEXTS, **config: Any) -> RerankerError:
    with pytest.raises(RerankerError) as caught:
        rerank(wire, name, QUERY, *texts, **config)
    assert caught.value.__cause__ is None
    return caught.value


def expected(query: str, *texts: str) -> list[float]:
    return [relevance(query, text) for text in texts]


# ------------------------------------------------------------------ what is asked
@pytest.mark.covers("K28")
def test_a_list_is_one_request_and_scores_come_in_its_order(name: str) -> None:
    with WIRES[name]() as wire:
        assert rerank(wire, name, QUERY, *TEXTS) == expected(QUERY, *TEXTS)
    (request,) = wire.heard
    assert (request.method, request.path) == ("POST", wire.path)
    assert request.headers["authorization"] == f"Bearer {KEY}"
    model = load("rerankers", name).Settings().model
    assert request.json == {"model": model, "query": QUERY, "documents": [*TEXTS[:3], " "], **SENT[name]}


def test_another_model_is_named(name: str) -> None:
    with WIRES[name]() as wire:
        rerank(wire, name, QUERY, "tea", model=wire.models[1])
        assert "not found" in str(fails(wire, name, model="no-such-model"))
    assert [request.json["model"] for request in wire.heard] == [wire.models[1], "no-such-model"]


def test_long_lists_are_split_at_the_services_bound(name: str) -> None:
    texts = [f"text number {number}" for number in range(2_300)]
    with WIRES[name]() as wire:
        assert rerank(wire, name, "number 1234", *texts) == expected("number 1234", *texts)
        assert rerank(wire, name, "number 3", *texts[:5], batch_size=2) == expected("number 3", *texts[:5])
    assert wire.sizes() == [1_000, 1_000, 300, 2, 2, 1]


@pytest.mark.parametrize("model", ["rerank-2.5", "rerank-1"])
@pytest.mark.parametrize("query", ["tea", "tea " * 5_000])
def test_voyage_is_never_sent_more_tokens_than_it_takes(model: str, query: str) -> None:
    texts = ["茶" * 700 + f" {number}" for number in range(400)] + ["tea " * 200_000]
    with WIRES["voyage"]() as wire:
        assert len(rerank(wire, "voyage", query, *texts, model=model)) == 401
    assert sum(wire.sizes()) == 401
    assert len(wire.heard) > 2


@given(st.text(max_size=5), st.lists(st.text(max_size=40), max_size=60), st.integers(1, 9), st.integers(1, 120))
def test_batches_hold_every_text_in_order_within_both_bounds(
    query: str, texts: list[str], most_texts: int, most_bytes: int
) -> None:
    readable, query = [text.encode(errors="ignore").decode() for text in texts], query.encode(errors="ignore").decode()
    found = list(batches(query, readable, most_texts, most_bytes))
    assert [text for batch in found for text in batch] == readable
    for batch in found:
        assert 1 <= len(batch) <= most_texts
        assert len(batch) == 1 or sum(len((query + text).encode()) for text in batch) <= most_bytes


def test_no_texts_ask_nothing_and_an_empty_query_is_a_space(name: str) -> None:
    with WIRES[name]() as wire:
        assert rerank(wire, name, QUERY) == []
        assert rerank(wire, name, "", "tea") == [0.0]
    assert [request.json["query"] for request in wire.heard] == [" "]


def test_of_a_long_query_the_beginning_is_sent(name: str) -> None:
    with WIRES[name]() as wire:
        rerank(wire, name, "tea " * 5_000, "tea")
    assert wire.heard[0].json["query"] == "tea " * (MOST_QUERY // 4)


@pytest.mark.parametrize("text", ["Grüße, 世界 🚴", "a\x00b", "before \ud800 after", "\udcff"])
def test_any_text_can_be_sent(name: str, text: str) -> None:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    with WIRES[name]() as wire:
        rerank(wire, name, text, text)
    assert (wire.heard[0].json["query"], wire.heard[0].json["documents"]) == (whole, [whole])


# ------------------------------------------------------------------ keys
def test_the_key_falls_back_to_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLES[name], "from-the-environment")
    settings = load("rerankers", name).Settings(api_key=None)
    assert settings.api_key.get_secret_value() == "from-the-environment"
    assert "from-the-environment" not in repr(settings)


def test_cohere_reads_its_own_clients_variable_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CO_API_KEY", "of-the-client")
    assert load("rerankers", "cohere").Settings().api_key.get_secret_value() == "of-the-client"


def test_without_a_key_the_vendors_own_address_is_refused_at_construction(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"reranker\.config\.api_key is missing.*{VARIABLES[name]}") as caught:
        build("rerankers", name, {})
    assert caught.value.field == "reranker.config.api_key"


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("voyage", "https://ai.mongodb.com/v1"),
        ("cohere", "https://api.cohere.ai/v2"),
        ("jina", "https://eu.jina.ai/v1"),
    ],
)
def test_other_addresses_of_the_vendor_want_a_key_too(name: str, address: str) -> None:
    with pytest.raises(ConfigError, match="api_key is missing"):
        build("rerankers", name, {"base_url": address})


def test_a_server_of_ones_own_needs_no_key_and_never_gets_the_environments(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLES[name], KEY)
    with WIRES[name](key=None) as wire:
        assert rerank(wire, name, QUERY, *TEXTS, api_key=None) == expected(QUERY, *TEXTS)
        rerank(wire, name, QUERY, *TEXTS, api_key="given-here")
    assert [request.headers.get("authorization") for request in wire.heard] == [None, "Bearer given-here"]


def test_a_key_reaches_no_error_and_no_log(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with WIRES[name](intercept=replies(Reply.of({"message": f"bad {KEY}", "detail": f"bad {KEY}"}, 400))) as wire:
        assert "bad ***" in str(fails(wire, name))
        error = fails(wire, name, api_key="wrong-key-0123456789")
    assert error.code == "authentication"
    assert "wrong-key" not in str(error) + caplog.text
    assert KEY not in caplog.text
    with pytest.raises(ConfigError) as caught:
        build("rerankers", name, {"api_key": f"{KEY} with spaces"})
    assert KEY not in str(caught.value) + repr(caught.value.value)


# ------------------------------------------------------------------ what fails
@pytest.mark.parametrize(
    ("status", "code", "requests"),
    [
        (400, "reranker_error", 1),
        (401, "authentication", 1),
        (402, "quota", 1),
        (403, "authentication", 1),
        (404, "reranker_error", 1),
        (408, "timeout", 1),
        (422, "reranker_error", 1),
        (429, "rate_limit", 3),
        (498, "reranker_error", 1),
        (500, "server", 3),
        (503, "server", 3),
    ],
)
def test_every_status_has_its_code_and_one_layer_of_retries(name: str, status: int, code: str, requests: int) -> None:
    wire = WIRES[name]()
    wire.intercept = always(wire.error(status, "no tea"))
    with wire:
        error = fails(wire, name)
    assert error.code == code
    assert f"{name}: " in str(error)
    assert f"status {status}" in str(error)
    assert ("no tea" in str(error)) is (status != 401), "what is said of a wrong key may hold a part of it"
    assert len(wire.heard) == requests


@pytest.mark.parametrize(
    ("reply", "code", "requests"),
    [
        (Reply(502, b"<html>\xff</html>"), "server", 3),
        (Reply(reset=True), "connection", 3),
        (Reply(500, b"half", {"content-length": "900"}), "connection", 3),
        (Reply(302, b"", {"location": "http://localhost:1/"}), "reranker_error", 1),
        (Reply.of({"detail": [{"loc": ["body", "query"], "msg": "field required"}]}, 422), "reranker_error", 1),
        (Reply.of(["no"], 400), "reranker_error", 1),
    ],
)
def test_what_no_service_documents_is_an_error_too(name: str, reply: Reply, code: str, requests: int) -> None:
    with WIRES[name](intercept=always(reply)) as wire:
        error = fails(wire, name)
    assert error.code == code
    assert "<html>" not in str(error)
    assert len(wire.heard) == requests


def test_what_passes_by_itself_is_tried_again(name: str) -> None:
    with WIRES[name](intercept=replies(Reply(429), Reply(reset=True))) as wire:
        assert rerank(wire, name, QUERY, *TEXTS) == expected(QUERY, *TEXTS)
    assert len(wire.heard) == 3


def test_retry_after_is_honoured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(service, "with_retry", partial(service.with_retry, sleep=sleep))
    with WIRES[name](intercept=replies(Reply(429, b"", {"retry-after": "7"}), Reply(503))) as wire:
        rerank(wire, name, QUERY, *TEXTS, retry_delay=0.25)
    assert waits == [7.0, 0.5]


def test_a_server_that_does_not_run(name: str) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        reranker = build("rerankers", name, {"base_url": address, "retries": 1, "retry_delay": 0})
        with pytest.raises(RerankerError, match=r"no connection to 127\.0\.0\.1") as caught:
            asyncio.run(reranker.rerank(QUERY, TEXTS))
    assert caught.value.code == "connection"


def test_no_answer_in_time(name: str) -> None:
    with WIRES[name](intercept=always(Reply(wait=60))) as wire:
        assert fails(wire, name, timeout=0.2).code == "timeout"
    assert len(wire.heard) == 1


def test_a_cancelled_call_hangs_up_and_is_not_tried_again(name: str) -> None:
    async def cancelled(reranker: Reranker) -> None:
        task = asyncio.ensure_future(reranker.rerank(QUERY, TEXTS))
        while not wire.heard:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not wire.left:
            await asyncio.sleep(0.01)

    with WIRES[name](intercept=always(Reply(wait=60))) as wire:
        at(wire, name, cancelled)
    assert len(wire.heard) == len(wire.left) == 1


def result(index: Any, score: Any) -> dict[str, Any]:
    return {"index": index, "relevance_score": score}


FIRST = result(0, 0.5)
BROKEN = [
    [], [FIRST], [FIRST, result(0, 0.4)], [FIRST, result(2, 0.4)], [FIRST, result(-1, 0.5)],
    [FIRST, result(1, 0.4), result(1, 0.4)], [FIRST, result(1, None)], [FIRST, result(1, "high")],
    [FIRST, result(1, float("nan"))], [FIRST, result(1, 1e999)], [FIRST, {"index": 1}], [FIRST, 7], None, {},
]  # fmt: skip


@pytest.mark.parametrize("results", BROKEN)
def test_an_answer_that_is_not_one_score_for_each_text_is_an_error(name: str, results: Any) -> None:
    content = json.dumps({"results" if name != "voyage" else "data": results}).encode()
    with WIRES[name](intercept=always(Reply(200, content, JSON))) as wire:
        error = fails(wire, name, texts=("a", "b"))
    assert str(error) == f"{name}: the answer is not one score for each text"
    assert error.code == "reranker_error"
    assert len(wire.heard) == 1


@pytest.mark.parametrize("content", [b"", b"not JSON", b"null", b"[]", b'{"results": [', b"\xff\xfe"])
def test_an_answer_that_cannot_be_read_is_an_error(name: str, content: bytes) -> None:
    with WIRES[name](intercept=always(Reply(200, content, JSON))) as wire:
        assert fails(wire, name).code == "reranker_error"


# ------------------------------------------------------------------ settings
@pytest.mark.covers("U21")
def test_a_missing_client_is_told_with_the_pip_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reranker = build("rerankers", name, {"api_key": KEY})
    assert reranker.unavailable() is None
    monkeypatch.setattr(_hosted, "find_spec", lambda module: None)
    assert reranker.unavailable() == f"{name} needs httpx2: {extra_line(name)}"
    monkeypatch.setattr(service.importlib, "import_module", _gone)
    with pytest.raises(DependencyError, match=re.escape(extra_line(name))):
        asyncio.run(reranker.rerank(QUERY, TEXTS))


def _gone(module: str) -> None:
    raise ModuleNotFoundError(f"No module named {module!r}", name=module)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"model": ""}, "model"),
        ({"base_url": "host"}, "base_url"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 1_001}, "batch_size"),
        ({"top_n": 3}, "top_n"),
    ],
)
def test_a_wrong_setting_is_named(name: str, config: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build("rerankers", name, {"api_key": KEY, **config})
    assert caught.value.field == f"reranker.config.{field}"


# ------------------------------------------------------------------ the servers themselves
@pytest.mark.parametrize(
    "fault",
    [
        {"query": ""}, {"documents": []}, {"documents": ["a", ""]}, {"documents": ["a", 3]}, {"documents": "a"},
        {"documents": ["a"] * 1_001}, {"max_chunks_per_doc": 1}, {"model": None}, {"query": None},
    ],
)  # fmt: skip
def test_the_server_refuses_what_the_service_would(name: str, fault: dict[str, Any]) -> None:
    wire = WIRES[name]()
    body = {"model": wire.models[0], "query": "a", "documents": ["a"]}
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}

    def ask(changed: dict[str, Any], **more: str) -> int:
        sent = json.dumps({**body, **changed}).encode()
        return wire.respond(Heard("POST", wire.path, {}, {**headers, **more}, sent)).status

    assert ask({}) == 200
    assert ask(fault) == wire.refused
    assert ask({}, authorization="Bearer another") == 401
    assert ask({"model": "another"}) == 404
