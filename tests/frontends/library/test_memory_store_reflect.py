"""MemoryStore.reflect: what memories show together, with where it comes from (V47, V70, V71; 001 §7, appendix A)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from perdure import (
    AsyncMemory,
    AsyncMemoryStore,
    ForbiddenError,
    InvalidInputError,
    Memory,
    MemoryStore,
    Scope,
    ScopeError,
)
from perdure.domain.maintenance import Insight
from tests.conftest import Open

pytestmark = pytest.mark.covers("V47", "V70", "V71")

DEPLOYMENTS = "User frequently deployed payment-service (12 times)"
PROBLEMS = (
    "User's deployment failed because of a port conflict on 8080",
    "User had port conflicts when deploying the dev server",
)
COMPOSE = ("User deploys the shop with docker-compose", "User deployed the blog using docker-compose")


@pytest.fixture
def store(quick: Memory) -> MemoryStore:
    return MemoryStore(quick)


def keep(store: MemoryStore, *texts: str, user: str = "ana", **fields: Any) -> list[str]:
    return [bare(store.store(text, user_id=user, **fields).id) for text in texts]


def bare(shown: str) -> str:
    return str(UUID(shown.removeprefix("mem_")))


def contents(insights: list[Insight]) -> list[str]:
    return [insight.content for insight in insights]


def kept(store: MemoryStore, user: str = "ana") -> list[str]:
    return sorted(memory.content for memory in store.list(user_id=user, types=["reflective"], limit=100).memories)


@pytest.mark.covers("V70")
def test_counts_common_issues_and_the_preferred_approach(store: MemoryStore) -> None:
    deployed = keep(store, *["User deployed payment-service"] * 12)
    problems, composed = keep(store, *PROBLEMS), keep(store, *COMPOSE)
    keep(store, "User likes tea", "User lives in Porto")
    insights = store.reflect(user_id="ana")
    assert contents(insights) == [DEPLOYMENTS, "Common issue: port conflicts", "Preferred approach: docker-compose"]
    assert [insight.pattern for insight in insights] == ["count", "issue", "approach"]
    assert [insight.count for insight in insights] == [12, 2, 2]
    assert [set(insight.memory_ids) for insight in insights] == [set(deployed), set(problems), set(composed)]


@pytest.mark.covers("V70")
def test_what_was_told_again_is_counted_though_it_is_one_memory(quick: Memory) -> None:
    for _ in range(5):
        quick.add("I deployed payment-service", user_id="ana")
    quick.add("Did I deploy payment-service today?", user_id="ana")
    assert len(quick.get_all(user_id="ana").results) == 1
    (insight,) = MemoryStore(quick).reflect(user_id="ana")
    assert (insight.content, insight.count) == ("User frequently deployed payment-service (5 times)", 5)


@pytest.mark.covers("V70")
def test_two_tellings_are_not_often(store: MemoryStore) -> None:
    keep(store, "User deployed the shop", "User deployed the shop today", "User fixed a port conflict")
    assert store.reflect(user_id="ana") == []


@pytest.mark.covers("V71")
def test_styles_and_lessons(store: MemoryStore) -> None:
    (style,) = keep(store, "User prefers bullet points over paragraphs for technical content")
    lesson, other = keep(
        store,
        "I gave incorrect deployment steps - next time verify k8s version first",
        "Budget questions should include breakdown, not just total",
        type="reflective",
    )
    insights = store.reflect(user_id="ana")
    assert contents(insights) == [
        "Response style: bullet points over paragraphs for technical content",
        "Lesson: verify k8s version first",
        "Lesson: Budget questions should include breakdown, not just total",
    ]
    assert [insight.memory_ids for insight in insights] == [(style,), (lesson,), (other,)]
    assert [insight.id for insight in insights[1:]] == [lesson, other], "these are reflective memories already"


@pytest.mark.covers("V70", "V71")
def test_they_are_kept_as_reflective_memories_and_do_not_pile_up(store: MemoryStore, quick: Memory) -> None:
    ids = keep(store, *["User deployed payment-service"] * 3)
    (first,) = store.reflect(user_id="ana")
    item = quick.get(str(first.id))
    assert item is not None
    assert (item.type, item.source, item.derived_from) == ("reflective", "reflection", tuple(ids))
    assert item.scope == Scope(user_id="ana")
    assert store.reflect(user_id="ana") == [first]
    assert len(quick.history(item.id)) == 1, "nothing was new"
    ids += keep(store, "User deployed payment-service")
    (again,) = store.reflect(user_id="ana")
    assert (again.id, again.count) == (first.id, 4)
    assert kept(store) == ["User frequently deployed payment-service (4 times)"]


@pytest.mark.covers("V70")
def test_one_that_holds_no_longer_goes_and_comes_back_by_undo(store: MemoryStore, quick: Memory) -> None:
    ids = keep(store, *["User deployed payment-service"] * 3)
    (insight,) = store.reflect(user_id="ana")
    quick.delete(ids[0])
    assert store.reflect(user_id="ana") == []
    assert kept(store) == []
    quick.undo(quick.history(str(insight.id))[-1].id)
    assert kept(store) == [insight.content]


@pytest.mark.covers("U4", "V70")
def test_forgetting_a_memory_takes_its_insights_and_leaves_what_the_rest_shows(store: MemoryStore) -> None:
    ids = keep(store, *["User deployed payment-service"] * 4)
    (insight,) = store.reflect(user_id="ana")
    report = store.forget(ids[0])
    assert {item.id for item in report.results} == {ids[0], insight.id}
    (again,) = store.reflect(user_id="ana")
    assert (again.count, again.memory_ids) == (3, tuple(ids[1:]))


@pytest.mark.covers("V70")
def test_a_deleted_insight_stays_deleted(store: MemoryStore, quick: Memory) -> None:
    keep(store, *["User deployed payment-service"] * 3)
    (insight,) = store.reflect(user_id="ana")
    quick.delete(str(insight.id))
    (again,) = store.reflect(user_id="ana")
    assert again.id is None
    assert kept(store) == []


@pytest.mark.covers("V70")
def test_an_insight_that_was_undone_stays_away_until_the_undo_is_undone(store: MemoryStore, quick: Memory) -> None:
    keep(store, *["User deployed payment-service"] * 3)
    (insight,) = store.reflect(user_id="ana")
    quick.undo(quick.history(str(insight.id))[-1].id)
    (again,) = store.reflect(user_id="ana")
    assert (again.id, kept(store)) == (None, [])
    quick.undo(quick.history(str(insight.id))[-1].id)
    assert store.reflect(user_id="ana") == [insight]


@pytest.mark.covers("V70")
def test_an_insight_that_was_reworded_stays_as_it_is(store: MemoryStore, quick: Memory) -> None:
    ids = keep(store, *["User deployed payment-service"] * 3)
    (insight,) = store.reflect(user_id="ana")
    store.update(str(insight.id), "User deploys payment-service every day")
    ids += keep(store, "User deployed payment-service")
    assert quick.reflect(user_id="ana").added == 0
    assert kept(store) == ["User deploys payment-service every day"]
    for id in ids:
        quick.delete(id)
    assert quick.reflect(user_id="ana").removed == 0
    assert kept(store) == ["User deploys payment-service every day"]


@pytest.mark.covers("V70")
def test_an_insight_that_was_merged_is_not_written_beside_the_merged_one(store: MemoryStore, quick: Memory) -> None:
    keep(store, *["User deployed payment-service"] * 3, *["User baked sourdough bread"] * 3)
    merged = store.consolidate([str(insight.id) for insight in store.reflect(user_id="ana")])
    store.reflect(user_id="ana")
    assert kept(store) == [merged.content]
    quick.undo(quick.history(merged.id)[-1].id)
    assert len(kept(store)) == 2


@pytest.mark.covers("V70")
def test_an_insight_whose_file_was_deleted_stays_away(open_memory: Open) -> None:
    memory = open_memory(embedder={"provider": "hashed"}, vector_store={"provider": "markdown"})
    store = MemoryStore(memory)
    keep(store, *["User deployed payment-service"] * 3)
    memory.versions.branch("side")
    (insight,) = store.reflect(user_id="ana")
    memory.versions.branch("main")
    (on_main,) = store.reflect(user_id="ana")
    assert on_main.id == insight.id, "it left with its branch, which nobody wished"
    memory.close()
    (file,) = Path(str(memory.config.home), "entries").rglob(f"facts/*{insight.id}.md")
    file.unlink()
    again = open_memory(embedder={"provider": "hashed"}, vector_store={"provider": "markdown"})
    (after,) = MemoryStore(again).reflect(user_id="ana")
    assert after.id is None


@pytest.mark.covers("V70")
def test_all_memories_about_something(store: MemoryStore) -> None:
    keep(store, *["User deployed payment-service"] * 3, *PROBLEMS, *["User baked sourdough bread"] * 3)
    about = store.reflect(user_id="ana", about="deployment")
    assert contents(about) == ["User frequently deployed payment-service (3 times)", "Common issue: port conflicts"]
    assert contents(store.reflect(user_id="ana", about="bread")) == ["User frequently baked sourdough bread (3 times)"]
    assert len(kept(store)) == 3, "what is kept is not narrowed"


@pytest.mark.covers("V70")
def test_users_and_projects_are_apart(store: MemoryStore, quick: Memory) -> None:
    keep(store, *["User deployed payment-service"] * 2, user="bob")
    keep(store, "User deployed payment-service", user="ana")
    assert store.reflect(user_id="ana") == store.reflect(user_id="bob") == []
    keep(store, *["User deployed payment-service"] * 3, user="bob", project_id="p")
    (insight,) = store.reflect({"user_id": "bob", "project_id": "p"})
    assert insight.count == 3
    item = quick.get(str(insight.id))
    assert item is not None
    assert item.scope == Scope(user_id="bob", project_id="p")
    (wide,) = store.reflect(Scope(user_id="bob"))
    assert wide.count == 5
    assert wide.id != insight.id
    with pytest.raises(ForbiddenError):
        MemoryStore(quick.within(user_id="ana")).reflect(user_id="bob")


@pytest.mark.covers("V70")
@pytest.mark.parametrize("scope", ["ana", {"user": "ana"}, Scope(run_id="r"), 3], ids=repr)
def test_a_scope_of_another_shape_is_refused(store: MemoryStore, scope: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        store.reflect(scope)
    assert caught.value.field == "scope"
    with pytest.raises(ScopeError):
        store.reflect()


@pytest.mark.covers("V70")
def test_awaited(tmp_path: Path) -> None:
    async def reflect() -> list[str]:
        async with AsyncMemory({"path": str(tmp_path / "own"), "embedder": {"provider": "hashed"}}) as memory:
            store = AsyncMemoryStore(memory)
            for _ in range(3):
                await store.store("User deployed payment-service", user_id="ana")
            return contents(await store.reflect(user_id="ana"))

    assert asyncio.run(reflect()) == ["User frequently deployed payment-service (3 times)"]


# ------------------------------------------------------------------ by a model
def scripted(open_memory: Open, *answers: Any) -> Memory:
    llm = {"provider": "scripted", "config": {"answers": list(answers)}}
    return open_memory(embedder={"provider": "hashed"}, llm=llm, curator="llm")


@pytest.mark.covers("V70")
def test_with_the_llm_curator_the_model_finds_them(open_memory: Open) -> None:
    text = "User frequently deploys payment-service (3 times)"
    answer = {"insights": [{"kind": "count", "text": text, "from": [0, 1, 2]}]}
    store = MemoryStore(scripted(open_memory, answer))
    ids = keep(store, *["User deployed payment-service"] * 3)
    (insight,) = store.reflect(user_id="ana")
    assert (insight.content, set(insight.memory_ids)) == (text, set(ids))
    assert kept(store) == [text]


@pytest.mark.covers("V70")
@pytest.mark.parametrize(
    "answer",
    [
        {"error": "server"},
        "no JSON at all",
        {"insights": [{"kind": "count", "text": "User deploys a lot (99 times)", "from": [0, 1]}]},
        {"insights": [{"kind": "issue", "text": "Common issue: ports", "from": [0, 17]}]},
        {"insights": [{"kind": "issue", "text": "Common issue: ports", "from": [0]}]},
    ],
    ids=["fails", "unreadable", "invents_a_number", "names_none_of_them", "makes_a_pattern_of_one"],
)
def test_a_model_that_fails_or_invents_leaves_it_to_the_rules(open_memory: Open, answer: Any) -> None:
    store = MemoryStore(scripted(open_memory, answer))
    keep(store, *["User deployed payment-service"] * 3)
    assert contents(store.reflect(user_id="ana")) == ["User frequently deployed payment-service (3 times)"]
