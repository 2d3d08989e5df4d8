"""A fact counts only if its quote, its numbers and its names were said."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.message import Message
from perdure.pipeline.curation.llm.evidence import Evidence, numbers_said

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


def said(*texts: str, known: tuple[str, ...] = ()) -> Evidence:
    return Evidence([Message("user", text) for text in texts], NOW, known)


@pytest.mark.parametrize(
    ("message", "quote"),
    [
        ("I moved to Porto last week.", "moved to porto"),
        ("I moved to Porto last week.", "Moved  to Porto, last week!"),
        ("I’m vegan", "i'm vegan"),
        ("Ich wohne in München.", "wohne in Munchen"),
        ("we live in São\nPaulo", "live in Sao Paulo"),
        ("I moved to Porto last week, for a new job.", "moved to Porto ... new job"),
        ("I moved to Porto", "user: I moved to Porto"),
        ("我住在里斯本。", "我住在里斯本"),
        ("ＦＵＬＬ width", "full width"),
    ],
)
def test_a_quote_stands_in_its_message_whatever_its_case_spaces_and_signs(message: str, quote: str) -> None:
    assert said("Hello", message).place(quote) == 1


@pytest.mark.parametrize("quote", ["moved to Lisbon", "week ... Porto", "", " ... ", "?!"])
def test_a_quote_that_nobody_said_stands_nowhere(quote: str) -> None:
    assert said("I moved to Porto last week.").place(quote) is None


def test_a_claimed_message_comes_first_and_a_wrong_number_is_put_right() -> None:
    evidence = said("I like tea", "And you?", "I like tea")
    assert evidence.place("like tea", (2,)) == 2
    assert evidence.place("like tea", (1,)) == 0
    assert evidence.place("like tea", (-1, 99)) == 0


@pytest.mark.parametrize(
    ("message", "fact"),
    [
        ("my rent is 10,000", "User's rent is 10000"),
        ("my rent is 10.000 Euro", "User's rent is 10,000 euros"),
        ("my rent is 10 000", "User's rent is 10,000"),
        ("es kostet 1,5 Millionen", "User pays 1.5 million"),
        ("about 10k a month", "User pays 10,000 a month"),
        ("a budget of 2000000", "User has a budget of 2 million"),
        ("two dogs and a cat", "User has 2 dogs and 1 cat"),
        ("twenty-five chairs", "User has 25 chairs"),
        ("three hundred and five seats", "User has 305 seats"),
        ("since nineteen ninety eight", "User has lived there since 1998"),
        ("fünfundzwanzig Stühle", "User hat 25 Stühle"),
        ("dreihundertzwei Stühle", "User hat 302 Stühle"),
        ("a dozen eggs", "User has 12 eggs"),
        ("I ran 21.1 km", "User ran 21.10 km"),
        ("my flight is at 7pm", "User's flight is at 19:00"),
        ("at half past seven", "User wakes at 7:30"),
        ("am 12.03.2026", "User's exam is on 2026-03-12"),
        ("on 12/3/2026", "User's exam is on 12 March 2026"),
        ("I moved yesterday", "User moved on 2026-02-28"),
        ("I moved yesterday", "User moved on 28 February 2026"),
        ("I moved five years ago", "User moved in 2021"),
        ("I'm 36", "User was born in 1990"),
        ("I was born in 1990", "User is 36"),
        ("I went to the dentist", "User went to the dentist (2026-03-01)"),
        ("昨天我搬家了", "User moved on 2026-02-28"),
        ("我有两只猫", "User has 2 cats"),
        ("我二十五岁", "User is 25"),
        ("房租三千五百元", "User pays 3,500"),
        ("一万两千步", "User walked 12000 steps"),
    ],
)
def test_a_number_that_was_said_in_another_form_is_not_missing(message: str, fact: str) -> None:
    assert said(message).missing(fact) == []


@pytest.mark.parametrize(
    ("message", "fact", "missing"),
    [
        ("my rent is 780 euros", "User's rent is 870 euros", ["870"]),
        ("I have a dog", "User has 3 dogs", ["3"]),
        ("I ran 21.1 km", "User ran 42.2 km", ["42.2"]),
        ("I have a dog", "User adopted a dog on 2019-05-04", ["2019-05-04"]),
        ("I moved yesterday", "User moved in 2011", ["2011"]),
        ("the flight is at 7pm", "User's flight is at 22:10", ["22:10"]),
        ("I pay 10 euros", "User pays 10 000 euros", ["10 000"]),
        ("a dog of 5", "User runs 1.5 km", ["1.5"]),
        ("我有两只猫", "User has 3 cats", ["3"]),
        ("my number is 5550199", "User's number is 5550198", ["5550198"]),
    ],
)
def test_a_number_that_nobody_said_is_missing(message: str, fact: str, missing: list[str]) -> None:
    assert said(message).missing(fact) == missing


@pytest.mark.parametrize(
    ("message", "fact"),
    [
        ("i live in lisbn with ana", "User lives in Lisbon with Ana"),
        ("i moved to nyc", "User lives in New York City"),
        ("I work for Amazon Web Services", "User works for AWS"),
        ("it runs on an rtx5090", "User uses an RTX 5090"),
        ("my IBAN is DE44 9920", "User has the IBAN DE44 9920"),
        ("i write js and postgres", "User writes JavaScript and PostgreSQL"),
        ("we use git hub", "User uses GitHub"),
        ("I come from Portugal", "User is Portuguese"),
        ("Anas Hund heißt Rex", "User knows Ana and her dog Rex"),
        ("Ich habe einen Hund und ein Auto", "User hat einen Hund und ein Auto mit Anhänger und fährt nach Hause"),
        ("я живу в Лиссабоне", "User lives in Lisbon"),
        ("I have a dog", "User Has A Dog And A Cat"),
        ("always be brief", 'User told the assistant: "Always be brief"'),
        ("I'm off on friday", "User is off on Friday, in March"),
    ],
)
def test_a_name_that_was_said_in_another_form_is_not_missing(message: str, fact: str) -> None:
    assert said(message).missing(fact) == []


def test_a_name_that_nobody_said_is_missing_unless_it_is_known() -> None:
    assert said("my sister").missing("Lives in Oslo, in Norway") == ["Oslo", "Norway"], "it is no title"
    fact = "User's sister Dolores lives in Porto"
    assert said("my sister lives in Porto").missing(fact) == ["Dolores"]
    assert said("my sister lives in Porto", known=("User's sister is named Dolores",)).missing(fact) == []
    named = Evidence([Message("user", "I live in Porto", name="Dolores")], NOW)
    assert named.missing("In Porto Dolores lives") == []


def test_numbers_of_a_text_are_what_is_written_and_what_is_spoken() -> None:
    assert {"1500", "1.5"} <= numbers_said("1,500")
    assert {"12", "3", "2026"} <= numbers_said("12.03.2026")
    assert numbers_said("no digits here") == {"0"}
    assert numbers_said("9" * 400) == {"9" * 400}


WORDS = st.text(alphabet="abcdefghijklmnopqrstuvwxyzäöüéñçşß我住в", min_size=1, max_size=9)
MESSAGE = st.lists(WORDS | st.integers(0, 10**6).map(str), min_size=1, max_size=30)


def test_the_beginning_of_a_number_in_groups_is_said() -> None:
    assert said("1 100 100").missing("User 1 100") == []
    assert said("1 100 100").missing("User 2 100") == ["2 100"]


@given(MESSAGE, st.data())
def test_no_fact_of_a_messages_own_words_is_refused(message: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(message) - 1))
    own = message[start : start + data.draw(st.integers(1, 12))]
    shown = [data.draw(st.sampled_from([word, word.title(), word.upper()])) for word in own]
    between = data.draw(st.sampled_from([" ", ", ", "  ", " - ", "\n"]))
    evidence = said("Well.", " ".join(message))
    assert evidence.place(between.join(shown)) is not None
    assert evidence.missing(f"User {' '.join(shown)}") == []


PLAIN = st.text(alphabet="abdfgklp", min_size=1, max_size=9)


@given(st.lists(PLAIN | st.integers(0, 10**6), min_size=1, max_size=30), st.integers(121, 1_899) | st.integers(2_200))
def test_a_number_that_is_nowhere_is_always_refused(message: list[str | int], number: int) -> None:
    evidence = said(", ".join(map(str, message)))
    assert evidence.missing(f"User has {number} of them") == ([] if number in message else [str(number)])


def test_numbers_side_by_side_are_not_added_up() -> None:
    assert said("rooms 12 30").missing("User has room 42") == ["42"]
    assert said("2 hundred").missing("User has 200") == []
