"""002 §6 key by key, what each does in a client that talks to a model over HTTP, and what it is by default."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import MemoryClient
from tests.frontends.gateway.upstream import Upstream, upstream

pytestmark = pytest.mark.covers("K58")

QUESTION = "Do I drink green tea in the morning?"
TEAS = (
    "I drink green tea in the morning.",
    "I live in Lisbon.",
    "I own a green bicycle.",
    "My cat is called Miso.",
    "I work at Nokia.",
    "My dentist is Dr. Holm.",
    "I was born in Oslo.",
)
Work = Callable[[MemoryClient], Coroutine[Any, Any, Any]]


@pytest.fixture(scope="module")
def model() -> Iterator[Upstream]:
    with upstream() as found:
        yield found


def client(model: Upstream, folder: Path, work: Work, **settings: Any) -> Any:
    async def run() -> Any:
        async with MemoryClient(folder, model.url, **{"embedding_model": "hashed", **settings}) as opened:
            return await work(opened)

    return asyncio.run(run())


async def ask(opened: MemoryClient) -> list[dict[str, Any]]:
    """What a chat is given, where several things are known."""
    for text in TEAS:
        await opened.add(text)
    answer = await opened.chat([{"role": "user", "content": QUESTION}])
    return list(answer["memory_hits"])


@pytest.mark.covers("K58")
def test_every_key_of_section_6_has_the_default_that_stands_there() -> None:
    told = {
        name: each.default
        for name, each in inspect.signature(MemoryClient.__init__).parameters.items()
        if each.default is not inspect.Parameter.empty
    }
    wanted = {
        "memory_path": "./memory_db",
        "embedding_model": "text-embedding-3-small",
        "default_top_k": 5,
        "max_entries": 500,
        "mmr_lambda": 0.7,
        "recency_weight": 0.2,
        "score_threshold": None,
        "enable_summarization": True,
        "enable_git_versioning": True,
        "start_watcher": False,
    }
    assert {name: str(told[name]) if name == "memory_path" else told[name] for name in wanted} == {
        **wanted,
        "memory_path": str(told["memory_path"]),
    }
    assert Path(told["memory_path"]) == Path(wanted["memory_path"])  # type: ignore[arg-type]


@pytest.mark.covers("K58")
def test_default_top_k_is_how_many_a_chat_is_given(model: Upstream, tmp_path: Path) -> None:
    assert len(client(model, tmp_path / "five", ask)) == 5
    assert len(client(model, tmp_path / "two", ask, default_top_k=2)) == 2


@pytest.mark.covers("K58")
def test_score_threshold_drops_what_is_below_it(model: Upstream, tmp_path: Path) -> None:
    found = client(model, tmp_path / "memory", ask, score_threshold=0.99)
    assert len(found) == 1 and "green tea" in found[0]["content"]


@pytest.mark.covers("K58")
def test_recency_weight_of_one_is_the_newest_first(model: Upstream, tmp_path: Path) -> None:
    found = client(model, tmp_path / "new", ask, recency_weight=1.0)
    assert {round(each["score"], 3) for each in found} == {1.0}, "all of them were told just now"
    found = client(model, tmp_path / "plain", ask, recency_weight=0.0, default_top_k=7)
    assert found[0]["score"] == 1.0 and "green tea" in found[0]["content"] and found[-1]["score"] == 0.0


@pytest.mark.covers("K53", "K58")
@pytest.mark.parametrize("enabled", [True, False])
def test_enable_summarization_is_whether_a_prompt_has_a_summary(model: Upstream, tmp_path: Path, enabled: bool) -> None:
    async def work(opened: MemoryClient) -> None:
        await opened.chat([{"role": "user", "content": "I live in Lisbon. I work at Nokia."}], conversation_id="c")
        deadline = time.monotonic() + 30
        wanted = "summary" if enabled else "memory"
        while not any(each["role"] == wanted for each in opened.list_all("c", include_summary=True)):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        await opened.chat([{"role": "user", "content": "Where do I live?"}], conversation_id="c")

    client(model, tmp_path / "memory", work, enable_summarization=enabled, default_top_k=1)
    assert ("Conversation summar" in model.last.body.decode()) == enabled


@pytest.mark.covers("K54")
@pytest.mark.covers("K54", "K58")
def test_max_entries_is_what_a_conversation_holds(model: Upstream, tmp_path: Path) -> None:
    async def work(opened: MemoryClient) -> int:
        for text in TEAS:
            await opened.chat([{"role": "user", "content": text}])
        deadline = time.monotonic() + 30
        while (len(opened.list_all()), len(opened.list_all(include_summary=True))) != (4, 5):
            assert time.monotonic() < deadline, opened.list_all(include_summary=True)
            await asyncio.sleep(0.01)
        return len(opened.list_all(include_summary=True))

    assert client(model, tmp_path / "memory", work, max_entries=4) == 5, "the summary is beside them"


@pytest.mark.covers("K58")
def test_memory_path_is_where_it_lies_and_openai_base_url_who_is_asked(model: Upstream, tmp_path: Path) -> None:
    model.clear()
    client(model, tmp_path / "here", ask)
    assert any((tmp_path / "here").iterdir())
    assert [each.path for each in model.seen] == ["/v1/chat/completions"]
