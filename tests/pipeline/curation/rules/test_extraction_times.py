"""Times of facts: dates and relative times, anchored at the message's own time, else at now."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract, times

NOW = datetime(2026, 6, 17, 15, 30, tzinfo=UTC)  # a Wednesday


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("User lives in Leeds", None, None),
        ("User has lived in Leeds since 2019", "2019-01-01", None),
        ("User lived in Nairobi until 2016", None, "2016-01-01"),
        ("User met Ana yesterday", "2026-06-16", None),
        ("User went to Rome last March", "2026-03-01", None),
        ("User went to Rome last October", "2025-10-01", None),
        ("User's rent is 900 from may", "2026-05-01", None),
        ("User quit smoking two years ago", "2024-06-01", None),
        ("User started three weeks ago", "2026-05-27", None),
        ("User has a 2016 Subaru", None, None),
        ("User may move", None, None),
        ("User's exam is on 3 July", None, None),
        ("User's wedding is on 21 June 2027", None, None),
        ("User's hip operation has been moved to 9 January", None, None),
        ("User moved on 2024-02-29", "2024-02-29", None),
        ("User moved on 31 February", None, None),
        ("User's contract runs from 1 May 2025 until 30 April 2027", "2025-05-01", "2027-04-30"),
        ("User has a scan next Friday", None, None),
        ("User has been vegan for 3 years", "2023-06-01", None),
        ("Jodie asked for time off on 3 August", None, None),
        ("User reserved Hotel Zeitgeist for 8 July", None, None),
        ("User reserved Hotel Zeitgeist for 8 May", "2026-05-08", None),
        ("User met Ana on 8 July", "2025-07-08", None),
    ],
)
def test_validity(text, start, end):
    assert times.validity(text, NOW) == (day(start) if start else None, day(end) if end else None)


def test_relative_times_count_from_the_message():
    told = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    (fact,) = extract([Message("user", "I moved to Oslo yesterday", timestamp=told)], now=NOW)
    assert fact.valid_from == day("2023-05-07")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I met Ana at the fair", "episodic"),
        ("I live in Leeds", "semantic"),
        ("when a customer complains we first apologise, then log it in Zendesk", "procedural"),
    ],
)
def test_kinds(text, kind):
    assert extract([Message("user", text)], now=NOW)[0].type == kind


@pytest.mark.parametrize("time", ["9 am", "9 AM", "9 a.m.", "10:30 am", "9 pm", "9am"])
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("The standup is at {}", "The standup is at {}"),
        ("My flight is on Monday at {}", "User's flight is on Monday at {}"),
        ("I start at {}", "User starts at {}"),
    ],
)
def test_a_time_of_day_is_no_statement_about_who_speaks(said, told, time):
    facts = [fact.text.lower().replace(" ", "") for fact in extract([Message("user", said.format(time))], now=NOW)]
    assert [fact.replace(".", "") for fact in facts] == [told.format(time).lower().replace(" ", "").replace(".", "")]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Mi hermana trabaja como arquitecta", "User's sister works as architect"),
        ("Mi padre trabaja de camarero", "User's father works as waiter"),
        ("Minha irmã trabalha como arquiteta", "User's sister works as architect"),
        ("Ma soeur travaille comme infirmière", "User's sister works as nurse"),
    ],
)
def test_what_a_relative_works_as_is_not_what_somebody_eats(said, told):
    assert [fact.text for fact in extract([Message("user", said)], now=NOW)] == [told]


AUTUMN = datetime(2026, 11, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "start"),
    [
        ("im moving to york in january", "2027-01-01"),
        ("my sister is moving to Galway in march", "2027-03-01"),
        ("I start at Aldi on 5 January", "2027-01-05"),
        ("I'm leaving Tesco next month", "2026-12-01"),
        ("I'm starting a course in september", "2027-09-01"),
        ("my rent is 1000 from january", "2027-01-01"),
        ("I will move to York in January", "2027-01-01"),
        ("my boss will be Ana from february", "2027-02-01"),
        ("I'm moving out on saturday", None),
        ("I'm getting a dog soon", None),
        ("I'm going to move to York", None),
    ],
)
def test_what_is_told_for_later_is_marked_and_begins_then(said: str, start: str | None) -> None:
    (fact,) = extract([Message("user", said, timestamp=AUTUMN)], now=AUTUMN)
    assert (fact.ahead, fact.valid_from) == (True, day(start) if start else None)


@pytest.mark.parametrize(
    "said",
    [
        "I live in York",
        "I moved to York in January",
        "I have lived in York since january",
        "I'm training for a marathon in april",
        "I go to yoga on monday",
        "I will not eat meat",
        "I'm starting a course in november",
        "I got married in june",
        "my dentist appointment is moving to 5 december",
        "my gym class moves to thursday",
    ],
)
def test_what_holds_or_is_over_is_not_told_for_later(said: str) -> None:
    (fact,) = extract([Message("user", said, timestamp=AUTUMN)], now=AUTUMN)
    assert not fact.ahead
