"""Fusion: each arm by its best, the best unit for its memory, cues that are absent say nothing, nothing found twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.retrieval import fusion
from perdure.pipeline.retrieval.features import Entry
from perdure.pipeline.retrieval.fusion import Ranked, rank
from perdure.pipeline.retrieval.question import Question, read_question
from perdure.pipeline.retrieval.scope_index import ScopeIndex
from perdure.pipeline.retrieval.weights import Ranking, Weights
from tests.pipeline.retrieval.test_arms import questions, talks
from tests.pipeline.retrieval.test_scope_index import (
    LONG,
    QUERY,
    Vector,
    by_id,
    entry,
    give_words,
    index_of,
    ranked,
    unit,
    word_vector,
)

ALONE = Ranking().alone
TALK = Ranking().talk
DAY = 24 * 60


def fact(id: str, text: str, *numbers: float, **fields: Any) -> Entry:
    """What stands alone: no turn, nobody said it."""
    return entry(
        id, text, turn=False, role="memory", speaker=None, vector=unit(*numbers) if numbers else None, **fields
    )


def ask(index: ScopeIndex, question: str | Question, query: Vector | None = QUERY) -> Ranked:
    return ranked(index, read_question(question) if isinstance(question, str) else question, query)


def share(found: Ranked, id: str, name: str) -> float:
    """What an arm or signal gave to a memory; 0 where it says nothing."""
    if name not in found.shares:
        return 0.0
    return float(found.shares[name][found.units[found.ids.index(id)]])


# ------------------------------------------------------------------ arms


def test_each_arm_is_divided_by_its_best_and_weighed() -> None:
    told = [
        fact("both", "tea", 3, 4),
        fact("words", "tea and some more words beside it", 0, 0, 1),
        fact("meaning", "coffee", 4, 3, order=2),
    ]
    found = ask(index_of(told), "tea")
    assert share(found, "both", "lexical") == pytest.approx(ALONE.lexical)
    assert share(found, "both", "dense") == pytest.approx(ALONE.dense)
    assert share(found, "both", "likeness") == pytest.approx(ALONE.likeness)
    assert 0 < share(found, "words", "lexical") < ALONE.lexical
    assert share(found, "words", "dense") == pytest.approx(0, abs=1e-6)
    assert share(found, "words", "likeness") == pytest.approx(ALONE.likeness)
    assert share(found, "meaning", "lexical") == 0
    assert share(found, "meaning", "dense") == pytest.approx(ALONE.dense * 0.96, abs=1e-5)
    assert found.ids[0] == "both"


def test_turns_of_a_talk_are_weighed_otherwise_than_what_stands_alone() -> None:
    index = index_of([entry("turn", "tea", vector=unit(3, 4)), fact("fact", "tea", 3, 4)])
    found = ask(index, "tea")
    for name in ("lexical", "dense", "likeness"):
        assert share(found, "turn", name) == pytest.approx(getattr(TALK, name), abs=1e-5)
        assert share(found, "fact", name) == pytest.approx(getattr(ALONE, name), abs=1e-5)


@given(talks(), questions, st.floats(0.1, 3))
def test_an_arm_that_gives_more_to_all_changes_nothing(told: list[Entry], question: Question, factor: float) -> None:
    """Only how a score stands to the best one counts: a question vector twice as long says the same."""
    index = index_of(told)
    asked = {word: word_vector(word) for word in question.words}
    plain = by_id(index, rank(index, question, QUERY, asked, Ranking()))
    longer = by_id(index, rank(index, question, QUERY * np.float32(factor), asked, Ranking()))
    assert plain.keys() == longer.keys()
    for id, (fused, _, _) in plain.items():
        assert longer[id][0] == pytest.approx(fused, abs=1e-3)


@given(talks(), questions)
def test_the_shares_of_a_memory_sum_to_its_score(told: list[Entry], question: Question) -> None:
    index = index_of(told)
    found = ranked(index, replace(question, of_now=False))
    for fused, _, shares in by_id(index, found).values():
        assert sum(shares.values()) == pytest.approx(fused, abs=1e-4)
    assert list(found.fused) == sorted(found.fused, reverse=True)


# ------------------------------------------------------------------ what is found


@given(talks(), questions)
def test_what_an_arm_finds_appears_once(told: list[Entry], question: Question) -> None:
    vectors = [None if each.vector is None else np.abs(each.vector) for each in told]
    index = index_of(replace(each, vector=vector) for each, vector in zip(told, vectors, strict=True))
    found = ranked(index, question)
    beside = index.neighbours()
    own = fusion.word_likeness(index, question, {word: word_vector(word) for word in question.words})
    met = (
        (fusion.lexical_signal(index, question, beside, Ranking().lexical) > 0)
        | (fusion.likeness_signal(index, question, own, beside) > 0)
        | (fusion.dense(index, QUERY, beside)[1] > 1e-6)
    )
    expected = {index.ids[owner] for owner in index.owner[met & index.alive]}
    assert len(found.ids) == len(set(found.ids))
    assert set(found.ids) >= expected
    assert set(found.ids) <= {each.id for each in told}


def test_an_arm_takes_no_more_away_than_it_can_give() -> None:
    told = [fact("near", "coffee", 0.01, 0, 1), fact("said", "I like tea", -0.3, 0, 1, order=1)]
    found = ask(index_of(told), "tea", unit(1))
    assert share(found, "near", "dense") == pytest.approx(ALONE.dense)
    assert share(found, "said", "dense") >= -ALONE.dense


def test_with_a_vector_all_are_ranked_and_without_one_what_shares_a_word() -> None:
    index = index_of([fact("a", "北京", 0, 0, 1), fact("b", "tea", 3, 4)])
    assert ask(index, "tea").ids == ["b", "a"]
    assert ask(index, "tea", None).ids == ["b"]
    assert ask(index_of([fact("a", "北京")]), "zebra", None).ids == []
    assert ask(ScopeIndex(4), "tea").ids == []


@pytest.mark.parametrize(("word", "best"), [("word1", 0), ("word59", 1)])
def test_the_best_passage_speaks_for_a_long_memory(word: str, best: int) -> None:
    passages = np.stack([unit(3, 4) if place == best else unit(0, 0, 1) for place in range(2)])
    index = index_of([fact("long", LONG, 1.0, passages=passages), fact("short", "coffee", 4, 3, order=1)])
    found = ask(index, word)
    assert sorted(found.ids) == ["long", "short"]
    place = found.ids.index("long")
    assert int(found.units[place]) == index._units["long"][0] + best
    assert float(found.similarity[place]) == pytest.approx(1.0), "that of its best passage"


def test_the_whole_of_a_long_memory_counts_beside_its_passage() -> None:
    """BEAM W: .4 of the whole and .3 of the passage, as shares of .7."""
    passages = np.stack([unit(3, 4), unit(0, 0, 1)])
    index = index_of([fact("long", LONG, 4, 3, passages=passages)])
    found = ask(index, "zebra")
    dense = found.shares["dense"]
    first = index._units["long"][0]
    whole, passage = 0.96, 0.0
    expected = (0.4 * whole + 0.3 * passage) / (0.4 * whole + 0.3 * 1.0)
    assert float(dense[first + 1] / dense[first]) == pytest.approx(expected, abs=1e-5)


def test_of_equals_what_was_told_last_comes_first() -> None:
    told = [fact(str(number), "tea", 3, 4, minute=number * DAY, order=number) for number in (2, 0, 1)]
    assert ask(index_of(told), "tea").ids == ["2", "1", "0"]


# ------------------------------------------------------------------ cues


def test_a_question_without_cues_has_none_of_their_shares() -> None:
    told = [
        entry("turn", "tea", vector=unit(3, 4)),
        fact("fact", "Always answer in French", 3, 4, directive=True, preference=True),
    ]
    found = ask(index_of(told), "tea")
    assert not {"speaker", "date", "directive", "preference"} & set(found.shares)
    for name in ("question", "temporal", "proper", "user"):
        assert not found.shares[name].any(), name


def test_who_is_named_alone_is_preferred() -> None:
    told = [
        entry("ann", "tea", minute=0, vector=unit(3, 4)),
        entry("bob", "tea", minute=0, order=1, track=("b",), speaker="Bob", vector=unit(3, 4)),
    ]
    index = index_of(told)
    speakers = list(index.speakers)
    found = ask(index, read_question("What does Bob say of tea?", speakers))
    assert found.ids == ["bob", "ann"]
    assert share(found, "bob", "speaker") == pytest.approx(TALK.speaker)
    assert share(found, "ann", "speaker") == 0
    both = ask(index, read_question("What do Ann and Bob say of tea?", speakers))
    assert "speaker" not in both.shares, "two names speak for neither"


def test_what_was_told_in_the_time_asked_about_is_preferred() -> None:
    told = [fact("then", "tea", 3, 4, minute=2 * DAY), fact("later", "tea", 3, 4, minute=400 * DAY, order=1)]
    question = read_question("tea on 3 January 1970", reference=datetime(2026, 1, 1, tzinfo=UTC))
    found = ask(index_of(told), question)
    assert found.ids == ["then", "later"]
    assert share(found, "then", "date") == pytest.approx(ALONE.date)
    assert share(found, "later", "date") == 0


def test_turns_that_ask_fall_and_turns_that_tell_when_and_whom_rise() -> None:
    told = [
        entry("asks", "tea?", minute=0, vector=unit(3, 4)),
        entry("when", "tea yesterday in March", minute=900, vector=unit(3, 4)),
        entry("who", "tea with Zoe in Lisbon near Porto", minute=1800, vector=unit(3, 4)),
    ]
    found = ask(index_of(told), "tea")
    assert share(found, "asks", "question") == pytest.approx(TALK.question)
    assert share(found, "when", "temporal") == pytest.approx(TALK.temporal)
    assert share(found, "who", "proper") == pytest.approx(TALK.proper)
    assert share(found, "when", "question") == share(found, "who", "temporal") == 0


def test_cues_of_talk_say_nothing_of_facts_and_of_what_is_said_to_an_assistant() -> None:
    text = "Was it yesterday in Lisbon with Zoe?"
    index = index_of([fact("fact", text, 3, 4), entry("user", text, speaker=None, vector=unit(3, 4))])
    found = ask(index, "lisbon")
    for id in ("fact", "user"):
        assert [share(found, id, name) for name in ("question", "temporal", "proper")] == [0, 0, 0]
    arms = sum(share(found, "user", name) for name in ("lexical", "dense", "likeness"))
    assert share(found, "user", "user") == pytest.approx(ALONE.user * arms)
    assert share(found, "fact", "user") == 0


def test_what_says_little_falls_and_what_is_old_only_where_the_question_is_of_now() -> None:
    told = [
        entry("old", "the harbour opens at nine every day", speaker=None, vector=unit(3, 4)),
        entry("new", "Right", speaker=None, minute=60 * DAY, vector=unit(3, 4)),
    ]
    index = index_of(told)
    now, then = ask(index, "When does the harbour open?"), ask(index, "When did the harbour open?")
    for found in (now, then):
        assert share(found, "new", "slight") < share(found, "old", "slight") == 0
    assert share(now, "old", "aged") < share(now, "new", "aged") == 0
    assert "aged" not in then.shares
    within_a_day = [replace(told[0], id="first"), entry("last", "Right", speaker=None, minute=60, vector=unit(3, 4))]
    assert share(ask(index_of(within_a_day), "When does the harbour open?"), "first", "aged") > -0.001


def test_a_standing_instruction_counts_where_something_is_to_be_done_and_by_the_square_of_its_nearness() -> None:
    told = [
        fact("near", "Always answer with tea", 3, 4, directive=True),
        fact("far", "Always answer in French", 1.0, directive=True, order=1),
        fact("plain", "tea", 3, 4, order=2),
    ]
    found = ask(index_of(told), "Can you write about tea?")
    assert share(found, "near", "directive") == pytest.approx(ALONE.directive)
    assert share(found, "far", "directive") == pytest.approx(ALONE.directive * 0.6**2, abs=1e-5)
    assert share(found, "plain", "directive") == 0
    without = ask(index_of(told), "Can you write about tea?", None)
    assert share(without, "near", "directive") == share(without, "far", "directive") == pytest.approx(ALONE.directive)


def test_every_weight_is_that_of_an_arm_or_a_signal() -> None:
    """A weight whose share never appears would be a dead option."""
    told = [entry("turn", "tea?", vector=unit(3, 4))]
    question = replace(
        read_question("Can you say what Ann had on 3 January 1970?", ["ann"]),
        named=frozenset({"ann"}),
        wants_doing=True,
        of_now=True,
    )
    found = ask(index_of(told), question)
    assert set(found.shares) == set(Weights.__dataclass_fields__)


# ------------------------------------------------------------------ what others do to two memories

CORPUS = ("tea lisbon", "tea coffee", "train lisbon", "train coffee", "walked tea", "walked train", "far lisbon", "sea")


def test_an_unrelated_memory_as_long_as_the_others_changes_nothing_for_a_question_of_one_word() -> None:
    """Rarity is then one factor of every score, and the arm's best takes it out."""
    told = [fact(str(n), text, 3, 4 - n / 2, order=n) for n, text in enumerate(CORPUS[:7])]
    index = index_of(told)
    before = by_id(index, ask(index, "lisbon"))
    for n in range(5):
        index.put(fact(f"other {n}", "zebra zebra", 0, 0, 1, order=10 + n))
    give_words(index)
    after = by_id(index, ask(index, "lisbon"))
    for id, (fused, similarity, _) in before.items():
        assert after[id][1] == pytest.approx(similarity)
        assert after[id][0] == pytest.approx(fused, abs=1e-5)


@given(
    st.permutations(CORPUS),
    st.lists(st.sampled_from(["tea", "lisbon", "train", "coffee"]), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(["zebra", "lion", "harbour"]), max_size=3),
)
def test_an_unrelated_memory_swaps_only_what_stood_close_together(
    texts: Sequence[str], asked: list[str], other: list[str]
) -> None:
    """Whatever else is told, a score moves by less than .1: two memories further apart than .2 keep their order."""
    index = index_of(fact(str(n), text, 3, 4 - n / 2, order=n) for n, text in enumerate(texts))
    question = read_question(" ".join(asked))
    words = {word: word_vector(word) for word in asked}
    before = by_id(index, rank(index, question, QUERY, words, Ranking()))
    index.put(fact("other", " ".join(other), 0, 0, 1, order=99))
    after = by_id(index, rank(index, question, QUERY, words, Ranking()))
    for id, (fused, _, _) in before.items():
        assert after[id][0] == pytest.approx(fused, abs=0.1)
