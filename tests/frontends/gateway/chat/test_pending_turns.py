"""What waits to be kept: it is bounded, no answer waits for it, it drains, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from perdure.backends.ledgers.sql.ledger import SqlSessions
from perdure.domain.errors import InvalidInputError, LedgerError, LedgerLockedError
from perdure.domain.session import Said, SessionTurn
from perdure.engine.aio.worker import MAX_BATCH
from perdure.engine.chat import turn_log
from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.talks import Talk
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running

PATH = "/v1/chat/completions"
USERS, TURNS = 10, 30
TASKS = 60
"""Tasks that a server and some connections have at most, whatever waits."""


class Gate:
    """Lets nothing into the ledger's sessions until it is opened; counts what goes through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_open = threading.Event()
        self.reached = threading.Event()
        self.batches: list[int] = []
        self.failing: type[Exception] | None = None
        self.refused: str | None = None
        """What nothing of may be kept: a role."""
        keep = SqlSessions.keep

        async def kept(sessions: SqlSessions, said: Sequence[Said]) -> list[SessionTurn | None]:
            self.reached.set()
            while not self.is_open.is_set():
                await asyncio.sleep(0.002)
            if self.failing is not None:
                raise self.failing("the ledger is broken")
            if any(episode.role == self.refused for each in said for episode in each.episodes):
                raise InvalidInputError("no such words", field="content", value=None)
            self.batches.append(len(said))
            return await keep(sessions, said)

        monkeypatch.setattr(SqlSessions, "keep", kept)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate(monkeypatch)
    yield found
    found.is_open.set()


@contextmanager
def small(folder: Path, model: Upstream, **settings: object) -> Iterator[Running]:
    with gateway_to(folder / "memory", model.url, gateway=settings) as found:
        yield found


def ask(gateway: Running, user: str, text: str, *, client: httpx.Client | None = None, stream: bool = False) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": stream}
    headers = {"x-authz-user-id": user, "x-session-id": f"session of {user}"}
    answer = (client or gateway.client).post(PATH, json=body, headers=headers)
    assert answer.status_code == 200, answer.text


def metric(gateway: Running, name: str) -> float:
    shown = gateway.client.get("/metrics").text
    found = re.search(rf"^{re.escape(name)} (\S+)$", shown, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def users_words(gateway: Running, user: str) -> list[str]:
    return [text for role, text in Talk(gateway, user).said() if role == "user"]


def test_a_burst_waits_as_little_more_than_its_words_and_is_kept_whole_in_order(
    tmp_path: Path, model: Upstream, gate: Gate
) -> None:
    with small(tmp_path, model) as gateway:

        def talk(number: int) -> None:
            with httpx.Client(base_url=gateway.url, timeout=60, verify=False) as client:
                for turn in range(TURNS):
                    ask(gateway, f"u{number}", f"Note {turn} of mine.", client=client, stream=turn % 2 == 1)

        with ThreadPoolExecutor(USERS) as pool:
            list(pool.map(talk, range(USERS)))
        # All are answered, nothing is kept, and what waits takes no task of its own.
        assert gate.batches == []
        assert metric(gateway, "llm_memory_turns_waiting") >= USERS * TURNS

        async def tasks() -> int:
            return len(asyncio.all_tasks())

        assert gateway.wait(tasks()) < TASKS
        gate.is_open.set()
        for number in range(USERS):
            said = Talk(gateway, f"u{number}").said()
            assert [text for role, text in said if role == "user"] == [f"Note {turn} of mine." for turn in range(TURNS)]
            # Each answer stands behind the words that it answers, the next words behind it.
            assert [role for role, _ in said] == ["user", "assistant"] * TURNS
        # What waited was kept by the hundred, the streams' beginnings and ends as one but where a hundred was full.
        assert len(gate.batches) <= USERS * TURNS * 3 // 2 // MAX_BATCH + 3
        assert USERS * TURNS <= sum(gate.batches) <= USERS * (TURNS + len(gate.batches))
        assert metric(gateway, "llm_memory_turns_waiting") == 0
        assert metric(gateway, 'llm_memory_turns_unkept_total{why="no_room"}') == 0
        # What is due of them is read too, when nobody asks any more.
        for number in range(USERS):
            assert Talk(gateway, f"u{number}").until_read(f"session of u{number}", TURNS)["turns"] == TURNS


def test_beyond_the_bound_turns_are_answered_and_not_kept_which_is_told(
    tmp_path: Path, model: Upstream, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(turn_log, "MOST_WAITING", 4)
    with small(tmp_path, model, recall_seconds=0.05) as gateway:
        with caplog.at_level(logging.WARNING, "perdure.gateway"):
            for turn in range(9):
                ask(gateway, "ana", f"Secret {turn}", stream=turn == 7)
        assert metric(gateway, "llm_memory_turns_waiting") == 4
        assert metric(gateway, 'llm_memory_turns_unkept_total{why="no_room"}') == 5
        assert caplog.text.count("a turn is not kept: 4 others wait for the ledger") == 5
        assert "Secret" not in caplog.text
        gate.is_open.set()
        assert users_words(gateway, "ana") == [f"Secret {turn}" for turn in range(4)]
        ask(gateway, "ana", "And now?")
        assert users_words(gateway, "ana")[-1] == "And now?"


def test_long_texts_count_by_their_length(
    tmp_path: Path, model: Upstream, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_log, "MOST_CHARACTERS", 5_000)
    with small(tmp_path, model, recall_seconds=0.05) as gateway:
        for turn in range(4):
            ask(gateway, "ana", f"{turn} " + "long words " * 200)
        assert metric(gateway, 'llm_memory_turns_unkept_total{why="no_room"}') > 0
        gate.is_open.set()
        kept = users_words(gateway, "ana")
        assert 0 < len(kept) < 4 and kept[0].startswith("0 ")


def test_a_request_that_finds_no_room_waits_for_some(
    tmp_path: Path, model: Upstream, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_log, "MOST_WAITING", 1)
    with small(tmp_path, model) as gateway, ThreadPoolExecutor(1) as pool:
        served = gateway.app.state.gateway
        # Longer than may be configured: a busy machine needs more than a second for what is looked at here.
        served.settings = served.settings.model_copy(update={"recall_seconds": 30.0})
        ask(gateway, "ana", "The first")
        assert gate.reached.wait(10)
        asked_before = len(model.exchanges)
        second: Future[None] = pool.submit(ask, gateway, "ana", "The second")
        words = served.remembering.turns._words
        while not words._looking and not second.done():
            time.sleep(0.001)  # a loop that never sleeps keeps the server's thread from its turn
        assert len(model.exchanges) == asked_before, "it waits before the model is asked"
        gate.is_open.set()
        second.result(60)
        assert users_words(gateway, "ana") == ["The first", "The second"]


@pytest.mark.parametrize("failing", [LedgerError, LedgerLockedError])
def test_what_the_ledger_refuses_is_told_and_those_behind_are_kept(
    tmp_path: Path, model: Upstream, gate: Gate, monkeypatch: pytest.MonkeyPatch, failing: type[LedgerError]
) -> None:
    monkeypatch.setattr(turn_log, "LONGEST_LOCK", 0.3)
    gate.failing = failing
    gate.is_open.set()
    with small(tmp_path, model) as gateway:
        ask(gateway, "ana", "Lost")
        Talk(gateway, "ana").settled()
        assert metric(gateway, 'llm_memory_turns_unkept_total{why="failed"}') == 1
        gate.failing = None
        ask(gateway, "ana", "Kept")
        assert users_words(gateway, "ana") == ["Kept"]


def test_what_another_process_keeps_waiting_is_written_when_that_ends(tmp_path: Path, model: Upstream) -> None:
    ledger = {"provider": "sqlite", "config": {"busy_timeout": 0.05}}
    with gateway_to(tmp_path / "memory", model.url, history=ledger) as gateway:
        ask(gateway, "ana", "The first")
        Talk(gateway, "ana").settled()
        with closing(sqlite3.connect(tmp_path / "memory" / "history.db", isolation_level=None, timeout=30)) as other:
            other.execute("BEGIN IMMEDIATE")
            ask(gateway, "ana", "The second")
            ask(gateway, "ana", "The third", stream=True)
            time.sleep(0.5)  # several times as long as a write waits
            assert metric(gateway, "llm_memory_turns_waiting") > 0
            other.execute("ROLLBACK")
        assert users_words(gateway, "ana") == ["The first", "The second", "The third"]
        assert metric(gateway, 'llm_memory_turns_unkept_total{why="failed"}') == 0


@pytest.mark.covers("K37")
def test_an_answer_that_cannot_be_kept_does_not_cost_the_words_beside_it(
    tmp_path: Path, model: Upstream, gate: Gate
) -> None:
    gate.refused = "assistant"
    with small(tmp_path, model) as gateway:
        ask(gateway, "ana", "The first")
        assert gate.reached.wait(10)
        for turn in range(4):
            ask(gateway, "ana", f"Note {turn} of mine.", stream=True)
        gate.is_open.set()
        assert Talk(gateway, "ana").said() == [("user", f"Note {turn} of mine.") for turn in range(4)]
        # "The first" came whole, with an answer that could not be kept.
        assert metric(gateway, 'llm_memory_turns_unkept_total{why="failed"}') == 5


def test_a_server_that_ends_keeps_first_what_waits(tmp_path: Path, model: Upstream, gate: Gate) -> None:
    said = [f"Note {turn} of mine." for turn in range(40)]
    with small(tmp_path, model) as gateway:
        for turn, text in enumerate(said):
            ask(gateway, "ana", text, stream=turn % 2 == 1)
        assert gate.batches == [] and gateway.app.state.gateway.under_way >= len(said)
        threading.Timer(0.2, gate.is_open.set).start()  # the server is ending by then, or opens it itself
    with small(tmp_path, model) as again:
        assert users_words(again, "ana") == said
        # What had not been read then is read now.
        assert Talk(again, "ana").until_read("session of ana", len(said))["turns"] == len(said)
