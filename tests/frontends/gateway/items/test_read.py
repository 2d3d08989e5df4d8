"""The read side item by item over real HTTP: the gate, the question as it is searched, ranking and limits."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.pipeline.prompting.quoting import CLOSING, OPENING
from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.dialects import Speaker
from tests.frontends.gateway.scripts import tool_call
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running

DIALECTS = pytest.mark.parametrize("dialect", ["chat", "responses"])
ALL = {"similarity_threshold": 0.0}
"""Whatever is found is wanted."""


def aged(ana: Speaker, text: str, days: float) -> None:
    """A memory that was told so many days ago."""
    moment = (datetime.now(UTC) - timedelta(days=days)).isoformat()
    messages = [{"role": "user", "content": text, "timestamp": moment}]
    body = {"messages": messages, "user_id": ana.user, "infer": False}
    ana.gateway.client.post("/v1/memories", json=body).raise_for_status()


def hits(ana: Speaker, question: str, **more: Any) -> list[tuple[str, float]]:
    """What a chat is given, and its scores."""
    found = ana.post(question, **more).json()["memory_hits"]
    return [(each["content"], each["score"]) for each in found]


# ------------------------------------------------------------------ the gate
@pytest.mark.covers("V11", "V12", "V14", "V15", "V16")
@DIALECTS
@pytest.mark.parametrize(
    ("question", "status"),
    [
        ("What is the capital of France?", "ignored"),  # V11
        ("What is the capital of my France, as I'd say?", "used"),  # V12
        ("hi", "ignored"),
        ("Hi there", "ignored"),
        ("Thank you!", "ignored"),
        ("ok.", "ignored"),
        ("goodbye", "ignored"),  # V14
        ("Hi, what's my budget?", "used"),  # V15
        ("Tell it again, please, whatever it was", "used"),  # V16
        ("???", "used"),
    ],
)
def test_which_messages_are_searched(
    gateway: Running, model: Upstream, dialect: str, question: str, status: str
) -> None:
    ana = Speaker(gateway, model, dialect)
    ana.store("hi there, the capital of France, a budget, thank you, ok, goodbye")
    answer = ana.post(question, memory_config=ALL)
    assert answer.headers["x-memory-status"] == status
    if status == "ignored":
        assert answer.headers["x-memory-reason"] == "query_ineligible"
        assert model.last.json == ana.body(question)


@pytest.mark.covers("V13")
@DIALECTS
def test_a_forced_tool_needs_no_memory(gateway: Running, model: Upstream, dialect: str) -> None:
    ana = Speaker(gateway, model, dialect)
    ana.store("User's budget is 500 euros")
    function = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    tool = {"type": "function", "function": function} if dialect == "chat" else {"type": "function", **function}
    question = "What is my budget?"
    assert ana.post(question, tools=[tool], tool_choice="required").headers["x-memory-status"] == "ignored"
    assert "500 euros" in ana.asked(question, tools=[tool], memory_config=ALL), "tools alone do not keep it away"
    some: dict[str, Any] = {"mode": "auto", "tools": [tool]}
    choice = {"type": "allowed_tools", **({"allowed_tools": some} if dialect == "chat" else some)}
    assert "500 euros" in ana.asked(question, tools=[tool], tool_choice=choice, memory_config=ALL), "nor a choice"


@pytest.mark.covers("V17")
@pytest.mark.covers("V17")
@DIALECTS
def test_a_chain_or_none_memory_is_searched(gateway: Running, model: Upstream, dialect: str) -> None:
    ana = Speaker(gateway, model, dialect)
    ana.store("User's budget for the Hawaii trip is 500 euros")
    question = "What is my budget for the Hawaii trip?"
    first = ana.post(question, memory_config=ALL)
    more = {"previous_response_id": first.json()["id"]} if dialect == "responses" else {}
    again = ana.post(question, memory_config=ALL, **more)
    assert [each.headers["x-memory-status"] for each in (first, again)] == ["used", "used"]


# ------------------------------------------------------------------ what is searched
@pytest.mark.covers("V18", "V19", "V20", "V21")
@pytest.mark.parametrize(
    ("question", "is_vague"),
    [("How much?", True), ("What about that?", True), ("and that", True), ("What colour is the bicycle there?", False)],
)
def test_a_vague_question_leans_on_what_the_user_said_before(
    gateway: Running, model: Upstream, question: str, is_vague: bool
) -> None:
    ana = Speaker(gateway, model, "chat")
    ana.store("Hawaii trip budget 10,000", "Lisbon hotel breakfast")
    history = [
        {"role": "user", "content": "Planning the Hawaii trip budget"},
        {"role": "assistant", "content": "Would a Lisbon hotel with breakfast please you too?"},
    ]
    body = {"messages": [*history, {"role": "user", "content": question}], "memory_recency_weight": 0}
    found = ana.gateway.client.post(ana.path, json=body, headers=ana.headers).json()["memory_hits"]
    ranked = {each["content"]: each["score"] for each in found}
    assert (ranked["Hawaii trip budget 10,000"] > ranked["Lisbon hotel breakfast"]) == is_vague, "V21: the user's alone"


@pytest.mark.covers("V20")
@DIALECTS
def test_however_much_tools_said_since_the_user_is_heard(gateway: Running, model: Upstream, dialect: str) -> None:
    ana = Speaker(gateway, model, dialect)
    ana.store("Hawaii trip budget 10,000", "Lisbon hotel breakfast")
    asked: list[dict[str, Any]] = [{"role": "user", "content": "Planning the Hawaii trip budget"}]
    for number in range(12):
        if dialect == "chat":
            asked.append({"role": "assistant", "content": None, "tool_calls": [tool_call("look", {}, f"c{number}")]})
            asked.append({"role": "tool", "tool_call_id": f"c{number}", "content": "A Lisbon hotel"})
        else:
            call = {"type": "function_call", "call_id": f"c{number}", "name": "look", "arguments": "{}"}
            asked += [call, {"type": "function_call_output", "call_id": f"c{number}", "output": "A Lisbon hotel"}]
    asked += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "How much?"}]
    body = {"model": "m", "messages" if dialect == "chat" else "input": asked}
    wanted = {"memory_config": {"retrieval_limit": 1, "similarity_threshold": 0.4, "auto_store": False}}
    ana.gateway.client.post(ana.path, json={**body, **wanted}, headers=ana.headers).raise_for_status()
    assert "Hawaii trip budget 10,000" in model.last.body.decode()


@pytest.mark.covers("V22", "V23", "V24")
@DIALECTS
def test_a_model_puts_the_question_or_makes_up_its_answer(tmp_path: Path, model: Upstream, dialect: str) -> None:
    wine = "Red wine with the fish on Friday"
    for way, answer in (("hypothetical", wine), ("llm", "Which red wine with the fish on Friday?")):
        llm = {"provider": "scripted", "config": {"answers": [answer]}}
        with gateway_to(
            tmp_path / way, model.url, llm=llm, curator="rules", rewrite=way, gateway={"auto_store": False}
        ) as gateway:
            ana = Speaker(gateway, model, dialect)
            ana.store(wine, "The boat leaves at nine from the old harbour")
            if dialect == "chat":
                messages = [{"role": "user", "content": "About the dinner"}, {"role": "user", "content": "How much?"}]
                body: dict[str, Any] = {"messages": messages}
            else:
                body = {"input": [{"role": "user", "content": "The dinner"}, {"role": "user", "content": "How much?"}]}
            body["memory_config"] = {"retrieval_limit": 1, "similarity_threshold": 0.5}
            ana.gateway.client.post(ana.path, json=body, headers=ana.headers).raise_for_status()
            assert wine in json.dumps(model.last.json), way


@pytest.mark.covers("V88")
@DIALECTS
@pytest.mark.parametrize("rewrite", ["llm", "hypothetical"])
def test_where_that_model_fails_the_question_is_searched_as_it_was_asked(
    tmp_path: Path, model: Upstream, dialect: str, rewrite: str
) -> None:
    llm = {"provider": "scripted", "config": {"answers": [{"error": "server"}] * 9}}
    with gateway_to(tmp_path / "memory", model.url, llm=llm, curator="rules", rewrite=rewrite) as gateway:
        ana = Speaker(gateway, model, dialect)
        ana.store("User's budget for the Hawaii trip is 500 euros")
        assert "500 euros" in ana.asked("What is my budget for the Hawaii trip?", memory_config=ALL)


# ------------------------------------------------------------------ ranking (002 §3)
AGES = (("User sold the green lamp", 0), ("User saw a lamp in Oslo", 30), ("Rita broke the old lamp", 90))


@pytest.mark.covers("K3")
@pytest.mark.covers("K3", "K31", "K32")
def test_recency_and_its_weight(gateway: Running, model: Upstream) -> None:
    ana = Speaker(gateway, model, "chat")
    for text, days in reversed(AGES):
        aged(ana, text, days)
    question = "Which lamp did I see in Oslo?"
    by_age = hits(ana, question, memory_recency_weight=1)
    assert [text for text, _ in by_age] == [text for text, _ in AGES], "w = 1 is recency alone"
    assert [score for _, score in by_age] == pytest.approx([1.0, 0.3679, 0.0498], abs=2e-3)
    plain = dict(hits(ana, question, memory_recency_weight=0))
    blended = dict(hits(ana, question))
    for text, age in AGES:
        recency = 2.718281828 ** (-age / 30)
        assert blended[text] == pytest.approx(0.8 * plain[text] + 0.2 * recency, abs=2e-3), "w is .2"
    assert sorted(plain.values())[0] == 0 and sorted(plain.values())[-1] == 1, "K29: best 1, worst 0"


@pytest.mark.covers("K3")
@pytest.mark.covers("K3")
def test_yesterdays_memory_is_above_an_older_one_that_is_as_near(gateway: Running, model: Upstream) -> None:
    ana = Speaker(gateway, model, "chat")
    aged(ana, "lamp green bought", 200)
    aged(ana, "bought lamp green", 1)
    found = [text for text, _ in hits(ana, "green lamp, when did I have it bought?")]
    assert found[0] == "bought lamp green"


@pytest.mark.covers("K29", "K30")
def test_none_keeps_all_and_a_threshold_drops_what_is_below(gateway: Running, model: Upstream) -> None:
    ana = Speaker(gateway, model, "chat")
    ana.store("User likes green tea", "User has green shoes", "The boat leaves at nine")
    question = "Which green tea do I like?"
    by_relevance = hits(ana, question, memory_recency_weight=0)
    assert len(by_relevance) == 3 and by_relevance[0][1] == 1.0 and by_relevance[-1][1] == 0.0
    middle = by_relevance[1][1]
    for threshold, kept in ((middle + 0.01, 1), (middle - 0.01, 2), (0, 3)):
        assert len(hits(ana, question, memory_score_threshold=threshold)) == kept


@pytest.mark.covers("K34", "V25")
def test_five_by_default_exactly_as_many_as_asked_for_or_all(gateway: Running, model: Upstream) -> None:
    ana = Speaker(gateway, model, "chat")
    ana.store(*(f"User owns the lamp of {name}" for name in ("Oslo", "Rome", "Bonn", "Lima", "Cork", "Bari", "Kyiv")))
    question = "Which lamp do I own?"
    assert len(hits(ana, question)) == 5
    assert len(hits(ana, question, memory_top_k=2)) == 2
    assert len(hits(ana, question, headers={"x-memory-top-k": "3"})) == 3
    assert len(hits(ana, question, memory_top_k=50)) == 7


@pytest.mark.covers("K28")
def test_a_reranker_judges_the_question_and_each_memory(tmp_path: Path, model: Upstream) -> None:
    from tests.engine.read.test_rerank import Told  # its scores are the texts' lengths

    Told.asked.clear()
    reranker = {"provider": "tests.engine.read.test_rerank:Told"}
    with gateway_to(tmp_path / "memory", model.url, reranker=reranker) as gateway:
        ana = Speaker(gateway, model, "chat")
        ana.store("green tea", "a sea far away from any tea, and a long one", "a tea in the sea")
        ranked = hits(ana, "How do I like green tea?", memory_recency_weight=0)
    assert [text for text, _ in ranked] == [
        "a sea far away from any tea, and a long one", "a tea in the sea", "green tea",
    ]  # fmt: skip
    assert [score for _, score in ranked][::2] == [1.0, 0.0], "K29"
    ((query, texts),) = Told.asked
    assert query == "How do I like green tea?" and len(texts) == 3


@pytest.mark.covers("K33")
@pytest.mark.parametrize(("trade", "second"), [(1.0, "evening"), (0.1, "bicycle")])
def test_variety_is_a_setting_and_one_is_none_of_it(tmp_path: Path, model: Upstream, trade: float, second: str) -> None:
    with gateway_to(tmp_path / "memory", model.url, gateway={"mmr_lambda": trade}) as gateway:
        ana = Speaker(gateway, model, "chat")
        ana.store(
            "User drinks green tea in the morning", "User drinks green tea in the evening", "User has a green bicycle"
        )
        ranked = hits(ana, "Do I drink green tea in the morning?", memory_top_k=2, memory_recency_weight=0)
    assert "morning" in ranked[0][0] and second in ranked[1][0]


@pytest.mark.covers("K4")
@DIALECTS
def test_of_five_wordings_of_one_fact_one_is_injected(tmp_path: Path, model: Upstream, dialect: str) -> None:
    words = ["likes coffee", "loves coffee", "enjoys coffee", "is fond of coffee", "really likes coffee"]
    with gateway_to(tmp_path / "memory", model.url, embedder={"provider": "minilm"}) as gateway:
        ana = Speaker(gateway, model, dialect)
        ana.store(*(f"User {each}" for each in words), "User drinks oat milk")
        told = ana.asked("How much do I like coffee?", memory_config=ALL)
    block = told[told.index(OPENING) : told.index(CLOSING)]
    count = sum(block.count(f"User {each}") for each in words[:4])
    assert count == 1 if dialect == "chat" else count >= 1, "001 has word-Jaccard .9 alone (B11)"


@pytest.mark.covers("K25", "K66")
@pytest.mark.covers("K25", "K66")
def test_conversations_are_apart_and_global_is_read_by_all(gateway: Running, model: Upstream) -> None:
    ana = Speaker(gateway, model, "chat")
    for run, text in (
        ("trip", "User's boat is red"),
        ("work", "User's boat is blue"),
        ("global", "User's boat floats"),
    ):
        body = {"messages": text, "user_id": ana.user, "run_id": run, "infer": False}
        ana.gateway.client.post("/v1/memories", json=body).raise_for_status()
    question = "What about my boat, please?"
    assert {text for text, _ in hits(ana, question, memory_id="trip")} == {"User's boat is red", "User's boat floats"}
    found = {text for text, _ in hits(ana, question, headers={"x-memory-id": "work"})}
    assert found == {"User's boat is blue", "User's boat floats"}
