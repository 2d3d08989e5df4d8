"""Spec 000 §15, case by case: T1 to T32, T36 to T38 and T42 (no graph yet; T33 to T35 come with the service)."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from perdure import Memory, PerdureError, ScopeError
from tests.conftest import Open

pytestmark = pytest.mark.covers(
    "T1",
    "T2",
    "T3",
    "T4",
    "T5",
    "T6",
    "T7",
    "T8",
    "T9",
    "T10",
    "T11",
    "T12",
    "T13",
    "T14",
    "T15",
    "T16",
    "T17",
    "T18",
    "T19",
    "T20",
    "T21",
    "T22",
    "T23",
    "T24",
    "T25",
    "T26",
    "T27",
    "T28",
    "T29",
    "T30",
    "T31",
    "T32",
    "T33",
    "T34",
    "T35",
    "T36",
    "T37",
    "T38",
    "T42",
)

ALICE = {"user_id": "alice"}


def texts(memory: Memory, **scope: str) -> list[str]:
    return [item.memory for item in memory.get_all(**scope).results]


def scripted(open_memory: Open, *answers: Any, **config: Any) -> Memory:
    return open_memory(llm={"provider": "scripted", "config": {"answers": list(answers)}}, **config)


def event_names(result: Any) -> list[str]:
    return [event.event for event in result.results]


# ------------------------------------------------------------------ memory CRUD


@pytest.mark.covers("T1")
def test_add_single_fact(memory: Memory) -> None:
    result = memory.add("My name is Bob", user_id="bob")
    assert event_names(result) == ["ADD"]
    assert result.results[0].memory == "User's name is Bob"
    assert result["results"][0]["new_memory"] == "User's name is Bob"


@pytest.mark.covers("T2")
def test_add_conversation(memory: Memory) -> None:
    result = memory.add(
        [
            {"role": "user", "content": "Hi, I'm Alice. I work at Acme Corp as a data scientist."},
            {"role": "assistant", "content": "Nice to meet you, Alice! What kind of data science work do you do?"},
            {"role": "user", "content": "Mostly NLP and recommendation systems. I prefer PyTorch over TensorFlow."},
        ],
        **ALICE,
    )
    assert len(result.results) >= 3
    assert set(event_names(result)) == {"ADD"}
    stored = " | ".join(texts(memory, **ALICE))
    for word in ("Alice", "Acme Corp", "PyTorch"):
        assert word in stored


@pytest.mark.covers("T3")
def test_add_without_facts(memory: Memory) -> None:
    assert memory.add("hello", user_id="x").results == []
    assert memory.add("", user_id="x").results == []
    assert memory.add([], user_id="x").results == []
    assert texts(memory, user_id="x") == []


@pytest.mark.covers("T4")
def test_search_by_semantics(memory: Memory) -> None:
    memory.add("User likes Python", **ALICE)
    found = memory.search("programming languages", **ALICE).results
    assert found[0].memory == "User likes Python"
    assert (found[0].score or 0) > 0.5
    assert found[0]["score"] == found[0].score


@pytest.mark.covers("T5")
def test_search_with_limit(memory: Memory) -> None:
    memory.add_facts([f"User owns boat number {number}" for number in range(6)], **ALICE)
    assert len(memory.search("boats", limit=3, **ALICE).results) == 3


@pytest.mark.covers("T6", "T7")
def test_get(memory: Memory) -> None:
    id = memory.add("My name is Bob", user_id="bob").results[0].id
    item = memory.get(id)
    assert item is not None and item.id == id and item.memory == "User's name is Bob"
    assert memory.get("fake-id") is None
    assert memory.get("00000000-0000-4000-8000-000000000000") is None


@pytest.mark.covers("T8")
def test_get_all_for_scope(memory: Memory) -> None:
    facts = ["User likes tea", "User's dog is called Rex", "User was born in Oslo"]
    memory.add_facts(facts, **ALICE)
    assert texts(memory, **ALICE) == facts


@pytest.mark.covers("T9", "T10")
def test_update(memory: Memory) -> None:
    id = memory.add("My name is Bob", user_id="bob").results[0].id
    memory.update(id, "new text")
    item = memory.get(id)
    assert item is not None
    assert item.memory == "new text"
    assert item.hash == hashlib.md5(b"new text").hexdigest()


@pytest.mark.covers("T11")
def test_delete(memory: Memory) -> None:
    id = memory.add("My name is Bob", user_id="bob").results[0].id
    memory.delete(id)
    assert memory.get(id) is None
    assert memory.search("Bob", user_id="bob").results == []


@pytest.mark.covers("T12")
def test_delete_all(memory: Memory) -> None:
    memory.add_facts(["User likes tea", "User likes chess"], **ALICE)
    memory.add_facts(["User likes rain"], user_id="bob")
    memory.delete_all(**ALICE)
    assert texts(memory, **ALICE) == []
    assert texts(memory, user_id="bob") == ["User likes rain"]


@pytest.mark.covers("T13")
def test_reset(memory: Memory) -> None:
    id = memory.add("My name is Bob", user_id="bob").results[0].id
    memory.reset()
    assert texts(memory, user_id="bob") == []
    assert memory.history(id) == []


# ------------------------------------------------------------------ update intelligence


@pytest.mark.covers("T14")
def test_deduplication(memory: Memory) -> None:
    memory.add("User likes Python", **ALICE)
    assert event_names(memory.add("User likes Python", **ALICE)) == ["NONE"]
    assert len(texts(memory, **ALICE)) == 1


@pytest.mark.covers("T15")
def test_update_on_contradiction(memory: Memory) -> None:
    old = memory.add("User lives in NYC", **ALICE).results[0]
    result = memory.add("User moved to San Francisco", **ALICE)
    assert event_names(result) == ["UPDATE"]
    assert result.results[0].id == old.id
    assert result.results[0].old_memory == "User lives in NYC"
    assert "San Francisco" in texts(memory, **ALICE)[0]


@pytest.mark.covers("T16")
def test_merge_on_refinement(memory: Memory) -> None:
    memory.add("User works in tech", **ALICE)
    result = memory.add("User works at Google as a senior engineer", **ALICE)
    assert event_names(result) == ["UPDATE"]
    assert "senior engineer" in texts(memory, **ALICE)[0] and "Google" in texts(memory, **ALICE)[0]


@pytest.mark.covers("T17")
def test_delete_on_negation(memory: Memory) -> None:
    memory.add("User is vegetarian", **ALICE)
    assert event_names(memory.add("User started eating meat again", **ALICE)) in (["DELETE"], ["UPDATE"])
    assert not any("is vegetarian" in text for text in texts(memory, **ALICE))


@pytest.mark.covers("T18")
def test_several_events_in_one_add(memory: Memory) -> None:
    memory.add("User lives in NYC", **ALICE)
    result = memory.add("I moved to Denver last week. My sister Ana plays the oboe.", **ALICE)
    assert set(event_names(result)) == {"ADD", "UPDATE"}


@pytest.mark.covers("T18")
def test_several_events_with_a_model(open_memory: Open) -> None:
    memory = scripted(
        open_memory,
        '["User lives in NYC"]',
        '{"facts": ["User moved to Denver", "User plays the oboe"]}',
        '[{"event": "UPDATE", "id": "0", "old_memory": "User lives in NYC", "data": "User lives in Denver"},'
        ' {"event": "ADD", "data": "User plays the oboe"}]',
    )
    memory.add("I live in NYC", **ALICE)
    assert event_names(memory.add("I moved to Denver and play the oboe", **ALICE)) == ["UPDATE", "ADD"]
    assert texts(memory, **ALICE) == ["User lives in Denver", "User plays the oboe"]


# ------------------------------------------------------------------ scoping


@pytest.mark.covers("T19")
def test_scope_isolation(memory: Memory) -> None:
    memory.add("User likes Python", **ALICE)
    assert memory.search("Python", user_id="bob").results == []
    assert memory.search("Python", user_id="*").results == []
    assert memory.search("Python", user_id="alic_").results == []


@pytest.mark.covers("T20")
def test_multi_scope_filter(memory: Memory) -> None:
    memory.add("User likes Python", user_id="alice", agent_id="helper")
    assert len(memory.search("Python", user_id="alice", agent_id="helper").results) == 1
    assert memory.search("Python", user_id="alice", agent_id="other").results == []
    assert memory.search("Python", user_id="bob", agent_id="helper").results == []
    assert len(memory.search("Python", agent_id="helper").results) == 1


@pytest.mark.covers("T21", "T38")
@pytest.mark.parametrize("method", ["add", "add_facts", "search", "get_all", "delete_all", "forget", "context"])
def test_missing_scope(memory: Memory, method: str) -> None:
    argument: dict[str, list[Any]] = {"add": ["hi"], "add_facts": [["x"]], "search": ["x"], "context": ["x"]}
    with pytest.raises(ScopeError, match="^At least one of user_id, agent_id, or run_id must be provided$"):
        getattr(memory, method)(*argument.get(method, []))


@pytest.mark.covers("T22")
def test_run_isolation(memory: Memory) -> None:
    memory.add("User likes Python", run_id="session-1")
    assert texts(memory, run_id="session-2") == []
    assert texts(memory, run_id="session-1") == ["User likes Python"]


# ------------------------------------------------------------------ history


@pytest.mark.covers("T23", "T24", "T25", "T26")
def test_history(memory: Memory) -> None:
    id = memory.add("My name is Bob", user_id="bob").results[0].id
    assert [record.event for record in memory.history(id)] == ["ADD"]
    memory.update(id, "User's name is Robert")
    memory.delete(id)
    records = memory.history(id)
    assert [record.event for record in records] == ["ADD", "UPDATE", "DELETE"]
    assert [record.is_deleted for record in records] == [False, False, True]
    assert [(record.old_value, record.new_value) for record in records] == [
        (None, "User's name is Bob"),
        ("User's name is Bob", "User's name is Robert"),
        ("User's name is Robert", None),
    ]
    assert [record.timestamp for record in records] == sorted(record.timestamp for record in records)
    assert all(record.memory_id == id and record.user_id == "bob" for record in records)


# ------------------------------------------------------------------ filters


@pytest.fixture
def tagged(memory: Memory) -> Memory:
    memory.add_facts(["User likes Python for ML"], metadata={"tag": "work", "n": 5}, **ALICE)
    memory.add_facts(["User sails on Sundays"], metadata={"tag": "home", "n": 7}, **ALICE)
    memory.add_facts(["User's cat is grey"], **ALICE)
    return memory


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param({"field": "tag", "operator": "eq", "value": "work"}, {"Python"}, marks=pytest.mark.covers("T27")),
        pytest.param(
            {"field": "tag", "operator": "in", "value": ["work", "b"]}, {"Python"}, marks=pytest.mark.covers("T28")
        ),
        pytest.param(
            {"AND": [{"tag": "work"}, {"field": "n", "operator": "gt", "value": 4}]},
            {"Python"},
            marks=pytest.mark.covers("T29"),
        ),
        pytest.param(
            {"AND": [{"tag": "work"}, {"field": "n", "operator": "gt", "value": 6}]},
            set(),
            marks=pytest.mark.covers("T29"),
            id="none",
        ),
        pytest.param({"OR": [{"tag": "work"}, {"tag": "home"}]}, {"Python", "sails"}, marks=pytest.mark.covers("T30")),
        pytest.param({"NOT": {"tag": "work"}}, {"sails", "cat"}, marks=pytest.mark.covers("T31")),
        pytest.param(
            {"field": "memory", "operator": "contains", "value": "Python"}, {"Python"}, marks=pytest.mark.covers("T32")
        ),
        pytest.param(
            {"field": "memory", "operator": "contains", "value": "python"},
            set(),
            marks=pytest.mark.covers("T32"),
            id="case",
        ),
        pytest.param(
            {"field": "memory", "operator": "icontains", "value": "python"},
            {"Python"},
            marks=pytest.mark.covers("T32"),
            id="icontains",
        ),
        pytest.param(
            {"field": "created_at", "operator": "gte", "value": "2024-01-01"}, {"Python", "sails", "cat"}, id="13.4"
        ),
    ],
)
def test_filters(tagged: Memory, expression: dict[str, Any], expected: set[str]) -> None:
    for results in (
        tagged.search("anything", filters=expression, **ALICE).results,
        tagged.get_all(filters=expression, **ALICE).results,
    ):
        found = {word for item in results for word in ("Python", "sails", "cat") if word in item.memory}
        assert found == expected and len(results) == len(expected)


# ------------------------------------------------------------------ failures


@pytest.mark.covers("T36")
def test_model_down_is_no_crash(open_memory: Open) -> None:
    memory = scripted(open_memory, {"error": "server"})
    result = memory.add("I live in Oslo", **ALICE)
    assert result.results == []
    assert result.warnings, "emptiness must not look like success"


@pytest.mark.covers("T37")
def test_one_embedding_fails(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.backends.embedders.hashed import HashedEmbedder
    from perdure.domain.errors import EmbeddingError

    memory = open_memory(embedder={"provider": "hashed"})
    working = HashedEmbedder.embed_batch

    async def failing(self: HashedEmbedder, batch: list[str]) -> Any:
        if any("tea" in text for text in batch):
            raise EmbeddingError("this one cannot be embedded")
        return await working(self, batch)

    monkeypatch.setattr(HashedEmbedder, "embed_batch", failing)
    result = memory.add_facts(["User likes chess", "User likes tea", "User was born in Oslo"], **ALICE)
    assert [event.memory for event in result.results] == ["User likes chess", "User was born in Oslo"]
    assert len(result.warnings) == 1 and "tea" in result.warnings[0]


@pytest.mark.covers("T42")
def test_default_configuration_works() -> None:
    """Without OPENAI_API_KEY the default is the embedded set; the OpenAI half comes with the providers."""
    with Memory() as memory:
        memory.add("My name is Bob", user_id="bob")
        assert texts(memory, user_id="bob") == ["User's name is Bob"]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda memory: memory.search("x", limit=0, **ALICE), "limit"),
        (lambda memory: memory.search("x", limit=True, **ALICE), "limit"),
        (lambda memory: memory.search("", **ALICE), "query"),
        (lambda memory: memory.search("x", threshold=2, **ALICE), "threshold"),
        (lambda memory: memory.search("x", user_id=""), "user_id"),
        (lambda memory: memory.search("x", user_id=5), "user_id"),
        (lambda memory: memory.search("x", preset="fast", **ALICE), "preset"),
        (lambda memory: memory.search("x", as_of="yesterday", **ALICE), "as_of"),
        (lambda memory: memory.add([{"role": "king", "content": "x"}], **ALICE), "role"),
        (lambda memory: memory.add([{"content": "x"}], **ALICE), "messages[0].role"),
        (lambda memory: memory.add([{"role": "user"}], **ALICE), "messages[0].content"),
        (lambda memory: memory.add({"role": "assistant", "tool_calls": []}, **ALICE), "messages[0].content"),
        (lambda memory: memory.add(5, **ALICE), "messages"),
        (lambda memory: memory.add("x", metadata={"user_id": "bob"}, **ALICE), "metadata.user_id"),
        (lambda memory: memory.add("x", metadata={"x": {1, 2}}, **ALICE), "metadata.x"),
        (lambda memory: memory.add("x", timestamp="soon", **ALICE), "timestamp"),
        (lambda memory: memory.add_facts("User likes tea", **ALICE), "facts"),
        (lambda memory: memory.get_all(cursor="nonsense", **ALICE), "cursor"),
    ],
)
def test_bad_input_names_field_and_value(quick: Memory, call: Any, field: str) -> None:
    quick.add_facts(["User likes chess"], **ALICE)
    with pytest.raises(PerdureError) as caught:
        call(quick)
    assert getattr(caught.value, "field", None) == field
    assert texts(quick, **ALICE) == ["User likes chess"]


def test_a_message_of_tool_calls_may_lack_content(quick: Memory) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    quick.add(
        [
            {"role": "user", "content": "I like chess"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
        ],
        **ALICE,
    )
    assert texts(quick, **ALICE) == ["User likes chess"]
