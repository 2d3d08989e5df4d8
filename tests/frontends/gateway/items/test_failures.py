"""001 §11 row by row over real HTTP, each with the fault itself: the request goes on, and the log says why."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.engine.chat import extraction
from tests.backends.wire.openai import KEY
from tests.engine.write.test_embedding_failures import Moody
from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.dialects import Speaker
from tests.frontends.gateway.scripts import Play, Reply, completion
from tests.frontends.gateway.upstream import Upstream, upstream
from tests.frontends.server.running import Running

TEA = "User likes green tea"
QUESTION = "Which tea do I like to drink?"
DIALECTS = pytest.mark.parametrize("dialect", ["chat", "responses"])


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[tuple[str, str]]:
    """The level and the words of each line of the log that holds a text."""
    told = ((record.levelname, record.getMessage()) for record in caplog.records if record.name == "perdure")
    return [(level, message) for level, message in told if text in message]


def until(caplog: pytest.LogCaptureFixture, text: str) -> list[tuple[str, str]]:
    """Those lines, as soon as there is one."""
    deadline = time.monotonic() + 30
    while not (found := lines(caplog, text)):
        assert time.monotonic() < deadline, caplog.text
        time.sleep(0.01)
    return found


@pytest.fixture(scope="module")
def reader() -> Iterator[Upstream]:
    """The model that reads for facts: a server of its own, that each test scripts."""
    with upstream() as found:
        yield found


@contextmanager
def read_by(reader: Upstream, folder: Path, address: str) -> Iterator[Running]:
    """A gateway whose facts are read by a model on a real port."""
    reader.clear()
    config = {"base_url": reader.url, "api_key": KEY, "model": "reader", "retries": 0}
    gateway = {"extraction_batch_size": 1, "summaries": False}
    with gateway_to(folder, address, gateway=gateway, llm={"provider": "openai", "config": config}) as found:
        yield found


@pytest.mark.covers("V5")
@DIALECTS
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_embedder_that_fails_costs_this_request_its_memory(
    tmp_path: Path, model: Upstream, caplog: pytest.LogCaptureFixture, dialect: str, stream: bool
) -> None:
    with Moody("server") as wire:
        settings = {"base_url": wire.base_url, "api_key": KEY, "retries": 0}
        embedder = {"provider": "openai", "config": settings}
        wire.word = None
        with gateway_to(
            tmp_path / "memory", model.url, embedder=embedder, gateway={"default_similarity_threshold": 0.0}
        ) as gateway:
            ana = Speaker(gateway, model, dialect)
            ana.store(TEA)
            wire.word = "tea"
            caplog.clear()
            with caplog.at_level(logging.DEBUG, "perdure"):
                answer = ana.post(QUESTION, stream=stream)
            assert answer.headers["x-memory-status"] == "unavailable"
            assert model.last.json == ana.body(QUESTION, stream=stream), "the request is as the client sent it"
            assert lines(caplog, "Embedding failed") == [("WARNING", "Embedding failed, skipping memory")]
            wire.word = None
            assert TEA in ana.asked(QUESTION), "the next request has its memory again"


FAULTS: dict[str, tuple[Reply, str]] = {
    "v6-an-error": (Reply.error(500), "Extraction failed, batch skipped"),
    "v6-a-refusal": (Reply.error(401), "Extraction failed, batch skipped"),
    "v6-silence": (Reply.stream(Play.HANG), "Extraction failed, batch skipped"),
    "v7-no-json": (Reply.of_json(completion("I see you like tea, how nice!")), "Extraction parse failed"),
    "v7-half-of-it": (Reply.of_json(completion('{"facts": [{"text": "User likes gre')), "Extraction parse failed"),
}


@pytest.mark.covers("K41", "V6", "V7", "V31")
@DIALECTS
@pytest.mark.parametrize("fault", FAULTS)
def test_an_extraction_that_fails_costs_no_answer_and_stores_nothing(
    reader: Upstream,
    tmp_path: Path,
    model: Upstream,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    dialect: str,
    fault: str,
) -> None:
    reply, line = FAULTS[fault]
    assert extraction.PATIENCE == 30, "V61"
    if fault == "v6-silence":  # the others are answered, on a busy machine after more than a second
        monkeypatch.setattr(extraction, "PATIENCE", 1.0)
    with read_by(reader, tmp_path / "memory", model.url) as gateway, caplog.at_level(logging.DEBUG):
        reader.always("/v1/chat/completions", reply)
        ana = Speaker(gateway, model, dialect)
        ana.post("I like green tea more than any other.")
        assert until(caplog, line)[0] == ("WARNING", line)
        assert ana.memories == []
        assert ana.post("And what is the weather like?").status_code == 200
    assert "green tea" not in caplog.text, "what was said is in no log"


@pytest.mark.covers("K36")
@pytest.mark.covers("K36", "V31")
@DIALECTS
def test_an_answer_waits_for_what_is_recalled_and_not_for_what_is_learned(
    reader: Upstream, tmp_path: Path, model: Upstream, dialect: str
) -> None:
    with read_by(reader, tmp_path / "memory", model.url) as gateway:
        ana = Speaker(gateway, model, dialect)
        go_on = threading.Event()
        reader.always("/v1/chat/completions", Reply.stream(go_on))
        ana.post("I like green tea more than any other.")
        assert reader.until(lambda: len(reader.seen) >= 1), "it is read"
        ana.store(TEA)
        told = ana.asked(QUESTION, memory_config={"similarity_threshold": 0.0})
        assert TEA in told, "nobody waits for it, and what is recalled is there before the model is asked"
        go_on.set()


@pytest.mark.covers("V8", "V9", "V29")
@pytest.mark.covers("V8", "V9")
@DIALECTS
def test_rows_without_a_fault_are_told_too(
    gateway: Running, model: Upstream, caplog: pytest.LogCaptureFixture, dialect: str
) -> None:
    ana = Speaker(gateway, model, dialect)
    ana.store(TEA)
    with caplog.at_level(logging.DEBUG, "perdure"):
        assert TEA not in ana.asked("What is the wifi code at my office?", memory_config={"memory_types": ["episodic"]})
        assert model.last.json == ana.body("What is the wifi code at my office?"), "V9, V29"
        assert lines(caplog, "No history") == [("DEBUG", "No history, query-only search")]
        assert lines(caplog, "above threshold") == [("DEBUG", "No memories above threshold")]
        caplog.clear()
        ana.asked(QUESTION, memory_config={"similarity_threshold": 0.0})
        assert lines(caplog, "Retrieved") == [
            ("INFO", "Memory: Retrieved 1 memories"),
            ("DEBUG", "Retrieved 1 memories"),
        ]
