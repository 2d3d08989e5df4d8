"""POST /v1/responses before a model's server that has only chat: the official client sees no difference."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.scripts import (
    Play,
    Reply,
    chat_events,
    completion,
    delta,
    event,
    pieces,
    tool_call,
)
from tests.frontends.gateway.upstream import Upstream, upstream
from tests.frontends.server.running import Running, bearer

PATH, CHAT = "/v1/responses", "/v1/chat/completions"
TOOL: Any = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


@pytest.fixture(scope="module")
def model() -> Iterator[Upstream]:
    with upstream(responses=False) as found:
        yield found


@functools.cache  # one for each server, so that none is left behind with an open connection
def _client(url: str, key: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


def client(gateway: Running, key: str = "the-clients-own") -> OpenAI:
    return _client(gateway.url, key)


def test_item1_text_instructions_and_unknown_fields(gateway: Running, model: Upstream) -> None:
    model.chat(Reply.of_json(completion("Hello!"), headers=[("x-ratelimit-remaining-requests", "9")]))
    found = client(gateway).responses.with_raw_response.create(
        model="m", input="where do I live?", instructions="Be brief.", temperature=0.5, extra_body={"top_k": 40}
    )
    response = found.parse()
    assert (response.output_text, response.status, response.instructions) == ("Hello!", "completed", "Be brief.")
    assert response.usage is not None
    assert response.usage.total_tokens == 5
    assert found.headers["x-ratelimit-remaining-requests"] == "9"
    assert found.headers["x-memory-status"] == "missing"
    assert model.last.path == CHAT
    assert model.last.json == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "where do I live?"}],
        "temperature": 0.5,
        "top_k": 40,
    }


@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_item1_streams_in_pieces_of_any_size(gateway: Running, model: Upstream, size: int) -> None:
    model.chat(Reply.stream(*pieces(chat_events(["Grüß ", "Gott, ", "日本"], usage=True), size)))
    with client(gateway).responses.stream(model="m", input="hello") as stream:
        kinds = [each.type for each in stream]
        found = stream.get_final_response()
    assert found.output_text == "Grüß Gott, 日本"
    assert found.usage is not None
    assert kinds[0] == "response.created"
    assert kinds.count("response.output_text.delta") == 3
    assert kinds[-1] == "response.completed"
    assert model.last.json["stream_options"] == {"include_usage": True}
    assert client(gateway).responses.retrieve(found.id).output_text == "Grüß Gott, 日本"


@pytest.mark.anyio
async def test_item1_the_official_client_async(gateway: Running, model: Upstream) -> None:
    async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="own", max_retries=0) as own:
        first = await own.responses.create(model="m", input="hello")
        async with own.responses.stream(model="m", input="again", previous_response_id=first.id) as stream:
            found = await stream.get_final_response()
    assert found.previous_response_id == first.id
    assert [each["content"] for each in model.last.messages if each["role"] == "user"] == ["hello", "again"]


@pytest.mark.parametrize("is_stream", [False, True])
def test_item1_tools_are_called_and_their_results_brought(gateway: Running, model: Upstream, is_stream: bool) -> None:
    if is_stream:
        call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city"'}}
        rest = {"index": 0, "function": {"arguments": ': "Rome"}'}}
        chunks = [delta(tool_calls=[call]), delta(tool_calls=[rest]), delta(finish="tool_calls")]
        model.chat(Reply.stream(*(event(chunk) for chunk in chunks), event("[DONE]")))
    else:
        model.chat(Reply.of_json(completion(None, tool_calls=[tool_call("weather", {"city": "Rome"}, "c1")])))
    own = client(gateway)
    with own.responses.stream(model="m", input="How is it in Rome?", tools=[TOOL]) if is_stream else _plain(own) as got:
        first = got.get_final_response()
    call_item = first.output[0]
    assert call_item.type == "function_call"
    assert json.loads(call_item.arguments) == {"city": "Rome"}
    model.chat(Reply.of_json(completion("It is sunny.")))
    result: Any = {"type": "function_call_output", "call_id": call_item.call_id, "output": "sunny"}
    second = own.responses.create(model="m", input=[result], tools=[TOOL], previous_response_id=first.id)
    assert second.output_text == "It is sunny."
    assert model.last.messages[0] == {"role": "user", "content": "How is it in Rome?"}
    called = model.last.messages[1]["tool_calls"][0]
    assert (called["id"], called["function"]["name"]) == ("c1", "weather")
    assert model.last.messages[2] == {"role": "tool", "tool_call_id": "c1", "content": "sunny"}


class _plain:
    """A response without a stream, with the manners of one."""

    def __init__(self, own: OpenAI) -> None:
        self._found: Any = own.responses.create(model="m", input="How is it in Rome?", tools=[TOOL])

    def __enter__(self) -> _plain:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def get_final_response(self) -> Any:
        return self._found


class Place(BaseModel):
    city: str


def test_item1_structured_output_and_images(gateway: Running, model: Upstream) -> None:
    model.chat(Reply.of_json(completion('{"city": "Rome"}')))
    content: Any = [
        {"type": "input_text", "text": "Where is this?"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
    ]
    found = client(gateway).responses.parse(
        model="m", input=[{"role": "user", "content": content}], text_format=Place, reasoning={"effort": "low"}
    )
    assert found.output_parsed == Place(city="Rome")
    sent = model.last.json
    assert sent["response_format"]["json_schema"]["name"] == "Place"
    assert sent["reasoning_effort"] == "low"
    assert sent["messages"][0]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,AAAA", "detail": "auto"},
    }


def test_item1_hosted_tools_are_refused_by_name(gateway: Running, model: Upstream) -> None:
    with pytest.raises(openai.BadRequestError, match="web_search") as caught:
        client(gateway).responses.create(model="m", input="hi", tools=[{"type": "web_search"}])
    assert caught.value.param == "tools[0].type"
    assert CHAT not in [seen.path for seen in model.seen]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("status", [400, 404, 429, 503])
def test_item1_errors_keep_status_body_and_retry_after(
    gateway: Running, model: Upstream, status: int, is_stream: bool
) -> None:
    error = Reply.error(status, "no such model", retry_after="7")
    model.chat(error)
    found = gateway.client.post(PATH, json={"model": "m", "input": "hi", "stream": is_stream})
    assert (found.status_code, found.content, found.headers["retry-after"]) == (status, error.body, "7")


def test_item1_cut_short_and_filtered_answers_say_so(gateway: Running, model: Upstream) -> None:
    short = completion("Half a")
    short["choices"][0]["finish_reason"] = "length"
    model.chat(Reply.of_json(short))
    found = client(gateway).responses.create(model="m", input="hi", max_output_tokens=16)
    assert (found.status, model.last.json["max_tokens"]) == ("incomplete", 16)
    assert found.incomplete_details is not None
    assert found.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((event(delta("Half")), Play.BREAK_OFF), id="connection"),
        pytest.param((event(delta("Half")),), id="no-end"),
        pytest.param((event(delta("Half")), event({"error": {"message": "gone"}}), event("[DONE]")), id="error"),
    ],
)
def test_item1_an_answer_that_breaks_off_fails_the_response(
    gateway: Running, model: Upstream, steps: tuple[Any, ...]
) -> None:
    model.chat(Reply.stream(*steps))
    events = list(client(gateway).responses.create(model="m", input="hi", stream=True))
    last = events[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.output_text == "Half"
    with pytest.raises(openai.NotFoundError):
        client(gateway).responses.retrieve(last.response.id)


def test_item1_a_server_without_streams_is_streamed_for(gateway: Running, model: Upstream) -> None:
    model.chat(Reply.of_json(completion("All at once")))
    with client(gateway).responses.stream(model="m", input="hello") as stream:
        assert stream.get_final_response().output_text == "All at once"


@pytest.mark.parametrize("body", [b"no json", b"[]"])
def test_item1_an_answer_that_is_none_is_a_bad_gateway(gateway: Running, model: Upstream, body: bytes) -> None:
    model.chat(Reply(200, [("Content-Type", "application/json")], body))
    found = gateway.client.post(PATH, json={"model": "m", "input": "hi"})
    assert found.status_code == 502
    assert found.json()["error"]["type"] == "server_error"


# ---------------------------------------------------------------------- chains
@pytest.mark.covers("V58", "V90")
def test_a_chain_is_sent_in_full_and_outlives_the_server(tmp_path: Path, model: Upstream) -> None:
    with gateway_to(tmp_path, model.url) as first:
        one = client(first).responses.create(model="m", input="one", instructions="Only now.")
        two = client(first).responses.create(model="m", input="two", previous_response_id=one.id)
    with gateway_to(tmp_path, model.url) as second:
        three = client(second).responses.create(model="m", input="three", previous_response_id=two.id)
        assert client(second).responses.retrieve(two.id).model_dump() == two.model_dump()
    told = model.last.messages
    assert [each["role"] for each in told] == ["user", "assistant", "user", "assistant", "user"]
    assert [each["content"] for each in told if each["role"] == "user"] == ["one", "two", "three"]
    assert [each["content"] for each in told if each["role"] == "assistant"] == [one.output_text, two.output_text]
    assert three.previous_response_id == two.id
    # Instructions are those of one request alone.
    assert "Only now." in one.output_text
    assert not any(each["role"] == "system" for each in told)


def test_item1_items_are_told_and_referred_to(gateway: Running, model: Upstream) -> None:
    own = client(gateway)
    given: Any = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "1"}]
    first = own.responses.create(model="m", input=[*given, {"role": "user", "content": "two"}])
    found = own.responses.input_items.list(first.id, order="asc", limit=2)
    assert [each.content[0].text for each in found.data] == ["one", "1"]  # type: ignore[union-attr]
    assert found.has_more
    ids = [each.id for each in own.responses.input_items.list(first.id)]  # all pages, newest first
    assert len(ids) == 3
    references: Any = [{"type": "item_reference", "id": ids[0]}, {"type": "item_reference", "id": first.output[0].id}]
    own.responses.create(model="m", input=[*references, {"role": "user", "content": "three"}])
    assert [each["content"] for each in model.last.messages] == ["two", first.output_text, "three"]
    with pytest.raises(openai.BadRequestError, match="Item with id 'msg_0' not found"):
        own.responses.create(model="m", input=[{"type": "item_reference", "id": "msg_0"}])


def test_item1_what_is_not_stored_cannot_be_gone_on_from(gateway: Running, model: Upstream) -> None:
    own = client(gateway)
    found = own.responses.create(model="m", input="secret", store=False)
    assert model.last.json["store"] is False
    with pytest.raises(openai.BadRequestError) as caught:
        own.responses.create(model="m", input="and?", previous_response_id=found.id)
    assert caught.value.code == "previous_response_not_found"
    assert caught.value.param == "previous_response_id"
    with pytest.raises(openai.NotFoundError):
        own.responses.retrieve(found.id)


def test_item1_a_deleted_response_is_gone(gateway: Running, model: Upstream) -> None:
    own = client(gateway)
    found = own.responses.create(model="m", input="hi")
    own.responses.delete(found.id)
    for call in (own.responses.retrieve, own.responses.delete, own.responses.input_items.list):
        with pytest.raises(openai.NotFoundError, match=found.id):
            call(found.id)


@pytest.mark.parametrize("name", ["resp_none", "x" * 300, "resp_%00", "é"])
def test_item1_ids_that_are_none(gateway: Running, model: Upstream, name: str) -> None:
    assert gateway.client.get(f"{PATH}/{name}").status_code in (400, 404)
    with pytest.raises(openai.BadRequestError):
        client(gateway).responses.create(model="m", input="hi", previous_response_id=name)


@pytest.mark.covers("V53")
def test_responses_of_others_are_unknown(tmp_path: Path, model: Upstream) -> None:
    with gateway_to(tmp_path, model.url) as gateway:
        ana, ben = (gateway.key(name, user_id=name) for name in ("ana", "ben"))
        own = client(gateway, ana)
        other = client(gateway, ben)
        found = own.responses.create(model="m", input="mine")
        for call in (other.responses.retrieve, other.responses.delete, other.responses.input_items.list):
            with pytest.raises(openai.NotFoundError):
                call(found.id)
        with pytest.raises(openai.BadRequestError, match="not found"):
            other.responses.create(model="m", input="his?", previous_response_id=found.id)
        stolen: Any = [{"type": "item_reference", "id": found.output[0].id}]
        with pytest.raises(openai.BadRequestError, match="not found"):
            other.responses.create(model="m", input=stolen)
        assert own.responses.retrieve(found.id).id == found.id


@pytest.mark.covers("V53")
def test_users_that_a_proxy_names_have_responses_of_their_own(gateway: Running, model: Upstream) -> None:
    def ask(user: str, **more: Any) -> Any:
        header = {"x-authz-user-id": user}
        return gateway.client.post(PATH, json={"model": "m", "input": "hello", **more}, headers=header)

    found = ask("ana").json()
    assert ask("ana", previous_response_id=found["id"]).status_code == 200
    refused = ask("ben", previous_response_id=found["id"])
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "previous_response_not_found")
    headers = {"x-authz-user-id": "ben"}
    assert gateway.client.get(f"{PATH}/{found['id']}", headers=headers).status_code == 404


def test_who_may_name_any_user_need_not_name_one_to_read_a_response_again(gateway: Running) -> None:
    def status(id: str, headers: dict[str, str]) -> int:
        return gateway.client.get(f"{PATH}/{id}", headers=headers).status_code

    id = gateway.client.post(PATH, json={"model": "m", "input": "hello", "user": "ana"}).json()["id"]
    found = [status(id, headers) for headers in ({"x-authz-user-id": "ana"}, {"x-authz-user-id": "ben"}, {})]
    assert found == [200, 404, 200]


@pytest.mark.covers("U25")
def test_foreign_credentials_pass_without_memory_or_chain(tmp_path: Path, model: Upstream) -> None:
    with gateway_to(tmp_path, model.url) as gateway:
        gateway.key("somebody", user_id="ana")
        headers = bearer("sk-the-models-own")
        found = gateway.client.post(PATH, json={"model": "m", "input": "hello"}, headers=headers)
        assert (found.status_code, found.headers["x-memory-status"]) == (200, "policy_blocked")
        assert model.last.header("authorization") == "Bearer sk-the-models-own"
        assert found.json()["store"] is False
        assert gateway.client.get(f"{PATH}/{found.json()['id']}", headers=headers).status_code == 404
