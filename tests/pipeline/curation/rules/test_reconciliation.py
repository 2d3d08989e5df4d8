"""Reconciliation by rules: T14 to T17, V45, K2, K64, and what each kind of fact does to the memories near it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.pipeline.curation.rules.reconciliation import contradict, decide
from tests.domain.test_nouns import item

pytestmark = pytest.mark.covers("K2", "K64", "T14", "T15", "T16", "T17", "V45")


def beside(*memories: str, similarity: float | None = None) -> list[Neighbour]:
    return [Neighbour(item=item(id=f"m{n}", memory=text), similarity=similarity) for n, text in enumerate(memories, 1)]


def only(fact: str | Fact, *memories: str) -> Decision:
    (decision,) = decide(Fact(text=fact) if isinstance(fact, str) else fact, beside(*memories))
    return decision


@pytest.mark.covers("T14")
@pytest.mark.parametrize("text", ["User likes Python", "user likes python.", "User  likes Python"])
def test_a_repeat_changes_nothing(text: str) -> None:
    decision = only(text, "User likes Python")
    assert (decision.event, decision.target) == ("NONE", "m1")


@pytest.mark.covers("T15")
def test_a_move_updates_the_home() -> None:
    decision = only("User moved to San Francisco", "User likes tea", "User lives in NYC")
    assert (decision.event, decision.target, decision.text) == ("UPDATE", "m2", "User moved to San Francisco")


@pytest.mark.covers("T16")
def test_a_refinement_updates_to_the_more_specific_text() -> None:
    decision = only("User works at Google as a senior engineer", "User works in tech")
    assert (decision.event, decision.text) == ("UPDATE", "User works at Google as a senior engineer")


@pytest.mark.covers("T17")
def test_a_negated_claim_is_removed() -> None:
    decision = only("User started eating meat again", "User is the only vegetarian at work", "User is vegetarian")
    assert decision.event in ("UPDATE", "DELETE")
    assert decision.target == "m2"


def test_13_1_a_new_employer_keeps_the_role() -> None:
    decision = only("User works at BigTech Inc", "User works at Acme Corp as a data scientist")
    assert (decision.event, decision.text) == ("UPDATE", "User works at BigTech Inc as a data scientist")


@pytest.mark.covers("V45")
def test_a_changed_budget_keeps_what_it_is_for() -> None:
    decision = only("User's budget is now $15,000", "User's budget for Hawaii is $10,000")
    assert (decision.event, decision.text) == ("UPDATE", "User's budget for Hawaii is $15,000")


@pytest.mark.covers("K2")
def test_hate_replaces_love() -> None:
    decision = only("User hates pizza", "User loves pizza")
    assert (decision.event, decision.target) == ("UPDATE", "m1")


@pytest.mark.covers("K64")
@pytest.mark.parametrize("similarity", [None, 0.1])
def test_unrelated_facts_are_added(similarity: float | None) -> None:
    near = beside("User plays the cello", "User's rent is 800", similarity=similarity)
    (decision,) = decide(Fact(text="User has a hamster"), near)
    assert (decision.event, decision.text, decision.links) == ("ADD", "User has a hamster", ())


@pytest.mark.parametrize(
    ("fact", "memory"),
    [
        ("User's height is 183 cm", "User is 1.83 m tall"),
        ("Every month User pays €1200 in rent", "User's rent is 1,200 euros a month"),
        ("User has a peanut allergy", "User is allergic to peanuts"),
        ("Marek sold User the tent", "User bought the tent from Marek"),
        ("The name of User's gran is Odile", "User's grandmother is called Odile"),
        ("User works at Lumen Dental", "User works at Lumen Dental as a hygienist three days a week"),
        ("User has been to Rome", "User visited Rome in 2021"),
        ("User does not like phone calls", "User dislikes phone calls"),
        ("User used to live in Zadar", "User lives in Split and lived in Zadar before that"),
    ],
)
def test_a_paraphrase_or_part_of_a_memory_is_known(fact: str, memory: str) -> None:
    assert only(fact, memory).event == "NONE"


def test_two_memories_hold_a_fact_of_two_members() -> None:
    assert only("User speaks Danish and Polish", "User speaks Danish", "User speaks Polish").event == "NONE"


@pytest.mark.parametrize(
    ("fact", "memory"),
    [
        ("User's brother Tom lives in York", "User's brother Dan lives in Leeds"),
        ("User's mother lives in Stavanger", "User lives in Bergen"),
        ("User's budget for the Sardinia trip is 1,800", "User's budget for the Iceland trip is 3,000"),
        ("User's second car is a Panda", "User's car is a Volvo"),
        ("User has taken up falconry", "User sings in a barbershop quartet"),
        ("User is allergic to birch pollen", "User is allergic to cats"),
        ("User visited Seville in 2023", "User visited Seville in 2021"),
        ("Invoice 2042 was paid in April", "Invoice 2041 was paid in April"),
        ("User works in Krakow", "User was born in Krakow"),
        ("Henrik reports to User", "User reports to Marit"),
        ("Bente has a key to User's house", "User has a key to Bente's house"),
        ("User's neighbour sold her moped", "User owns a moped"),
        ("User's team uses Linear for planning", "User's team uses Terraform for infrastructure"),
        ("User might sell the caravan", "User has a caravan"),
        ("User would move to Canada if the visa came through", "User lives in Bilbao"),
        ("User is in Berlin this week", "User lives in Oslo"),
        ("User lived in Udine until 2016", "User lives in Trieste"),
        ("User lived in Lima from 2001 to 2005", "User lives in Quito"),
        ("User's younger brother is a baker", "User's older brother is a baker"),
    ],
)
def test_another_matter_is_added_and_retires_nothing(fact: str, memory: str) -> None:
    decision = only(fact, memory)
    assert (decision.event, decision.text) == ("ADD", fact)


def test_a_hedged_or_past_fact_retires_nothing() -> None:
    home = "User lives in Graz"
    assert only(Fact(text="User moves to Linz", hedged=True), home).event == "ADD"
    past = Fact(text="User lived in Linz", valid_to=datetime(2016, 1, 1, tzinfo=UTC))
    assert only(past, home).event == "ADD"


@pytest.mark.parametrize(
    ("fact", "memory", "text"),
    [
        ("User's yoga class was moved to Monday", "User's yoga class is on Thursday at 18:00 in Hall 2", None),
        (
            "User has dropped the karate lessons",
            "User takes piano, chess and karate lessons",
            "User takes piano and chess lessons",
        ),
        (
            "User's wedding has 120 guests now",
            "User's wedding is on 20 June with 90 guests",
            "User's wedding is on 20 June with 120 guests",
        ),
    ],
)
def test_an_update_loses_nothing_that_still_holds(fact: str, memory: str, text: str | None) -> None:
    decision = only(fact, memory)
    assert decision.event == "UPDATE"
    if text is None:
        assert all(part in decision.text for part in ("Monday", "18:00"))
        assert "Thursday" not in decision.text
    else:
        assert decision.text == text


@pytest.mark.parametrize(
    ("fact", "memory"),
    [
        ("User sold the motorbike", "User owns a motorbike"),
        ("User broke up with Matteo", "User is in a relationship with Matteo"),
        ("User gave up learning Welsh", "User is learning Welsh"),
        ("User is off the low-FODMAP diet", "User follows the low-FODMAP diet"),
        ("Pavel gave the drill back to User", "Pavel has User's drill"),
        ("User's cat Mochi died last week", "User has a cat named Mochi"),
        ("It is not true that User has three sons", "User has three sons"),
        ("User was joking about the pet crocodile", "User keeps a pet crocodile"),
        ("User is allowed to lift heavy things again", "User must not lift heavy things"),
        ("User has found a flatmate", "User is looking for a flatmate"),
        ("Greta took over the billing module from Rashid", "Rashid is responsible for the billing module"),
        ("User's meeting with Anna was moved from Monday to Tuesday", "User's meeting with Anna is on Monday at 10"),
        ("User plays the oboe", "User plays an instrument"),
    ],
)
def test_a_change_updates_the_memory_that_it_means(fact: str, memory: str) -> None:
    assert (only(fact, memory).event, only(fact, memory).target) == ("UPDATE", "m1")


@pytest.mark.parametrize(
    ("fact", "kept"),
    [
        ("User sold the motorbike", "User has a motorbike licence"),
        ("User no longer plays rugby", "User watches rugby with an uncle"),
        ("User gave up learning Welsh", "User is learning to weld"),
        ("User left the rowing club", "User is a member of the chess club"),
    ],
)
def test_an_end_spares_what_only_borrows_a_word(fact: str, kept: str) -> None:
    assert only(fact, kept).event == "ADD"


@pytest.mark.parametrize(
    ("request_", "gone"),
    [
        ("User asked to forget their salary", {"m1"}),
        ("User does not want their salary stored", {"m1"}),
        ("User asked to delete what is stored about Kilian", {"m2", "m3"}),
        ("User asked to forget the aquarium", set()),
    ],
)
def test_a_request_to_forget_deletes_every_holder_and_adds_nothing(request_: str, gone: set[str]) -> None:
    memories = beside("User's salary is 61,000", "User's stepbrother Kilian lives in Trier", "Kilian was in prison")
    decisions = decide(Fact(text=request_), memories)
    assert {decision.target for decision in decisions} == gone
    assert all(decision.event == "DELETE" for decision in decisions)


def test_the_forget_mark_of_the_extraction_is_obeyed() -> None:
    (decision,) = decide(Fact(text="the wifi name", forget=True), beside("User's wifi name is thistle_up"))
    assert (decision.event, decision.target) == ("DELETE", "m1")


def test_every_decision_says_why_and_how_sure() -> None:
    decision = only("User moved to Vienna", "User lives in Graz")
    assert decision.rule == "weighed.change"
    assert 0 < decision.confidence <= 1
    assert decision.slots is not None and decision.slots.attribute == "home"


@given(
    st.text(max_size=120),
    st.lists(st.tuples(st.text(max_size=120), st.one_of(st.none(), st.floats(-1, 1))), max_size=6),
)
def test_any_texts_get_a_decision_twice_the_same(fact: str, near: list[tuple[str, float | None]]) -> None:
    memories = [Neighbour(item=item(id=f"m{n}", memory=text), similarity=sim) for n, (text, sim) in enumerate(near)]
    decisions = decide(Fact(text=fact), memories)
    assert decisions == decide(Fact(text=fact), memories)
    known = {memory.item.id for memory in memories}
    for decision in decisions:
        assert decision.target is None or decision.target in known
        assert set(decision.links) <= known
        assert decision.event != "UPDATE" or decision.text


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("User's favourite tea is black tea", "User's favourite tea is green tea"),
        ("User lives in Porto", "User lives in Lisbon"),
        ("The album is called Low Tide", "User's album is called Saltwater"),
        ("User's budget for Hawaii is $12,000", "User's budget for Hawaii is $10,000"),
    ],
)
def test_two_values_contradict_are_for_a_person_to_look_at(newer: str, older: str) -> None:
    assert contradict(newer, older)


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("Caroline has been creating art since Caroline was 17", "Caroline is creating a library for kids"),
        ("Now Caroline is ready to offer love and support", "Caroline is thrilled to make a family for kids"),
        ("Jon went to a fair to show off their studio", "Jon is still searching for a place to open their studio"),
        ("User has tried setting up a `.env` file", "User is trying to deploy their portfolio site"),
        ("First sprint ends March 29", "The first sprint is focusing on user registration"),
        ("Jon's losing Jon's job pushed Jon to take the plunge", "Jon's losing Jon's job was hard"),
    ],
)
def test_distinct_facts_that_share_a_verb_or_a_word_are_not(newer: str, older: str) -> None:
    assert not contradict(newer, older)
