"""Why a memory did not come: every reason with its numbers, the walls, and the agreement with search."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.backends.vector_stores.base import Point
from perdure.domain.errors import InvalidInputError, NotFoundError, ScopeError
from perdure.domain.event import Absence
from perdure.domain.memory import new_id
from perdure.frontends.library.portal import PORTAL
from tests.conftest import Open
from tests.engine.core.adversarial_memories import ANA, HASHED
from tests.engine.read.test_recall_index import kernel_of

PRESETS = ["best", "plain"]
NOBODY = "7b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10"
QUERY = "tea"


@pytest.fixture(params=PRESETS)
def preset(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def held(open_memory: Open, preset: str) -> Memory:
    """A memory whose configured preset is the one that is looked at."""
    return open_memory(embedder=HASHED, preset=preset)


def say(memory: Memory, text: str, **more: Any) -> str:
    (event,) = memory.add(text, infer=False, **{**ANA, **more}).results
    assert event.id is not None
    return event.id


def asked(memory: Memory, id: str, query: str = QUERY, **more: Any) -> Absence:
    """The reason, which must stand in a sentence that ends nowhere else, and agree with the search."""
    arguments = {**ANA, **more}
    told = memory.why_not(id, query, **arguments)
    came = id in [item.id for item in memory.search(query, **arguments).results]
    assert (told.reason == "returned") is came, (told, came)
    assert told.sentence and "\n" not in told.sentence
    assert told.model_dump() == {"reason": told.reason, "sentence": told.sentence, **told.numbers}
    return told


# ------------------------------------------------------------------ each reason


def test_returned(held: Memory) -> None:
    say(held, "a boat on the lake")
    told = asked(held, say(held, "green tea"))
    assert (told.reason, told.numbers["rank"], told.numbers["of"]) == ("returned", 1, 2)
    assert 0 < told.numbers["score"] <= 1
    assert told.numbers["explanation"]["preset"] == held.config.preset


def test_unknown(held: Memory) -> None:
    assert asked(held, NOBODY) == Absence("unknown", "there is no such memory in this scope")


def test_a_memory_of_another_scope_is_answered_like_one_that_never_was(held: Memory) -> None:
    never = held.why_not(NOBODY, QUERY, **ANA)
    live, gone, erased = (say(held, "green tea", user_id="bo") for _ in range(3))
    held.delete(gone)
    held.delete(erased, erase=True)
    elsewhere = say(held, "green tea", agent_id="helper")
    for id in (live, gone, erased):
        assert asked(held, id) == never
    assert held.why_not(elsewhere, QUERY, agent_id="other", **ANA) == never
    assert asked(held, elsewhere).reason == "returned", "the user's own, whichever agent heard it"


def test_deleted(held: Memory) -> None:
    id = say(held, "green tea")
    held.delete(id)
    told = asked(held, id)
    at = held.history(id)[-1].timestamp
    assert (told.reason, told.numbers) == ("deleted", {"deleted_at": at})
    assert at in told.sentence
    held.undo(held.history(id)[-1].id)
    assert asked(held, id).reason == "returned"


def test_erased(held: Memory) -> None:
    id = say(held, "green tea")
    held.forget(id=id)
    told = asked(held, id)
    assert (told.reason, told.numbers) == ("erased", {})
    assert "tea" not in told.sentence


def test_not_told_yet(held: Memory) -> None:
    id = say(held, "green tea", timestamp="2025-05-01")
    told = asked(held, id, as_of="2025-04-01")
    assert told.reason == "not_told_yet" and "2025-05-01" in told.sentence
    assert asked(held, id, as_of="2025-06-01").reason == "returned"


def test_past(held: Memory) -> None:
    id = say(held, "green tea", expires_at="2020-01-01")
    told = asked(held, id)
    assert told.reason == "past" and told.numbers["expires_at"].startswith("2020-01-01")
    assert "include_past" in told.sentence
    assert asked(held, id, include_past=True).reason == "returned"


def test_past_by_what_came_after(held: Memory) -> None:
    held.add("I live in Porto.", timestamp="2025-05-01", **ANA)
    (event,) = held.add("I live in Lisbon.", timestamp="2024-05-01", **ANA).results
    assert event.id is not None
    told = asked(held, event.id, "lives in Lisbon")
    assert (told.reason, set(told.numbers)) == ("past", {"valid_to"})


def test_type(held: Memory) -> None:
    id = say(held, "green tea", type="episodic")
    told = asked(held, id, types=["procedural", "semantic"])
    assert (told.reason, told.numbers) == ("type", {"type": "episodic"})
    assert "procedural, semantic" in told.sentence
    assert asked(held, id, types=["episodic"]).reason == "returned"


def test_filter(held: Memory) -> None:
    id = say(held, "green tea", metadata={"tag": "home"})
    assert asked(held, id, filters={"tag": "work"}).reason == "filter"
    assert asked(held, id, filters={"tag": "home"}).reason == "returned"


def test_kind(open_memory: Open, preset: str) -> None:
    """Messages that were made searchable once and are so no longer."""
    with open_memory(embedder=HASHED, preset=preset, episodes="search") as before:
        before.add([{"role": "assistant", "content": "green tea is drunk at noon"}], **ANA)
        (id,) = (item.id for item in before.search(QUERY, **ANA).results if item.kind == "messages")
        assert asked(before, id).reason == "returned"
    told = asked(open_memory(embedder=HASHED, preset=preset, episodes="notes"), id)
    assert told.reason == "kind" and 'episodes="words"' in told.sentence


def test_not_matched(held: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vectors only words lead to a memory, its own and those of the turns beside it."""
    id = say(held, "a boat on the lake", timestamp="2025-05-01")
    say(held, "green tea", timestamp="2025-06-01")
    embedding = kernel_of(held).embedding
    monkeypatch.setattr(embedding, "_found", False)
    monkeypatch.setattr(embedding.embedder, "unavailable", lambda: "weights are missing")
    told = asked(held, id)
    assert (told.reason, told.numbers) == ("not_matched", {"of": 1})
    assert told.sentence.endswith("1 others were found")


def test_threshold(held: Memory) -> None:
    say(held, "tea")
    id = say(held, "tea in the harbour of Oslo with a friend of the family")
    told = asked(held, id, threshold=0.95)
    assert (told.reason, told.numbers["threshold"]) == ("threshold", 0.95)
    assert told.numbers["score"] < 0.95 and f"{told.numbers['score']:.3f}" in told.sentence
    assert asked(held, id, threshold=0.0).reason == "returned"


def test_limit(held: Memory) -> None:
    ids = [say(held, f"tea {'and more ' * number}") for number in range(6)]
    reasons = {id: asked(held, id, limit=2) for id in ids}
    cut = [told for told in reasons.values() if told.reason == "limit"]
    assert len(cut) == 4 and sorted(told.numbers["rank"] for told in cut) == [3, 4, 5, 6]
    last = held.search(QUERY, limit=2, **ANA).results[-1].score
    assert all(told.numbers["last_score"] == pytest.approx(last) for told in cut)
    assert all(told.numbers["of"] == 6 for told in cut)


def test_the_first_step_is_the_one_that_is_named(held: Memory) -> None:
    id = say(held, "a boat", type="episodic", metadata={"n": 1}, timestamp="2025-05-01", expires_at="2025-06-01")
    everything: dict[str, Any] = {"types": ["semantic"], "filters": {"n": 2}, "threshold": 1.0, "as_of": "2025-04-01"}
    expected = ["not_told_yet", "past", "type", "filter", "threshold"]
    found = [asked(held, id, **everything).reason]
    for left_out in ("as_of", None, "types", "filters"):
        if left_out is None:
            everything["include_past"] = True
        else:
            del everything[left_out]
        found.append(asked(held, id, **everything).reason)
    assert found == expected


@pytest.mark.covers("U21")
def test_without_a_ledger_what_was_deleted_is_unknown(open_memory: Open, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked.db"
    blocked.mkdir()
    memory = open_memory(embedder=HASHED, history={"db_path": str(blocked)})
    id = say(memory, "green tea")
    assert asked(memory, id).reason == "returned"
    memory.delete(id)
    assert asked(memory, id).reason == "unknown"


# ------------------------------------------------------------------ agreement with search

TEXTS = [
    "green tea", "black tea in the harbour of Oslo with a friend", "tea", "User likes tea", "the harbour",
    "a friend from Oslo drinks", "cat", "User lives in Oslo",
]  # fmt: skip
QUERIES = ["tea", "tea with a friend", "harbour Oslo", "zebra", "where is the cat?", "green harbour friend"]


def disagreements(memory: Memory, ids: list[str], **more: Any) -> list[tuple[str, Absence]]:
    wrong: list[tuple[str, Absence]] = []
    for query in QUERIES:
        came = {item.id for item in memory.search(query, **more, **ANA).results}
        told = {id: memory.why_not(id, query, **more, **ANA) for id in ids}
        wrong += [(query, each) for id, each in told.items() if (each.reason == "returned") is not (id in came)]
    return wrong


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_it_agrees_with_search_at_every_limit(held: Memory, limit: int) -> None:
    ids = [say(held, text) for text in TEXTS]
    assert disagreements(held, ids, limit=limit) == []


@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_it_agrees_with_search_at_every_threshold(held: Memory, threshold: float) -> None:
    ids = [say(held, text) for text in TEXTS]
    assert disagreements(held, ids, threshold=threshold) == []


@pytest.mark.parametrize("limit", [1, 2])
def test_it_agrees_with_search_where_both_cut(open_memory: Open, limit: int) -> None:
    memory = open_memory(embedder=HASHED)
    ids = [say(memory, text) for text in TEXTS]
    assert not any(disagreements(memory, ids, limit=limit, threshold=share) for share in (0.5, 0.65, 0.8))


def test_a_score_is_the_same_at_every_limit(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED)
    for text in TEXTS:
        say(memory, text)
    scores = {memory.search("harbour Oslo", limit=limit, **ANA).results[0].score for limit in (1, 5, 100)}
    assert len(scores) == 1


def test_it_agrees_with_search_of_the_proxy(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED)
    ids = [say(memory, text) for text in TEXTS]
    assert not any(disagreements(memory, ids, preset="proxy", limit=limit) for limit in (1, 2, 5))


@pytest.mark.parametrize("preset", ["router", "proxy"])
def test_it_agrees_with_search_about_an_old_memory(open_memory: Open, preset: str) -> None:
    memory = open_memory(embedder=HASHED)
    id = say(memory, "tea", timestamp="2024-01-01")
    assert asked(memory, id, preset=preset, threshold=0.95).reason == "returned"


def test_it_agrees_with_search_about_linked_memories(held: Memory) -> None:
    old, new = say(held, "User's favourite tea is green"), say(held, "User's favourite tea is black")
    kernel = kernel_of(held)
    (row,) = PORTAL.call(kernel.store.get_many(kernel.collection, [new]))
    linked = Point(new, row.vector, {**row.payload, "older": [old]})
    PORTAL.call(kernel.store.apply(kernel.collection, [linked]))
    found = held.search("favourite tea", **ANA).results
    assert [item.id for item in found[:2]] == [new, old]
    assert asked(held, old, "favourite tea", limit=2).reason == "returned"


def test_it_agrees_with_search_about_an_earlier_text(held: Memory) -> None:
    held.add("I live in Porto.", timestamp="2025-05-01", **ANA)
    (event,) = held.add("I moved to Faro.", timestamp="2026-01-01", **ANA).results
    assert event.event == "UPDATE" and event.id is not None
    assert asked(held, event.id, "lives in Porto", as_of="2025-06-01").reason == "returned"


def test_it_agrees_with_search_about_what_was_deleted_later(held: Memory) -> None:
    id = say(held, "green tea", timestamp="2025-01-01")
    held.delete(id)
    assert asked(held, id, as_of="2025-06-01").reason == "returned"


def test_it_agrees_with_search_for_a_greeting(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED)
    id = say(memory, "hello")
    assert asked(memory, id, "hello", preset="router").reason == "not_matched"


def test_asking_changes_nothing(held: Memory) -> None:
    id = say(held, "green tea")
    found, before = held.search(QUERY, **ANA), held.get(id)
    held.why_not(id, QUERY, **ANA)
    assert held.get(id) == before, "it counts as no recall, which a search does"
    assert held.search(QUERY, **ANA) == found
    assert len(held.history(id)) == 1


# ------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"threshold": 1.5}, "threshold"),
        ({"preset": "bst"}, "preset"),
        ({"as_of": "soon"}, "as_of"),
        ({"include_past": "yes"}, "include_past"),
        ({"types": "semantic"}, "types"),
        ({"reference_time": "soon"}, "reference_time"),
        ({"time_window": (None, None)}, "time_window"),
        ({"filters": {"a": {"like": 1}}}, None),
        ({"query": 5}, "query"),
    ],
)
def test_wrong_arguments_are_refused_as_search_does(quick: Memory, arguments: Mapping[str, Any], field: str) -> None:
    more = {"query": QUERY, **ANA, **arguments}
    with pytest.raises(InvalidInputError) as by_search:
        quick.search(**more)
    with pytest.raises(InvalidInputError) as by_why_not:
        quick.why_not(new_id(), **more)
    assert str(by_why_not.value) == str(by_search.value)
    assert field is None or by_why_not.value.field == field


def test_without_a_scope_it_is_refused(quick: Memory) -> None:
    with pytest.raises(ScopeError, match="user_id"):
        quick.why_not(new_id(), QUERY)


def test_what_is_no_id_is_not_found(quick: Memory) -> None:
    with pytest.raises(NotFoundError):
        quick.why_not("no id", QUERY, **ANA)


def test_it_takes_every_argument_that_may_keep_a_memory_back() -> None:
    taken = set(inspect.signature(Memory.why_not).parameters)
    given = set(inspect.signature(Memory.search).parameters)
    assert given - taken == {"rerank", "explain", "hydrate", "order"}
