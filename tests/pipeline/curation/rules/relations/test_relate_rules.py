"""Entities and relations read by rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.clock import read_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.graph import Mention, Relation, StatedRelation
from perdure.domain.scope import Scope
from perdure.pipeline.curation.rules.relations.names import read_mentions
from perdure.pipeline.curation.rules.relations.rules import read_relations
from perdure.pipeline.curation.rules.relations.validity import edges
from tests.pipeline.curation.rules.relations.samples import NOTHING, TOLD_AT, stated

pytestmark = pytest.mark.covers("T33", "T34", "X58", "X65")

MIDNIGHT = "T00:00:00.000000+00:00"


def shown(relation: Relation) -> str:
    """As the samples write it; "told" is the moment of telling."""
    start, end = (
        "" if each is None else each.removesuffix(MIDNIGHT) if each.endswith(MIDNIGHT) else "told"
        for each in (relation.valid_from, relation.valid_to)
    )
    span = f" {start}..{end}" if start or end else ""
    return f"{'' if relation.polarity else 'no longer '}{relation.source} {relation.relation} {relation.target}{span}"


def read(text: str, told_at: str = TOLD_AT, **given: str) -> list[str]:
    return [shown(each) for each in read_relations(text, told_at=told_at, **given)[1]]


def named(text: str) -> dict[str, str]:
    return {each.name: each.type for each in read_relations(text, told_at=TOLD_AT)[0]}


@pytest.mark.parametrize(("sentence", "expected"), stated(), ids=lambda each: each if isinstance(each, str) else "")
def test_what_a_sentence_states(sentence: str, expected: list[str]) -> None:
    assert read(sentence) == expected


@pytest.mark.parametrize("sentence", NOTHING)
def test_in_doubt_nothing(sentence: str) -> None:
    assert read(sentence) == []


@pytest.mark.covers("T33")
def test_alice_at_google_is_a_person_and_an_organization() -> None:
    assert named("Alice at Google") == {"Alice": "person", "Google": "organization"}
    assert named("User knows Alice at Google")["Alice"] == "person"


@pytest.mark.covers("T34")
@pytest.mark.parametrize("text", ["Alice at Google", "Alice works at Google", "User spoke with Alice at Google"])
def test_alice_works_at_google(text: str) -> None:
    assert "Alice works_at Google" in read(text)


@pytest.mark.covers("X65")
def test_the_lead_until_q2_is_bounded_and_a_question_about_q1_gets_her() -> None:
    said = "Alice was the lead until Q2"
    (relation,) = read_relations(said, told_at=TOLD_AT, about="fundraising")[1]
    assert (relation.relation, relation.target, relation.slot) == ("leads", "fundraising", "in:leads:fundraising")
    (now,) = read_relations("Bob leads the fundraising project", told_at=TOLD_AT)[1]
    both = [
        StatedRelation(relation=each, memory_id=each.source, scope=Scope(team_id="t"), told_at=TOLD_AT)
        for each in (relation, now)
    ]
    for day in ("2026-01-01", "2026-02-01", "2026-03-31"):
        assert [edge.source for edge in edges(both, at=day)] == ["Alice"]
    assert [edge.source for edge in edges(both, at="2026-05-21")] == ["Bob"]


@pytest.mark.covers("X65")
@pytest.mark.parametrize(
    ("told_at", "said", "end"),
    [
        ("2026-11-22T10:00:00Z", "until Q2", "2026-04-01"),
        ("2026-03-01T10:00:00Z", "until Q2", "2026-04-01"),  # of the year in which it is told
        ("2026-01-20T10:00:00Z", "until Q4", "2025-10-01"),
        ("2026-11-22T10:00:00Z", "until Q2 2025", "2025-04-01"),
        ("2026-11-22T10:00:00Z", "until the end of Q2", "2026-07-01"),
        ("2026-11-22T10:00:00Z", "through Q2", "2026-07-01"),
        ("2026-11-22T10:00:00Z", "until March 2024", "2024-03-01"),
        ("2026-11-22T10:00:00Z", "until December", "2025-12-01"),
        ("2026-11-22T10:00:00Z", "until 2024", "2024-01-01"),
        ("2026-11-22T10:00:00Z", "until 2026-04-30", "2026-05-01"),  # the day is included
        ("2026-11-22T10:00:00Z", "until April 30th", "2026-05-01"),
        ("2026-11-22T10:00:00Z", "before 2026-04-30", "2026-04-30"),
        ("2026-11-22T10:00:00Z", "until last month", "2026-10-01"),
        ("2026-11-22T10:00:00Z", "until yesterday", "2026-11-22"),
        ("2026-11-22T10:00:00Z", "until two years ago", "2024-11-01"),
        ("2026-11-22T10:00:00Z", "until the second half of 2025", "2025-07-01"),
        ("2026-11-22T10:00:00Z", "until the third quarter of 2025", "2025-07-01"),
        ("2026-11-22T10:00:00Z", "until summer 2025", "2025-06-01"),
    ],
)
def test_where_a_time_ends(told_at: str, said: str, end: str) -> None:
    assert read(f"Alice was the lead {said}", told_at) == [f"Alice has_role lead ..{end}"]
    assert read(f"{said[0].upper()}{said[1:]}, Alice was the lead.", told_at) == [f"Alice has_role lead ..{end}"]


@pytest.mark.parametrize(
    ("said", "when"),
    [
        ("since Q3 2025", "2025-07-01.."),
        ("since July", "2025-07-01.."),
        ("since 2025-07-14", "2025-07-14.."),
        ("from May 2025 until March 2026", "2025-05-01..2026-03-01"),
        ("from 2019 to 2021", "2019-01-01..2022-01-01"),
        ("in Q1", "2026-01-01..2026-04-01"),
        ("during 2025", "2025-01-01..2026-01-01"),
    ],
)
def test_from_when_and_until_when(said: str, when: str) -> None:
    assert read(f"Alice is the lead of the launch team {said}") == [f"Alice leads launch {when}"]


def test_what_cannot_be_states_no_time_and_nothing() -> None:
    assert read("Alice was the lead from March 2026 until January 2026") == []
    assert read("Alice was the lead until 2026-02-31") == []


def test_who_speaks_and_who_the_user_is() -> None:
    assert read("I lead the launch team", speaker="Dana") == ["Dana leads launch"]
    assert read("My sister Ana lives in Porto", user_name="u-17") == ["Ana sister_of u-17", "Ana lives_in Porto"]
    mentions, (relation,) = read_relations("User works at Google", told_at=TOLD_AT, user_name="u-17")
    assert relation.source == "u-17" and mentions[0] == Mention(name="u-17", type="person")


def test_several_who_lead_together_do_not_end_each_other() -> None:
    _, found = read_relations("Alice and Bob lead the fundraising project", told_at=TOLD_AT)
    assert [each.slot for each in found] == [None, None]


def test_the_moment_of_telling_must_be_one() -> None:
    with pytest.raises(InvalidInputError, match="told_at must be"):
        read_relations("Alice leads the launch team", told_at="yesterday")


@pytest.mark.covers("X58")
def test_an_entity_without_a_name_is_skipped_and_a_type_is_a_concept() -> None:
    given = [{"name": "Alice", "type": "person"}, {"type": "project"}, {"name": "fundraising"}, {"name": "  "}]
    assert read_mentions(given) == (Mention(name="Alice", type="person"), Mention(name="fundraising", type="concept"))
    assert read_mentions([{"name": "fundraising", "type": "project"}])[0].type == "project"
    assert read_mentions(["Alice", "alice ", {"name": "ALICE"}]) == (Mention(name="Alice"),)


@pytest.mark.covers("X58")
@pytest.mark.parametrize(
    "hostile",
    [None, 7, "Alice", {"name": "Alice"}, [None], [[]], [{"name": 7}], [{"name": ["Alice"]}], [{"name": "x" * 5000}],
     [{"name": "\ud800"}], [{"type": "person", "name": {"$gt": ""}}]],
)  # fmt: skip
def test_hostile_shapes_are_no_entities(hostile: object) -> None:
    assert read_mentions(hostile) == ()
    assert read_mentions([{"name": "Alice", "type": ["person"], "description": 7}]) == (Mention(name="Alice"),)


PIECES = [
    "Alice",
    "Bob's",
    "leads",
    "the",
    "fundraising",
    "project",
    "until",
    "Q2",
    "is",
    "no longer",
    "lead",
    "of",
    ",",
    "and",
    "works at",
    "Google",
    ".",
    "since",
    "March 2026",
    "(",
    ")",
    "I",
    "was",
    "replaced by",
    "as",
    "\n",
    "'s",
    "2026-02-30",
    "Ünal",
    "李",
    "\x00",
    "99 years ago",
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map(" ".join) | st.text(max_size=80))
def test_any_text_is_read_and_what_is_read_is_sound(text: str) -> None:
    mentions, relations = read_relations(text, told_at=TOLD_AT)
    keys = [mention.key for mention in mentions]
    assert len(set(keys)) == len(keys) and all(keys)
    for each in relations:
        assert {each.source_key, each.target_key} <= set(keys) and each.source_key != each.target_key
        start, end = (read_moment(time) if time else None for time in (each.valid_from, each.valid_to))
        assert start is None or end is None or start < end
    assert (mentions, relations) == read_relations(text, told_at=TOLD_AT)
