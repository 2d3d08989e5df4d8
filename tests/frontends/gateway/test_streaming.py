"""Streams over real HTTP: every byte as it comes, wherever it is cut, and all of it remembered."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.frontends.gateway.sse import ChatStream, Events
from tests.frontends.gateway.scripts import (
    DONE,
    Play,
    Reply,
    chat_events,
    completion,
    delta,
    event,
    pieces,
    tool_call,
)
from tests.frontends.gateway.test_chat import PATH, episodes, settled, store
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("A32", "K37")

WORDS = ["Olá ", "😀 ", "日本 ", 'a "quoted" \\ word\n', "é"]
TEXT = "".join(WORDS)


@contextmanager
def streamed(gateway: Running, text: str, who: str, **more: Any) -> Iterator[httpx.Response]:
    body = {"messages": [{"role": "user", "content": text}], "stream": True, "user": who, **more}
    with gateway.client.stream("POST", PATH, json=body) as answer:
        yield answer


# ------------------------------------------------------------------ bytes
@pytest.mark.parametrize("size", [1, 7, 31, 100_000])
def test_every_byte_comes_as_it_was_sent_and_the_text_is_kept(
    gateway: Running, model: Upstream, who: str, size: int
) -> None:
    sent = b": a comment\r\n\r\n" + chat_events(WORDS, usage=True)
    model.chat(Reply.stream(*pieces(sent, size)))
    with streamed(gateway, "Tell me", who) as answer:
        assert b"".join(answer.iter_raw()) == sent
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert "content-length" not in answer.headers
    assert episodes(gateway, user_id=who) == [("user", "Tell me"), ("assistant", TEXT)]


def test_each_piece_goes_out_before_the_next_has_come(gateway: Running, model: Upstream, who: str) -> None:
    more = [threading.Event() for _ in range(3)]
    steps = [step for n, gate in enumerate(more) for step in (event(delta(f"w{n} ")), gate)]
    model.chat(Reply.stream(*steps, DONE))
    with streamed(gateway, "Tell me", who) as answer:
        chunks = answer.iter_raw()
        for n, gate in enumerate(more):
            assert f"w{n}".encode() in next(chunks)
            gate.set()
        assert next(chunks) == DONE


@pytest.mark.covers("V1")
def test_memories_are_injected_into_streams_too(gateway: Running, model: Upstream, who: str) -> None:
    store(gateway, who, "User's horse is called Rocinante")
    with streamed(gateway, "What is my horse Rocinante called?", who) as answer:
        told = answer.read().decode()
        assert answer.headers["x-memory-status"] == "used"
    assert "memory_hits" not in told, "A5: streams carry none"
    assert "[memory] User's horse is called Rocinante" in model.last.messages[-1]["content"]


# ------------------------------------------------------------------ what is kept
@pytest.mark.covers("K37")
def test_the_users_turn_is_kept_while_the_answer_is_still_coming(gateway: Running, model: Upstream, who: str) -> None:
    more = threading.Event()
    model.chat(Reply.stream(event(delta("Well")), more, event(delta(finish="stop")), DONE))
    with streamed(gateway, "I live in Porto", who) as answer:
        chunks = answer.iter_raw()
        next(chunks)
        assert episodes(gateway, user_id=who) == [("user", "I live in Porto")]
        more.set()
        b"".join(chunks)
    assert episodes(gateway, user_id=who)[1:] == [("assistant", "Well")]


def test_who_leaves_cancels_the_model_and_what_came_so_far_is_kept(gateway: Running, model: Upstream, who: str) -> None:
    model.chat(Reply.stream(event(delta("Once upon ")), event(delta("a time")), Play.HANG))
    with streamed(gateway, "Tell me a story", who) as answer:
        chunks, got = answer.iter_raw(), b""
        while b"a time" not in got:
            got += next(chunks)
    assert model.until(lambda: model.gone == 1), "the model works on for nobody"
    deadline = time.monotonic() + 20
    while len(found := episodes(gateway, user_id=who)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found == [("user", "Tell me a story"), ("assistant", "Once upon a time […]")]


def test_an_answer_that_breaks_off_breaks_off_here_and_is_kept_so_far(
    gateway: Running, model: Upstream, who: str
) -> None:
    model.chat(Reply.stream(event(delta("Once upon ")), event(delta("a time")), Play.BREAK_OFF))
    with pytest.raises(httpx.RemoteProtocolError), streamed(gateway, "Tell me a story", who) as answer:
        answer.read()
    assert episodes(gateway, user_id=who) == [("user", "Tell me a story"), ("assistant", "Once upon a time […]")]


@pytest.mark.covers("K37")
def test_an_error_instead_of_a_stream_keeps_the_users_turn_alone(gateway: Running, model: Upstream, who: str) -> None:
    reply = Reply.error(429, retry_after="3")
    model.chat(reply)
    with streamed(gateway, "I live in Porto", who) as answer:
        assert (answer.status_code, answer.headers["retry-after"], answer.read()) == (429, "3", reply.body)
    assert episodes(gateway, user_id=who) == [("user", "I live in Porto")]


def test_tool_calls_are_no_text_and_pass_as_they_are(gateway: Running, model: Upstream, who: str) -> None:
    call = {"index": 0, **tool_call("weather", {"city": "Porto"})}
    sent = event(delta(tool_calls=[call])) + event(delta(finish="tool_calls")) + DONE
    model.chat(Reply.stream(*pieces(sent, 9)))
    with streamed(gateway, "How warm is it in Porto?", who) as answer:
        assert b"".join(answer.iter_raw()) == sent
    assert episodes(gateway, user_id=who) == [("user", "How warm is it in Porto?")]


def test_of_several_choices_the_first_is_kept(gateway: Running, model: Upstream, who: str) -> None:
    said = [delta("b1", index=1), delta("a1"), delta("b2", index=1), delta("a2"), delta(finish="stop")]
    model.chat(Reply.stream(*[event(each) for each in said], DONE))
    with streamed(gateway, "Tell me", who, n=2) as answer:
        answer.read()
    assert episodes(gateway, user_id=who)[1:] == [("assistant", "a1a2")]


def test_a_server_that_does_not_stream_is_understood_all_the_same(gateway: Running, model: Upstream, who: str) -> None:
    model.chat(Reply.of_json(completion("All at once")))
    with streamed(gateway, "Tell me", who) as answer:
        assert json.loads(answer.read())["choices"][0]["message"]["content"] == "All at once"
    model.chat(Reply.stream(event(delta("In pieces")), DONE))
    gateway.client.post(PATH, json={"messages": [{"role": "user", "content": "And now?"}], "user": who})
    assert episodes(gateway, user_id=who) == [
        ("user", "Tell me"), ("assistant", "All at once"), ("user", "And now?"), ("assistant", "In pieces"),
    ]  # fmt: skip


def test_many_streams_at_once_keep_their_own(gateway: Running, model: Upstream, who: str) -> None:
    found: dict[int, bytes] = {}

    def one(number: int) -> None:
        body = {"messages": [{"role": "user", "content": f"Number {number} it is"}], "stream": True}
        headers = {"x-authz-user-id": f"{who}-{number}"}
        with httpx.stream("POST", f"{gateway.url}{PATH}", json=body, headers=headers, timeout=60) as answer:
            found[number] = answer.read()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    settled(gateway)
    for number in range(24):
        assert f"{number} ".encode() in found[number]
        kept = episodes(gateway, user_id=f"{who}-{number}")
        assert [text for role, text in kept if role == "user"] == [f"Number {number} it is"]
        assert len(kept) == 2


# ------------------------------------------------------------------ the parser
@given(
    st.lists(st.text(max_size=20).filter(lambda text: not {"\r", "\n"} & {*text}), max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(1, 12), min_size=1),
)
def test_events_are_the_same_wherever_they_are_cut(datas: list[str], newline: str, sizes: list[int]) -> None:
    stream = "".join(f"event: x{newline}data: {data}{newline}:c{newline}{newline}" for data in datas).encode()
    events, found, at, turn = Events(), [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        found += events.feed(stream[at : at + size])
        at, turn = at + size, turn + 1
    assert [*found, *events.end()] == datas


def test_a_stream_without_a_last_newline_is_read_to_its_end() -> None:
    stream = ChatStream()
    stream.feed(event(delta("so")).rstrip())
    assert stream.text == ""
    stream.end()
    assert stream.text == "so"


@pytest.mark.parametrize(
    "odd", [b"data: no json\n\n", b"data: []\n\n", b'data: {"choices":5}\n\n', b'data: {"choices":[{"delta":7}]}\n\n']
)
def test_odd_events_are_passed_over(odd: bytes) -> None:
    stream = ChatStream()
    stream.feed(odd + event({"choices": [{"index": 0, "delta": {"text": "A32"}}]}))
    assert stream.text == "A32"
