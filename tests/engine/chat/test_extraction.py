"""What turns are read for, and what becomes of it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from perdure.backends.llms.scripted import ScriptedLLM
from perdure.domain.scope import Scope
from perdure.engine.chat import extraction
from tests.engine.chat.talks import ANN, World, facts, read_calls, run, scripted, talk, user

pytestmark = pytest.mark.covers(
    "K39",
    "K40",
    "K41",
    "K42",
    "K43",
    "K44",
    "K45",
    "K46",
    "K47",
    "V6",
    "V7",
    "V10",
    "V35",
    "V36",
    "V37",
    "V38",
    "V39",
    "V40",
    "V41",
    "V42",
    "V43",
    "V44",
    "V45",
)

ONE_TURN = {"extraction_batch_size": 1, "summaries": False}
PLAIN = {"summaries": False}


def ask(text: str, answer: str = "I see.", *, dialect: Any = "chat", **options: Any) -> tuple[list[str], ScriptedLLM]:
    """Say one thing: the facts that stand then, and the model."""

    async def work(opened: World) -> tuple[list[str], ScriptedLLM]:
        await opened.say(talk(dialect=dialect), [text], answer)
        await opened.settle()
        return await opened.facts(), opened.llm

    return run(work, **options)


# ------------------------------------------------------------------ chat
@pytest.mark.covers("K39")
def test_a_model_reads_the_latest_user_message_only(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["I live in Lisbon", "I have a dog"], "A secret of the assistant.")
        await opened.settle()
        assert read_calls(opened.llm) == ["user: I live in Lisbon", "user: I have a dog"]

    run(work, tmp_path, llm=scripted(rules=[(".", facts())]), settings=PLAIN)


SLOW = {"extraction_batch_size": 3, "summaries": False}


def told(place: int, *texts: str) -> list[dict[str, Any]]:
    return [{"text": text, "sources": [place]} for text in texts]


@pytest.mark.parametrize("episodes", ["words", "off"])
def test_a_slow_model_reads_several_turns_of_a_chat_in_one_call(tmp_path: Path, episodes: str) -> None:
    pets = [f"User has pet {name}" for name in ("Tom", "Kit", "Rex", "Bo", "Su")]
    answer = {"facts": [*told(0, "User lives in Lisbon"), *told(1, *pets), *told(2, "User plays chess")]}

    async def work(opened: World) -> None:
        await opened.say(
            talk(), ["I live in Lisbon", "My pets are Tom, Kit, Rex, Bo, Su"], "A secret of the assistant."
        )
        await opened.settle()
        assert read_calls(opened.llm) == [] and await opened.facts() == []
        said = [row.memory for row in await opened.rows("messages")]
        assert episodes == "off" or "I live in Lisbon" in said, "searched before it is read"
        await opened.say(talk(), ["I play chess"])
        await opened.settle()
        assert read_calls(opened.llm) == [
            "user: I live in Lisbon\nuser: My pets are Tom, Kit, Rex, Bo, Su\nuser: I play chess"
        ]
        assert await opened.facts() == ["User lives in Lisbon", *pets[:3], "User plays chess"]
        if episodes == "words":
            rows, kept = await opened.rows(), opened.engine.kernel.ledger
            assert kept is not None
            sources = await kept.get_episodes([row.sources[0] for row in rows])
            assert [each.content[:9] for each in sources] == ["I live in", *["My pets a"] * 3, "I play ch"]

    run(work, tmp_path, llm=scripted([answer]), settings=SLOW, episodes=episodes)


def test_the_end_of_a_session_reads_in_one_call_what_an_earlier_process_left(tmp_path: Path) -> None:
    async def earlier(opened: World) -> None:
        await opened.say(talk(), ["I live in Lisbon", "I play chess"])
        await opened.settle()
        assert read_calls(opened.llm) == []

    async def next_one(opened: World) -> None:
        await opened.remembering.end_session("s1", ANN)
        assert read_calls(opened.llm)[0] == "user: I live in Lisbon\nuser: I play chess"
        assert (await opened.facts())[:2] == ["User lives in Lisbon", "User plays chess"]

    run(earlier, tmp_path, llm=scripted([facts()]), settings=SLOW)
    answer = {"facts": [*told(0, "User lives in Lisbon"), *told(1, "User plays chess")]}
    run(next_one, tmp_path, llm=scripted(rules=[("You read a conversation", answer), (".", "A talk.")]), settings=SLOW)


def test_rules_read_each_turn_of_a_chat_by_the_answer_before_it(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["Hello", "I live in Lisbon", "I work at Nokia"])
        await opened.settle()
        assert await opened.facts() == ["User lives in Lisbon", "User works at Nokia"]

    run(work, tmp_path, settings=SLOW)


@pytest.mark.covers("K40")
def test_at_most_three_facts_of_a_message(tmp_path: Path) -> None:
    texts = [f"User has pet {name}" for name in ("Tom", "Kit", "Rex", "Bo", "Su")]
    llm = scripted([facts(*texts)])
    found, _ = ask("So many pets: Tom, Kit, Rex, Bo, Su", folder=tmp_path, llm=llm, settings=PLAIN)
    assert found == texts[:3]
    rules, _ = ask(
        "I live in Lisbon. I have a dog named Rex. My wife is Anne. I work at Nokia. I love tea.",
        folder=tmp_path / "rules",
        settings=PLAIN,
    )
    assert len(rules) == 3


@pytest.mark.covers("K42", "K43")
def test_what_a_message_tells_without_a_model(tmp_path: Path) -> None:
    assert ask("My wife is Anne", folder=tmp_path / "a")[0] == ["User's wife is Anne"]
    assert ask("Hi", folder=tmp_path / "b")[0] == []


@pytest.mark.covers("B4", "K43")
def test_a_model_is_not_asked_of_a_greeting(tmp_path: Path) -> None:
    found, llm = ask("Hi, how are you?", folder=tmp_path, llm=scripted([facts("User is polite")]), settings=PLAIN)
    assert (found, llm.calls) == ([], [])


@pytest.mark.covers("K2")
def test_love_then_hate(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["I love pizza", "I hate pizza"])
        await opened.settle()
        assert await opened.facts() == ["User hates pizza"]

    run(work, tmp_path)


@pytest.mark.covers("K66")
@pytest.mark.covers("K66")
def test_conversations_do_not_see_each_other(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        one, other = Scope(user_id="ann", run_id="one"), Scope(user_id="ann", run_id="other")
        await opened.say(talk("one", scope=one), ["I live in Lisbon"])
        await opened.say(talk("other", scope=other), ["I live in Porto"])
        await opened.settle()
        assert await opened.facts(one) == ["User lives in Lisbon"]
        assert await opened.facts(other) == ["User lives in Porto"]
        assert [row.memory for row in await opened.rows("summaries", one)] == ["User lives in Lisbon."]

    run(work, tmp_path)


@pytest.mark.covers("K46", "K65")
@pytest.mark.parametrize("decision", [{"error": "server"}, "no JSON at all", {"error": "timeout"}])
def test_a_decision_that_fails_loses_no_fact(decision: Any, tmp_path: Path) -> None:
    rules = [
        ("I like tea", facts("User likes green tea")),
        ("I like coffee", facts("User likes black coffee")),
        ("likes green tea", decision),
    ]

    async def work(opened: World) -> None:
        await opened.say(talk(), ["I like tea", "I like coffee"])
        await opened.settle()
        assert await opened.facts() == ["User likes green tea", "User likes black coffee"]

    run(work, tmp_path, llm=scripted(rules=rules), settings=PLAIN)


@pytest.mark.covers("K47")
def test_deletes_alone_keep_the_new_fact(tmp_path: Path) -> None:
    decision = {"operations": [{"event": "DELETE", "id": 0, "fact": 0}]}
    rules = [
        ("I love pizza", facts("User loves pizza")),
        ("I hate pizza", facts("User hates pizza")),
        ("hates pizza", decision),
    ]

    async def work(opened: World) -> None:
        await opened.say(talk(), ["I love pizza", "I hate pizza"])
        await opened.settle()
        assert "User hates pizza" in await opened.facts()

    run(work, tmp_path, llm=scripted(rules=rules), settings=PLAIN)


# ------------------------------------------------------------------ failures
@pytest.mark.covers("K41", "V6", "V7")
@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ({"error": "server"}, "Extraction failed, batch skipped"),
        ({"error": "timeout"}, "Extraction failed, batch skipped"),
        ({"text": "{}", "delay": 30.0}, "Extraction failed, batch skipped"),
        ("I am sorry, but I cannot do that.", "Extraction parse failed"),
    ],
)
@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_a_failed_extraction_costs_the_batch_alone_and_it_is_read_later(
    answer: Any, line: str, dialect: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    monkeypatch.setattr(extraction, "PATIENCE", 1.0)

    async def work(opened: World) -> None:
        await opened.say(talk(dialect=dialect), ["I live in Lisbon"])
        await opened.settle()
        assert await opened.facts() == []
        assert line in caplog.messages
        await opened.say(talk(dialect=dialect), ["I have a dog"])
        await opened.settle()
        assert "User lives in Lisbon" in await opened.facts()

    good = facts("User lives in Lisbon"), facts("User has a dog")
    llm = scripted([answer, *good, "no decision", "no decision"])
    with caplog.at_level(logging.INFO, logger="perdure"):
        run(work, tmp_path, llm=llm, settings=ONE_TURN)
    assert "Memory: Stored 1 facts" in caplog.messages


@pytest.mark.covers("V10")
def test_the_log_tells_how_many_facts_were_stored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="perdure"):
        ask("I live in Lisbon and I have a dog named Rex", folder=tmp_path, settings=PLAIN)
    assert "Memory: Stored 2 facts" in caplog.messages


@pytest.mark.covers("V37")
def test_nothing_found_stores_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="perdure"):
        found, _ = ask("What is the capital of Peru?", folder=tmp_path, llm=scripted(["[]"]), settings=PLAIN)
    assert found == []
    assert not any("Stored" in line or "Extraction" in line for line in caplog.messages)


# ------------------------------------------------------------------ models
@pytest.mark.covers("V61")
def test_the_model_of_the_role_reads_and_the_rules_are_not_asked(tmp_path: Path) -> None:
    found, llm = ask(
        "I live in Lisbon", folder=tmp_path, extraction_llm=scripted([facts("User is from Lisbon")]), settings=PLAIN
    )
    assert found == ["User is from Lisbon"]
    (call,) = llm.calls
    assert (call.options["temperature"], call.options["max_tokens"]) == (0.1, 500)
    assert extraction.PATIENCE == 30.0


@pytest.mark.covers("V36")
def test_the_prompt_demands_context(tmp_path: Path) -> None:
    _, llm = ask("I live in Lisbon", folder=tmp_path, llm=scripted([facts()]), settings=PLAIN)
    assert "BAD:" in llm.calls[0].system_prompt
    assert "GOOD:" in llm.calls[0].system_prompt


@pytest.mark.covers("U24", "V88")
def test_without_a_model_the_rules_read(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        assert opened.engine.kernel.extractor is None
        await opened.say(talk(dialect="responses"), ["I live in Lisbon"])
        await opened.settle()
        assert await opened.facts() == ["User lives in Lisbon"]

    run(work, tmp_path, settings=ONE_TURN)


# ------------------------------------------------------------------ types and bands
@pytest.mark.covers("V35")
def test_a_fact_has_the_type_that_the_model_says(tmp_path: Path) -> None:
    given = {
        "facts": [
            {"type": "semantic", "content": "User's budget for Hawaii is $10,000"},
            {"type": "procedural", "content": "User deploys by pushing to main"},
            {"type": "episodic", "content": "User planned a trip in May"},
            {"content": "User has a dog"},
        ]
    }

    async def work(opened: World) -> None:
        await opened.say(talk(dialect="responses"), ["So much to tell: of Hawaii in May, for $10,000"])
        await opened.settle()
        assert [row.type for row in await opened.rows()] == ["semantic", "procedural", "episodic", "semantic"]
        assert {row.source for row in await opened.rows()} == {"conversation"}

    run(work, tmp_path, llm=scripted([given]), settings=ONE_TURN)


@pytest.mark.usefixtures("loaded_model")
@pytest.mark.parametrize(
    ("first", "second", "stand"),
    [
        pytest.param(
            ("User's budget for the Hawaii trip is $10,000", "semantic"),
            ("User's budget for the Hawaii trip is $12,000", "semantic"),
            ["User's budget for the Hawaii trip is $12,000"],
            marks=pytest.mark.covers("V38"),
        ),
        pytest.param(
            ("User visited Rome in 2021", "semantic"),
            ("User visited Rome in 2023", "semantic"),
            ["User visited Rome in 2021", "User visited Rome in 2023"],
            marks=pytest.mark.covers("U8"),
        ),
        pytest.param(
            ("User's budget for the Hawaii trip is $10,000", "semantic"),
            ("User's budget for the Hawaii trip is $12,000", "procedural"),
            ["User's budget for the Hawaii trip is $10,000", "User's budget for the Hawaii trip is $12,000"],
            marks=pytest.mark.covers("V42"),
            id="type",
        ),
        pytest.param(
            ("User likes to hike in the mountains", "semantic"),
            ("User likes to walk in the hills", "semantic"),
            ["User likes to hike in the mountains", "User likes to walk in the hills"],
            marks=pytest.mark.covers("V39"),
        ),
        pytest.param(
            ("User likes to hike in the mountains", "semantic"),
            ("User's sister is a nurse", "semantic"),
            ["User likes to hike in the mountains", "User's sister is a nurse"],
            marks=pytest.mark.covers("K64", "V40"),
        ),
    ],
)
def test_the_bands_decide_what_the_curator_would_add(
    first: tuple[str, str], second: tuple[str, str], stand: list[str], tmp_path: Path
) -> None:
    """With `append` the curator adds everything, so that the bands alone speak."""

    async def work(opened: World) -> None:
        await opened.say(talk(dialect="responses"), [first[0], second[0]])
        await opened.settle()
        assert [row.memory for row in await opened.rows()] == stand

    answers = [facts(text, type=type) for text, type in (first, second)]
    config = {"embedder": {"provider": "minilm"}, "reconcile": "append"}
    run(work, tmp_path, llm=scripted(answers), settings=ONE_TURN, **config)


@pytest.mark.covers("V42")
@pytest.mark.usefixtures("loaded_model")
def test_another_users_memory_stays(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(dialect="responses"), ["Hawaii for $10,000"])
        await opened.settle()
        await opened.say(talk(dialect="responses", scope=Scope(user_id="bob")), ["Hawaii for $12,000"])
        await opened.settle()
        assert await opened.facts() == ["User's budget for Hawaii is $10,000"]
        assert await opened.facts(Scope(user_id="bob")) == ["User's budget for Hawaii is $12,000"]

    answers = [facts("User's budget for Hawaii is $10,000"), facts("User's budget for Hawaii is $12,000")]
    config = {"embedder": {"provider": "minilm"}, "reconcile": "append"}
    run(work, tmp_path, llm=scripted(answers), settings=ONE_TURN, **config)


@pytest.mark.covers("V45")
@pytest.mark.usefixtures("loaded_model")
def test_a_new_budget_updates_the_old_one(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(dialect="responses"), ["My budget for the Hawaii trip is $10,000"])
        await opened.settle()
        (before,) = await opened.rows()
        await opened.say(talk(dialect="responses"), ["My budget for the Hawaii trip is now $15,000"])
        await opened.settle()
        (after,) = await opened.rows()
        assert (after.id, "15,000" in after.memory) == (before.id, True)

    run(work, tmp_path, settings=ONE_TURN, embedder={"provider": "minilm"})


def test_a_session_of_both_dialects_is_read_as_each_turn_was_held(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.keep(talk(dialect="responses"), user("First of responses"), "One.")
        await opened.keep(talk(dialect="chat"), user("Then of chat"), "Two.")
        await opened.settle()
        assert read_calls(opened.llm) == [
            "user: First of responses\nassistant: One.",
            "user: Then of chat",
        ]
        assert await opened.facts(ANN) == []

    run(work, tmp_path, llm=scripted(rules=[(".", facts())]), settings={"summaries": False})
