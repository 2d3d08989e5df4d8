"""The arms against what they say that they compute, written out slowly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.text.terms import stem
from perdure.pipeline.retrieval import fusion
from perdure.pipeline.retrieval.features import Entry, Unit
from perdure.pipeline.retrieval.question import Question, read_question
from perdure.pipeline.retrieval.scope_index import ScopeIndex
from perdure.pipeline.retrieval.weights import Lexical
from tests.pipeline.retrieval.test_scope_index import LONG, Vector, entry, index_of, unit, word_vector

BEFORE, AFTER = (0.5, 0.3, 0.2), (0.3, 0.2, 0.1)
"""The study behind `weights`: what the turns before and after lend."""
FADED_BEFORE, FADED_AFTER = (0.85, 0.75, 0.7), (0.75, 0.7, 0.65)
HOW = Lexical()
WORDS = ("tea", "coffee", "lisbon", "train", "trains", "walked")
QUERY = unit(3, 4)


@st.composite
def talks(draw: st.DrawFn) -> list[Entry]:
    """Turns of two tracks, facts and long messages, of few words, in the order in which they were told."""
    made = []
    for order in range(draw(st.integers(1, 9))):
        words = draw(st.lists(st.sampled_from(WORDS), max_size=4))
        text = LONG if not draw(st.integers(0, 7)) else " ".join(words) + draw(st.sampled_from(["", "?", "."]))
        minute = draw(st.sampled_from([0, 20, 40, 90, 300])) + order
        made.append((minute, order, text, draw(st.integers(0, 5)) > 0, draw(st.sampled_from(["ann", "bob"]))))
    return [
        entry(
            str(order),
            text,
            minute=minute,
            order=order,
            turn=turn,
            track=(track,),
            vector=draw(
                st.none() | st.lists(st.integers(-2, 2), min_size=3, max_size=3).map(lambda numbers: unit(*numbers))
            ),
            passages=np.stack([unit(1, order), unit(0, 1)]) if text == LONG else np.zeros((0, 4), np.float32),
        )
        for minute, order, text, turn, track in sorted(made)
    ]


questions = (
    st.lists(st.sampled_from([*WORDS, "tea's", "ocean"]), min_size=1, max_size=4, unique=True)
    .filter(lambda words: not {"train", "trains"} <= set(words) and not {"tea", "tea's"} <= set(words))
    .map(lambda words: read_question(" ".join(words)))
)
"""Of two words of one stem see the test below."""

Window = list[tuple[Entry, float, float]]
"""The turns around one, with what their words and likenesses count."""


def window(of: Entry, told: Sequence[Entry]) -> Window:
    """The turns that lend to one: of its track, each within an hour of the next, none of them long."""
    if not of.turn or of.features.is_long:
        return []
    track = sorted((each for each in told if each.turn and each.track == of.track), key=lambda each: each.place)
    at = [each.id for each in track].index(of.id)
    found: Window = []
    for step, shares, faded in ((-1, BEFORE, FADED_BEFORE), (1, AFTER, FADED_AFTER)):
        here = of
        for number in range(3):
            place = at + step * (number + 1)
            if not 0 <= place < len(track):
                break
            there = track[place]
            if there.features.is_long or abs(there.place[0] - here.place[0]) > 1 / 24:
                break
            found.append((there, shares[number], faded[number]))
            here = there
    return found


def rarity(of: str, told: Sequence[Entry]) -> float:
    units = [unit for each in told for unit in each.features.units]
    holding = sum(of in unit.stems for unit in units)
    return math.log(1 + (len(units) - holding + 0.5) / (holding + 0.5))


def bm25f(question: Question, told: Sequence[Entry]) -> dict[tuple[str, int], float]:
    """BM25F as recall.md §3 has it: counts of the window are weighted, and then saturate."""
    lengths: dict[tuple[str, int], float] = {}
    counts: dict[tuple[str, int], dict[str, float]] = {}
    for each in told:
        for number, own in enumerate(each.features.units):
            lent = [] if number else window(each, told)
            shares = [
                (other, share + (0.3 if other.features.asks and is_just_before(other, each, lent) else 0.0))
                for other, share, _ in lent
            ]
            lengths[each.id, number] = own.length + sum(
                share * other.features.units[0].length for other, share in shares
            )
            counts[each.id, number] = {
                asked: own.stems.get(asked, 0)
                + sum(share * other.features.units[0].stems.get(asked, 0) for other, share in shares)
                for asked in question.stems
            }
    average = max(sum(lengths.values()) / len(lengths), 1.0)
    scores = {}
    for key, found in counts.items():
        saturation = HOW.k1 * (1 - HOW.b + HOW.b * lengths[key] / average)
        scores[key] = sum(
            rarity(asked, told) * count * (HOW.k1 + 1) / (count + saturation)
            for asked, count in found.items()
            if any(asked in unit.stems for each in told for unit in each.features.units)
        )
    return scores


def is_just_before(other: Entry, one: Entry, lent: Window) -> bool:
    earlier = [each for each, _, _ in lent if each.place < one.place]
    return bool(earlier) and max(earlier, key=lambda each: each.place) is other


def like(word: str, own: Unit) -> float:
    """The likest of a unit's words; one of the same stem counts 1."""
    best = max((float(word_vector(word) @ word_vector(other)) for other in own.words), default=0.0)
    return 1.0 if stem(word) in {stem(other) for other in own.words} else min(max(best, 0.0), 1.0)


def slow_likeness(question: Question, told: Sequence[Entry]) -> dict[tuple[str, int], float]:
    """For each word of the question the likest word around, by rarity, one loop after another."""
    scores = {}
    weights = {word: rarity(stem(word), told) for word in question.words}
    for each in told:
        for number, own in enumerate(each.features.units):
            total = 0.0
            for word, weight in weights.items():
                best = like(word, own)
                for other, _, faded in [] if number else window(each, told):
                    best = max(best, faded * like(word, other.features.units[0]))
                total += weight * best
            scores[each.id, number] = total / sum(weights.values())
    return scores


def by_unit(index: ScopeIndex, scores: Sequence[float]) -> dict[tuple[str, int], float]:
    found = {}
    for at, score in enumerate(scores):
        id = index.ids[index.owner[at]]
        if index.alive[at]:
            found[id, at - index._units[id][0]] = float(score)
        else:
            assert score == 0, "what is not held scores nothing"
    return found


def vectors_of(question: Question) -> dict[str, Vector]:
    return {word: word_vector(word) for word in question.words}


# ------------------------------------------------------------------ words


@given(talks(), questions)
def test_lexical_is_bm25f_over_the_window(told: list[Entry], question: Question) -> None:
    index = index_of(told)
    scores = fusion.lexical_signal(index, question, index.neighbours(), HOW)
    assert by_unit(index, scores.tolist()) == pytest.approx(bm25f(question, told), abs=1e-4)


def test_lexical_by_hand() -> None:
    """One stem in one of two lone facts: ln(1 + 1.5/1.5) * 1 * 1.9 / (1 + .9 * (.6 + .4 * 1 / 1))."""
    told = [entry("a", "tea", turn=False), entry("b", "coffee", turn=False, order=1)]
    index = index_of(told)
    scores = by_unit(index, fusion.lexical_signal(index, read_question("tea"), index.neighbours(), HOW).tolist())
    assert scores == pytest.approx({("a", 0): math.log(2), ("b", 0): 0.0}, abs=1e-6)


def test_the_answer_to_a_question_has_more_of_its_words_than_what_follows_a_statement() -> None:
    def answer(said: str) -> float:
        told = [entry("said", said), entry("yes", "yes indeed", minute=1), entry("far", "coffee", minute=900)]
        index = index_of(told)
        scores = fusion.lexical_signal(index, read_question("tea"), index.neighbours(), HOW)
        return by_unit(index, scores.tolist())["yes", 0]

    assert answer("do you like tea?") > answer("do you like tea.") > 0


def test_a_question_none_of_whose_words_stand_anywhere_scores_nothing() -> None:
    index = index_of([entry("a", "tea")])
    scores = fusion.lexical_signal(index, read_question("zebra"), index.neighbours(), HOW)
    assert not scores.any()
    empty = ScopeIndex(4)
    assert fusion.lexical_signal(empty, read_question("tea"), empty.neighbours(), HOW).tolist() == [0]


def test_text_without_spaces_is_found_by_pairs_of_characters() -> None:
    index = index_of([entry("duck", "我喜欢北京烤鸭", turn=False), entry("other", "我们去上海", turn=False, order=1)])
    scores = by_unit(index, fusion.lexical_signal(index, read_question("北京"), index.neighbours(), HOW).tolist())
    assert scores["duck", 0] > 0 == scores["other", 0]


# ------------------------------------------------------------------ meaning


@given(talks())
def test_dense_is_the_cosine_to_the_weighted_mean_of_the_window(told: list[Entry]) -> None:
    index = index_of(told)
    own, meant = (by_unit(index, scores.tolist()) for scores in fusion.dense(index, QUERY, index.neighbours()))
    for each in told:
        for number in range(len(each.features.units)):
            vector = np.asarray(each.passages[number]) if each.features.is_long else vector_of(each)
            assert own[each.id, number] == pytest.approx(float(vector @ QUERY), abs=1e-5)
            total = vector + sum(share * vector_of(other) for other, share, _ in window(each, told) if not number)
            length = float(np.linalg.norm(total))
            if length > 1e-3:  # below, the direction is rounding
                assert meant[each.id, number] == pytest.approx(float(total @ QUERY) / length, abs=1e-4)
            elif not total.any():
                assert meant[each.id, number] == 0


def vector_of(each: Entry) -> Vector:
    return np.zeros(4, np.float32) if each.vector is None else each.vector


def test_whole_is_the_cosine_of_long_memories_alone() -> None:
    index = index_of([entry("short"), entry("long", LONG, vector=unit(3, 4)), entry("gone", LONG, vector=unit(1))])
    index.remove("gone")
    cosines, rows = fusion.whole_signal(index, QUERY)
    assert cosines.tolist() == pytest.approx([1.0])
    assert [index.ids[owner] for owner in index.owner[rows]] == ["long"]


# ------------------------------------------------------------------ likeness of words


def likenesses(index: ScopeIndex, question: Question) -> Vector:
    own = fusion.word_likeness(index, question, vectors_of(question))
    return fusion.likeness_signal(index, question, own, index.neighbours())


@given(talks(), questions)
def test_likeness_is_that_of_the_likest_word_by_rarity(told: list[Entry], question: Question) -> None:
    index = index_of(told)
    own = fusion.word_likeness(index, question, vectors_of(question))
    for place, word in enumerate(question.words):
        expected = {
            (each.id, number): like(word, unit) for each in told for number, unit in enumerate(each.features.units)
        }
        assert by_unit(index, own[place].tolist()) == pytest.approx(expected, abs=1e-5)
    scores = likenesses(index, question)
    assert by_unit(index, scores.tolist()) == pytest.approx(slow_likeness(question, told), abs=1e-4)


def test_a_word_of_the_same_stem_is_as_like_as_can_be() -> None:
    index = index_of([entry("a", "trains", turn=False), entry("b", "coffee", turn=False, order=1)])
    scores = by_unit(index, likenesses(index, read_question("train")).tolist())
    assert scores["a", 0] == pytest.approx(1.0)
    assert scores["b", 0] == pytest.approx(float(word_vector("train") @ word_vector("coffee")), abs=1e-5)


def test_without_vectors_of_words_the_same_stem_alone_counts() -> None:
    index = index_of([entry("a", "trains"), entry("b", "coffee", minute=900)])
    question = read_question("train")
    own = fusion.word_likeness(index, question, {})
    scores = fusion.likeness_signal(index, question, own, index.neighbours())
    assert by_unit(index, scores.tolist()) == {("a", 0): 1.0, ("b", 0): 0.0}


def test_an_empty_index_and_a_question_without_words_score_nothing() -> None:
    assert likenesses(ScopeIndex(4), read_question("tea")).tolist() == [0]
    assert likenesses(index_of([entry("a", "tea")]), read_question("北京")).tolist() == [0, 0]


def test_a_memory_that_was_removed_is_like_nothing_and_lends_nothing() -> None:
    index = index_of([entry("a", "coffee"), entry("b", "tea", minute=1), entry("c", "coffee", minute=2)])
    index.remove("b")
    question = read_question("tea")
    far = float(word_vector("tea") @ word_vector("coffee"))
    assert by_unit(index, likenesses(index, question).tolist()) == pytest.approx(
        {("a", 0): far, ("c", 0): far}, abs=1e-5
    )


def test_of_two_words_of_one_stem_both_are_held() -> None:
    index = index_of([entry("a", "train"), entry("b", "coffee", minute=900)])
    scores = by_unit(index, likenesses(index, read_question("trains trained")).tolist())
    assert scores["a", 0] == pytest.approx(1.0)


# ------------------------------------------------------------------ any order


@given(talks(), questions, st.randoms(use_true_random=False))
def test_scores_do_not_depend_on_the_order_of_insertion(told: list[Entry], question: Question, random: object) -> None:
    shuffled = list(told)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    found = []
    for index in (index_of(told), index_of(shuffled)):
        beside = index.neighbours()
        scores = (
            fusion.lexical_signal(index, question, beside, HOW),
            *fusion.dense(index, QUERY, beside),
            likenesses(index, question),
        )
        found.append([by_unit(index, each.tolist()) for each in scores])
    for one, other in zip(*found, strict=True):
        assert one == pytest.approx(other, abs=1e-4)
