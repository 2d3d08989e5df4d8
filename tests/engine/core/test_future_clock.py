"""A date later than now locks nothing: what is told later wins, whatever a message or an earlier clock said."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.engine.maintenance.doctor import examine
from perdure.frontends.library.portal import PORTAL
from tests.conftest import Open
from tests.engine.team.teams import MovedClock
from tests.engine.transfer.transfers import load, run, say
from tests.frontends.server.running import running

ANA = {"user_id": "ana"}
FAR = "2031-01-01T00:00:00+00:00"
YEARS = timedelta(days=5 * 365)


def texts(memory: Memory, **options: Any) -> list[str]:
    return [item.memory for item in memory.get_all(**ANA, **options).results]


def by_message(memory: Memory, text: str, when: str) -> Any:
    return memory.add([{"role": "user", "content": text, "timestamp": when}], **ANA)


def by_call(memory: Memory, text: str, when: str) -> Any:
    return memory.add(text, timestamp=when, **ANA)


@pytest.mark.parametrize("updates", ["in_place", "supersede"])
@pytest.mark.parametrize("tell", [by_message, by_call])
def test_a_message_of_a_later_date_is_told_now_and_gives_way_to_later_news(
    open_memory: Open, tell: Callable[[Memory, str, str], Any], updates: str
) -> None:
    memory = open_memory(embedder={"provider": "hashed"}, updates=updates)
    result = tell(memory, "I live in Oslo", FAR)
    (warning,) = result.warnings
    assert "timestamp 2031-01-01T00:00:00.000000+00:00 is later than now" in warning
    (item,) = memory.get_all(**ANA).results
    assert item.told_at <= datetime.now(UTC).isoformat() and (item.valid_from or "").startswith("2031-01-01")
    assert texts(memory, as_of=datetime.now(UTC)) == ["User lives in Oslo"]

    corrected = memory.add("I moved to Bergen", **ANA)
    assert [event.event for event in corrected.results] == ["UPDATE"] and corrected.warnings == []
    assert texts(memory) == texts(memory, as_of=datetime.now(UTC)) == ["User moved to Bergen"]
    (item,) = memory.get_all(**ANA).results
    assert (item.valid_from or "") <= datetime.now(UTC).isoformat()
    again = memory.add("I moved to Hamar", **ANA)
    assert [event.event for event in again.results] == ["UPDATE"] and texts(memory) == ["User moved to Hamar"]


def test_a_date_a_moment_ahead_is_no_fault_and_locks_nothing_either(quick: Memory) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=10)).isoformat()
    assert by_message(quick, "I live in Oslo", soon).warnings == []
    assert [event.event for event in quick.add("I moved to Bergen", **ANA).results] == ["UPDATE"]
    assert texts(quick) == ["User moved to Bergen"]


def test_what_is_stored_as_said_keeps_its_date_and_is_told_now(quick: Memory) -> None:
    result = quick.add([{"role": "user", "content": "User lives in Oslo", "timestamp": FAR}], infer=False, **ANA)
    assert "messages[0].timestamp" in result.warnings[0]
    (item,) = quick.get_all(**ANA).results
    assert item.told_at <= datetime.now(UTC).isoformat() and (item.valid_from or "").startswith("2031")
    assert [event.event for event in quick.add("I moved to Bergen", **ANA).results] == ["UPDATE"]


def test_messages_of_later_dates_keep_their_order(quick: Memory) -> None:
    said = [
        {"role": "user", "content": "I live in Oslo", "timestamp": "2031-01-01"},
        {"role": "user", "content": "I moved to Bergen", "timestamp": "2031-02-01"},
    ]
    result = quick.add(said, **ANA)
    assert "messages[0].timestamp" in result.warnings[0] and "and so is 1 more" in result.warnings[0]
    assert texts(quick) == ["User moved to Bergen"]
    by_message(quick, "I moved to Hamar", "2030-01-01")
    assert texts(quick) == ["User moved to Hamar"], "it was told after them, whatever its date"


def test_a_late_message_is_late_still(quick: Memory) -> None:
    by_message(quick, "I live in Oslo", "2026-01-10")
    assert [event.event for event in by_message(quick, "I live in Hamar", "2025-11-01").results] == ["ADD"]
    assert texts(quick) == ["User lives in Oslo"]
    assert any("Hamar" in text for text in texts(quick, as_of="2025-12-01"))


# ------------------------------------------------------------------ a clock that was wrong
@pytest.mark.parametrize("updates", ["in_place", "supersede"])
@pytest.mark.parametrize("way", ["said", "as said", "facts"])
def test_what_was_written_under_a_future_clock_gives_way_to_later_news(
    open_memory: Open, way: str, updates: str
) -> None:
    def opened(ahead: timedelta) -> Memory:
        memory, clock = open_memory(embedder={"provider": "hashed"}, updates=updates), MovedClock()
        clock.ahead = ahead
        clock.of(memory)
        return memory

    with opened(YEARS) as memory:
        if way == "said":
            memory.add("I live in Oslo", **ANA)
        elif way == "facts":
            memory.add_facts(["User lives in Oslo"], **ANA)
        else:
            memory.add("User lives in Oslo", infer=False, **ANA)
    with opened(timedelta()) as memory:
        result = memory.add("I moved to Bergen", **ANA)
        assert [event.event for event in result.results] == ["UPDATE"]
        assert texts(memory) == texts(memory, as_of=datetime.now(UTC)) == ["User moved to Bergen"]
        (item,) = memory.get_all(**ANA).results
        assert item.told_at <= datetime.now(UTC).isoformat()
        assert PORTAL.call(examine(memory._memory._engine)).healthy
        assert [event.event for event in memory.add("I moved to Hamar", **ANA).results] == ["UPDATE"]
        late = by_message(memory, "I live in Vik", "2020-01-01")
        assert [event.event for event in late.results] == ["ADD"] and texts(memory) == ["User moved to Hamar"]
        forgotten = memory.add("Please forget that I moved to Hamar.", **ANA)
        assert [event.event for event in forgotten.results] == ["DELETE"] and texts(memory) == []


def test_an_old_message_does_not_replace_what_a_wrong_clock_dated(open_memory: Open) -> None:
    clock = MovedClock()
    clock.ahead = YEARS
    with open_memory(embedder={"provider": "hashed"}) as memory:
        clock.of(memory)
        memory.add("I live in Oslo", **ANA)
    memory = open_memory(embedder={"provider": "hashed"})
    by_message(memory, "I live in Hamar", "2020-01-01")
    assert texts(memory) == ["User lives in Oslo"]
    assert any("Hamar" in text for text in texts(memory, as_of="2021-01-01"))


def test_an_imported_fact_of_a_later_date_is_told_now_and_said_so(tmp_path: Path) -> None:
    fact = {"memory": "User lives in Oslo", "user_id": "ana", "timestamp": FAR}
    report = load(tmp_path, [json.dumps(fact)])
    assert report.warnings == ["1 fact is dated later than now: told now, and true from that date on"]
    assert load(tmp_path, [json.dumps(fact)]).skipped == 1
    (event,) = run(tmp_path, lambda engine: say(engine, "I moved to Bergen"))
    assert event.event == "UPDATE"


def test_an_imported_conversation_of_a_later_date_is_told_now_and_said_so(tmp_path: Path) -> None:
    line = {"messages": [{"role": "user", "content": "I live in Oslo"}], "user_id": "ana", "timestamp": FAR}
    (warning,) = load(tmp_path, [json.dumps(line)]).warnings
    assert warning.startswith("timestamp 2031-01-01")
    (event,) = run(tmp_path, lambda engine: say(engine, "I moved to Bergen"))
    assert event.event == "UPDATE"


# ------------------------------------------------------------------ the server
def test_a_server_warns_of_a_later_date_and_lets_later_news_win(tmp_path: Path) -> None:
    with running(tmp_path / "memory") as server:

        def add(text: str, **more: Any) -> Any:
            return server.client.post("/v1/memories", json={"messages": text, **ANA, **more}).json()

        first = add("I live in Oslo", timestamp=FAR)
        assert any("timestamp 2031-01-01" in warning for warning in first["warnings"])
        assert [event["event"] for event in add("I moved to Bergen")["results"]] == ["UPDATE"]
        found = server.client.get("/v1/memories", params=ANA).json()["results"]
        assert [each["memory"] for each in found] == ["User moved to Bergen"]
