"""Insight: what memories show together, by rules and by a model."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.llms.scripted import ScriptedLLM
from perdure.domain.errors import LLMError
from perdure.domain.maintenance import Experience, Insight
from perdure.pipeline.curation.llm.consolidation import read_insights
from perdure.pipeline.maintenance.insight import insights, speaks_of

pytestmark = pytest.mark.covers("V70", "V71")


def told(*texts: str, type: str = "semantic") -> list[Experience]:
    return [
        Experience(id=f"m{place}", text=text, type=type, tellings=frozenset({f"e{place}"}))
        for place, text in enumerate(texts)
    ]


def contents(memories: list[Experience], messages: list[tuple[str, str]] | None = None) -> list[str]:
    return [insight.content for insight in insights(memories, messages or [])]


# ------------------------------------------------------------------ counts
@pytest.mark.parametrize(
    ("texts", "content"),
    [
        (("User deploys payment-service",) * 12, "User frequently deploys payment-service (12 times)"),
        (
            ("User deployed the payment-service", "User deploys payment-service", "User is deploying payment-service"),
            "User is frequently deploying payment-service (3 times)",
        ),
        (
            ("User deployed payment-service on Monday", "User deployed payment-service with docker",
             "User has deployed payment-service"),
            "User has frequently deployed payment-service (3 times)",
        ),
        (("User baked sourdough bread",) * 3, "User frequently baked sourdough bread (3 times)"),
    ],
    ids=["v70_as_the_spec_has_it", "v70_in_any_tense", "v70_with_more_beside", "v70_past"],
)  # fmt: skip
def test_counts(texts: tuple[str, ...], content: str) -> None:
    assert content in contents(told(*texts))


@pytest.mark.covers("V70")
@pytest.mark.parametrize(
    "text",
    [
        "User likes tea", "User lives in Porto", "User has a dog", "User does not smoke cigars", "User prefers tea",
        "User might deploy payment-service", "User no longer plays tennis", "User plans to visit Rome",
        "User's sister bakes bread", "User", "...", "",
    ],
)  # fmt: skip
def test_states_wishes_denials_and_others_are_not_done_often(text: str) -> None:
    assert contents(told(*[text] * 5)) == []


@pytest.mark.covers("V70")
def test_messages_count_and_memories_of_one_message_count_once() -> None:
    one = frozenset({"e"})
    same = [Experience(id=str(place), text="User deployed the shop", tellings=one) for place in range(5)]
    assert contents(same) == []
    said = [(f"s{place}", "Well. I deployed the shop again!") for place in range(2)]
    asked = [("q", "Have I deployed the shop?"), ("n", "I have not deployed the shop")]
    assert contents(same, [*said, *asked]) == ["User frequently deployed shop (3 times)"]


# ------------------------------------------------------------------ issues and approaches
@pytest.mark.covers("V70")
def test_common_issues_by_their_noun() -> None:
    texts = (
        "User's deployment failed because of a port conflict on 8080",
        "User had port conflicts when starting the dev server",
        "Server crashes kept User awake",
        "User debugged the server crash",
        "User fixed the issue",
        "User has an issue with this",
        "User has another issue",
    )
    assert contents(told(*texts)) == ["Common issue: port conflicts", "Common issue: server crashes"]


@pytest.mark.covers("V70")
def test_one_telling_is_no_common_issue() -> None:
    assert contents(told("User had a port conflict", "User had a memory leak")) == []


@pytest.mark.covers("V70")
def test_the_preferred_approach_is_the_one_told_most() -> None:
    compose = ("User deploys the shop with docker-compose", "User deployed the blog via docker-compose")
    kubernetes = "User deployed the wiki with kubernetes"
    assert contents(told(*compose, kubernetes)) == ["Preferred approach: docker-compose"]
    assert contents(told(*compose, kubernetes, "User deployed the forum using kubernetes")) == [], "they are level"
    said = told("User prefers using docker-compose over kubernetes", "User prefers to use docker-compose for work")
    assert contents(said) == ["Preferred approach: docker-compose"]


@pytest.mark.covers("V70")
def test_company_and_taste_are_no_approach() -> None:
    texts = ("User plays tennis with Rex", "User walks with Rex", "User prefers tea", "User prefers tea over coffee")
    assert contents(told(*texts)) == []


# ------------------------------------------------------------------ styles and lessons
@pytest.mark.parametrize(
    ("text", "type", "content"),
    [
        (
            "User prefers bullet points over paragraphs for technical content", "semantic",
            "Response style: bullet points over paragraphs for technical content",
        ),
        (
            "User wants the assistant to answer in French", "semantic",
            "Response style: the assistant to answer in French",
        ),
        (
            "I gave incorrect deployment steps - next time verify k8s version first", "semantic",
            "Lesson: verify k8s version first",
        ),
        (
            "Previous budget response was incomplete - user prefers detailed breakdowns", "semantic",
            "Lesson: Previous budget response was incomplete - user prefers detailed breakdowns",
        ),
        (
            "Budget questions should include breakdown, not just total", "reflective",
            "Lesson: Budget questions should include breakdown, not just total",
        ),
    ],
    ids=["v71_style", "v71_standing_wish", "v71_next_time", "v71_fault_of_an_answer", "v71_reflective"],
)  # fmt: skip
def test_styles_and_lessons(text: str, type: str, content: str) -> None:
    assert contents(told(text, type=type)) == [content]


@pytest.mark.covers("V71")
@pytest.mark.parametrize("text", ["User prefers tea", "User will visit Porto next time", "User was wrong about Ana"])
def test_what_is_said_of_other_things_is_neither(text: str) -> None:
    assert contents(told(text)) == []


@pytest.mark.covers("V70")
@given(
    st.lists(st.sampled_from(["User deployed the shop", "User had port conflicts", "Lesson", "", "🙂 x"]), max_size=9)
)
def test_the_same_memories_give_the_same_insights_and_each_names_its_own(texts: list[str]) -> None:
    memories = told(*texts)
    found = insights(memories)
    assert insights(memories) == found
    assert all(set(insight.memory_ids) <= {memory.id for memory in memories} for insight in found)
    assert all(insight.memory_ids and insight.count >= 1 for insight in found)


@pytest.mark.covers("V70")
@given(st.lists(st.text(max_size=50), max_size=6))
def test_any_text_can_be_read(texts: list[str]) -> None:
    assert isinstance(insights(told(*texts), [("s", text) for text in texts]), list)


@pytest.mark.covers("V70")
@pytest.mark.parametrize(
    ("topic", "text", "is_of_it"),
    [
        ("deployment", "User deploys the shop", True),
        ("deployments of the shop", "the shop was deployed", True),
        ("deployment", "User bakes bread", False),
        ("port", "User lives in Porto", False),
        ("the", "the end", True),
    ],
)
def test_about_something(topic: str, text: str, is_of_it: bool) -> None:
    assert speaks_of(topic, text) is is_of_it


# ------------------------------------------------------------------ by a model
MEMORIES = told("User deployed payment-service 3 times", "User had a port conflict", "User had port conflicts")


def ask(answer: Any, memories: list[Experience] | None = None) -> list[Insight]:
    llm = ScriptedLLM(ScriptedLLM.Settings(answers=[answer]))
    return asyncio.run(read_insights(llm, MEMORIES if memories is None else memories))


@pytest.mark.covers("V70")
def test_the_model_sees_numbered_data_and_names_what_it_read() -> None:
    llm = ScriptedLLM(
        ScriptedLLM.Settings(
            answers=[{"insights": [{"kind": "issue", "text": "Common issue: port conflicts", "from": [1, 2, 1]}]}]
        )
    )
    (insight,) = asyncio.run(read_insights(llm, MEMORIES))
    assert (insight.pattern, insight.memory_ids, insight.count) == ("issue", ("m1", "m2"), 2)
    (call,) = llm.calls
    assert [each["text"] for each in json.loads(call.user_message)] == [memory.text for memory in MEMORIES]


@pytest.mark.covers("V70")
def test_no_insight_is_an_answer_and_no_memory_no_question() -> None:
    assert ask({"insights": []}) == []
    assert ask({"error": "server"}, []) == []


@pytest.mark.covers("V70")
@pytest.mark.parametrize(
    "bad",
    [
        {"kind": "count", "text": "User deploys (4 times)", "from": [0, 1]},
        {"kind": "issue", "text": "Common issue: ports", "from": [3]},
        {"kind": "issue", "text": "Common issue: ports", "from": [True, 1]},
        {"kind": "issue", "text": "Common issue: ports", "from": []},
        {"kind": "issue", "text": "Common issue: ports", "from": [1]},
        {"kind": "gossip", "text": "Common issue: ports", "from": [1, 2]},
        {"kind": "issue", "text": " ", "from": [1, 2]},
        {"kind": "issue", "text": "x" * 301, "from": [1, 2]},
        "no object",
    ],
    ids=["number", "unknown", "no_number", "of_nothing", "of_one", "kind", "empty", "long", "shape"],
)
def test_what_does_not_stand_in_the_memories_is_dropped(bad: Any) -> None:
    good = {"kind": "issue", "text": "Common issue: port conflicts", "from": [1, 2]}
    assert [insight.content for insight in ask({"insights": [bad, good]})] == [good["text"]]
    with pytest.raises(LLMError):
        ask({"insights": [bad]})


@pytest.mark.covers("V70")
@pytest.mark.parametrize("answer", ["prose", {"error": "timeout"}, {"insights": 3}])
def test_an_answer_without_a_list_is_an_error(answer: Any) -> None:
    with pytest.raises(LLMError):
        ask(answer)
