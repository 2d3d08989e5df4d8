"""Forgetting, attacked: lines, walls, deleted texts, shared and searched messages, counts, and every byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import ErasureReport, Memory
from perdure.domain.fact import Fact
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.engine import Engine
from perdure.engine.maintenance.doctor import examine
from perdure.engine.requests import Addition, Query
from perdure.engine.write.change_set import FactContext
from tests.conftest import Open
from tests.engine.transfer.transfers import run

pytestmark = pytest.mark.covers("U4")

ANA = {"user_id": "ana"}
ANA_SCOPE = Scope(user_id="ana")
HASHED = {"provider": "hashed"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def holding(folder: Path, needle: bytes) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and needle in path.read_bytes()]


def counts(report: ErasureReport) -> dict[str, int]:
    return {place.place: place.count for place in report.places}


def texts(memory: Memory, **scope: Any) -> list[str]:
    return [item.memory for item in memory.get_all(**(scope or ANA)).results]


def said(memory: Memory, text: str, **options: Any) -> str:
    return memory.add(text, infer=False, **{**ANA, **options}).results[0].id


# ------------------------------------------------------------------ lines of memories


@pytest.mark.parametrize("which", [0, 1, 2])
def test_any_id_of_a_line_takes_the_whole_line(open_memory: Open, folder: Path, which: int) -> None:
    """With updates="supersede" the line is the memory: a middle id names it as well as the last one."""
    memory = open_memory(embedder=HASHED, updates="supersede")
    ids = [
        memory.add_facts([f"User lives in {place}"], **ANA).results[0].id for place in ("Oslo", "Bergen", "Xylograd")
    ]
    assert len(set(ids)) == 3 and texts(memory) == ["User lives in Xylograd"]
    dry = memory.forget(id=ids[which], dry_run=True)
    report = memory.forget(id=ids[which])
    assert counts(report) == counts(dry)
    assert counts(report)["store"] == 1 and counts(report)["versions"] == 2
    assert texts(memory) == [] and memory.get_all(as_of="2999-01-01", **ANA).results == []
    assert all(record.erased for id in ids for record in memory.history(id))
    memory.close()
    for place in (b"Oslo", b"Bergen", b"Xylograd"):
        assert holding(folder, place) == []


def test_a_line_that_began_before_updates_superseded(open_memory: Open, folder: Path) -> None:
    first = open_memory(embedder=HASHED)
    old = first.add_facts(["User lives in Oslo"], **ANA).results[0].id
    first.close()
    memory = open_memory(embedder=HASHED, updates="supersede")
    new = memory.add_facts(["User moved to Bergen"], **ANA).results[0]
    assert new.event == "UPDATE" and new.id != old
    assert [record.event for record in memory.history(new.id)] == ["ADD", "UPDATE"]
    memory.forget(id=old)
    assert texts(memory) == []
    memory.close()
    assert holding(folder, b"Oslo") == holding(folder, b"Bergen") == []


# ------------------------------------------------------------------ walls


def test_an_id_with_another_scope_names_nothing(quick: Memory) -> None:
    """A scope beside the id is a wall, not a hint."""
    id = said(quick, "secret of Ana")
    for wall in ({"user_id": "bo"}, {"user_id": "ana", "agent_id": "x"}):
        report = quick.forget(id=id, **wall)  # type: ignore[arg-type]
        assert report.results == [] and set(counts(report).values()) == {0}
    assert texts(quick) == ["secret of Ana"] and not quick.history(id)[0].erased
    assert [item.id for item in quick.forget(id=id, **ANA).results] == [id]


def test_a_scope_leaves_scopes_that_share_the_user(quick: Memory, folder: Path) -> None:
    said(quick, "Xylophones of the coach", agent_id="coach")
    said(quick, "lutes of the cook", agent_id="cook")
    said(quick, "harps of Ana alone")
    quick.forget(agent_id="coach", **ANA)
    assert texts(quick) == ["lutes of the cook", "harps of Ana alone"]
    quick.close()
    assert holding(folder, b"Xylophones") == []
    assert holding(folder, b"lutes") and holding(folder, b"harps")


def test_a_message_shared_over_scopes_leaves_no_dangling_source(open_memory: Open) -> None:
    """A message of the user updates a memory that an agent keeps of her, and makes one of her own."""
    memory = open_memory(embedder=HASHED)
    narrow = memory.add("I live in Oslo", agent_id="coach", **ANA).results[0].id
    events = memory.add("I moved to Bergen. My dog is called Rex.", **ANA).results
    assert narrow in {event.id for event in events}
    dog = next(item for item in memory.get_all(**ANA).results if "Rex" in item.memory)
    assert dog.sources
    memory.forget(id=narrow)
    left = memory.get(dog.id)
    assert left is not None and left.memory == dog.memory and left.sources == ()


# ------------------------------------------------------------------ what is no longer there


def test_a_query_finds_what_was_deleted(quick: Memory, folder: Path) -> None:
    """Its text still stands in history and `as_of`: whoever asks to forget it means that too."""
    gone = said(quick, "the password is Xylophone")
    said(quick, "the weather is fine today")
    quick.delete(gone)
    report = quick.forget(query="the password is Xylophone", threshold=0.9, **ANA)
    assert counts(report)["versions"] == 1 and counts(report)["history"] == 2
    assert texts(quick) == ["the weather is fine today"]
    quick.close()
    assert holding(folder, b"Xylophone") == []


def test_a_query_that_finds_an_earlier_text_leaves_the_memory_that_stands(quick: Memory) -> None:
    id = said(quick, "User lives in Oslo")
    quick.update(id, "User lives in Bergen and works there")
    assert quick.forget(query="User lives in Oslo", threshold=0.95, **ANA).results == []
    assert texts(quick) == ["User lives in Bergen and works there"]


def test_a_query_takes_all_that_score_however_many(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = open_memory(embedder=HASHED, vector_store={"provider": "memory"})
    memory.add([{"role": "user", "content": "the same words"} for _ in range(1003)], infer=False, **ANA)
    report = memory.forget(query="the same words", **ANA)
    assert len(report.results) == 1003 and texts(memory) == []


def test_the_message_that_asked_to_forget_goes_too(memory: Memory, folder: Path) -> None:
    id = memory.add("The staging password is glacier-42", **ANA).results[0].id
    assert [event.event for event in memory.add("forget that the staging password is glacier-42", **ANA).results] == [
        "DELETE"
    ]
    memory.forget(id=id)
    memory.close()
    assert holding(folder, b"glacier") == []


# ------------------------------------------------------------------ bytes


@pytest.mark.parametrize("store", ["sqlite", "memory"])
@pytest.mark.parametrize("by", ["id", "scope", "query"])
def test_texts_vectors_answers_and_keys_leave_no_byte(open_memory: Open, folder: Path, by: str, store: str) -> None:
    memory = open_memory(embedder=HASHED, vector_store={"provider": store})
    text, changed = "Xylophone concert on Friday evening", "Xylophone concert on Sunday morning"
    vectors = [memory.embedder.embed(each).astype("<f4").tobytes() for each in (text, changed)]
    id = said(memory, text, idempotency_key="call-1")
    memory.update(id, changed)
    said(memory, "something else")
    assert holding(folder, text.encode()) and holding(folder, b"call-1"), "else nothing is proved"
    if store == "sqlite":
        assert all(holding(folder, vector) for vector in vectors)
    arguments: dict[str, Any] = {"id": {"id": id}, "scope": ANA, "query": {"query": changed, **ANA}}[by]
    memory.forget(**arguments)
    for needle in (b"Xylophone", b"xylophone", b"call-1", *vectors):
        assert holding(folder, needle) == []
    memory.close()
    for needle in (b"Xylophone", b"xylophone", b"call-1", *vectors):
        assert holding(folder, needle) == []


# ------------------------------------------------------------------ counts


@pytest.mark.parametrize("episodes", ["keep", "search", "off"])
@pytest.mark.parametrize("by", ["id", "scope", "query"])
@pytest.mark.parametrize("erase", [True, False])
def test_a_dry_run_counts_what_a_real_run_reports(open_memory: Open, episodes: str, by: str, erase: bool) -> None:
    memory = open_memory(embedder=HASHED, episodes=episodes)
    id = memory.add("I live in Oslo. My dog is called Rex.", idempotency_key="k", **ANA).results[0].id
    memory.add("I moved to Bergen", **ANA)
    said(memory, "as it was said")
    said(memory, "of Bo", user_id="bo")
    memory.delete(said(memory, "deleted long ago"))
    text = memory.get(id)
    assert text is not None
    arguments: dict[str, Any] = {"id": {"id": id}, "scope": ANA, "query": {"query": text.memory, **ANA}}[by]
    dry = memory.forget(dry_run=True, erase=erase, **arguments)
    before = [item.model_dump() for item in memory.get_all(**ANA).results]
    real = memory.forget(erase=erase, **arguments)
    assert counts(dry) == counts(real) and counts(dry)["store"] >= 1
    assert [item.id for item in dry.results] == [item.id for item in real.results]
    assert len(before) > len(texts(memory)), "the dry run changed nothing, the real one did"
    assert texts(memory, user_id="bo") == ["of Bo"]
    if erase:
        again = counts(memory.forget(dry_run=True, **arguments))
        assert all(count == 0 for count in again.values()), again


# ------------------------------------------------------------------ messages that are searched


def messages(memory: Memory) -> list[str]:
    found = memory.search("password", limit=1000, **ANA).results
    return [item.memory for item in found if item.kind == "messages"]


def findings(memory: Memory) -> list[str]:
    from perdure.frontends.library.portal import PORTAL

    return [finding.sentence for finding in PORTAL.call(examine(memory._memory._engine)).findings]


def test_a_spoken_forget_hides_searched_messages_and_undo_shows_them(open_memory: Open, loaded_model: object) -> None:
    memory = open_memory(episodes="search")
    memory.add("The staging password is glacier-42", **ANA)
    assert any("glacier" in text for text in messages(memory))
    event = memory.add("forget that the staging password is glacier-42", **ANA).results[0]
    assert event.event == "DELETE"
    assert not any("glacier" in text for text in messages(memory)), "hidden messages are not found"
    assert findings(memory) == []
    memory.undo(event.event_id or "")
    assert any("glacier" in text for text in messages(memory))
    assert findings(memory) == []
    memory.undo(memory.history(event.id)[-1].id)
    assert not any("glacier" in text for text in messages(memory)), "undoing the undo hides them again"


def test_rollback_shows_what_was_hidden_since_and_nothing_else(memory: Memory) -> None:
    """Two facts of one message: one was forgotten before the moment, the other deleted after it."""
    from perdure.frontends.library.portal import PORTAL

    memory.add("The staging password is glacier-42. My dog is called Rex.", **ANA)
    ledger = memory._memory._engine.kernel.ledger
    assert ledger is not None
    dog = next(item for item in memory.get_all(**ANA).results if "Rex" in item.memory)
    memory.add("forget that the staging password is glacier-42", **ANA)
    moment = memory.update(dog.id, dog.memory).updated_at
    memory.delete(dog.id)
    memory.rollback(to=moment, **ANA)
    assert texts(memory) == [dog.memory]
    (episode,) = PORTAL.call(ledger.get_episodes(list(dog.sources)))
    assert episode.hidden, "the message of the forgotten password stays hidden"
    memory.rollback(to="2020-01-01", **ANA)
    assert texts(memory) == []


def test_a_message_stays_hidden_until_all_that_was_deleted_of_it_is_back(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, episodes="words")
    memory.add("My locker code is 4471. My dog is called Rex.", **ANA)
    code, dog = (next(item for item in memory.get_all(**ANA).results if word in item.memory) for word in ("44", "Rex"))
    for item in (code, dog):
        memory.delete(item.id)

    def undone(id: str) -> int:
        """How many messages a search finds once the deletion is taken back."""
        memory.undo(memory.history(id)[-1].id)
        return len(memory.search("locker", filters={"kind": "messages"}, **ANA).results)

    assert undone(code.id) == 0, "the message tells of the dog, which is still deleted"
    assert undone(dog.id) == 1


AGAIN = [
    {"role": "user", "content": "My locker code is 4417."},
    {"role": "assistant", "content": "Noted: your locker code is 4417."},
    {"role": "user", "content": "Right, as I said, the code of my locker is 4417, and now for the weather."},
    {"role": "assistant", "content": "Since 4417 opens it, go ahead."},
    {"role": "assistant", "content": "Your gym card is on the shelf."},
]


@pytest.mark.parametrize("how", ["delete", "forget", "said"])
def test_what_was_told_again_goes_with_it(open_memory: Open, folder: Path, how: str) -> None:
    memory = open_memory(embedder=HASHED)
    for message in AGAIN:
        memory.add([message], **ANA)
    ids = [item.id for kind in ("facts", "notes") for item in memory.get_all(kind=kind, **ANA).results]
    match how:
        case "delete":
            for id in ids:
                memory.delete(id)
        case "forget":
            for id in ids:
                memory.forget(id=id)
        case "said":
            memory.add("Please forget my locker code.", **ANA)
    assert [item.memory for item in memory.search("locker code 4417", **ANA).results] == [AGAIN[-1]["content"]]
    memory.close()
    assert bool(holding(folder, b"4417")) is (how != "forget")


def test_undo_shows_what_was_told_again(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED)
    memory.add(AGAIN[:2], **ANA)
    (fact,) = memory.get_all(**ANA).results
    memory.delete(fact.id)
    assert memory.search("locker code", **ANA).results == []
    memory.undo(memory.history(fact.id)[-1].id)
    assert AGAIN[1]["content"] in [item.memory for item in memory.search("locker code", **ANA).results]


@pytest.mark.parametrize("text", ["Please delete everything you know about me.", "Forget everything I told you."])
def test_a_sentence_forgets_everything_of_nobody_and_says_so(memory: Memory, text: str) -> None:
    memory.add("I live in Oslo. My sister Anna works in Bergen.", **ANA)
    before = [item.memory for item in memory.get_all(**ANA).results]
    asked = memory.add(text, **ANA)
    assert [event.event for event in asked.results] == ["NONE"]
    assert [warning for warning in asked.warnings if "forget(user_id=...)" in warning]
    given = memory.add_facts(["User asked to forget everything about the user"], **ANA)
    assert [event.event for event in given.results] == ["NONE"] and given.warnings == asked.warnings
    assert [item.memory for item in memory.get_all(**ANA).results] == before != []


def test_a_request_to_forget_is_not_found_itself(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED)
    memory.add("I live in Oslo.", **ANA)
    memory.add("Please forget that my locker code is 4471.", **ANA)
    assert [item.memory for item in memory.search("locker code 4471", **ANA).results] == ["User lives in Oslo"]
    assert "4471" not in memory.context("locker code", **ANA)


def test_a_request_to_forget_that_a_gateway_reads_later_is_hidden_then(tmp_path: Path) -> None:
    asked = "Please forget that my locker code is 4471."

    async def lived(engine: Engine) -> list[str]:
        await engine.write.add(Addition(messages=[Message("assistant", asked)], scope=ANA_SCOPE))
        (episode,) = await engine.kernel.recent_episodes(ANA_SCOPE, 1, before="9999")
        fact = Fact(text="User asked to forget their locker code 4471", forget=True, sources=(0,), rule="given")
        context = FactContext(scope=ANA_SCOPE, metadata={}, actor="gateway")
        await engine.write.keep_facts([(fact, episode.told_at, (episode.id,))], context, read=[episode.id])
        found = await engine.read.search(Query(text="locker code 4471", scope=ANA_SCOPE))
        return [item.memory for item in found.results]

    assert run(tmp_path, lived, episodes="words") == []


def test_a_request_that_an_assistant_repeats_hides_nothing(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED)
    said = "You said: please forget that my locker code is 4471. It was never stored."
    memory.add([{"role": "assistant", "content": said}], **ANA)
    assert said in [item.memory for item in memory.search("locker code 4471", **ANA).results]


def test_what_was_stored_as_said_comes_back_as_one_row(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, episodes="words")
    id = memory.add("My locker is by the door", infer=False, **ANA).results[0].id
    memory.delete(id)
    memory.undo(memory.history(id)[-1].id)
    assert [item.id for item in memory.search("locker", **ANA).results] == [id]


def test_forgetting_by_id_takes_searched_messages(open_memory: Open, folder: Path) -> None:
    memory = open_memory(embedder=HASHED, episodes="search")
    id = memory.add("My password is Xylophone", **ANA).results[0].id
    memory.forget(id=id)
    assert messages(memory) == [] and findings(memory) == []
    memory.close()
    assert holding(folder, b"Xylophone") == []
