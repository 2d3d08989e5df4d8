"""Typed slots: canonical values, subjects, attributes and moods of statements."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.curation.rules.slots import Value, comparable, fits, read, read_slots
from perdure.pipeline.curation.rules.slots.scan import fold, is_kind_of, scan, stem
from perdure.pipeline.curation.rules.slots.typed import type_values


def values(text: str) -> list[Value]:
    return [token.value for token in type_values(scan(text)) if token.value is not None]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("1,200 euros", "€1200"),
        ("54,000", "54k"),
        ("3 grand", "3000"),
        ("900 quid", "£900"),
        ("70 kg", "70 kilos"),
        ("10 km", "ten-kilometre"),
        ("1.83 m", "183 cm"),
        ("5'11", "5 ft 11"),
        ("1 metre 70", "170 cm"),
        ("half a kilo", "500 g"),
        ("6:40 pm", "18:40"),
        ("7pm", "7 p.m."),
        ("half past six", "6:30"),
        ("quarter to seven", "6:45 am"),
        ("7 o'clock", "19:00"),
        ("noon", "12:00"),
        ("14 March 1988", "March 14th, 1988"),
        ("2027-08-01", "1 August 2027"),
        ("on Mondays", "Monday"),
        ("twenty-one", "21"),
        ("3rd", "third"),
        ("90 minutes", "1.5 hours"),
        ("50%", "50 %"),
        ("once a week", "1x a week"),
        ("twice a month", "two times per month"),
    ],
)
def test_values_written_differently_are_equal(one: str, two: str) -> None:
    (left,), (right,) = values(one), values(two)
    assert fits(left, right)
    assert fits(right, left)


@pytest.mark.parametrize(
    ("general", "special"),
    [
        ("in the mornings", "at 9 am"),
        ("in May", "on 3 May 2026"),
        ("14 March", "14 March 1988"),
        ("in 2021", "June 2021"),
        ("at 6", "18:00"),
    ],
)
def test_a_less_precise_value_fits_the_precise_one_only(general: str, special: str) -> None:
    (less,), (more,) = values(general), values(special)
    assert fits(less, more)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("10 euros", "10 dollars"),
        ("10 kg", "10 km"),
        ("12", "120"),
        ("Kubernetes 1.27", "Kubernetes 1.29"),
        ("3 May", "3 June"),
        ("in 2021", "in 2023"),
        ("Monday", "Tuesday"),
        ("7am", "7pm"),
        ("0161 555 0178", "0161 555 0143"),
    ],
)
def test_different_values_do_not_fit(one: str, two: str) -> None:
    assert not fits(values(one)[0], values(two)[0])


def test_a_modal_may_is_no_month_and_a_range_is_no_clock() -> None:
    assert values("User may come") == []
    assert [value.kind for value in values("from 5 to 6")] == ["number", "number"]
    assert [value.kind for value in values("in may")] == ["date"]


def test_only_values_of_one_kind_are_comparable() -> None:
    assert comparable(values("3 May")[0], values("5 June")[0])
    assert not comparable(values("3 kg")[0], values("3 km")[0])
    assert not comparable(values("Monday")[0], values("50 euros")[0])


@pytest.mark.parametrize(
    ("forms"),
    [
        ("lives", "living", "lived"),
        ("moves", "moved", "moving"),
        ("bought", "buys"),
        ("children", "child"),
        ("planned", "plans"),
        ("parties", "party"),
    ],
)
def test_inflections_have_one_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(fold(form)) for form in forms}) == 1


def test_kinds_are_known_over_several_steps() -> None:
    assert is_kind_of("beagl", "dog")
    assert is_kind_of("beagl", "pet")
    assert not is_kind_of("dog", "beagl")


@pytest.mark.parametrize(
    ("text", "attribute", "concepts"),
    [
        ("User lives in Graz", "home", {"graz"}),
        ("User moved to Graz last year", "home", {"graz"}),
        ("User is based in Graz", "home", {"graz"}),
        ("User's sister Ana lives in Graz", "home", {"graz"}),
        ("User works at Lumen Dental as a hygienist", "employer", {"lumen", "dental"}),
        ("User is a hygienist", "role", {"hygienist"}),
        ("User is vegetarian", "diet", {"vegetarian"}),
        ("User is married to Ines", "status", {"marri"}),
    ],
)
def test_frames_fill_single_valued_attributes(text: str, attribute: str, concepts: set[str]) -> None:
    held = {slot.attribute: set(slot.concepts) for slot in read(text).slots}
    assert held[attribute] == concepts


@pytest.mark.parametrize(
    ("text", "is_home"),
    [
        ("User lives on a farm", True),
        ("User lives on Elm Street", True),
        ("User lives on the outskirts of Graz", True),
        ("User lives on Texel", True),
        ("User lives on coffee and spite", False),
        ("User lives on benefits", False),
        ("User lives on a tight budget", False),
        ("User lives for weekends", False),
        ("User lives off their savings", False),
        ("User lives and breathes chess", False),
    ],
)
def test_a_home_is_a_place_and_not_what_one_lives_on(text: str, is_home: bool) -> None:
    assert any(slot.attribute == "home" for slot in read(text).slots) == is_home


@pytest.mark.parametrize(
    ("text", "kind", "relation", "name"),
    [
        ("User likes tea", "user", "", ""),
        ("User's sister Ana lives in Graz", "relative", "sister", "ana"),
        ("User's mum is 70", "relative", "mother", ""),
        ("The name of User's gran is Odile", "relative", "grandmother", ""),
        ("User's brother-in-law works at the airport", "relative", "brother in law", ""),
        ("Filip plays football", "named", "", "filip"),
        ("The staging cluster runs Kubernetes 1.27", "thing", "", ""),
        ("Paula is User's boss", "relative", "boss", ""),
    ],
)
def test_the_party_is_read(text: str, kind: str, relation: str, name: str) -> None:
    party = read(text).party
    assert (party.kind, party.relation, party.name) == (kind, relation, name)


@pytest.mark.parametrize(
    ("text", "mood"),
    [
        ("User is not lactose intolerant after all", "negated"),
        ("User does not live with Nadia any more", "ended"),
        ("User no longer plays rugby", "ended"),
        ("User used to play handball", "ended"),
        ("User sold the motorbike", "ended"),
        ("User's sabbatical is over", "ended"),
        ("User might move to Canada", "hedged"),
        ("User would move to Canada if the visa came", "hedged"),
        ("User plans to adopt a cat", "planned"),
        ("User lived in Udine", "past"),
        ("It is not true that User has three sons", "denied"),
        ("User's office is on the fifth floor now", "changed"),
        ("User had the year wrong: it was 1912", "corrected"),
    ],
)
def test_the_mood_is_read(text: str, mood: str) -> None:
    assert getattr(read(text).mood, mood)


def test_what_is_given_up_is_told_apart() -> None:
    moved = read("User's meeting with Anna was moved from Monday to Tuesday")
    assert [value.amount for value in moved.values] == [2.0]
    assert [value.amount for value in moved.replaced_values] == [1.0]
    span = read("User lived in Lima from 2001 to 2005")
    assert span.replaced_values == ()


def test_sides_of_one_event_read_alike() -> None:
    turned = read("Marek sold User the tent").turned
    bought = read("User bought the tent from Marek")
    assert turned is not None
    assert turned.party == bought.party
    assert turned.concepts == bought.concepts


def test_read_slots_agrees_for_one_attribute_and_tells_denial() -> None:
    one, two = read_slots("User lives in Graz"), read_slots("User moved to Vienna")
    assert one is not None and two is not None
    assert (one.subject, one.attribute) == (two.subject, two.attribute) == ("user", "home")
    denied = read_slots("User is no longer vegetarian")
    assert denied is not None and not denied.polarity


@pytest.mark.parametrize("text", ["", "   ", "...", "hm", "\x00"])
def test_a_text_without_a_statement_has_no_slots(text: str) -> None:
    assert read_slots(text) is None


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    reading = read(text)
    assert reading == read(text)
    read_slots(text)


@given(
    st.lists(
        st.sampled_from(
            [
                "User",
                "'s",
                "is",
                "not",
                "moved",
                "from",
                "to",
                "Monday",
                "5",
                "€",
                "and",
                "sister",
                "Ana",
                ",",
                "gave",
                "back",
                "no",
                "longer",
                "3rd",
                "May",
                "of",
                "half",
                "past",
                "the",
                "by",
                ";",
                "User's",
            ]
        ),
        max_size=40,
    )
)
def test_any_row_of_telling_words_can_be_read(words: list[str]) -> None:
    read(" ".join(words))


@pytest.mark.parametrize(
    "text",
    [
        "User " + "a" * 50_000,
        "User " + "gave the " * 5_000,
        "In " * 3_000 + "User is",
        "The " + "w " * 300 + "is made by Bob",
        "A b " * 200 + "is User's " + "x " * 100,
        "User's " * 3_000,
    ],
)
def test_time_grows_with_length_only(text: str) -> None:
    def seconds(some: str) -> float:
        started = time.process_time()
        read(some)
        return time.process_time() - started

    read("User likes tea")
    short = seconds(text[: len(text) // 4])
    long = min(seconds(text) for _ in range(2))
    assert long < 10 * max(short, 0.02), "four times the text: 4 if linear, 16 if quadratic"


@pytest.mark.parametrize(
    ("text", "topic", "verb"),
    [
        ("User's bookings go through Fresha", ("booking",), "go"),
        ("Sunday matches kick off at 10.30", ("gam",), "start"),
        ("User's sales plan is on the wall", ("sal", "flight"), "be"),
        ("Shirts are teal", ("shirt",), "be"),
        ("Completion is on 28 August", ("completion",), "be"),
        ("User's sourdough proves for 14 hours", ("sourdough",), "prov"),
        ("The eggs come from a farm", ("egg",), "origin"),
    ],
)
def test_a_thing_is_told_from_what_is_said_of_it(text: str, topic: tuple[str, ...], verb: str) -> None:
    reading = read(text)
    assert (reading.topic, reading.verb) == (topic, verb)
    assert not reading.mood.past


@pytest.mark.parametrize("text", ["Rose is tired", "Clement has stepped down", "James has a cat", "Mark is away"])
def test_a_name_that_opens_a_sentence_is_a_person(text: str) -> None:
    assert read(text).party.kind == "named"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The committee lowered the fee to 160", "the fee moved to 160"),
        ("They put the price up to 6.25", "the price moved to 6.25"),
        ("Jagdeep has stepped up as assistant coach", "The assistant coach is Jagdeep now"),
        ("Completion is set for 28 August", "Completion is on 28 August"),
        ("The club plans to raise the fee to 60", "The club plans to raise the fee to 60"),
        ("Anna has not moved the meeting to Friday", "Anna has not moved the meeting to Friday"),
    ],
)
def test_shapes_are_brought_to_the_plain_one(text: str, plain: str) -> None:
    assert read(text).text == plain


@pytest.mark.parametrize(
    "text", ["Mara now works at a clinic", "Ilse also plays the cello", "Now Mara has a balcony", "Jonas gave up chess"]
)
def test_a_name_before_an_adverb_is_a_person(text: str) -> None:
    party = read(text).party
    assert (party.kind, bool(party.name)) == ("named", True)


def test_where_a_car_stands_is_not_which_it_is() -> None:
    assert not any(slot.attribute == "car" for slot in read("User's car is in the garage until Tuesday").slots)
    assert any(slot.attribute == "car" for slot in read("User's car is a red Clio").slots)


def test_a_husband_is_no_trade() -> None:
    assert not any(slot.attribute == "role" for slot in read("Jonas is Mara's husband").slots)


@pytest.mark.parametrize(
    ("text", "attribute"),
    [
        ("User goes to Leeds University", "school"),
        ("User attends Hillcrest college", "school"),
        ("User joined Stripe", "employer"),
        ("User joined a startup", "employer"),
        ("User is going to keep the cat", None),
        ("User is going to a conference this month", None),
        ("User is going to Rome in May", None),
        ("User joined a gym last week", None),
    ],
)
def test_only_a_school_is_attended_as_one_and_only_who_employs_is_joined_as_one(
    text: str, attribute: str | None
) -> None:
    assert {slot.attribute for slot in read(text).slots} == ({attribute} if attribute else set())
