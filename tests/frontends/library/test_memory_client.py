"""MemoryClient over real HTTP: chats with a scripted model that remember, and memory without any chat."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import ConfigError, InvalidInputError, MemoryClient, PerdureError
from perdure.domain.errors import UpstreamError
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.write.provenance import without_echoes
from perdure.pipeline.prompting.quoting import OPENING
from tests.frontends.gateway.scripts import Play, Reply, chat_events, pieces
from tests.frontends.gateway.upstream import Upstream, upstream

ANNE = "My wife is named Anne"
WIFE = "What is the name of my wife?"


@pytest.fixture(scope="module")
def served() -> Iterator[Upstream]:
    with upstream() as found:
        yield found


@pytest.fixture
def model(served: Upstream) -> Upstream:
    served.clear()
    return served


Work = Callable[[MemoryClient], Coroutine[Any, Any, Any]]


def with_client(model: Upstream, folder: Path, work: Work, **settings: Any) -> Any:
    """Do some work with a client of one's own, and close it."""

    async def run() -> Any:
        async with MemoryClient(folder, model.url, **{"embedding_model": "hashed", **settings}) as client:
            return await work(client)

    return asyncio.run(run())


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


async def learned(client: MemoryClient, text: str, conversation: str = "default") -> None:
    """Wait until a fact has been made of what was said."""
    end = time.monotonic() + 30
    while not any(each["role"] == "memory" and text in each["content"] for each in client.list_all(conversation)):
        assert time.monotonic() < end, client.list_all(conversation)
        await asyncio.sleep(0.01)


@pytest.mark.covers("K1", "K9")
@pytest.mark.covers("K1", "K9")
def test_a_chat_is_answered_and_its_turn_and_facts_are_there_the_next_time(model: Upstream, tmp_path: Path) -> None:
    async def first(client: MemoryClient) -> Any:
        answer = await client.chat(said(ANNE), model="scripted", temperature=0.3)
        kept = client.list_all()
        assert [(each["role"], each["content"]) for each in kept if each["role"] != "memory"] == [
            ("user", ANNE), ("assistant", f"echo: [user] {ANNE}"),
        ]  # fmt: skip
        await learned(client, "Anne")
        return answer

    answer = with_client(model, tmp_path, first)
    assert answer["choices"][0]["message"]["content"] == f"echo: [user] {ANNE}" and answer["memory_hits"] == []
    assert model.last.json == {
        "temperature": 0.3, "model": "scripted", "messages": said(ANNE), "stream": False,
    }  # fmt: skip
    model.clear()
    answer = with_client(model, tmp_path, lambda client: client.chat(said(WIFE)))
    (sent,) = model.last.messages
    assert sent["content"].startswith(OPENING) and sent["content"].endswith(f"Current message: {WIFE}")
    assert "[memory] " in sent["content"] and "Anne" in sent["content"]
    facts = [hit for hit in answer["memory_hits"] if hit["role"] == "memory"]
    assert "Anne" in facts[0]["content"] and set(facts[0]) == {"role", "content", "created_at", "score"}


@pytest.mark.covers("K10")
@pytest.mark.covers("K10")
def test_search_ranks_and_asks_no_model(model: Upstream, tmp_path: Path) -> None:
    async def work(client: MemoryClient) -> None:
        for text in ("I like green tea.", "I live in Lisbon.", "My cat is called Miso."):
            await client.add(text)
        before = client.list_all()
        found = await client.search("do I like green tea?", top_k=2)
        assert len(found) == 2 and "green tea" in found[0]["content"]
        assert found[0]["score"] >= found[1]["score"]
        assert client.list_all() == before
        only = await client.search("do I like green tea?", filters={"role": "memory"}, score_threshold=0.5)
        assert {hit["role"] for hit in only} == {"memory"}

    with_client(model, tmp_path, work)
    assert model.seen == []


def test_a_search_shows_the_same_entries_oldest_first(model: Upstream, tmp_path: Path) -> None:
    async def work(client: MemoryClient) -> None:
        for text in ("I like tea.", "My cat is called Miso.", "I like green tea from Uji."):
            await client.add(text)
        best = await client.search("do I like green tea from Uji?", score_threshold=0.0)
        timeline = await client.search("do I like green tea from Uji?", score_threshold=0.0, order="time")
        times = [hit["created_at"] for hit in timeline]
        assert times == sorted(times) != [hit["created_at"] for hit in best]
        assert {hit["content"] for hit in timeline} == {hit["content"] for hit in best}

    with_client(model, tmp_path, work)


@pytest.mark.covers("K11")
@pytest.mark.covers("K2", "K11")
def test_add_extracts_and_reconciles_and_no_chat_is_asked_for(model: Upstream, tmp_path: Path) -> None:
    async def work(client: MemoryClient) -> None:
        (event,) = (await client.add("I love pizza.", "c")).results
        assert event.event == "ADD"
        await client.add("I hate pizza now.", "c")
        facts = [each["content"] for each in client.list_all("c") if each["role"] == "memory"]
        assert len(facts) == 1 and "hate" in facts[0]
        assert client.list_all() == [], "another conversation"

    with_client(model, tmp_path, work)
    assert model.seen == []


@pytest.mark.covers("K25", "K66")
@pytest.mark.covers("K25", "K66")
def test_conversations_are_apart_and_global_is_for_all(model: Upstream, tmp_path: Path) -> None:
    async def work(client: MemoryClient) -> list[str]:
        await client.add("I like green tea.", "one")
        await client.add("I like black tea.", "two")
        await client.add("I like white tea.", "global")
        return [hit["content"] for hit in await client.search("which tea do I like?", "one") if hit["role"] == "memory"]

    assert sorted(with_client(model, tmp_path, work)) == ["User likes green tea", "User likes white tea"]


@pytest.mark.covers("K37")
def test_a_stream_comes_as_chunks_and_its_turn_is_kept(model: Upstream, tmp_path: Path) -> None:
    async def work(client: MemoryClient) -> list[dict[str, Any]]:
        model.chat(Reply.stream(*pieces(chat_events(["Hello ", "Ana", "!"], usage=True), 7)))
        stream = await client.chat(said(ANNE), stream=True)
        chunks = [chunk async for chunk in stream]
        kept = [each for each in client.list_all() if each["role"] != "memory"]
        assert [(each["role"], each["content"]) for each in kept] == [("user", ANNE), ("assistant", "Hello Ana!")]
        return chunks

    chunks = with_client(model, tmp_path, work)
    assert (
        "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"]) == "Hello Ana!"
    )
    assert chunks[-1]["usage"]["total_tokens"] == 5 and model.last.json["stream"] is True


@pytest.mark.covers("A32")
@pytest.mark.parametrize("way", ["left", "broken"])
def test_what_was_said_stays_when_a_stream_breaks_off(model: Upstream, tmp_path: Path, way: str) -> None:
    events = chat_events(["Hello ", "Ana", "!"])
    last = Play.HANG if way == "left" else Play.BREAK_OFF

    async def work(client: MemoryClient) -> None:
        model.chat(Reply.stream(events[: events.index(b'"!"')], last))
        stream: Any = await client.chat(said(ANNE), stream=True)
        heard = ""
        async with aclosing(stream):
            try:
                async for chunk in stream:
                    heard += chunk["choices"][0]["delta"].get("content", "")
                    if way == "left" and "Ana" in heard:
                        break
            except UpstreamError:
                assert way == "broken"
        assert heard == "Hello Ana"
        kept = [each for each in client.list_all() if each["role"] != "memory"]
        assert [(each["role"], each["content"]) for each in kept] == [("user", ANNE), ("assistant", "Hello Ana […]")]

    with_client(model, tmp_path, work)


@pytest.mark.covers("A6")
@pytest.mark.covers("A6")
def test_an_error_of_the_server_is_told_and_nothing_is_kept_of_it(model: Upstream, tmp_path: Path) -> None:
    async def work(client: MemoryClient) -> None:
        model.chat(Reply.error(429, "secret words"), Reply(200, [("Content-Type", "text/plain")], b"no JSON"))
        with pytest.raises(UpstreamError, match="429") as raised:
            await client.chat(said(ANNE))
        assert raised.value.code == "status_429" and "secret" not in str(raised.value)
        with pytest.raises(UpstreamError, match="no JSON object"):
            await client.chat(said(ANNE))
        assert client.list_all() == []

    with_client(model, tmp_path, work)


@pytest.mark.covers("A4")
@pytest.mark.covers("A4", "A38")
def test_without_memory_a_chat_goes_as_it_is_and_is_kept(model: Upstream, tmp_path: Path) -> None:
    async def work(client: MemoryClient) -> None:
        await client.add(ANNE)
        answer = await client.chat(said(WIFE), memory_top_k=0)
        assert answer["memory_hits"] == [] and model.last.messages == said(WIFE)
        assert (WIFE in [each["content"] for each in client.list_all()]) is True

    with_client(model, tmp_path, work)


@pytest.mark.covers("A8")
@pytest.mark.covers("A8")
def test_tool_calls_and_parts_pass_as_they_are(model: Upstream, tmp_path: Path) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": WIFE}, picture]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {}}]},
        {"role": "tool", "tool_call_id": "1", "content": "Anne"},
    ]

    async def work(client: MemoryClient) -> None:
        await client.add(ANNE)
        await client.chat(messages[:2], tools=[{"type": "function"}])
        await client.chat(messages, tools=[{"type": "function"}])
        kept = [(each["role"], each["content"]) for each in client.list_all()]
        assert kept.count(("user", WIFE)) == 1 and ("tool", "Anne") in kept  # one turn, as at the proxy

    with_client(model, tmp_path, work)
    assert model.last.messages == messages and model.last.json["tools"] == [{"type": "function"}]


def test_keys_go_up_the_calls_own_first_a3(model: Upstream, tmp_path: Path) -> None:
    async def work(client: MemoryClient) -> list[str | None]:
        await client.chat(said("Hi"))
        await client.chat(said("Hi"), api_key="own")
        return [seen.header("authorization") for seen in model.seen]

    assert with_client(model, tmp_path / "a", work, chat_api_key="chat") == ["Bearer chat", "Bearer own"]
    model.clear()
    assert with_client(model, tmp_path / "b", work) == [None, "Bearer own"]


# ------------------------------------------------------------------ construction
@pytest.mark.covers("K59")
@pytest.mark.parametrize("url", [None, "", " "])
def test_without_a_server_there_is_no_client(tmp_path: Path, url: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        MemoryClient(tmp_path, url)
    assert raised.value.field == "openai_base_url"


@pytest.mark.covers("K58")
def test_each_key_has_its_default_and_is_used_where_it_is_given(tmp_path: Path) -> None:
    gateway = MemoryClient(openai_base_url="http://localhost:1/v1").config.gateway
    assert (gateway.default_retrieval_limit, gateway.max_entries, gateway.mmr_lambda) == (5, 500, 0.7)
    assert (gateway.recency_weight, gateway.default_similarity_threshold, gateway.summaries) == (0.2, None, True)
    config = MemoryClient(openai_base_url="http://localhost:1/v1").config
    assert str(config.path) == "memory_db" and config.embedder.config["model"] == "text-embedding-3-small"
    given = MemoryClient(
        tmp_path, "http://localhost:1/v1", default_top_k=2, max_entries=7, mmr_lambda=1.0, recency_weight=0.0,
        score_threshold=0.35, enable_summarization=False, enable_git_versioning=False, embedding_model="minilm",
    ).config  # fmt: skip
    assert (given.gateway.default_retrieval_limit, given.gateway.max_entries, given.gateway.mmr_lambda) == (2, 7, 1.0)
    assert (given.gateway.recency_weight, given.gateway.default_similarity_threshold) == (0.0, 0.35)
    assert (given.gateway.summaries, given.path, given.embedder.provider) == (False, tmp_path, "minilm")
    assert (given.episodes, given.updates) == ("search", "supersede")
    assert config.vector_store.provider == given.vector_store.provider == "markdown"
    assert config.vector_store.config == {"watch": False, "git": True}
    assert given.vector_store.config == {"watch": False, "git": False}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"mmr_lambda": 2}, "gateway.mmr_lambda"),
        ({"default_top_k": 0}, "gateway.default_retrieval_limit"),
        ({"embedding_model": ""}, "embedding_model"),
        ({"openai_base_url": "ftp://x"}, "gateway.upstream.base_url"),
    ],
)
def test_what_cannot_be_is_refused_at_construction(tmp_path: Path, settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as raised:
        MemoryClient(tmp_path, **{"openai_base_url": "http://localhost:1/v1", "embedding_model": "hashed", **settings})
    assert raised.value.field == field


@pytest.mark.covers("K62")
@pytest.mark.covers("K62")
def test_an_unknown_model_of_the_server_takes_its_dimension(tmp_path: Path) -> None:
    url = "http://localhost:1/v1"
    with pytest.raises(ConfigError, match="dimensions"):
        MemoryClient(tmp_path, url, embedding_model="embeddinggemma:300m")
    client = MemoryClient(tmp_path, url, embedding_model="embeddinggemma:300m", embedding_dimensions=768)
    assert client.config.embedder.config["dimensions"] == 768


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.chat([]),
        lambda client: client.chat("Hi"),
        lambda client: client.chat([{"content": "Hi"}]),
        lambda client: client.add(" "),
        lambda client: client.search("tea", top_k=0),
        lambda client: client.search("tea", recency_weight=2),
        lambda client: client.search("tea", order="age"),
        lambda client: client.search("tea", "x" * 2000),
    ],
)
def test_what_is_wrong_is_refused_and_the_server_is_not_asked(model: Upstream, tmp_path: Path, call: Work) -> None:
    async def work(client: MemoryClient) -> None:
        with pytest.raises(InvalidInputError):
            await call(client)

    with_client(model, tmp_path, work)
    assert model.seen == []


def test_it_is_public_and_stops_twice(tmp_path: Path) -> None:
    assert perdure.MemoryClient is MemoryClient and "MemoryClient" in dir(perdure)

    async def run() -> None:
        client = MemoryClient(tmp_path, "http://localhost:1/v1", embedding_model="hashed")
        await client.stop()
        await client.stop()
        with pytest.raises(PerdureError):
            await client.add("I like tea.")

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_chat_was_given_of_memory_is_no_news_when_an_answer_repeats_it(
    model: Upstream, tmp_path: Path, stream: bool
) -> None:
    async def work(client: MemoryClient) -> None:
        (fact,) = [each.memory for each in (await client.add(ANNE)).results]
        kernel, echo = client._memory._engine.kernel, [Message("assistant", f"- {fact}")]
        assert await without_echoes(kernel, echo, Scope(run_id="default")) == echo
        answer = await client.chat(said(WIFE), model="scripted", stream=stream)
        if stream:
            async with aclosing(answer) as chunks:
                assert [chunk async for chunk in chunks]
        assert fact in model.last.messages[-1]["content"]
        assert [each.content for each in await without_echoes(kernel, echo, Scope(run_id="default"))] == [""]

    with_client(model, tmp_path, work)
