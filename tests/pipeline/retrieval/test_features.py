"""What is read out of a text once: its stems, its topic words, its passages and its cues."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.text.terms import words as words_of
from perdure.pipeline.retrieval.features import MOST_WORDS, passages, read, read_unit, stop_runs
from perdure.pipeline.retrieval.weights import LONG_WORDS, PASSAGE_WORDS

SENTENCE = "We walked to the harbour and had tea there."
TEXTS = st.one_of(
    st.text(max_size=300),
    st.lists(
        st.sampled_from([SENTENCE, "Short!", "北京。", "\n", "```code here```", "a b c?", "word"]), max_size=60
    ).map(" ".join),
)


def test_a_unit_has_its_stems_with_their_counts_and_its_topic_words() -> None:
    unit = read_unit("The trains: a train, and TEA (tea)!")
    assert unit.stems == {"train": 2, "tea": 2}
    assert unit.words == ("trains", "train", "tea")
    assert unit.length == 4


@pytest.mark.parametrize("text", ["", "?!", "the and of", "I don't", "🎈"])
def test_text_without_a_topic_has_no_stems(text: str) -> None:
    assert read_unit(text).stems == {}
    assert read_unit(text).length == 0
    assert len(read(text).units) == 1, "it is held all the same"


def test_a_book_has_no_more_topic_words_than_are_allowed() -> None:
    numbered = [f"ship{number}" for number in range(MOST_WORDS + 500)]
    units = read(" ".join([*numbered, *["tea"] * 200, *numbered])).units
    named = {word for unit in units for word in unit.words}
    assert MOST_WORDS <= len(named) < MOST_WORDS + PASSAGE_WORDS
    assert len({stem for unit in units for stem in unit.stems}) == len(numbered) + 1, "stems are found everywhere"
    assert not units[-1].words
    assert all(unit.words for unit in read(" ".join(["tea and cake"] * 9_000)).units)


def test_stop_words_are_met_as_text_is_cut() -> None:
    assert {"don", "t", "the"} <= stop_runs()
    assert "tea" not in stop_runs()


def test_text_without_spaces_has_characters_and_pairs_and_no_words() -> None:
    unit = read_unit("北京烤鸭")
    assert set(unit.stems) == {"北", "京", "烤", "鸭", "北京", "京烤", "烤鸭"}
    assert unit.words == ()
    assert read_unit("ไทย").stems
    assert read_unit("tea 北京").words == ("tea",)


def test_accents_and_case_are_no_difference() -> None:
    assert read_unit("Café").stems == read_unit("cafe").stems


@given(TEXTS)
def test_a_unit_counts_what_every_other_search_of_words_sees(text: str) -> None:
    unit = read_unit(text)
    assert unit.length == sum(unit.stems.values())
    assert set(unit.stems) <= set(words_of(text))
    assert len(set(unit.words)) == len(unit.words)


# ------------------------------------------------------------------ passages


@pytest.mark.parametrize(("count", "is_long"), [(LONG_WORDS, False), (LONG_WORDS + 1, True)])
def test_a_text_of_more_than_ninety_words_is_cut(count: int, is_long: bool) -> None:
    text = " ".join(["word"] * count)
    assert read(text).is_long is is_long
    assert (passages(text) == [text]) is not is_long


@given(TEXTS)
def test_passages_hold_every_word_but_code_in_order_and_are_short(text: str) -> None:
    found = passages(text)
    assert found
    if len(text.split()) <= LONG_WORDS:
        assert found == [text]
        return
    assert all(len(passage.split()) <= PASSAGE_WORDS for passage in found if found != [text])
    if "```" not in text:
        assert " ".join(found).split() == text.split()


def test_passages_are_of_whole_sentences_as_full_as_they_can_be() -> None:
    found = passages(" ".join([SENTENCE] * 30))
    assert all(passage.endswith(".") and passage.startswith("We") for passage in found)
    for one, after in pairwise(found):
        assert len(one.split()) + len(after.split(".")[0].split()) > PASSAGE_WORDS


def test_a_sentence_longer_than_a_passage_is_cut_by_words() -> None:
    found = passages(" ".join(str(number) for number in range(200)))
    assert [len(passage.split()) for passage in found] == [90, 90, 20]


def test_code_is_no_passage_unless_there_is_nothing_else() -> None:
    code = "```\n" + "print(secret) " * 100 + "\n```"
    found = passages(f"{SENTENCE * 1} {code} {' '.join([SENTENCE] * 12)}")
    assert "secret" not in " ".join(found)
    assert passages(code) == [code]
    assert "secret" not in " ".join(passages(" ".join([SENTENCE] * 12) + " ```open " + "secret " * 100))


def test_each_passage_is_a_unit() -> None:
    text = " ".join([SENTENCE] * 12) + " The zebra slept."
    features = read(text)
    assert len(features.units) == len(passages(text)) == 2
    assert "zebra" not in features.units[0].stems
    assert features.units[1].stems["zebra"] == 1


# ------------------------------------------------------------------ cues


@pytest.mark.parametrize(
    ("text", "asks"), [("Tea?", True), ("Tea？ ", True), ("Tea? Yes.", False), ("Tea.", False), ("", False)]
)
def test_what_ends_in_a_question_mark_asks(text: str, asks: bool) -> None:
    assert read(text).asks is asks
