"""The steps of the read path that core has: rewrite, inject, echo, recency, words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.message import Message
from perdure.pipeline.prompting.context_block import quote, render
from perdure.pipeline.prompting.quoting import estimate_tokens, strip_injected
from perdure.pipeline.retrieval.rescoring import adds_to, newer_first, said_once, topics
from perdure.pipeline.retrieval.rewrite import is_self_contained, key_terms, with_history
from perdure.pipeline.retrieval.words import word_score
from tests.domain.test_nouns import item

pytestmark = pytest.mark.covers("V18", "V19", "V20", "V21")


@pytest.mark.covers("V18")
@pytest.mark.parametrize(
    "query",
    [
        "how much?",
        "How much",
        "what about the second of the two options",
        "and that other thing we said",
        "this one looks better to me",
        "and the price?",
    ],
)
def test_vague(query: str) -> None:
    assert not is_self_contained(query)


@pytest.mark.covers("V19")
def test_self_contained_is_used_as_it_is() -> None:
    query = "what is the budget of the trip?"
    assert with_history(query, [Message("user", "something else")]) == query


@pytest.mark.covers("V20", "V21")
def test_key_terms_of_the_last_three_user_messages_newest_first() -> None:
    history = [
        Message("user", "the very first topic"),
        Message("user", "my Amalfi trip"),
        Message("assistant", "sofas"),
        Message("user", "in May"),
        Message("user", "with Tom"),
    ]
    assert with_history("how much?", history) == "how much? Tom May Amalfi trip"
    assert "first" not in with_history("how much?", history)
    assert with_history("how much?", []) == "how much?"


def test_key_terms_are_said_once() -> None:
    assert key_terms("the Trip, my trip and the TRIP to Oslo") == ["Trip", "Oslo"]


@given(st.lists(st.text(max_size=80), max_size=12), st.integers(1, 200))
def test_render_keeps_its_budget_and_its_frame(texts: list[str], budget: int) -> None:
    block = render([item(memory=text) for text in texts], max_tokens=budget)
    assert block == "" or estimate_tokens(block) <= budget
    if block:
        assert block.count("<perdure-memory") == block.count("</perdure-memory>") == 1
        assert strip_injected(f"before {block} after").split() == ["before", "after"]


def test_render_skips_what_does_not_fit() -> None:
    block = render([item(memory="word " * 200), item(memory="short")], max_tokens=60)
    assert '"short"' in block and "word" not in block


def test_quote_cannot_be_broken_out_of() -> None:
    quoted = quote('a "b"\n</perdure-memory> \\')
    assert json.loads(quoted) == 'a "b" ‹/perdure-memory› \\'


@given(st.text())
def test_text_without_a_block_is_left_alone(text: str) -> None:
    if "<perdure-memory" not in text:
        assert strip_injected(text) == text


def test_a_block_that_was_cut_off_goes_to_its_end() -> None:
    block = render([item(memory="User lives in Turku")], max_tokens=100)
    assert "Turku" not in strip_injected(f"hi {block[:-20]}")


def test_newer_stands_before_older() -> None:
    old, new, other = item(memory="old", score=0.9), item(memory="new", score=0.7), item(memory="other", score=0.8)
    linked = new.with_(older=(old.id,))
    found = newer_first([old, other, linked])
    assert [each.memory for each in found] == ["new", "old", "other"]
    assert [each.score for each in found] == [0.7, 0.9, 0.8], "every item keeps its own score"
    assert newer_first([linked, old]) == [linked, old]


def test_a_newer_one_that_answers_less_well_stays_where_it_is() -> None:
    old, new = item(memory="old", score=0.9), item(memory="new", score=0.4)
    linked = new.with_(older=(old.id,))
    assert newer_first([old, linked]) == [old, linked]


def test_what_was_replaced_comes_last_where_it_is_asked_how_things_stand() -> None:
    old, new = item(memory="old", score=0.9), item(memory="new", score=0.85)
    items = [old, item(memory="other", score=0.5), new.with_(older=(old.id,))]
    assert [each.memory for each in newer_first(items)] == ["new", "old", "other"]
    assert [each.memory for each in newer_first(items, of_now=True)] == ["new", "other", "old"]


def test_a_link_counts_for_nothing_where_one_has_a_name_or_number_of_the_question_and_the_other_has_not() -> None:
    old, new = item(memory="Rosa owns 4 goats", score=0.9), item(memory="Clara owns 9 goats", score=0.85)
    linked = new.with_(older=(old.id,))
    assert newer_first([old, linked], of_now=True) == [linked, old]
    assert newer_first([old, linked], of_now=True, marks=frozenset({"rosa"})) == [old, linked]
    assert newer_first([old, linked], of_now=True, marks=frozenset({"9"})) == [old, linked]
    assert newer_first([old, linked], of_now=True, marks=frozenset({"tom"})) == [linked, old], "in neither"


def test_a_link_to_what_was_told_later_moves_nothing() -> None:
    old, new = item(memory="old", score=0.9), item(memory="new", score=0.89)
    early = new.with_(older=(old.id,), told_at="2020-01-01T00:00:00+00:00")
    late = old.with_(told_at="2021-01-01T00:00:00+00:00")
    assert newer_first([late, early]) == [late, early]


def test_links_in_a_circle_move_nothing() -> None:
    old, new = item(memory="old", score=0.9), item(memory="new", score=0.89)
    circle = [old.with_(older=(new.id,)), new.with_(older=(old.id,))]
    assert newer_first(circle) == circle


@given(st.text(), st.text())
def test_word_score_is_a_share(query: str, text: str) -> None:
    assert 0 <= word_score(query, text) <= 1


def test_word_score_knows_stems_and_diacritics() -> None:
    assert word_score("Łódź trains", "the train to Łódź") > 0.5 > word_score("tea", "coffee")
    assert word_score("cafe", "Café") == 1


def test_a_fact_that_comes_before_its_message_has_its_score_and_repeats_score_no_more_than_what_precedes_them() -> None:
    said = item(memory="Rita paints boats in Porto, beside the lighthouse", score=0.9, kind="messages")
    said = said.with_(sources=(said.id,))
    fact = item(memory="Rita paints boats", score=0.6, kind="facts", sources=(said.id,), explanation={"score": 0.6})
    note = item(memory="in Porto", score=0.7, kind="notes", sources=(said.id,))
    other = item(memory="Bo sings", score=0.5, kind="facts")
    found = said_once([said, note, fact, other])
    assert [(each.memory, each.score) for each in found] == [
        (fact.memory, 0.9), (said.memory, 0.9), (other.memory, 0.5), (note.memory, 0.5),
    ]  # fmt: skip
    assert found[0].explanation == {"score": 0.9}


def test_a_message_that_asks_what_is_asked_again_comes_last() -> None:
    asks = item(memory="where did i work before bath? my cv needs a polish", score=0.9, kind="messages")
    asks = asks.with_(sources=(asks.id,))
    fact = item(memory="User works at a pottery", score=0.5, kind="facts")
    work, resume = topics("where do i work?"), topics("what needs a polish?")
    assert [each.id for each in said_once([asks, fact], about=work)] == [fact.id, asks.id]
    assert [each.id for each in said_once([asks, fact], about=resume)] == [asks.id, fact.id]


def test_a_message_that_only_asks_is_left_out_of_a_prompt() -> None:
    asks = item(memory="Which harbour do you mean?", score=0.9, kind="messages")
    asks = asks.with_(sources=(asks.id,))
    fact = item(memory="User sails", score=0.5, kind="facts")
    assert [each.id for each in said_once([asks, fact])] == [fact.id, asks.id]
    assert [each.id for each in said_once([asks, fact], in_prompt=True)] == [fact.id]


def test_a_message_of_which_nothing_holds_any_longer_comes_last() -> None:
    said = item(memory="I work at the harbour office. I usually work at night.", score=0.9, kind="messages")
    said = said.with_(sources=(said.id,))
    later = item(memory="x", kind="messages").id
    quit_, day = (
        item(memory=text, score=score, kind="facts", version=2, sources=(said.id, later))
        for text, score in (("User quit the harbour office", 0.3), ("User works by day", 0.2))
    )
    other = item(memory="User works at a shipyard", score=0.8, kind="facts")
    assert said_once([said, other, quit_, day])[-1].id == said.id
    assert said.id not in {each.id for each in said_once([said, other, quit_, day], in_prompt=True)}


def test_a_message_beside_its_standing_fact_must_say_more_and_bear_on_the_question() -> None:
    said = item(memory="Update: I moved again, and live in Porto", score=0.5, kind="messages")
    said = said.with_(sources=(said.id,))
    fact = item(memory="User lives in Porto", kind="facts", sources=(said.id,))
    assert adds_to([fact], said, best=0.9)
    assert not adds_to([fact], said, best=1.1)
    assert adds_to([], said, best=1.1), "nothing of it stands there"
    whole = item(memory="Update: User moved again, and lives in Porto", kind="facts", sources=(said.id,))
    assert not adds_to([whole], said, best=0.5)


@given(st.data())
def test_nothing_is_found_twice(data: st.DataObject) -> None:
    """Whatever was read out of whichever message, and whatever of it still holds."""
    messages = [
        item(memory=data.draw(st.sampled_from(["I moved to Porto. I row.", "I row.", "And then?"])), kind="messages")
        for _ in range(data.draw(st.integers(0, 3)))
    ]
    messages = [each.with_(sources=(each.id,)) for each in messages]
    told = st.lists(st.sampled_from([each.id for each in messages]), unique=True) if messages else st.just([])
    facts = [
        item(
            memory=data.draw(st.sampled_from(["User moved to Porto", "User rows", "User rents a boat"])),
            kind=data.draw(st.sampled_from(["facts", "notes"])),
            version=data.draw(st.integers(1, 2)),
            sources=tuple(data.draw(told)),
        )
        for _ in range(data.draw(st.integers(0, 3)))
    ]
    items = [each.with_(score=data.draw(st.floats(0, 1))) for each in data.draw(st.permutations([*messages, *facts]))]
    held = [each for each in items if data.draw(st.booleans())]
    found = [each.id for each in said_once(held, items, [each for each in facts if data.draw(st.booleans())])]
    assert len(found) == len(set(found))
    assert set(found) <= {each.id for each in items}
