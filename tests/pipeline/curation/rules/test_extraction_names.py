"""Names stay as they are typed, though chat spelling and left out apostrophes look like them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.message import Message
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import extract
from perdure.pipeline.curation.rules.extraction.cleaning import clean

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
_CHAT = sorted(
    short.capitalize()
    for short, plain in lexicon.pairs("spelling.tsv").items()
    if short.isalpha() and len(short) > 1 and short != "ur" and "'" not in plain and plain[0].islower()
)


def facts(text: str) -> list[str]:
    return [fact.text for fact in extract([Message("user", text)], now=NOW)]


@given(st.sampled_from(_CHAT))
def test_a_capitalised_word_inside_a_sentence_is_no_chat_spelling(name: str) -> None:
    text = f"We had lunch with {name} and then {name}'s brother drove us home."
    assert clean(text).text == text


@given(st.text("abcdefghiklmnoprtuvz", min_size=2, max_size=8), st.sampled_from(["moved", "got", "called", "gone"]))
def test_a_name_in_s_keeps_it_before_a_participle(stem: str, participle: str) -> None:
    name = f"{stem.capitalize()}s"
    for lead in ("My brother", "The"):
        text = f"{lead} {name} {participle} yesterday"
        assert clean(text).text == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("My son Ty is 9", "User's son Ty is 9"),
        ("The cottage is called Ty Gwyn", "The cottage is called Ty Gwyn"),
        ("I work for Pls Logistics", "User works for Pls Logistics"),
        ("Ines moved to Porto", "Ines moved to Porto"),
        ("my parents moved to Spain", "User's parents moved to Spain"),
        ("my kids go to St Brigid's in Cork", "User's kids go to St Brigid's in Cork"),
        ("Max's birthday is 3 March, Isla's is 14 May.", "Isla's birthday is 14 May"),
    ],
)
def test_a_fact_has_the_name_that_was_typed(text: str, told: str) -> None:
    assert told in facts(text)


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        ("PLS REMEMBER I DONT EAT MEAT", "please REMEMBER I don't EAT MEAT"),
        ("yeah but Im vegan and we Dont eat eggs", "yeah but I am vegan and we don't eat eggs"),
        ("Gonna move in may. Ty for asking", "going to move in may. thanks for asking"),
        ("we spend Xmas at mums", "we spend Christmas at mums"),
        ("dads been ill", "dad has been ill"),
        ("Dads been ill", "Dad has been ill"),
        ("my mums got a new job", "my mum has got a new job"),
        ("the cats called Miso", "the cat is called Miso"),
    ],
)
def test_lazy_typing_is_written_out(typed: str, plain: str) -> None:
    assert clean(typed).text == plain
