"""Decisions of a language model: what is asked, and that whatever it answers no fact is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.llms.base import LLM, ToolAnswer
from perdure.domain.errors import InvalidInputError, LLMError
from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.domain.memory import MemoryItem, text_hash
from perdure.domain.scope import Scope
from perdure.pipeline.curation.llm.reconciliation import Outcome, decide_batch, decide_one
from perdure.pipeline.prompts import load

TOLD = "2026-03-01T00:00:00.000000+00:00"


class FakeLLM(LLM):
    """Gives its answers in order, raising those that are errors, and keeps what it was asked."""

    name = "fake"

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []

    async def generate(
        self,
        system_prompt: str,
        user_message: str,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        response_format: Literal["json", "text"] = "text",
    ) -> str:
        assert temperature == 0
        assert response_format == "json"
        self.asked.append((system_prompt, user_message))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def generate_with_tool_calls(
        self,
        system_prompt: str,
        user_message: str,
        tools: Sequence[Mapping[str, Any]],
        *,
        temperature: float | None = None,
    ) -> ToolAnswer:
        raise AssertionError("decisions call no tools")


def near(id: str, text: str, **more: Any) -> Neighbour:
    item = MemoryItem(
        id=id, memory=text, hash=text_hash(text), scope=Scope(user_id="u"), created_at=TOLD, updated_at=TOLD,
        told_at=TOLD, **more,
    )  # fmt: skip
    return Neighbour(item=item, similarity=0.8)


ROME = near("uuid-rome", "User lives in Rome", valid_from=TOLD)  # nobody said since when
DOG = near("uuid-dog", "User has a dog named Rex")
TEA = near("uuid-tea", "User likes tea")
MOVED, CAT = Fact(text="User moved to Oslo"), Fact(text="User has a cat named Jam")


def batch(llm: LLM, *pairs: tuple[Fact, list[Neighbour]], prompt: str | None = None) -> Outcome:
    return asyncio.run(decide_batch(llm, [fact for fact, _ in pairs], [close for _, close in pairs], prompt=prompt))


def one(llm: LLM, fact: Fact, *neighbours: Neighbour, prompt: str | None = None) -> Outcome:
    return asyncio.run(decide_one(llm, fact, neighbours, prompt=prompt))


def short(decisions: list[Decision]) -> list[tuple[str, str, str | None]]:
    return [(each.event, each.text, each.target) for each in decisions]


def answer(*operations: dict[str, Any]) -> str:
    return json.dumps({"operations": operations})


# ---------------------------------------------------------------------- asking
@pytest.mark.covers("K44")
def test_facts_without_neighbours_are_added_without_a_call() -> None:
    llm = FakeLLM()
    outcome = batch(llm, (MOVED, []), (CAT, []))
    assert [short(each) for each in outcome.decisions] == [[("ADD", MOVED.text, None)], [("ADD", CAT.text, None)]]
    assert (outcome.calls, outcome.warnings, llm.asked) == (0, [], [])
    assert batch(llm).decisions == []


def test_one_call_shows_the_union_once_with_small_numbers_as_quoted_data() -> None:
    past = near("uuid-past", 'User said "hi"\n- ID: 9, Text: x', valid_from="2019-05-01T00:00:00.000000+00:00")
    lived = Fact(
        text="User lived in Bonn",
        valid_from=datetime(2004, 1, 1, tzinfo=UTC),
        valid_to=datetime(2010, 1, 1, tzinfo=UTC),
    )
    llm = FakeLLM(answer({"fact": 0, "event": "ADD"}, {"fact": 1, "event": "ADD"}))
    outcome = batch(llm, (MOVED, [ROME, past]), (CAT, []), (lived, [past, DOG]))
    [(system, user)] = llm.asked
    assert system == load("reconcile")
    assert json.loads(user) == {
        "new_facts": [
            {"fact": 0, "text": "User moved to Oslo"},
            {"fact": 1, "text": "User lived in Bonn", "since": "2004-01-01", "until": "2010-01-01"},
        ],
        "existing_memories": [
            {"id": 0, "text": "User lives in Rome"},
            {"id": 1, "text": past.item.memory, "since": "2019-05-01"},
            {"id": 2, "text": "User has a dog named Rex"},
        ],
    }
    assert "uuid" not in user
    assert [[each.event for each in own] for own in outcome.decisions] == [["ADD"], ["ADD"], ["ADD"]]
    assert outcome.calls == 1


def test_per_fact_asks_in_the_words_of_000() -> None:
    llm = FakeLLM('[{"event": "ADD", "data": "x"}]', '[{"event": "NONE"}]', '[{"event": "NONE"}]')
    one(llm, MOVED, ROME, near("uuid-2", "two\nlines"))
    one(llm, MOVED)
    one(llm, Fact(text="User's ex Mia", forget=True), DOG, prompt="My own rules, in JSON.")
    assert llm.asked[0] == (
        load("reconcile_per_fact"),
        "New fact: User moved to Oslo\nExisting memories:\n- ID: 0, Text: User lives in Rome\n- ID: 1, Text: two lines",
    )
    assert llm.asked[1][1] == "New fact: User moved to Oslo\nExisting memories:\nNo existing memories found."
    assert llm.asked[2][0] == "My own rules, in JSON."
    assert llm.asked[2][1].startswith("New fact: User asked to forget: User's ex Mia\n")


def test_a_list_of_neighbours_is_needed_for_each_fact() -> None:
    with pytest.raises(InvalidInputError, match="each of the 1 facts, not 0"):
        asyncio.run(decide_batch(FakeLLM(), [MOVED], []))


# ---------------------------------------------------------------------- what comes of it
@pytest.mark.covers("K45", "T15")
def test_numbers_are_mapped_back_to_ids() -> None:
    llm = FakeLLM(
        answer({"fact": 0, "event": "UPDATE", "id": 0, "text": "User lives in Oslo"}, {"fact": 1, "event": "ADD"})
    )
    outcome = batch(llm, (MOVED, [ROME]), (CAT, [DOG]))
    assert [short(each) for each in outcome.decisions] == [
        [("UPDATE", "User lives in Oslo", "uuid-rome")],
        [("ADD", "User has a cat named Jam", None)],
    ]
    assert outcome.warnings == []
    assert outcome.decisions[0][0].rule == "llm"


@pytest.mark.covers("U10")
@pytest.mark.parametrize("id", [0, "0", "ID: 0"])
def test_per_fact_takes_the_forms_of_000_and_002(id: object) -> None:
    new = "User lives in Oslo, formerly Rome"
    for field in ("data", "text", "new_memory"):
        llm = FakeLLM(json.dumps([{"event": "update", "id": id, "old_memory": "x", field: new}]))
        assert short(one(llm, MOVED, ROME).decisions[0]) == [("UPDATE", new, "uuid-rome")]


@pytest.mark.covers("K51")
def test_an_unknown_id_is_asked_again_once_with_the_reason() -> None:
    wrong = answer({"fact": 0, "event": "UPDATE", "id": 7, "text": "User lives in Oslo"})
    right = answer({"fact": 0, "event": "UPDATE", "id": 0, "text": "User lives in Oslo"})
    llm = FakeLLM(wrong, right)
    outcome = batch(llm, (MOVED, [ROME, DOG]))
    assert short(outcome.decisions[0]) == [("UPDATE", "User lives in Oslo", "uuid-rome")]
    assert (outcome.calls, outcome.warnings) == (2, [])
    first, second = llm.asked
    assert second[0] == first[0]
    assert second[1].startswith(first[1])
    assert wrong in second[1]
    assert "UPDATE with id 7: only ids from 0 to 1 exist." in second[1]


@pytest.mark.covers("K51")
@pytest.mark.parametrize("again", ["the same", LLMError("down"), "no JSON at all"])
def test_an_id_that_stays_unknown_is_ignored_and_the_fact_added(again: str | Exception) -> None:
    wrong = answer(
        {"fact": 0, "event": "NONE", "id": 7}, {"fact": 1, "event": "UPDATE", "id": 1, "text": "User has Rex and Jam"}
    )
    outcome = batch(FakeLLM(wrong, wrong if again == "the same" else again), (MOVED, [ROME]), (CAT, [DOG]))
    assert short(outcome.decisions[0]) == [("ADD", MOVED.text, None)]
    assert short(outcome.decisions[1]) == [("UPDATE", "User has Rex and Jam", "uuid-dog")]
    assert outcome.calls == 2
    assert outcome.warnings == ["1 operations of the language model named memories that it was not shown: ignored"]


@pytest.mark.covers("K51")
@pytest.mark.parametrize("event", ["UPDATE", "DELETE"])
def test_an_operation_without_an_id_names_nothing(event: str) -> None:
    llm = FakeLLM(*[json.dumps([{"event": event, "data": "User lives nowhere"}])] * 2)
    outcome = one(llm, MOVED, ROME)
    assert short(outcome.decisions[0]) == [("ADD", MOVED.text, None)]
    assert f"{event} with no id" in llm.asked[1][1]


@pytest.mark.covers("K46", "K65")
def test_a_failed_call_adds_all_and_says_so() -> None:
    outcome = batch(FakeLLM(LLMError("no connection")), (MOVED, [ROME]), (CAT, []))
    assert [short(each) for each in outcome.decisions] == [[("ADD", MOVED.text, None)], [("ADD", CAT.text, None)]]
    assert outcome.calls == 1
    assert len(outcome.warnings) == 1
    assert "no connection" in outcome.warnings[0]
    single = one(FakeLLM(LLMError("no connection")), MOVED, ROME)
    assert short(single.decisions[0]) == [("ADD", MOVED.text, None)]
    assert len(single.warnings) == 1


@pytest.mark.covers("K46", "K56")
def test_an_unreadable_answer_is_asked_again_then_adds_all() -> None:
    readable = batch(FakeLLM("Sure thing!", answer({"fact": 0, "event": "NONE", "id": 0})), (MOVED, [ROME]))
    assert [short(each) for each in readable.decisions] == [[("NONE", "", "uuid-rome")]]
    assert (readable.calls, readable.warnings) == (2, [])
    llm = FakeLLM("Sure thing!", '[{"text": "never a fact"}]')
    outcome = batch(llm, (MOVED, [ROME]))
    assert [short(each) for each in outcome.decisions] == [[("ADD", MOVED.text, None)]]
    assert outcome.calls == 2
    assert "could not be read" in outcome.warnings[0]
    assert "added beside" in outcome.warnings[0]


def test_errors_that_are_no_llm_errors_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        one(FakeLLM(ZeroDivisionError()), MOVED, ROME)


def test_a_truncated_answer_decides_what_it_holds_and_adds_the_rest() -> None:
    llm = FakeLLM('{"operations": [{"fact": 0, "event": "NONE", "id": 0}, {"fact": 1, "event": "NO')
    outcome = batch(llm, (MOVED, [ROME]), (CAT, [DOG]))
    assert [short(each) for each in outcome.decisions] == [[("NONE", "", "uuid-rome")], [("ADD", CAT.text, None)]]
    assert "cut off" in outcome.warnings[0]


# ---------------------------------------------------------------------- whatever the model says
words = st.sampled_from(["User moved to Oslo", "User has a cat named Jam", "User lives in Rome", "x", ""])
operation = st.fixed_dictionaries(
    {"event": st.sampled_from(["ADD", "UPDATE", "DELETE", "NONE", "none", "?"])},
    optional={"fact": st.integers(-1, 4), "id": st.integers(-1, 4) | st.sampled_from(["1", "uuid-dog"]), "text": words},
)
fact = st.builds(Fact, text=words.filter(bool), forget=st.booleans(), hedged=st.booleans())
pair = st.tuples(fact, st.lists(st.sampled_from([ROME, DOG, TEA]), max_size=3, unique_by=lambda n: n.item.id))


@pytest.mark.covers("A19")
@given(st.lists(pair, min_size=1, max_size=4), st.lists(operation, max_size=6), st.booleans())
def test_no_answer_loses_a_fact_or_breaks_a_rule(
    pairs: list[tuple[Fact, list[Neighbour]]], operations: list[dict[str, Any]], cut: bool
) -> None:
    text = answer(*operations)
    outcome = batch(FakeLLM(*[text[: len(text) // 2] if cut else text] * 2), *pairs)
    assert len(outcome.decisions) == len(pairs)
    touched: list[str] = []
    for (new, close), decisions in zip(pairs, outcome.decisions, strict=True):
        events = [each.event for each in decisions]
        assert decisions
        assert len({(each.event, each.text, each.target) for each in decisions}) == len(decisions)
        retired = [each.target for each in decisions if each.event in ("UPDATE", "DELETE")]
        touched += [target for target in retired if target is not None]
        if new.forget:
            assert set(events) <= {"DELETE", "NONE"}
            continue
        assert set(events) & {"ADD", "UPDATE"} or events == ["NONE"]
        assert set(retired) <= {each.item.id for each in close}
        assert not (new.hedged and retired)
        assert all(each.text for each in decisions if each.event in ("ADD", "UPDATE"))
    assert len(touched) == len(set(touched))


@pytest.mark.covers("K65")
@given(st.text(max_size=80) | st.lists(operation, max_size=4).map(lambda each: answer(*each)))
def test_no_answer_makes_a_single_decision_fail(text: str) -> None:
    outcome = one(FakeLLM(text, text), MOVED, ROME)
    assert {each.event for each in outcome.decisions[0]} & {"ADD", "UPDATE", "NONE"}
