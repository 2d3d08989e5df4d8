"""Time: `as_of`, versions, validity, expiry, late messages, undo and rollback."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from perdure import ConflictError, Memory, NotFoundError, PerdureError
from tests.conftest import Open

ANA = {"user_id": "ana"}


def texts(memory: Memory, **options: object) -> list[str]:
    return [item.memory for item in memory.get_all(**ANA, **options).results]  # type: ignore[arg-type]


def told(memory: Memory, text: str, when: str) -> list[str]:
    result = memory.add([{"role": "user", "content": text, "timestamp": when}], **ANA)
    return [event.event for event in result.results]


@pytest.fixture
def moved(memory: Memory) -> Memory:
    """Lives in Oslo since January, in Bergen since March."""
    assert told(memory, "I live in Oslo", "2026-01-10") == ["ADD"]
    assert told(memory, "I moved to Bergen", "2026-03-10T08:00:00Z") == ["UPDATE"]
    return memory


def test_as_of_reads_what_had_been_told(moved: Memory) -> None:
    assert texts(moved, as_of="2025-12-31") == []
    assert "Oslo" in texts(moved, as_of="2026-02-01")[0]
    assert "Bergen" in texts(moved, as_of="2026-03-11")[0]
    assert "Bergen" in texts(moved)[0]
    for moment, place in (("2026-02-01", "Oslo"), ("2026-03-11", "Bergen")):
        found = moved.search("where does the user live?", as_of=moment, **ANA).results
        assert [place in item.memory for item in found] == [True]
        assert moved.get(found[0].id) is not None, "an earlier text answers under the id of its memory"


def test_valid_from_is_when_it_became_true(moved: Memory) -> None:
    item = moved.get_all(**ANA).results[0]
    assert (item.valid_from or "").startswith("2026-03-10")
    assert item.created_at > "2026-03", "created_at is always the clock"


def test_a_late_message_does_not_overwrite_a_newer_fact(moved: Memory) -> None:
    assert told(moved, "I live in Hamar", "2025-11-01") == ["ADD"]
    assert len(texts(moved)) == 1 and "Bergen" in texts(moved)[0]
    past = texts(moved, include_past=True)
    assert any("Hamar" in text for text in past)
    assert any("Hamar" in text for text in texts(moved, as_of="2025-12-01"))


def test_expired_memories_are_left_out(quick: Memory) -> None:
    gone = datetime.now(UTC) - timedelta(seconds=1)
    quick.add("User has a meeting", infer=False, expires_at=gone, **ANA)
    quick.add("User has a dog", infer=False, expires_at=datetime.now(UTC) + timedelta(days=1), **ANA)
    assert texts(quick) == ["User has a dog"]
    assert len(texts(quick, include_past=True)) == 2
    assert [item.memory for item in quick.search("meeting", **ANA).results] == ["User has a dog"]


def test_deleted_memories_are_seen_as_of_before(quick: Memory) -> None:
    id = quick.add("User has a dog", infer=False, timestamp="2026-01-01", **ANA).results[0].id
    quick.delete(id)
    assert texts(quick) == []
    assert texts(quick, as_of="2026-01-02") == ["User has a dog"]


@pytest.mark.covers("V18", "V19", "V20", "V21")
def test_history_of_a_query(memory: Memory) -> None:
    """A query that cannot stand alone borrows the words of what was said before it."""
    memory.add_facts(["User's budget for the Amalfi trip is 3,000", "User's sofa cost 900"], **ANA)
    history = [
        {"role": "user", "content": "planning the Amalfi trip"},
        {"role": "assistant", "content": "The sofa looks nice, by the way."},
    ]
    assert "Amalfi" in memory.search("how much?", history=history, **ANA).results[0].memory
    explained = memory.search("how much?", history=history, explain=True, **ANA).results[0].explanation
    assert explained is not None and "Amalfi" in explained["query"] and "sofa" not in explained["query"]


# ------------------------------------------------------------------ undo


def test_undo_update(quick: Memory) -> None:
    id = quick.add("User has a dog", infer=False, **ANA).results[0].id
    quick.update(id, "User has two dogs")
    update = quick.history(id)[-1]
    result = quick.undo(update.id)
    assert [event.event for event in result.results] == ["UPDATE"]
    assert texts(quick) == ["User has a dog"]
    records = quick.history(id)
    assert [record.event for record in records] == ["ADD", "UPDATE", "UPDATE"]
    assert records[-1].undoes == update.id


def test_undo_delete_and_add(quick: Memory) -> None:
    id = quick.add("User has a dog", infer=False, **ANA).results[0].id
    quick.delete(id)
    quick.undo(quick.history(id)[-1].id)
    item = quick.get(id)
    assert item is not None and item.memory == "User has a dog"
    first = quick.history(id)[0]
    quick.undo(first.id)
    assert quick.get(id) is None
    assert [record.event for record in quick.history(id)] == ["ADD", "DELETE", "ADD", "DELETE"]


def test_undo_of_an_event_with_a_later_one_is_a_conflict(quick: Memory) -> None:
    id = quick.add("one", infer=False, **ANA).results[0].id
    quick.update(id, "two")
    quick.update(id, "three")
    _, second, third = quick.history(id)
    with pytest.raises(ConflictError, match=third.id):
        quick.undo(second.id)
    quick.undo(third.id)
    quick.undo(second.id)
    assert texts(quick) == ["one"]


def test_undo_of_the_unknown_and_of_the_erased(quick: Memory) -> None:
    with pytest.raises(NotFoundError):
        quick.undo("no such event")
    id = quick.add("User has a dog", infer=False, **ANA).results[0].id
    event = quick.history(id)[0].id
    quick.forget(id=id)
    with pytest.raises(PerdureError, match="erased"):
        quick.undo(event)


def test_undo_of_a_spoken_forget_shows_memory_and_messages_again(memory: Memory) -> None:
    memory.add("The staging password is glacier-42", **ANA)
    result = memory.add("please forget the staging password", **ANA)
    assert [event.event for event in result.results] == ["DELETE"]
    assert texts(memory) == []
    memory.undo(result.results[0].event_id or "")
    assert "glacier-42" in texts(memory)[0]


# ------------------------------------------------------------------ rollback


def test_rollback_by_the_clock(quick: Memory) -> None:
    keep = quick.add("User has a dog", infer=False, **ANA).results[0].id
    change = quick.add("User has a cat", infer=False, **ANA).results[0].id
    moment = datetime.now(UTC)
    quick.update(change, "User has two cats")
    quick.update(change, "User has three cats")
    quick.delete(keep)
    quick.add("User has a parrot", infer=False, timestamp="2020-01-01", **ANA)
    other = quick.add("Bo has a fish", infer=False, user_id="bo").results[0].id
    quick.rollback(to=moment, **ANA)
    assert sorted(texts(quick)) == ["User has a cat", "User has a dog"]
    assert quick.get(other) is not None
    assert quick.rollback(to=moment, **ANA).results == [], "what stands already is not changed again"


def test_rollback_needs_a_moment(quick: Memory) -> None:
    with pytest.raises(PerdureError, match="to must be"):
        quick.rollback(to="last week", **ANA)


def test_updates_supersede(open_memory: Open) -> None:
    """A new id for the new text, the old one replaced by it, one history for both."""
    memory = open_memory(updates="supersede")
    old = memory.add("User lives in Oslo", **ANA).results[0].id
    result = memory.add("User moved to Bergen", **ANA).results[0]
    assert result.event == "UPDATE" and result.id != old
    assert memory.get(old) is None and memory.get(result.id) is not None
    assert [record.event for record in memory.history(old)] == ["ADD", "UPDATE"]
    assert memory.history(old) == memory.history(result.id)
    memory.undo(result.event_id or "")
    assert [item.memory for item in memory.get_all(**ANA).results] == ["User lives in Oslo"]
