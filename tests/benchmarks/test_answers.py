"""What the benchmark `answers` asks can be answered, is the same each time, and is counted as it is said to be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perdure import Memory
from tests.benchmarks import answers, answers_data

Words, Forms = answers_data.Words, answers_data.Forms

CLOSED = {"weekday", "month", "blood"}
"""Values of which there are no fifteen."""


@pytest.fixture(scope="module", params=answers_data.HALVES)
def forms(request: pytest.FixtureRequest) -> answers_data.Forms:
    return Forms(request.param)


@pytest.mark.parametrize(
    ("words", "text", "right"),
    [
        ("Graz", "User lives in Graz.", True),
        ("graz", "User lives in GRAZ", True),
        ("9", "The dentist is at 9:30", True),
        ("9", "The dentist is at 19", False),
        ("the blue tin", "It is in a blue tin", True),
        ("Tuesday 9", "The dentist is on Tuesday", False),
        ("longer|not vegetarian", "User is not vegetarian", True),
        ("longer|not vegetarian", "User is vegetarian", False),
        ("1,250 euros", "User pays 1,250 euros.", True),
    ],
)
def test_a_text_is_right_if_it_holds_all_words_whole(words: str, text: str, right: bool) -> None:
    assert Words.read(words).are_in(text) is right


def test_every_form_can_be_filled_in_fifteen_ways(forms: answers_data.Forms) -> None:
    for name, values in forms.values.items():
        assert len(set(values)) == len(values) >= (7 if name in CLOSED else 15), name
    for kind, tables in (("fact", forms.facts), ("pair", forms.pairs), ("change", forms.changes)):
        for form in tables:
            slots = {match[1] for text in form.values() for match in re.finditer(r"\{([a-z_]+)\d*\}", text)}
            assert slots, f"{kind} without a slot: {form}"
            assert slots <= forms.values.keys(), f"{kind} with an unknown slot: {form}"


def test_a_person_tells_of_different_things_and_only_one_of_them_answers(forms: answers_data.Forms) -> None:
    for facts in forms.half().people:
        assert len({fact.about for fact in facts}) == len(facts) == answers_data.FACTS
        for fact in facts:
            assert fact.right.all_of
            assert [other.about for other in facts if fact.right.are_in(other.tell)] == [fact.about]
            assert not fact.right.are_in(fact.ask), f"the question holds its answer: {fact.ask}"


def test_a_pair_can_be_told_apart_and_a_change_seen(forms: answers_data.Forms) -> None:
    half = forms.half()
    assert len({(pair.first, pair.second) for pair in half.pairs}) == answers_data.PAIRS
    for pair in half.pairs:
        assert pair.left.are_in(pair.first) and not pair.left.are_in(pair.second)
        assert pair.right.are_in(pair.second) and not pair.right.are_in(pair.first)
    for change in half.changes:
        assert change.right.are_in(change.second) and not change.right.are_in(change.first)


def test_the_same_is_asked_each_time_and_less_of_it_is_its_beginning(forms: answers_data.Forms) -> None:
    whole, part = forms.half(), forms.half(people=7, pairs=9, changes=3)
    assert whole == Forms(forms.name).half()
    assert (part.people, part.pairs, part.changes) == (whole.people[:7], whole.pairs[:9], whole.changes[:3])


def test_the_halves_have_neither_topics_nor_sentences_nor_values_in_common() -> None:
    one, other = (Forms(name) for name in answers_data.HALVES)
    shared = {
        kind: len(of(one) & of(other))  # only how many, so that a failure prints nothing that is not to be read
        for kind, of in {"topics": _topics, "sentences": _sentences, "values": _words}.items()
    }
    assert shared == {"topics": 0, "sentences": 0, "values": 0}


def _topics(forms: answers_data.Forms) -> set[str]:
    return {fact["about"] for fact in forms.facts}


def _sentences(forms: answers_data.Forms) -> set[str]:
    tables = (*forms.facts, *forms.pairs, *forms.changes)
    told = (form[field] for form in tables for field in ("tell", "first", "second") if field in form)
    return {re.sub(r"\{\w+\}", "_", text) for text in told}


def _words(forms: answers_data.Forms) -> set[str]:
    """What fills the slots, but for what there is no other of: days, and how one counts."""
    return {
        value.casefold()
        for name, values in forms.values.items()
        if name not in CLOSED and name not in {"small", "count"}
        for value in values
        if not value.isdigit()
    }


def test_everything_is_counted(tmp_path: Path) -> None:
    half = Forms("seen").half(people=1, pairs=3, changes=2)
    with Memory({"path": tmp_path, "embedder": {"provider": "hashed"}}) as memory:
        figures = answers.measure(memory, half, lambda line: None)
    counts = {name: share.of for name, share in figures.shares.items()}
    assert counts.pop("another's score") > answers_data.FACTS
    kept = figures.shares["kept"].hits
    assert counts.pop("first right, of what is kept") == kept
    assert set(counts.values()) == {answers_data.FACTS, 3, 2}
    assert all(0 <= share.interval[0] <= share.value <= share.interval[1] <= 1 for share in figures.shares.values())
    assert figures.shares["first result right"].hits <= figures.shares["found within the limit"].hits
    assert figures.shares["kept"].value > 0.5
    assert answers.as_json(figures)["shares"]["pairs stand"]["n"] == 3
    assert "first result right" in answers.table(figures)


def test_only_what_does_not_stand_is_a_miss(tmp_path: Path) -> None:
    stands = answers_data.Pair("form", "My dog is Rex.", "I play the oboe.", Words.read("Rex"), Words.read("oboe"))
    never = answers_data.Pair("form", "My dog is Rex.", "I play the oboe.", Words.read("Rex"), Words.read("harp"))
    with Memory({"path": tmp_path, "embedder": {"provider": "hashed"}}) as memory:
        figures = answers.Figures("own")
        answers.pair(figures, memory, "one", stands)
        answers.pair(figures, memory, "two", never)
    assert (figures.shares["pairs stand"].hits, figures.shares["pairs stand"].of) == (1, 2)
    assert figures.shares["a pair's first lost to its second"].hits == 0
    assert len(figures.misses) == 1
    assert figures.forms("pairs").hits == 0


def test_a_message_kept_as_it_is_is_found_and_lost_to_nobody(tmp_path: Path) -> None:
    half = Forms("seen").half(people=1, pairs=2, changes=0)
    with Memory({"path": tmp_path, "embedder": {"provider": "hashed"}}) as memory:
        figures = answers.measure(memory, half, lambda line: None, infer=False)
    assert figures.shares["kept"].value == figures.shares["pairs stand"].value == 1
    assert figures.shares["kept, then lost to another"].hits == 0
