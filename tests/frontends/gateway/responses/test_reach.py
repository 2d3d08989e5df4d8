"""Whether a model's server has a Responses API: asked once, and never mistaken for an error of a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.frontends.gateway.responses.native import is_about_the_request
from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.scripts import Reply
from tests.frontends.gateway.upstream import Upstream, upstream

PATH, CHAT = "/v1/responses", "/v1/chat/completions"
NO_ROUTE = {
    "openai": {"error": {"message": "Invalid URL (POST /v1/responses)", "type": "invalid_request_error"}},
    "fastapi": {"detail": "Not Found"},
    "llama.cpp": {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}},
}
NO_MODEL = {
    "openai": {"error": {"message": "The model `m` does not exist", "param": None, "code": "model_not_found"}},
    "vllm": {"object": "error", "message": "The model `m` does not exist.", "param": None, "code": 404},
    "param": {"error": {"message": "not found", "param": "model", "code": None}},
}


def ask(folder: Path, model: Upstream, times: int = 2, **settings: Any) -> list[str]:
    """The paths that a server asks for when it is asked so many times."""
    with gateway_to(folder, model.url, gateway={"upstream": settings} if settings else None) as found:
        for _ in range(times):
            found.client.post(PATH, json={"model": "m", "input": "hello"})
    return [seen.path for seen in model.seen]


@pytest.fixture
def model() -> Any:
    with upstream() as found:
        yield found


@pytest.mark.parametrize("status", [404, 405, 501])
def test_item1_a_server_without_the_path_is_asked_by_chat(tmp_path: Path, model: Upstream, status: int) -> None:
    model.always(PATH, Reply.error(status))
    assert ask(tmp_path, model) == [PATH, CHAT, CHAT]


@pytest.mark.parametrize("told", NO_MODEL.values(), ids=NO_MODEL)
def test_item1_an_unknown_model_is_no_missing_path(tmp_path: Path, model: Upstream, told: dict[str, Any]) -> None:
    model.always(PATH, Reply.of_json(told, status=404))
    assert ask(tmp_path, model) == [PATH, PATH, PATH]


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_item1_an_answer_that_decides_nothing_is_asked_again(tmp_path: Path, model: Upstream, status: int) -> None:
    model.play(PATH, Reply.error(status), Reply.error(status), Reply.error(404))
    assert ask(tmp_path, model) == [PATH, PATH, PATH, CHAT]


@pytest.mark.parametrize("status", [200, 400, 415, 422])
def test_item1_a_server_that_complains_has_the_path(tmp_path: Path, model: Upstream, status: int) -> None:
    model.play(PATH, Reply.error(status))
    assert ask(tmp_path, model) == [PATH, PATH, PATH]


def test_item1_a_setting_needs_no_question(tmp_path: Path, model: Upstream) -> None:
    assert ask(tmp_path / "a", model, responses="native") == [PATH, PATH]
    model.clear()
    assert ask(tmp_path / "b", model, responses="translate") == [CHAT, CHAT]


def test_item1_the_question_brings_the_requests_credentials(tmp_path: Path, model: Upstream) -> None:
    with gateway_to(tmp_path, model.url) as found:
        found.client.post(PATH, json={"model": "m", "input": "hi"}, headers={"OpenAI-Project": "p"})
    assert model.seen[0].body == b"{}"
    assert model.seen[0].header("openai-project") == "p"
    assert model.seen[0].header("authorization") == model.seen[1].header("authorization")


@pytest.mark.parametrize("told", NO_ROUTE.values(), ids=NO_ROUTE)
def test_item1_a_missing_route_speaks_of_no_request(told: dict[str, Any]) -> None:
    import json

    assert not is_about_the_request(json.dumps(told).encode())


@pytest.mark.parametrize("body", [b"404 page not found", b"", b"[]", b"<html>model</html>"])
def test_item1_nor_does_what_is_no_json(body: bytes) -> None:
    assert not is_about_the_request(body)
