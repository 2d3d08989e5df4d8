"""Any text: no exception, the same answer twice, no first person outside quotes, and time that grows with length."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.fact import Fact
from perdure.domain.message import Message
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import extract
from perdure.pipeline.curation.rules.extraction.cleaning import gloss, language_of
from perdure.pipeline.curation.rules.reconciliation import decide
from tests.pipeline.curation.rules.test_reconciliation import beside

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TEXT = """i my we our me am live in Leeds not no yes since 2019 because and , . ? ! : ( ) ' " - the user wife
Ana she it they forget that sorry
actually 7pm 12th should can you please always never write is was has to of 'tis * ` = + vivo en"""
WORDS = st.sampled_from([*TEXT.split(), "\n"])
ROLES = st.sampled_from(["user", "assistant", "system"])
FIRST_PERSON = re.compile(r"(?<![\w'’.])(i|i['’](?:m|ve|d|ll)|im|ive|my|me|mine|we|our)(?![\w'’.])", re.I)


@given(st.lists(st.tuples(ROLES, st.text(max_size=120)), max_size=4))
def test_no_text_raises(said):
    messages = [Message(role, text) for role, text in said]
    assert extract(messages, now=NOW) == extract(messages, now=NOW)


@given(st.lists(st.tuples(ROLES, st.lists(WORDS, max_size=25)), max_size=4))
def test_no_sentence_raises_and_sources_are_positions(said):
    messages = [Message(role, " ".join(words)) for role, words in said]
    for fact in extract(messages, now=NOW):
        assert fact.text.strip() and all(0 <= at < len(messages) for at in fact.sources) and fact.sources


@given(st.text(max_size=30), st.characters(max_codepoint=0x1F, exclude_characters="\t\n\v\f\r"))
def test_no_control_character_is_in_a_fact(said, control):
    text = f"I live in Leeds{control} and have a {control} cat called Tom. {said}{control}"
    for fact in extract([Message("user", text)], now=NOW):
        assert control not in fact.text


@pytest.mark.parametrize(
    "text",
    [
        "I live in Leeds and my wife works at a bank, she loves me and our dog",
        "me and my brother run a cafe we bought with our savings",
        "my dad told me I should sell mine",
        "its me and my cat, we moved into our own place and i love it",
    ],
)
def test_no_first_person_is_left(text):
    for fact in extract([Message("user", text)], now=NOW):
        assert not FIRST_PERSON.search(fact.text), fact.text


@pytest.mark.parametrize(
    "unit",
    [
        "a-",
        "my ",
        "I live in Leeds. ",
        "a, ",
        "x: ",
        "'a ",
        '"',
        "(",
        "i like tea and ",
        "1,",
        "\n",
        "? ",
        "vivo en Madrid, ",
        "a = b\n",
        "who ",
        "hi,\n",
        "to: a\n",
        "hi\nbest\n",
        "from said: '",
    ],
)
def test_time_grows_with_length_only(unit):
    def seconds(length):
        content = (unit * length)[:length]
        started = time.process_time()
        extract([Message("user", content)], now=NOW)
        return time.process_time() - started

    extract([Message("user", "warm up, I live in Leeds")], now=NOW)
    most = 10 * max(seconds(10_000), 0.05)
    assert any(seconds(40_000) < most for _ in range(2)), "four times the text: 4 if linear, 16 if quadratic"


@pytest.mark.parametrize("unit", ["x", "我", "a@", "a-", "1", "a: ", "ab ", "' a"])
def test_a_decision_beside_text_without_spaces_takes_little_longer(unit):
    """A memory of 64 hexadecimal digits took five seconds, one of 200 letters hours."""

    def seconds(length):
        text = (unit * length)[:length]
        started = time.process_time()
        for fact, memory in (("User likes figs", text), (text, "User likes figs"), (f"{text}b", text)):
            decide(Fact(text=fact), beside(memory))
        return time.process_time() - started

    seconds(20)
    most = 10 * max(seconds(50), 0.05)
    assert any(seconds(200) < most for _ in range(2)), "four times the text: 4 if linear, hours if exponential"


def test_private_characters_do_no_harm():
    assert isinstance(extract([Message("user", "I live in \ue000 Leeds \ue001 'x y'")], now=NOW), list)


def test_every_pattern_file_compiles_and_every_table_has_its_tab():
    names = [
        "chatter.txt",
        "tasks.txt",
        "requests.txt",
        "hypotheticals.txt",
        "scene_fiction.txt",
        "scene_roles.txt",
        "scene_texts.txt",
        "scene_play.txt",
        "scene_master.txt",
        "scene_mockery.txt",
        "scene_brought.txt",
    ]
    for name in names:
        for line in lexicon.lines(name):
            re.compile(line)
    for language in ("es", "pt", "it", "fr", "de", "zh"):
        assert len(lexicon.pairs(f"foreign_{language}.tsv")) > 200
        for pattern in lexicon.pairs(f"foreign_{language}_frames.tsv"):
            re.compile(pattern)


def test_a_missing_table_names_its_file():
    with pytest.raises(FileNotFoundError, match="no_such"):
        lexicon.words("no_such.txt")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Bob lives in Porto.", ""),
        ("Ana works in Porto, in a bank.", ""),
        ("Vivo a Porto con mia moglie", "it"),
        ("Porto gli occhiali da vista", "it"),
    ],
)
def test_a_name_inside_an_english_sentence_is_no_word_of_another_language(text: str, language: str) -> None:
    assert language_of(text) == language
    if not language:
        assert "wear" not in gloss(text, "it")
