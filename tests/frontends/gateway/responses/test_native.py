"""POST /v1/responses before a model's server that has the API: it passes, with memory in its instructions."""

from __future__ import annotations

import functools
import json
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from tests.frontends.gateway.scripts import CREATED, Play, Reply, pieces, response, response_events
from tests.frontends.gateway.upstream import KEY, Seen, Upstream
from tests.frontends.server.running import Running

PATH = "/v1/responses"
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}


@functools.cache  # one for each server, so that none is left behind with an open connection
def _client(url: str, key: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


def client(gateway: Running, key: str = "the-clients-own") -> OpenAI:
    return _client(gateway.url, key)


def asked(model: Upstream) -> Seen:
    """The last request that was a client's own: the first one of a process asks whether there is such an API."""
    return [each for each in model.of(PATH) if each.body != b"{}"][-1]


@pytest.mark.covers("V29")
@pytest.mark.covers("V29", "V90")
def test_without_memories_every_byte_passes(gateway: Running, model: Upstream) -> None:
    body = (
        b'{ "model":"m",  "input": [{"role":"user","content":[{"type":"input_image","image_url":"data:x"}]}],\n'
        b'"previous_response_id": "resp_theirs", "tools":[{"type":"web_search"}], "unknown": {"\\u00e9": 1.10}}'
    )
    found = gateway.client.post(PATH, content=body, headers={"Content-Type": "application/json"})
    assert asked(model).body == body
    told = json.dumps(response("echo: [instructions] \n[user] "), indent=1).encode()
    assert found.content == told
    assert found.headers["x-memory-status"] == "missing"
    assert asked(model).header("authorization") == f"Bearer {KEY}"


@pytest.mark.covers("V54")
@pytest.mark.covers("V54")
def test_our_fields_are_taken_out_and_no_other(gateway: Running, model: Upstream) -> None:
    mine = {"memory_config": {"enabled": True}, "memory_context": {"user_id": "ana"}, "memory_id": "m"}
    theirs = {"model": "m", "input": "hello there", "temperature": 0.5, "include": ["x"], "unknown": [1]}
    gateway.client.post(PATH, json=theirs | mine).raise_for_status()
    assert asked(model).json == theirs


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_item1_a_stream_comes_as_it_is(gateway: Running, model: Upstream, size: int) -> None:
    data = response_events(["Grüß ", "Gott, ", "日本"])
    model.play(PATH, Reply.stream(*pieces(data, size)))
    with gateway.client.stream("POST", PATH, json={"model": "m", "input": "hello", "stream": True}) as found:
        assert found.headers["content-type"].startswith("text/event-stream")
        assert b"".join(found.iter_raw()) == data


@pytest.mark.parametrize("status", [400, 404, 422, 429, 500, 503])
def test_item1_errors_keep_status_body_and_retry_after(gateway: Running, model: Upstream, status: int) -> None:
    gateway.client.post(PATH, json={"model": "m", "input": "hello"}).raise_for_status()
    error = Reply.error(status, "The model `m` does not exist", retry_after="7")
    model.play(PATH, error)
    found = gateway.client.post(PATH, json={"model": "m", "input": "hello"})
    assert (found.status_code, found.content, found.headers["retry-after"]) == (status, error.body, "7")
    # Nothing of it makes us believe that there was no such API.
    gateway.client.post(PATH, json={"model": "m", "input": "hello"}).raise_for_status()
    assert model.last.path == PATH


def test_item1_the_official_client_sync(gateway: Running, model: Upstream) -> None:
    found = client(gateway).responses.create(
        model="m",
        instructions="Be brief.",
        input=[
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "what is this?"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
                ],
            }
        ],
        tools=[TOOL],  # type: ignore[list-item]
        previous_response_id="resp_before",
    )
    assert found.output_text == "echo: [instructions] Be brief.\n[user] what is this? "
    assert asked(model).json["tools"] == [TOOL]
    assert asked(model).json["previous_response_id"] == "resp_before"
    with client(gateway).responses.stream(model="m", input="hello") as stream:
        assert "hello" in stream.get_final_response().output_text


@pytest.mark.anyio
async def test_item1_the_official_client_async(gateway: Running, model: Upstream) -> None:
    async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="own", max_retries=0) as own:
        assert "hello" in (await own.responses.create(model="m", input="hello")).output_text
        kinds = [event.type async for event in await own.responses.create(model="m", input="hello", stream=True)]
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"


def test_item1_what_is_below_the_route_passes_too(gateway: Running, model: Upstream) -> None:
    kept = Reply.of_json(response("kept", response_id="resp_1"))
    model.play(f"{PATH}/resp_1", kept, Reply.of_json({"id": "resp_1", "object": "response", "deleted": True}))
    own = client(gateway)
    assert own.responses.retrieve("resp_1").output_text == "kept"
    own.responses.delete("resp_1")
    assert model.last.method == "DELETE"
    model.play(f"{PATH}/resp_1/input_items", Reply.of_json({"object": "list", "data": [], "has_more": False}))
    assert own.responses.input_items.list("resp_1", limit=3).data == []
    assert model.last.target.endswith("?limit=3")
    model.play(f"{PATH}/resp_1/cancel", kept)
    assert own.responses.cancel("resp_1").created_at == CREATED


def test_item1_an_answer_that_breaks_off_is_not_taken_for_whole(gateway: Running, model: Upstream) -> None:
    data = response_events(["Half ", "a ", "sentence"])
    model.play(PATH, Reply.stream(data[:400], Play.BREAK_OFF))
    with (
        pytest.raises(httpx.RemoteProtocolError),
        gateway.client.stream("POST", PATH, json={"model": "m", "input": "hi", "stream": True}) as found,
    ):
        found.read()


@pytest.mark.covers("V54")
@pytest.mark.covers("V54")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"memory_config": {"enabled": "yes"}}, "memory_config.enabled"),
        ({"memory_config": {"memory_types": "semantic"}}, "memory_config.memory_types"),
        ({"memory_config": {"retrieval_limit": "5"}}, "memory_config.retrieval_limit"),
        ({"memory_config": {"similarity_threshold": 2}}, "memory_config.similarity_threshold"),
        ({"memory_config": {"auto_store": 1}}, "memory_config.auto_store"),
        ({"memory_config": []}, "memory_config"),
        ({"memory_context": {"user_id": 7}}, "memory_context.user_id"),
        ({"memory_context": {"project_id": True}}, "memory_context.project_id"),
        ({"previous_response_id": 7}, "previous_response_id"),
        ({"stream": "yes"}, "stream"),
        ({"store": 0}, "store"),
    ],
)
def test_wrong_types_are_named(gateway: Running, model: Upstream, body: dict[str, Any], field: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client(gateway).responses.create(model="m", input="hello", extra_body=body)
    assert caught.value.param == field
    assert field in caught.value.message
    assert model.seen == []
