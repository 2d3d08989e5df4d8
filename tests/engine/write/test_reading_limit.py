"""A long message is read for facts to a bound, the rest kept as words; library, server and program say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Memory
from perdure.domain.errors import ConfigError
from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import beginning, head
from tests.frontends.cli.runs import Folder
from tests.frontends.server.running import running

HEAD = "I am allergic to peanuts. "
FILL = "Prices rose again, it was said, and nobody seemed surprised at all. "
TAIL = "My sister Clara lives in Porto."
LIMIT = 2_000
SETTINGS = {"embedder": {"provider": "hashed"}, "reading_limit": LIMIT}


def long(characters: int) -> str:
    return HEAD + FILL * (characters // len(FILL)) + TAIL


def opened(path: Path, **more: object) -> Memory:
    return Memory({"path": str(path), **SETTINGS, **more})


def texts(memory: Memory) -> list[str]:
    return sorted(item.memory for item in memory.get_all(user_id="ana").results)


def test_what_is_within_the_bound_is_read_without_a_word(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        result = memory.add(long(1_500), user_id="ana")
        assert result.warnings == []
        assert {"User is allergic to peanuts", "User's sister Clara lives in Porto"} <= set(texts(memory))


def test_what_is_beyond_it_is_said_and_kept_as_words(tmp_path: Path) -> None:
    with opened(tmp_path, episodes="search") as memory:
        result = memory.add(long(30_000), user_id="ana")
        (warning,) = result.warnings
        assert "not read for facts" in warning and "kept as words" in warning and "reading_limit" in warning
        assert "User is allergic to peanuts" in [event.memory for event in result.results]
        facts = memory.search("Where does Clara live?", user_id="ana", filters={"kind": "facts"}).results
        assert not any("Clara" in item.memory for item in facts)
        found = memory.search("Where does Clara live?", user_id="ana", filters={"kind": "messages"}).results
        assert found and found[0].memory == long(30_000)


def test_the_bound_holds_for_the_whole_call(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": f"I have a friend called Bo{number}. {FILL * 8}"} for number in range(40)]
    with opened(tmp_path) as memory:
        result = memory.add(messages, user_id="ana")
        assert len(result.warnings) == 1
        known = " ".join(texts(memory))
        assert "Bo0" in known and "Bo39" not in known
        memory.add(messages[-1], user_id="ana")  # a call of its own, as the warning says
        assert "Bo39" in " ".join(texts(memory))


def test_without_episodes_it_says_that_the_rest_is_not_kept(tmp_path: Path) -> None:
    with opened(tmp_path, episodes="off") as memory:
        (warning,) = memory.add(long(5_000), user_id="ana").warnings
        assert "not kept" in warning


def test_the_setting_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="reading_limit"):
        opened(tmp_path, reading_limit=10)


def test_the_server_says_so(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        body = {"messages": long(30_000), "user_id": "ana"}
        answer = server.client.post("/v1/memories", json=body)
        assert answer.status_code == 200 and "not read for facts" in " ".join(answer.json()["warnings"])
        assert "User is allergic to peanuts" in [event["memory"] for event in answer.json()["results"]]


def test_the_program_says_so(tmp_path: Path) -> None:
    at = Folder(tmp_path)
    ran = at("add", "-", "--user-id", "ana", stdin=long(30_000))
    assert ran.status == 0 and "not read for facts" in ran.err
    assert "User is allergic to peanuts" in at.texts()


SENTENCES = ["I live in Rome. ", "Dr. Smith is my doctor! ", "J. R. Smith e.g. said so. ", "Is it?\n", "我住在北京。"]


@given(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=60), st.integers(60, 400))
def test_no_sentence_is_split(sentences: list[str], limit: int) -> None:
    text = "".join(sentences)
    kept = head(text, limit)
    assert len(kept) <= limit and text.startswith(kept)
    ends = {len("".join(sentences[:count]).rstrip()) for count in range(len(sentences) + 1)}
    assert kept == text or len(kept.rstrip()) in ends


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=300)), max_size=6), st.integers(0, 500)
)
def test_messages_keep_their_places(said: list[tuple[str, str]], limit: int) -> None:
    messages = [Message(role, content) for role, content in said]
    kept, missing = beginning(messages, limit)
    assert [message.role for message in kept] == [message.role for message in messages]
    assert sum(len(message.content) for message in kept) <= limit
    assert sum(len(message.content) for message in messages) == sum(len(message.content) for message in kept) + missing
