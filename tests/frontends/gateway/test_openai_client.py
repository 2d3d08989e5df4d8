"""The official openai client against the gateway: nothing but its base URL is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import openai
import pytest

from tests.frontends.gateway.scripts import DONE, Reply, completion, delta, event, tool_call
from tests.frontends.gateway.test_chat import episodes, store
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("K63")

TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


@pytest.fixture
def client(gateway: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="dummy", max_retries=0) as found:
        yield found


@pytest.mark.covers("K63")
def test_chat_with_a_dummy_key(client: openai.OpenAI, gateway: Running, model: Upstream, who: str) -> None:
    said = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "I live in Oslo"}], user=who)
    assert said.choices[0].message.content == "echo: [user] I live in Oslo"
    assert model.last.header("authorization") == "Bearer dummy", "U25: a key that is not ours goes up untouched"
    assert [role for role, _ in episodes(gateway, user_id=who)] == ["user", "assistant"]


def test_what_was_told_is_remembered_in_a_new_chat(client: openai.OpenAI, gateway: Running, who: str) -> None:
    store(gateway, who, "User's favourite color is purple")
    said = client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "What is my favourite color, purple?"}],
        extra_body={"memory_context": {"user_id": who}, "memory_top_k": 2},
    )
    assert "User's favourite color is purple" in (said.choices[0].message.content or "")
    assert said.model_extra is not None
    assert said.model_extra["memory_hits"][0]["content"] == "User's favourite color is purple"


def test_streams_with_usage(client: openai.OpenAI, gateway: Running, model: Upstream, who: str) -> None:
    stream = client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "Olá"}],
        stream=True,
        stream_options={"include_usage": True},
        user=who,
    )
    chunks = list(stream)
    assert "".join(each.choices[0].delta.content or "" for each in chunks if each.choices) == "echo: [user] Olá "
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 5
    assert model.last.json["stream_options"] == {"include_usage": True}


def test_tools_whole_and_streamed(client: openai.OpenAI, model: Upstream, who: str) -> None:
    call = tool_call("weather", {"city": "Porto"})
    model.chat(Reply.of_json(completion(None, tool_calls=[call])))
    asked = [{"role": "user", "content": "How warm is it?"}]
    said = client.chat.completions.create(model="m", messages=asked, tools=[TOOL], user=who)  # type: ignore[arg-type]
    calls = said.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].function.arguments == '{"city": "Porto"}'  # type: ignore[union-attr]
    answered = [*asked, said.choices[0].message, {"role": "tool", "tool_call_id": "call_1", "content": "20"}]
    client.chat.completions.create(model="m", messages=answered, tools=[TOOL], user=who)  # type: ignore[arg-type]
    assert model.last.messages[1]["tool_calls"] == [call]
    model.chat(Reply.stream(event(delta(tool_calls=[{"index": 0, **call}])), event(delta(finish="tool_calls")), DONE))
    with client.chat.completions.stream(model="m", messages=asked, tools=[TOOL], user=who) as stream:  # type: ignore[arg-type]
        final = stream.get_final_completion()
    assert final.choices[0].message.tool_calls[0].function.name == "weather"  # type: ignore[index]


def test_images_and_json_formats_pass(client: openai.OpenAI, model: Upstream, who: str) -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
    ]
    schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}, "strict": True}}
    client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": parts}], response_format=schema, user=who  # type: ignore
    )  # fmt: skip
    assert model.last.messages[0]["content"] == parts
    assert model.last.json["response_format"] == schema


def test_models_files_and_embeddings_pass_through(client: openai.OpenAI, model: Upstream) -> None:
    assert [each.id for each in client.models.list()] == ["scripted"]
    vectors = {"object": "list", "model": "e", "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 1.0]}]}
    model.play("/v1/embeddings", Reply.of_json({**vectors, "usage": {"prompt_tokens": 1, "total_tokens": 1}}))
    assert client.embeddings.create(model="e", input="x", encoding_format="float").data[0].embedding == [0.5, 1.0]
    told = {"id": "f", "object": "file", "bytes": 3, "created_at": 0, "filename": "a.txt", "purpose": "batch"}
    model.play("/v1/files", Reply.of_json({**told, "status": "processed"}))
    assert client.files.create(file=("a.txt", b"abc"), purpose="batch").id == "f"
    assert b'filename="a.txt"' in model.last.body


def test_errors_are_the_models_and_so_are_ours(client: openai.OpenAI, model: Upstream) -> None:
    model.chat(Reply.error(429, "slow down", retry_after="9"))
    with pytest.raises(openai.RateLimitError, match="slow down") as limited:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
    assert limited.value.response.headers["retry-after"] == "9"
    with pytest.raises(openai.BadRequestError, match="messages") as wrong:
        client.chat.completions.create(model="m", messages=[])
    assert (wrong.value.type, wrong.value.param) == ("invalid_request_error", "messages")


def test_a_retry_of_the_client_is_remembered_once(gateway: Running, model: Upstream, who: str) -> None:
    model.chat(Reply.error(500), Reply.of_json(completion("now")))
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="dummy", max_retries=1) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "I live in Rome"}], user=who)
    assert episodes(gateway, user_id=who) == [("user", "I live in Rome"), ("assistant", "now")]


def test_the_asynchronous_client_chats_and_streams(gateway: Running, who: str) -> None:
    async def run() -> tuple[str | None, str]:
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="dummy", max_retries=0) as client:
            asked: list = [{"role": "user", "content": "Hello there"}]
            whole = await client.chat.completions.create(model="m", messages=asked, user=who)
            stream = await client.chat.completions.create(model="m", messages=asked, user=who, stream=True)
            parts = [each.choices[0].delta.content or "" async for each in stream if each.choices]
            return whole.choices[0].message.content, "".join(parts)

    whole, streamed = asyncio.run(run())
    assert whole == streamed.rstrip() == "echo: [user] Hello there"
