"""Probes: what is asked of a store, after what, and which of them are taken."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.memory import MemoryItem, Slots, text_hash
from perdure.domain.scope import Scope
from perdure.pipeline.lexicon import pairs, words
from perdure.pipeline.maintenance.probes import (
    MOST_TERMS,
    SAME_MEANING,
    Probe,
    Statement,
    duplicate_pairs,
    folded,
    message_probes,
    question,
    sample,
    slot_probes,
    tells,
    told_probe,
)

ANA, BEN = Scope(user_id="ana"), Scope(user_id="ben")
EARLY, LATE = "2026-01-01T00:00:00.000000Z", "2026-02-01T00:00:00.000000Z"


def item(id: str, text: str, slots: Slots | None = None, scope: Scope = ANA, told_at: str = EARLY) -> MemoryItem:
    return MemoryItem(
        id=id,
        memory=text,
        hash=text_hash(text),
        scope=scope,
        created_at=told_at,
        updated_at=told_at,
        told_at=told_at,
        slots=slots,
    )


def home(value: str, *, polarity: bool = True, subject: str = "user") -> Slots:
    return Slots(subject, "home", value, polarity)


# ------------------------------------------------------------------ from what was told


def said(text: str, *names: str) -> Statement:
    """A statement all of whose words of more than three letters have a topic."""
    return Statement(text, [word.strip(".,") for word in text.split() if len(word.strip(".,")) > 3], names)


@pytest.mark.parametrize(
    ("statement", "asked", "value"),
    [
        (said("The kennel takes 45 euros daily"), "kennel takes euros daily", "45"),
        (said("The exam starts on 3 May downtown"), "exam starts downtown", "3 May"),
        (said("The exam starts on March 14th downtown"), "exam starts downtown", "March 14th"),
        (said("The train leaves Porto station 14:30"), "train leaves Porto station", "14:30"),
        (said("The sister of Ana Maria paints boats", "Ana Maria"), "sister paints boats", "Ana Maria"),
        (said("The boats were painted by Ana's sister", "Ana"), "boats were painted sister", "Ana"),
    ],
)
def test_a_value_is_asked_for_by_the_other_words_of_its_sentence(statement: Statement, asked: str, value: str) -> None:
    assert told_probe("m", BEN, [statement]) == Probe("told", asked, BEN, ("m",), value=value)


@pytest.mark.parametrize(
    "statement", [said("The kennel takes dogs daily"), said("It is 45 miles"), said("Ana!", "Ana")]
)
def test_a_sentence_without_a_value_or_other_words_is_not_asked_for(statement: Statement) -> None:
    assert told_probe("m", ANA, [statement]) is None


def test_of_many_values_one_is_asked_for_and_it_depends_on_the_words_alone() -> None:
    statements = [said(f"The kennel takes {number} euros daily") for number in range(20, 40)]
    one, again = told_probe("m", ANA, statements), told_probe("n", BEN, reversed(statements))
    assert one is not None
    assert again is not None
    assert (one.question, one.value) == (again.question, again.value)


def test_a_value_that_has_changed_is_not_asked_for() -> None:
    statement, was, now = said("The kennel takes 45 euros daily"), "Kennel takes 45 euros", "Kennel takes 50 euros"
    assert told_probe("m", ANA, [statement], [was], [now]) is None
    assert told_probe("m", ANA, [statement], [was], [was]) is not None, "it came back"
    assert told_probe("m", ANA, [statement], ["Kennel takes 450 euros"], [now]) is not None, "another number has"


@pytest.mark.parametrize(
    ("text", "sources", "held"),
    [
        ("It takes 45", ("m",), True),
        ("It takes 4.5", ("m",), False),
        ("It takes 450", ("m",), False),
        ("45", ("other",), False),
        ("A kennel takes 45 a day", ("other",), True),
        ("A kennel takes 46 a day", ("other",), False),
        ("Kennels took him for 45", ("other",), False),
    ],
)
def test_a_result_says_the_value_and_is_about_the_same(text: str, sources: tuple[str, ...], held: bool) -> None:
    probe = Probe("told", "kennel takes euros daily", ANA, ("m",), value="45")
    assert tells(probe, text, sources) is held


def test_a_name_is_the_same_in_any_case_and_with_or_without_accents() -> None:
    probe = Probe("told", "sister paints boats", ANA, ("m",), value="José María")
    assert tells(probe, "his sister is jose maria", ("m",))
    assert not tells(probe, "his sister is Maria José", ("m",))


# ------------------------------------------------------------------ from slots


def test_a_single_value_is_asked_for_and_its_earlier_texts_must_not_come() -> None:
    probes = slot_probes([item("a", "User lives in Porto", home("porto"))], {"a": ["User lives in Lisbon"]})
    assert probes == [
        Probe("slots", "Where does the user live?", ANA, ("a",), frozenset({"User lives in Lisbon"})),
    ]


@pytest.mark.parametrize(
    ("subject", "attribute", "asked"),
    [
        ("user", "employer", "Where does the user work?"),
        ("sister eva", "home", "Where does sister eva live?"),
        ("dog", "name", "What is dog's name?"),
        ("user", "favourite colour", "What is the user's favourite colour?"),
        ("a {curly} one", "budget", "What is a {curly} one's budget?"),
    ],
)
def test_how_an_attribute_is_asked_for(subject: str, attribute: str, asked: str) -> None:
    assert question(subject, attribute) == asked


def test_every_form_names_the_subject_and_asks_for_a_single_value() -> None:
    forms = pairs("probe_questions.tsv")
    assert set(forms) <= words("profile_attributes.txt")
    assert all("{subject}" in form and form.endswith("?") for form in forms.values())


def test_of_several_values_the_latest_told_is_asked_for() -> None:
    items = [
        item("b", "User lives in Porto", home("porto"), told_at=LATE),
        item("a", "User lives in Rome", home("rome")),
    ]
    assert [probe.gold for probe in slot_probes(items, {})] == [("b",)]


@pytest.mark.parametrize(
    "slots", [None, home("porto", polarity=False), Slots("user", "lik", "tea")], ids=["none", "denied", "many-valued"]
)
def test_what_is_no_single_value_is_not_asked_for(slots: Slots | None) -> None:
    assert slot_probes([item("a", "User lives in Porto", slots)], {}) == []


def test_scopes_and_subjects_are_asked_apart() -> None:
    items = [
        item("a", "User lives in Porto", home("porto")),
        item("b", "User lives in Oslo", home("oslo"), BEN),
        item("c", "User's sister Eva lives in Rome", home("rome", subject="sister eva")),
    ]
    assert [(probe.scope, probe.gold) for probe in slot_probes(items, {})] == [
        (ANA, ("a",)),
        (BEN, ("b",)),
        (ANA, ("c",)),
    ]


# ------------------------------------------------------------------ from messages


def test_a_message_is_asked_with_its_topic_words_after_all_that_was_drawn_from_it() -> None:
    items = [item("b", "User moved to Porto"), item("a", "User has a dog"), item("c", "User likes tea")]
    sources = {"a": ["m"], "b": ["m"], "c": ["n"]}
    probes = message_probes(items, sources, {"m": ["moved", "Porto", "dog"]}, {"b": ["User lives in Lisbon"]})
    assert probes == [
        Probe("messages", "moved Porto dog", ANA, ("a", "b"), frozenset({"User lives in Lisbon"}), "m"),
    ]


def test_an_earlier_text_that_another_answer_has_now_is_not_stale() -> None:
    items = [item("a", "User likes tea"), item("b", "User likes coffee")]
    (probe,) = message_probes(items, {"a": ["m"], "b": ["m"]}, {"m": ["drinks"]}, {"b": ["User likes tea"]})
    assert probe.stale == frozenset()


def test_a_fact_is_not_asked_for_by_its_text_whole() -> None:
    items = [item("a", "Basalt, columns!"), item("b", "User likes basalt")]
    sources = {"a": ["m"], "b": ["m"]}
    (probe,) = message_probes(items, sources, {"m": ["basalt", "columns"]}, {})
    assert probe.gold == ("b",)
    assert message_probes(items[:1], sources, {"m": ["basalt", "columns"]}, {}) == []


@given(st.lists(st.text("abcdef", min_size=1), unique=True, max_size=40))
def test_at_most_eight_words_in_order_from_all_parts(terms: list[str]) -> None:
    probes = message_probes([item("a", "User swims")], {"a": ["m"]}, {"m": terms}, {})
    assert len(probes) == (1 if terms else 0)
    asked = probes[0].question.split() if probes else []
    assert len(asked) == min(len(terms), MOST_TERMS)
    places = [terms.index(term) for term in asked]
    assert places == sorted(places)
    if len(terms) >= 2 * MOST_TERMS:
        assert places[0] == 0
        assert places[-1] >= len(terms) * 3 // 4, "the end of the message is asked for too"


# ------------------------------------------------------------------ which are taken

SCOPES = st.sampled_from([ANA, BEN, Scope(user_id="ana", agent_id="bot"), Scope(run_id="r")])
PROBES = st.lists(
    st.builds(
        lambda kind, scope, number: Probe(kind, f"q{number}", scope, (f"{number}",)),
        st.sampled_from(["told", "slots", "messages"]),
        SCOPES,
        st.integers(0, 10_000),
    ),
    unique=True,
    max_size=60,
)


@given(PROBES, st.integers(1, 70), st.randoms())
def test_a_sample_goes_by_the_ids_alone_and_is_spread_over_scopes(
    probes: list[Probe], most: int, random: Random
) -> None:
    taken = sample(probes, most)
    assert len(taken) == min(most, len(probes))
    assert set(taken) <= set(probes)
    shuffled = list(probes)
    random.shuffle(shuffled)
    assert sample(shuffled, most) == taken
    offered, got = (Counter(probe.scope for probe in some) for some in (probes, taken))
    fewest = min((got[scope] for scope in offered if got[scope] < offered[scope]), default=None)
    assert fewest is None or max(got.values()) <= fewest + 1, "a scope that was cut short has as many as any other"
    blocks = [
        scope
        for place, scope in enumerate(probe.scope for probe in taken)
        if place == 0 or scope != taken[place - 1].scope
    ]
    assert len(blocks) == len(set(blocks)), "a scope is asked in one go"


def test_half_of_the_sample_is_what_was_told() -> None:
    told, slots, messages = (
        [Probe(kind, "q", ANA, (f"{kind}{number}",)) for number in range(50)] for kind in ("told", "slots", "messages")
    )
    taken = Counter(probe.kind for probe in sample([*messages, *slots, *told], 20))
    assert taken == {"told": 10, "slots": 5, "messages": 5}


def test_both_kinds_are_taken_alike() -> None:
    slots = [Probe("slots", "q", ANA, (f"s{number}",)) for number in range(5)]
    messages = [Probe("messages", "q", ANA, (f"m{number}",)) for number in range(50)]
    assert Counter(probe.kind for probe in sample([*messages, *slots], 10)) == {"slots": 5, "messages": 5}
    assert Counter(probe.kind for probe in sample([*messages, *slots], 20)) == {"slots": 5, "messages": 15}


def test_the_sample_does_not_go_by_the_texts() -> None:
    probes = [Probe("slots", "q", ANA, (f"s{number}",)) for number in range(30)]
    other = [replace(probe, question=f"w{number}") for number, probe in enumerate(probes)]
    assert [probe.gold for probe in sample(probes, 5)] == [probe.gold for probe in sample(other, 5)]


# ------------------------------------------------------------------ duplicates


@pytest.mark.parametrize("other", ["user likes tea", "User  likes tea.", "Ｕser likes tea ", "User likes tea!"])
def test_texts_that_say_the_same_fold_alike(other: str) -> None:
    assert folded(other) == folded("User likes tea")


@pytest.mark.parametrize("other", ["User likes tea?", "User likes teas", "User likes -tea", "User likes téa"])
def test_texts_that_may_say_something_else_do_not(other: str) -> None:
    assert folded(other) != folded("User likes tea")


def test_equal_texts_and_near_vectors_are_pairs_once_each() -> None:
    vectors = [np.array(row, dtype=np.float32) for row in ([1, 0], [3, 0.1], [0, 1], [0, 2])]
    texts = ["one", "two", "three", "Three."]
    assert duplicate_pairs(texts, vectors, 10) == (2, [(0, 1), (2, 3)])
    assert duplicate_pairs(texts, vectors, 1) == (2, [(0, 1)])
    assert duplicate_pairs(texts, [None, *vectors[1:3], None], 10) == (1, [(2, 3)])
    assert duplicate_pairs(["", " "], [np.zeros(2, dtype=np.float32), None], 10) == (1, [(0, 1)])
    assert duplicate_pairs([], [], 10) == (0, [])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.1, 0.3, 1.5])), max_size=30))
def test_duplicates_are_those_of_every_pair_looked_at_alone(rows: list[tuple[str, float]]) -> None:
    texts = [text for text, _ in rows]
    vectors = [np.array([np.cos(angle), np.sin(angle)], dtype=np.float32) for _, angle in rows]
    expected = [
        (one, other)
        for one in range(len(rows))
        for other in range(one + 1, len(rows))
        if texts[one] == texts[other] or float(vectors[one] @ vectors[other]) >= SAME_MEANING
    ]
    assert duplicate_pairs(texts, vectors, 1_000) == (len(expected), expected)
