"""Sentences that no fact says are kept as notes: found by searches, in nobody's way, and erased with their message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import MemoryItem
from tests.frontends.cli.runs import folder

ANA: dict[str, Any] = {"user_id": "ana"}
GERMAN = "Ich habe gestern den Vertrag bei der Stadtbibliothek unterschrieben."


def config(folder: Path, **more: Any) -> dict[str, Any]:
    return {"path": str(folder), "embedder": {"provider": "hashed"}, **more}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(config(tmp_path)) as memory:
        yield memory


def notes(memory: Memory, **scope: Any) -> list[MemoryItem]:
    return list(memory.get_all(**{**ANA, **scope}, kind="notes").results)


def test_a_sentence_that_no_fact_says_is_found_as_it_was_said(memory: Memory) -> None:
    told = memory.add([{"role": "user", "content": GERMAN, "timestamp": "2026-03-02T10:00:00Z"}], **ANA)
    assert told.results == [] == memory.get_all(**ANA).results
    assert told.notes == 1 == told.model_dump()["notes"]
    (note,) = notes(memory)
    assert (note.memory, note.kind, note.told_at) == (GERMAN, "notes", "2026-03-02T10:00:00.000000+00:00")
    assert note.derived_from == note.sources != ()
    (hit,) = memory.search("Vertrag Stadtbibliothek", **ANA).results
    assert (hit.id, hit.kind) == (note.id, "notes")
    assert GERMAN in memory.context("Vertrag Stadtbibliothek", **ANA)
    assert memory.search("Vertrag Stadtbibliothek", **ANA, filters={"kind": "facts"}).results == []


def test_the_same_sentence_is_noted_once(memory: Memory) -> None:
    for _ in range(3):
        memory.add(GERMAN, **ANA)
    assert len(notes(memory)) == 1
    assert notes(memory, user_id="ben") == []


def test_what_a_fact_says_is_no_note(memory: Memory) -> None:
    memory.add("I live in Lisbon.", **ANA)
    assert [item.memory for item in memory.get_all(**ANA).results] == ["User lives in Lisbon"]
    assert notes(memory) == []


def test_a_note_neither_retires_nor_is_retired(memory: Memory) -> None:
    memory.add_facts(["User lives in Berlin"], **ANA)
    memory.add("Ich wohne jetzt nicht mehr am Stadtrand von Berlin, sondern bei der Werft.", **ANA)
    assert [item.memory for item in memory.get_all(**ANA).results] == ["User lives in Berlin"]
    assert len(notes(memory)) == 1
    memory.add_facts(["User lives in Hamburg now"], **ANA)
    assert len(notes(memory)) == 1
    assert "User lives in Hamburg now" in [item.memory for item in memory.get_all(**ANA).results]


def test_erasing_the_message_erases_its_notes(memory: Memory) -> None:
    memory.add(GERMAN, **ANA)
    (note,) = notes(memory)
    memory.forget(id=note.id)
    assert notes(memory) == []
    memory.add(GERMAN, **ANA)
    memory.forget(**ANA, query=GERMAN)
    assert notes(memory) == []
    memory.add(GERMAN, **ANA)
    memory.forget(**ANA)
    assert notes(memory) == []


@pytest.mark.parametrize("episodes", ["keep", "search", "off"])
def test_one_setting_turns_notes_off(tmp_path: Path, episodes: str) -> None:
    with Memory(config(tmp_path, episodes=episodes)) as memory:
        memory.add(GERMAN, **ANA)
        assert notes(memory) == []


def test_a_kind_that_there_is_not_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidInputError, match="kind must be facts or notes"):
        memory.get_all(**ANA, kind="letters")


def test_notes_are_there_after_the_memory_was_closed(tmp_path: Path) -> None:
    with Memory(config(tmp_path)) as memory:
        memory.add(GERMAN, **ANA)
    with Memory(config(tmp_path)) as memory:
        assert [item.memory for item in notes(memory)] == [GERMAN]
        assert [item.kind for item in memory.search("Vertrag", **ANA).results] == ["notes"]


def test_a_person_who_asks_to_forget_has_the_notes_forgotten_too(memory: Memory) -> None:
    memory.add("My landlord is Mr Hale. Er will dass ich bis Oktober aus der Wohnung ausziehe.", **ANA)
    assert [item.memory for item in memory.get_all(**ANA).results] == ["User's landlord is Mr Hale"]
    assert len(notes(memory)) == 1
    memory.add("Please forget who my landlord is.", **ANA)
    assert memory.get_all(**ANA).results == []
    assert notes(memory) == []


@pytest.mark.parametrize("before", ["The dog is ill.", "I play the cello."])
def test_what_is_told_beside_a_request_is_found_though_its_message_is_hidden(memory: Memory, before: str) -> None:
    """Whether the request finds something to delete or not."""
    memory.add(before, **ANA)
    memory.add("Strike what I told you about the dog being ill: the vet called and she only ate a sock", **ANA)
    found = [item.memory for item in memory.search("Who ate a sock?", **ANA).results]
    assert "the vet called and she only ate a sock" in found
    assert not any("Strike" in text for text in found)


def test_a_repeated_call_says_again_what_was_noted(memory: Memory) -> None:
    first, again = (memory.add(GERMAN, **ANA, idempotency_key="one") for _ in range(2))
    assert (first.notes, again.notes) == (1, 1)
    assert memory.add(GERMAN, **ANA).notes == 0
    assert len(notes(memory)) == 1


def test_the_program_tells_of_notes(tmp_path: Path) -> None:
    at = folder(tmp_path / "memory")
    told = at("add", "--user-id", "ana", GERMAN)
    assert "perdure list --kind notes" in told.err
    assert "nothing" not in told.err
    listed = at("list", "--user-id", "ana", "--kind", "notes", "--json")
    assert [item["memory"] for item in listed.json["results"]] == [GERMAN]
    assert at("list", "--user-id", "ana", "--kind", "letters").status == 2
