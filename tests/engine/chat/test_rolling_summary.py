"""The rolling summary of a conversation."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from perdure.domain.filter import eq
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.chat.rolling_summary import summary_id, summary_of
from perdure.engine.requests import ForgetRequest, Query
from tests.engine.chat.talks import ANN, World, facts, run, scripted, talk

pytestmark = pytest.mark.covers("A21", "K6", "K17", "K27", "K53", "K57")

ONE = Scope(user_id="ann", run_id="one")


async def summary(opened: World, scope: Scope = ANN) -> MemoryItem | None:
    return await summary_of(opened.engine.kernel, scope)


@pytest.mark.covers("K6", "K17")
def test_a_conversation_has_one_summary_with_an_id_of_its_own(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        conversation = talk(scope=ONE)
        assert await summary(opened, ONE) is None
        await opened.say(conversation, ["My dear wife is Anne", "I live in Lisbon"])
        await opened.settle()
        (row,) = await opened.rows("summaries", ONE)
        assert row == await summary(opened, ONE)
        assert (row.id, row.kind, row.role) == (summary_id(ONE), "summaries", "summary")
        assert row.memory == "User's dear wife is Anne. User lives in Lisbon."
        known = await opened.rows("facts", ONE)
        assert set(row.derived_from) == {fact.id for fact in known}
        assert set(row.sources) == {id for fact in known for id in fact.sources}
        assert await summary(opened) is None

    run(work, tmp_path)


@pytest.mark.covers("K53")
def test_what_changed_is_in_the_next_summary_and_its_history_is_kept(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["I live in Lisbon", "I live in Porto now"])
        await opened.settle()
        row = await summary(opened)
        assert row is not None
        assert "Porto" in row.memory
        assert "Lisbon" not in row.memory
        ledger = opened.engine.kernel.ledger
        assert ledger is not None
        assert [record.event for record in await ledger.history(row.id)] == ["ADD", "UPDATE"]

    run(work, tmp_path)


@pytest.mark.covers("A21")
@pytest.mark.parametrize("model", [True, False], ids=["llm", "rules"])
def test_without_new_facts_it_is_not_written(model: bool, tmp_path: Path) -> None:
    rules = [
        ("keep the running summary", "User is Anne's husband."),
        ("My dear wife", facts("User's wife is Anne")),
        (".", facts()),
    ]

    async def work(opened: World) -> None:
        await opened.say(talk(), ["My dear wife is Anne"])
        await opened.settle()
        before = await summary(opened)
        assert before is not None
        await opened.say(talk(), ["What is the capital of Peru?", "My dear wife is Anne"])
        await opened.settle()
        assert await summary(opened) == before
        assert before.version == 1

    run(work, tmp_path, **({"llm": scripted(rules=rules)} if model else {}))


@pytest.mark.covers("K53")
def test_a_model_is_given_the_last_summary_and_the_new_facts(tmp_path: Path) -> None:
    rules = [
        ("Learned since:\n- User has a dog", "User lives in Lisbon with a dog."),
        ("Learned since:", "User lives in Lisbon."),
        ("I live", facts("User lives in Lisbon")),
        ("I have", facts("User has a dog")),
        (".", {"operations": []}),
    ]

    async def work(opened: World) -> None:
        await opened.say(talk(), ["I live in Lisbon", "I have a dog"])
        await opened.settle()
        asked = [call for call in opened.llm.calls if "running summary" in call.system_prompt]
        assert "Summary so far:\n(none)" in asked[0].user_message
        assert "Summary so far:\nUser lives in Lisbon." in asked[-1].user_message
        assert "- User has a dog" in asked[-1].user_message
        assert "- User lives in Lisbon" not in asked[-1].user_message
        row = await summary(opened)
        assert row is not None
        assert row.memory == "User lives in Lisbon with a dog."
        assert len(row.derived_from) == 2

    run(work, tmp_path, llm=scripted(rules=rules))


@pytest.mark.covers("K53")
@pytest.mark.parametrize("answer", [{"error": "server"}, "<think>nothing said"])
def test_a_summary_that_fails_costs_nothing_else_and_is_made_up_for(
    answer: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [facts("User lives in Lisbon"), answer, facts(), "User lives in Lisbon."]

    async def work(opened: World) -> None:
        await opened.say(talk(), ["I live in Lisbon"])
        await opened.settle()
        assert await opened.facts() == ["User lives in Lisbon"]
        assert await summary(opened) is None
        await opened.say(talk(), ["What is the capital of Peru?"])
        await opened.settle()
        row = await summary(opened)
        assert row is not None
        assert row.memory == "User lives in Lisbon."

    with caplog.at_level(logging.WARNING):
        run(work, tmp_path, llm=scripted(answers))
    assert "the summary of the conversation is not renewed" in caplog.text


JUNK = {
    "nothing": " ... ",
    "a word for nothing": "None.",
    "a refusal": "I'm sorry, I cannot summarise this conversation.",
    "json": '{"summary": "User lives in Porto."}',
    "json cut off": '```json\n{"operations": [',
    "the material again": "Summary so far: User lives in Lisbon. Learned since: - User has a dog",
    "the instructions again": "You keep the running summary of one conversation with a user. User has a dog.",
    "far too much": "User has a dog. " * 500,
}


@pytest.mark.parametrize("name", JUNK)
def test_junk_of_a_model_is_no_summary_and_the_one_before_stands(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = [
        ("Learned since:\n- User has a dog\n- User has a boat", "User lives in Lisbon with a dog and a boat."),
        ("Learned since:\n- User has a dog", JUNK[name]),
        ("Learned since:", "User lives in Lisbon."),
        ("I live", facts("User lives in Lisbon")),
        ("a dog", facts("User has a dog")),
        ("a boat", facts("User has a boat")),
        (".", {"operations": []}),
    ]

    async def work(opened: World) -> None:
        await opened.say(talk(), ["I live in Lisbon", "I have a dog"])
        await opened.settle()
        row = await summary(opened)
        assert row is not None and row.memory == "User lives in Lisbon."
        await opened.say(talk(), ["I have a boat"])
        await opened.settle()
        row = await summary(opened)
        assert row is not None and row.memory == "User lives in Lisbon with a dog and a boat."

    with caplog.at_level(logging.WARNING):
        run(work, tmp_path, llm=scripted(rules=rules))
    assert "no summary: it" in caplog.text


@pytest.mark.covers("K53")
def test_summaries_can_be_off_and_facts_go_on(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["I live in Lisbon"])
        await opened.settle()
        assert await opened.facts() == ["User lives in Lisbon"]
        assert await summary(opened) is None

    run(work, tmp_path, settings={"summaries": False})


@pytest.mark.covers("K27")
def test_a_summary_is_never_found_by_a_search(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["I live in Lisbon"])
        await opened.settle()
        found = await opened.engine.read.search(Query(text="User lives in Lisbon", scope=ANN, limit=20))
        assert {item.kind for item in found.results} == {"facts", "messages"}

    run(work, tmp_path, episodes="search")


def test_what_is_kept_out_of_prompts_is_kept_out_of_the_summary(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["I live in Lisbon"])
        await opened.settle()
        kernel = opened.engine.kernel
        (fact,) = await opened.rows()
        await kernel.store.update(kernel.collection, fact.id, payload=fact.with_(quarantined="tool").to_payload())
        await opened.say(talk(), ["I have a dog named Rex"])
        await opened.settle()
        row = await summary(opened)
        assert row is not None
        assert row.memory == "User has a dog named Rex."

    run(work, tmp_path)


@pytest.mark.parametrize("model", [True, False], ids=["llm", "rules"])
def test_what_is_forgotten_leaves_the_summary_which_is_made_anew_of_what_is_left(model: bool, tmp_path: Path) -> None:
    rules = [
        (r"Learned since:\n- User's wife.*\n- User lives", "Anne, Lisbon."),
        (r"Learned since:\n- User lives", "Lisbon."),
        ("Learned since:", "Anne."),
        ("My dear wife", facts("User's wife is Anne")),
        ("I live", facts("User lives in Lisbon")),
        ("Peru", facts()),
        (".", {"operations": []}),
    ]

    async def work(opened: World) -> None:
        await opened.say(talk(), ["My dear wife is Anne", "I live in Lisbon"])
        await opened.settle()
        wife = next(row for row in await opened.rows() if "Anne" in row.memory)
        home = next(row for row in await opened.rows() if "Lisbon" in row.memory)
        await opened.engine.forget(ForgetRequest(scope=Scope(), id=wife.id))
        assert await summary(opened) is None
        kernel = opened.engine.kernel
        rows = await kernel.store.list(kernel.collection, eq("kind", "summaries"))
        assert not any("Anne" in point.payload["memory"] for point in rows.points)
        assert kernel.ledger is not None
        assert len(await kernel.ledger.get_episodes(home.sources)) == 1
        await opened.say(talk(), ["What is the capital of Peru?"])
        await opened.settle()
        row = await summary(opened)
        assert row is not None
        assert "Lisbon" in row.memory
        assert "Anne" not in row.memory

    run(work, tmp_path, **({"llm": scripted(rules=rules)} if model else {}))
