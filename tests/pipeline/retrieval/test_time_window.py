"""The time that a question asks about: what is read as a date, what is not, and how close a moment is to it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.retrieval.time_window import Window, asks_when, closeness, parse, temporal_words

NOW = datetime(2024, 3, 14, 10, tzinfo=UTC)
"""A Thursday."""


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def window(start: str, end: str, grain: str) -> Window:
    return Window(moment(start) if start else None, moment(end) if end else None, grain)  # type: ignore[arg-type]


def numbers(*texts: str) -> np.ndarray:
    return np.array([moment(text).timestamp() / 86_400 for text in texts])


DAY = window("2023-05-07", "2023-05-08", "day")


@pytest.mark.parametrize(
    "text",
    [
        "7 May 2023",
        "7 May, 2023",
        "May 7, 2023",
        "May 7,2023",
        "may 7th 2023",
        "the 7th of May 2023",
        "2023-05-07",
        "2023/5/7",
        "5/7/2023",
        "5/7/23",
        "7.5.2023",
        "7 de mayo de 2023",
        "7. Mai 2023",
        "le 7 mai 2023",
        "il 7 maggio 2023",
        "7 de maio de 2023",
    ],
)
def test_a_day_is_read_in_every_common_way_of_writing_it(text: str) -> None:
    for question in (text, f"What did Ana do on {text}?", f"on {text}, as she mentioned in 2022"):
        assert parse(question, None) == DAY


@pytest.mark.parametrize(
    ("text", "start", "end", "grain"),
    [
        ("in May 2023", "2023-05-01", "2023-06-01", "month"),
        ("May, 2023", "2023-05-01", "2023-06-01", "month"),
        ("en mayo de 2023", "2023-05-01", "2023-06-01", "month"),
        ("im März 2023", "2023-03-01", "2023-04-01", "month"),
        ("en février 2023", "2023-02-01", "2023-03-01", "month"),
        ("a dicembre 2023", "2023-12-01", "2024-01-01", "month"),
        ("in 2023", "2023-01-01", "2024-01-01", "year"),
        ("summer of 2022", "2022-06-01", "2022-09-01", "season"),
        ("in winter 2022", "2022-12-01", "2023-03-01", "season"),
        ("between 5 and 9 May 2023", "2023-05-05", "2023-05-10", "week"),
        ("May 5-9, 2023", "2023-05-05", "2023-05-10", "week"),
        ("early May 2023", "2023-05-01", "2023-05-11", "week"),
        ("late February 2024", "2024-02-20", "2024-03-01", "week"),
        ("the second week of May 2023", "2023-05-08", "2023-05-15", "week"),
        ("between May and July 2023", "2023-05-01", "2023-08-01", "span"),
        ("from November 2022 to February", "2022-11-01", "2023-03-01", "span"),
        ("between 28 December and 3 January 2023", "2022-12-28", "2023-01-04", "span"),
        ("between 2021 and 2023", "2021-01-01", "2024-01-01", "span"),
        ("since March 2023", "2023-03-01", "", "span"),
        ("after June 2023", "2023-07-01", "", "span"),
        ("before June 2023", "", "2023-06-01", "span"),
        ("by 10 July 2022", "", "2022-07-11", "span"),
        ("two weeks before August 11, 2023", "2023-07-28", "2023-08-12", "week"),
        ("the Sunday before 25 October 2022", "2022-10-18", "2022-10-26", "week"),
        ("the day after 3 May 2023", "2023-05-03", "2023-05-05", "week"),
    ],
)
def test_dates_with_their_year_need_no_reference(text: str, start: str, end: str, grain: str) -> None:
    assert parse(f"what happened {text}?", None) == parse(text, NOW) == window(start, end, grain)


@pytest.mark.parametrize(
    ("text", "start", "end", "grain"),
    [
        ("yesterday", "2024-03-13", "2024-03-14", "day"),
        ("the day before yesterday", "2024-03-12", "2024-03-13", "day"),
        ("this morning", "2024-03-14", "2024-03-15", "day"),
        ("last week", "2024-03-04", "2024-03-11", "week"),
        ("last weekend", "2024-03-09", "2024-03-11", "week"),
        ("last month", "2024-02-01", "2024-03-01", "month"),
        ("last year", "2023-01-01", "2024-01-01", "year"),
        ("last summer", "2023-06-01", "2023-09-01", "season"),
        ("last winter", "2023-12-01", "2024-03-01", "season"),
        ("last Thursday", "2024-03-07", "2024-03-08", "day"),
        ("this week", "2024-03-11", "2024-03-18", "week"),
        ("two weeks ago", "2024-02-26", "2024-03-04", "week"),
        ("a couple of days ago", "2024-03-12", "2024-03-13", "day"),
        ("10 days ago", "2024-03-04", "2024-03-05", "day"),
        ("five months ago", "2023-10-01", "2023-11-01", "month"),
        ("a year ago", "2023-01-01", "2024-01-01", "year"),
        ("in the last two weeks", "2024-02-29", "2024-03-15", "span"),
        ("over the past few months", "2023-12-01", "2024-03-15", "span"),
    ],
)
def test_relative_times_count_from_the_reference(text: str, start: str, end: str, grain: str) -> None:
    assert parse(f"What did I do {text}?", NOW) == window(start, end, grain)
    assert parse(f"What did I do {text}?", None) is None


@pytest.mark.parametrize(
    ("text", "start", "end", "grain"),
    [
        ("in March", "2024-03-01", "2024-04-01", "month"),
        ("in April", "2023-04-01", "2023-05-01", "month"),
        ("last March", "2023-03-01", "2023-04-01", "month"),
        ("this April", "2024-04-01", "2024-05-01", "month"),
        ("on March 20th", "2023-03-20", "2023-03-21", "day"),
        ("on 29 February", "2024-02-29", "2024-03-01", "day"),
        ("since January", "2024-01-01", "", "span"),
        ("between May and July", "2023-05-01", "2023-08-01", "span"),
    ],
)
def test_a_date_without_a_year_is_the_latest_one_not_after_the_reference(
    text: str, start: str, end: str, grain: str
) -> None:
    assert parse(text, NOW) == window(start, end, grain)


def test_without_a_reference_it_is_of_whatever_year() -> None:
    assert parse("in May", None) == Window(None, None, "month", 5)
    assert parse("on May 7th", None) == Window(None, None, "day", 5, (7, 7))
    assert parse("since May", None) is None, "of no year it says nothing"


@pytest.mark.parametrize(
    "text",
    [
        "May I ask you something?",
        "it may be late",
        "they march on",
        "March on Washington",
        "Will he march 5 miles?",
        "May 5 people join?",
        "a second opinion",
        "2000 dollars",
        "in 2000 dollars",
        "$2023",
        "after 2000 steps",
        "my 2016 Subaru",
        "What did April say to June?",
        "the august company",
        "31 February 2023",
        "2023-13-01",
        "version 5.3.1",
        "at 10:30",
        "in the 1990s",
        "the sun set",
        "",
    ],
)
def test_what_only_looks_like_a_date_is_none(text: str) -> None:
    assert parse(text, NOW) is None
    assert parse(text, None) is None


def test_a_reference_counts_in_utc() -> None:
    early_in_auckland = datetime(2024, 3, 15, 1, tzinfo=timezone(timedelta(hours=13)))
    assert parse("yesterday", early_in_auckland) == window("2024-03-13", "2024-03-14", "day")
    assert parse("yesterday", NOW.replace(tzinfo=None)) == window("2024-03-13", "2024-03-14", "day")


WRITTEN = st.sampled_from(["%d %B %Y", "%B %d, %Y", "%Y-%m-%d", "%d %b %Y", "%B %dth %Y", "%m/%d/%Y", "%d.%m.%Y"])


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)), WRITTEN)
def test_written_dates_read_back(day: date, form: str) -> None:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    assert parse(f"What was said on {day.strftime(form)}?", None) == Window(start, start + timedelta(days=1), "day")


PHRASES = (
    "two weeks ago",
    "before",
    "since the",
    "between",
    "and",
    "to",
    "May",
    "march",
    "7",
    "29",
    "2023",
    "2000",
    "in",
)
MORE = (
    "last",
    "week",
    "of",
    "early",
    "year",
    "summer",
    "Friday",
    "yesterday",
    ",",
    "-",
    "/",
    ".",
    "5/7/2023",
    "mai de",
)
PIECES = st.sampled_from((*PHRASES, *MORE))
TEXTS = st.text(max_size=60) | st.lists(PIECES, max_size=9).map(" ".join)


@given(TEXTS, st.none() | st.datetimes() | st.datetimes(timezones=st.just(UTC)))
def test_any_text_is_read_without_an_error_and_windows_have_a_length(text: str, reference: datetime | None) -> None:
    found = parse(text, reference)
    if found is None:
        return
    days = np.array([np.nan, -np.inf, -700_000.0, 0.0, 19_484.5, 2_800_000.0])
    close = closeness(found, days)
    assert close.shape == days.shape and ((close >= 0) & (close <= 1)).all() and close[0] == 0
    if found.month is not None:
        assert found.start is None and found.end is None and 1 <= found.month <= 12
        return
    assert (found.start, found.end) != (None, None)
    if found.start and found.end:
        assert found.start < found.end
        assert closeness(found, np.array([found.start.timestamp() / 86_400])) == 1
        assert closeness(found, np.array([found.end.timestamp() / 86_400])) < 1


def test_closeness_of_a_day() -> None:
    days = numbers("2023-05-07T23:00", "2023-05-15T12:00", "2023-05-16", "2023-06-07", "2023-06-08")
    assert closeness(DAY, days).tolist() == pytest.approx([1, 0.8, 0.3, 0.3, 0])
    days = numbers("2023-05-06T00:00", "2023-05-05T23:00", "2023-04-29", "2023-04-28T23:00")
    assert closeness(DAY, days).tolist() == pytest.approx([0.6, 0.3, 0.3, 0])


def test_closeness_of_a_month_a_year_and_an_open_end() -> None:
    days = numbers("2023-05-31", "2023-06-30", "2023-07-31", "2023-08-01", "2023-04-01", "2023-03-31", "2024-05-05")
    month, year = parse("in May 2023", None), parse("in 2023", None)
    before, since = parse("before May 2023", None), parse("since May 2023", None)
    assert month and year and before and since
    assert closeness(month, days).tolist() == pytest.approx([1, 0.5, 0.3, 0, 0.15, 0, 0])
    assert closeness(year, days).tolist() == [1, 1, 1, 1, 1, 1, 0]
    assert closeness(before, days).tolist() == [0, 0, 0, 0, 1, 1, 0]
    assert closeness(since, days).tolist() == [1, 1, 1, 1, 0, 0, 1]


def test_closeness_to_a_month_of_whatever_year() -> None:
    december = parse("in December", None)
    assert december is not None
    days = numbers("2021-12-24", "2024-12-01", "2025-01-31", "2024-02-01", "2022-11-30", "2023-07-01")
    assert closeness(december, days).tolist() == pytest.approx([1, 1, 0.5, 0.3, 0.15, 0])
    leap = parse("on 29 February", None)
    assert leap is not None
    assert closeness(leap, numbers("2024-02-29", "2023-02-28")).tolist() == [1, 0]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20))
def test_closeness_takes_any_numbers(values: list[float]) -> None:
    for question in ("in May", "on May 7th", "7 May 2023", "before 2023"):
        found = parse(question, None)
        assert found is not None
        close = closeness(found, np.array(values, np.float64))
        assert close.dtype == np.float32 and close.shape == (len(values),)
        assert ((close >= 0) & (close <= 1)).all()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("I went to the lake", 0),
        ("You may march on, it's the sun", 0),
        ("We met last Friday", 1),
        ("Two years ago, on 7 May 2021, we met again", 2),
        ("I went yesterday and again this morning", 2),
        ("See you on Monday or next week", 2),
    ],
)
def test_temporal_words_are_counted(text: str, count: int) -> None:
    assert temporal_words(text) == count


@given(st.text(max_size=80))
def test_any_text_is_counted(text: str) -> None:
    assert temporal_words(text) >= 0
    assert temporal_words(f"{text}\nyesterday") >= 1


@pytest.mark.parametrize(
    "question",
    [
        "When did Ana move?",
        "And when's her birthday?",
        "What year did John start surfing?",
        "How long ago was the trip?",
        "Do you remember when we met?",
        "In which month was he in Italy?",
        "Wann sind wir umgezogen?",
        "¿Cuándo nos conocimos?",
        "Quand est-ce que je pars ?",
    ],
)
def test_questions_for_a_time(question: str) -> None:
    assert asks_when(question)


@pytest.mark.parametrize(
    "question",
    ["What did she feel when the dog died?", "When I ask for code, add types", "Where is he?", "How long is it?", ""],
)
def test_questions_for_something_else(question: str) -> None:
    assert not asks_when(question)
