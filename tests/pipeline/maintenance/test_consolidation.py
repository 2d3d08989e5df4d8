"""Consolidation: which memories belong together, and what they come to."""

from __future__ import annotations

import asyncio
import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.llms.scripted import ScriptedLLM
from perdure.domain.errors import LLMError
from perdure.pipeline.curation.llm.consolidation import merge_texts
from perdure.pipeline.curation.llm.parsing import invented, numbers
from perdure.pipeline.maintenance.consolidation import ALIKE, Member, condense, groups, merge

pytestmark = pytest.mark.covers("B12", "V69")

HAWAII = ("Budget for Hawaii is $10,000", "Added $2,000 to Hawaii budget", "Final Hawaii budget is $12,000")
MERGED = "Hawaii budget is $12,000 (updated from initial $10,000)"


# ------------------------------------------------------------------ merging
@pytest.mark.parametrize(
    ("told", "merged"),
    [
        (HAWAII, MERGED),
        ((MERGED, "Hawaii budget: $15,000"), "Hawaii budget: $15,000 (updated from initial $10,000)"),
        (
            (HAWAII[0], "Added $3,000 to Hawaii budget", HAWAII[2]),
            f"Added $3,000 to Hawaii budget. {MERGED}.",
        ),
        ((HAWAII[0], "Added $500 to Maui budget"), f"{HAWAII[0]}. Added $500 to Maui budget."),
        (("User lives in Lisbon", "User moved to Porto"), "User moved to Porto (updated from initial Lisbon)"),
        (("User weighs 70 kg", "User weighs 72 kg", "User weighs 70 kg"), "User weighs 70 kg (updated from 72 kg)"),
        (("User likes tea", "User likes tea."), "User likes tea."),
        (("User likes tea", "User likes tea and coffee"), "User likes tea and coffee"),
        (("User likes tea and coffee", "User does not like tea"), "User likes tea and coffee. User does not like tea."),
        (
            ("User's meeting is on Tuesday", "User's meeting is at 5 pm"),
            "User's meeting is on Tuesday. User's meeting is at 5 pm.",
        ),
        (("To deploy:\nrun npm build", "Then push"), "To deploy:\nrun npm build\nThen push"),
        (("User likes tea",), "User likes tea"),
        ((), ""),
    ],
    ids=[
        "v69_hawaii", "v69_merged_again", "v69_steps_that_do_not_add_up_stay", "v69_another_matter",
        "v69_a_home", "v69_there_and_back", "b12_repeats", "b12_contained", "v69_a_denial_contains_nothing",
        "v69_two_answers_to_two_questions", "b12_lines", "one", "none",
    ],
)  # fmt: skip
def test_merge(told: tuple[str, ...], merged: str) -> None:
    assert merge(told) == merged


@pytest.mark.covers("V69")
def test_what_else_a_statement_says_is_not_lost() -> None:
    merged = merge(["User lives in Lisbon with Marta", "User moved to Porto"])
    assert "Marta" in merged
    assert "Porto" in merged


STATEMENTS = st.sampled_from(
    [
        *HAWAII, MERGED, "User likes tea", "User likes tea and coffee", "User does not like tea",
        "User lives in Lisbon", "User moved to Porto", "User's rent is 900 euros", "User's rent is 950 euros",
        "Hawaii budget might be $9,000",
        "User's sister lives in Porto", "User's brother lives in Porto", "User's dog is called Rex", "  ", "🙂", "...",
    ]
)  # fmt: skip


@pytest.mark.covers("V69")
@given(st.lists(STATEMENTS, max_size=8))
def test_no_number_is_made_up_and_each_statement_is_in_exactly_one(told: list[str]) -> None:
    assert not invented(merge(told), told)
    left = condense(told)
    assert sorted(place for each in left for place in each.places) == list(range(len(told)))
    assert condense(told) == left


@pytest.mark.covers("V69")
@given(st.lists(st.text(max_size=60), max_size=5))
def test_any_text_can_be_merged(told: list[str]) -> None:
    merged = merge(told)
    assert bool(merged) == any(text.strip() for text in told)
    assert not invented(merged, told)


# ------------------------------------------------------------------ grouping
MEMBERS = st.lists(
    st.builds(
        lambda text, family, told: (text, family, told),
        STATEMENTS,
        st.sampled_from(["ana", "bob"]),
        st.sampled_from(["2026-01-01", "2026-01-02", "2026-01-03"]),
    ),
    max_size=9,
).map(
    lambda drawn: [
        Member(id=str(place), text=text, family=family, told_at=told)
        for place, (text, family, told) in enumerate(drawn)
    ]
)


@pytest.mark.covers("B12")
@given(MEMBERS, st.randoms(use_true_random=False))
def test_groups_are_a_partition_in_whatever_order_and_never_mix_families(members: list[Member], random: Any) -> None:
    found = groups(members)
    assert sorted(id for group in found for id in group) == sorted(member.id for member in members)
    shuffled = list(members)
    random.shuffle(shuffled)
    assert groups(shuffled) == found
    family = {member.id: member.family for member in members}
    assert all(len({family[id] for id in group}) == 1 for group in found)


@pytest.mark.covers("B12")
@given(MEMBERS)
def test_what_is_of_one_group_stays_so_when_more_comes(members: list[Member]) -> None:
    before = {frozenset(group) for group in groups(members[:-1])}
    after = [frozenset(group) for group in groups(members)]
    assert all(any(small <= large for large in after) for small in before)


def members(*texts: str) -> list[Member]:
    return [Member(id=str(place), text=text, family=(), told_at=str(place)) for place, text in enumerate(texts)]


@pytest.mark.covers("B12")
def test_links_reach_through_others() -> None:
    texts = ("a b c d e", "b c d e f", "c d e f g", "x y z")
    assert groups(members(*texts)) == (("0", "1", "2"), ("3",))
    assert ALIKE == 0.60


@pytest.mark.covers("B12")
def test_a_jaccard_of_060_is_enough_and_less_is_not() -> None:
    assert groups(members("a b c d", "a b c e")) == (("0", "1"),), "3 of 5"
    assert groups(members("a b c d f", "a b c e g h")) == (("0",), ("1",)), "3 of 8"


@pytest.mark.covers("V69")
def test_one_slot_in_other_words_is_one_group() -> None:
    assert groups(members("User lives in Lisbon", "User moved to Porto", "User's rent is 900 euros")) == (
        ("0", "1"),
        ("2",),
    )


@pytest.mark.covers("V69")
def test_the_three_budgets_in_any_order_of_the_list() -> None:
    for order in permutations(members(*HAWAII, "Added $500 to Maui budget")):
        assert groups(order) == (("0", "1", "2"), ("3",))


# ------------------------------------------------------------------ by a model
def ask(*answers: Any) -> str:
    llm = ScriptedLLM(ScriptedLLM.Settings(answers=list(answers)))
    merged = asyncio.run(merge_texts(llm, HAWAII))
    (call,) = llm.calls
    assert json.loads(call.user_message) == list(HAWAII), "the memories are data"
    return merged


@pytest.mark.covers("V69")
def test_the_model_is_asked_once_and_believed_where_it_makes_up_nothing() -> None:
    text = "Hawaii trip budget: $12000.00 (updated from initial $10,000)"
    assert ask({"memory": text}) == text
    assert ask(f'<think>$99</think>Here: {{"memory": "{text}"}}') == text


@pytest.mark.covers("V69")
@pytest.mark.parametrize(
    "answer",
    [
        {"memory": "It is $13,000"},
        {"memory": ""},
        {"facts": []},
        "nothing",
        {"memory": "x" * 999},
        {"error": "timeout"},
    ],
    ids=["number", "empty", "another_shape", "prose", "long", "fails"],
)
def test_an_answer_that_is_none_is_an_error(answer: Any) -> None:
    with pytest.raises(LLMError):
        ask(answer)


@pytest.mark.covers("V69")
def test_numbers_in_one_form() -> None:
    assert numbers("$10,000 and 10000.00, 007 and 3.50") == {"10000", "7", "3.5"}
    assert invented("12 of 13", ["12", "14"]) == {"13"}
