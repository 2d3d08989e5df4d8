"""For which time a relation holds, read off statements alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.clock import parse_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.graph import Edge, Relation, StatedRelation
from perdure.domain.scope import Scope
from perdure.pipeline.curation.rules.relations.validity import edges

pytestmark = pytest.mark.covers("X65", "X66", "X67")

TEAM = Scope(team_id="excalibur")
SLOT = "in:leads:fundraising"


def day(text: str | None) -> str | None:
    return None if text is None else f"{text}T00:00:00.000000+00:00"


def said(
    who: str,
    told: str,
    start: str | None = None,
    end: str | None = None,
    *,
    memory: str = "",
    no_longer: bool = False,
    slot: str | None = SLOT,
    relation: str = "leads",
    target: str = "fundraising",
) -> StatedRelation:
    stated = Relation(
        source=who, relation=relation, target=target, valid_from=day(start), valid_to=day(end),
        polarity=not no_longer, slot=slot,
    )  # fmt: skip
    return StatedRelation(relation=stated, memory_id=memory or f"{who}@{told}", scope=TEAM, told_at=str(day(told)))


def shown(found: list[Edge]) -> list[tuple[str, str | None, str | None]]:
    return [
        (edge.source, (edge.valid_from or "")[:10] or None, (edge.valid_until or "")[:10] or None) for edge in found
    ]


def all_of(*stated: StatedRelation) -> list[tuple[str, str | None, str | None]]:
    return sorted(shown(edges(stated, include_past=True)), key=lambda each: each[1] or "")


def leads_at(moment: str, *stated: StatedRelation) -> list[str]:
    return [edge.source for edge in edges(stated, at=moment)]


UNTIL_Q2 = said("Alice", "2026-05-20", end="2026-04-01")


@pytest.mark.covers("X65")
def test_a_lead_until_q2_is_a_bounded_edge() -> None:
    assert all_of(UNTIL_Q2) == [("Alice", None, "2026-04-01")]
    assert edges([UNTIL_Q2]) == []


@pytest.mark.covers("X66")
def test_a_question_about_q1_gets_the_lead_of_q1() -> None:
    bob = said("Bob", "2026-05-21")
    assert leads_at("2026-02-01", UNTIL_Q2, bob) == ["Alice"]
    assert leads_at("2026-06-01", UNTIL_Q2, bob) == ["Bob"]
    assert leads_at("2026-03-31T23:59:59Z", UNTIL_Q2, bob) == ["Alice"]
    assert leads_at("2026-04-01", UNTIL_Q2, bob) == []  # nobody is known to have led it in between


@pytest.mark.covers("X67")
def test_a_contradiction_closes_the_old_edge_and_both_are_kept() -> None:
    alice, bob = said("Alice", "2026-01-10", memory="m1"), said("Bob", "2026-05-02", memory="m2")
    found = edges([bob, alice], include_past=True)
    assert shown(found) == [("Alice", "2026-01-10", "2026-05-02"), ("Bob", "2026-05-02", None)]
    assert [edge.closed_by for edge in found] == ["m2", None]
    assert [edge.source for edge in edges([alice, bob])] == ["Bob"]


@pytest.mark.covers("X67")
def test_no_longer_closes_its_own_pair_only() -> None:
    alice, carol = said("Alice", "2026-01-10", slot=None), said("Carol", "2026-01-11", slot=None)
    denial = said("Alice", "2026-05-02", no_longer=True, slot=None, memory="m9")
    found = edges([alice, carol, denial], include_past=True)
    assert shown(found) == [("Alice", "2026-01-10", "2026-05-02"), ("Carol", "2026-01-11", None)]
    assert found[0].closed_by == "m9" and "m9" not in found[0].memory_ids


def test_without_a_slot_nothing_else_closes_an_edge_however_alike() -> None:
    first = said("Alice", "2026-01-10", slot=None, target="fundraising")
    alike = said("Alice", "2026-05-02", slot=None, target="fundraising 2")
    assert [edge.valid_until for edge in edges([first, alike])] == [None, None]


def test_no_longer_alone_makes_no_edge() -> None:
    assert edges([said("Alice", "2026-05-02", no_longer=True)], include_past=True) == []


def test_no_longer_since_an_earlier_day_reaches_back_before_the_telling() -> None:
    told_late = said("Alice", "2026-06-01")
    denial = said("Alice", "2026-07-01", start="2026-03-01", no_longer=True)
    assert all_of(told_late, denial) == [("Alice", None, "2026-03-01")]


def test_a_return_is_an_edge_of_its_own() -> None:
    stints = (
        said("Alice", "2026-01-01"), said("Alice", "2026-03-01", no_longer=True), said("Alice", "2026-06-01"),
    )  # fmt: skip
    assert all_of(*stints) == [("Alice", "2026-01-01", "2026-03-01"), ("Alice", "2026-06-01", None)]


def test_the_same_said_by_several_memories_is_one_edge() -> None:
    first, again = said("Alice", "2026-01-10", memory="m1"), said("alice ", "2026-02-10", memory="m2")
    third = said("Alice", "2026-03-01", memory="m3", slot=None)
    (edge,) = edges([third, first, again])
    assert edge.memory_ids == ("m3", "m2", "m1")  # told last first
    assert (edge.source, edge.valid_from, edge.told_at) == ("Alice", day("2026-01-10"), day("2026-03-01"))


def test_what_is_told_late_about_an_earlier_time_is_placed_there() -> None:
    newer = said("Bob", "2026-03-01", start="2026-03-01", memory="m-bob")
    late = said("Alice", "2026-07-01", start="2026-01-01")
    found = edges([newer, late], include_past=True)
    assert shown(found) == [("Alice", "2026-01-01", "2026-03-01"), ("Bob", "2026-03-01", None)]
    assert found[0].closed_by == "m-bob"


def test_what_is_told_late_falls_between_two_others() -> None:
    first, last = said("Alice", "2025-01-05", start="2025-01-01"), said("Carol", "2026-01-05", start="2026-01-01")
    late = said("Bob", "2026-06-01", start="2025-06-01")
    expected = [
        ("Alice", "2025-01-01", "2025-06-01"),
        ("Bob", "2025-06-01", "2026-01-01"),
        ("Carol", "2026-01-01", None),
    ]
    assert all_of(first, last, late) == expected


def test_a_stated_end_wins_over_what_follows_later() -> None:
    alice, bob = said("Alice", "2026-01-01", start="2026-01-01", end="2026-03-01"), said("Bob", "2026-05-01")
    assert all_of(alice, bob) == [("Alice", "2026-01-01", "2026-03-01"), ("Bob", "2026-05-01", None)]
    assert leads_at("2026-04-01", alice, bob) == []


def test_an_end_told_later_ends_what_was_open() -> None:
    assert all_of(said("Alice", "2026-01-10", start="2026-01-01"), UNTIL_Q2) == [("Alice", "2026-01-01", "2026-04-01")]
    # Told to lead in May, and told in June that it was over in April: she led before that.
    assert all_of(said("Alice", "2026-05-01"), said("Alice", "2026-06-01", end="2026-04-01")) == [
        ("Alice", None, "2026-04-01")
    ]


def test_an_end_that_passed_without_being_one() -> None:
    planned = said("Alice", "2026-01-10", end="2026-04-01")
    still = said("Alice", "2026-06-01", start="2026-01-01")
    assert all_of(planned, still) == [("Alice", "2026-01-01", None)]


def test_an_unknown_start_reaches_back_to_what_is_known_of_another() -> None:
    ended = said("Carol", "2025-06-01", start="2025-01-01", end="2025-09-01")
    assert all_of(ended, UNTIL_Q2) == [("Carol", "2025-01-01", "2025-09-01"), ("Alice", "2025-09-01", "2026-04-01")]
    open_ended = said("Carol", "2025-06-01", start="2025-01-01")
    assert leads_at("2025-05-31", open_ended, UNTIL_Q2) == ["Carol"]
    assert leads_at("2026-02-01", open_ended, UNTIL_Q2) == ["Alice"]
    since = said("Bob", "2026-06-01", start="2026-03-01")  # told in June to have led since March
    assert all_of(since, UNTIL_Q2) == [("Alice", None, "2026-03-01"), ("Bob", "2026-03-01", None)]


def test_one_memory_that_tells_of_a_succession_closes_as_its_own() -> None:
    before = said("Alice", "2026-05-10", end="2026-05-01", memory="m")
    after = said("Bob", "2026-05-10", start="2026-05-01", memory="m")
    found = edges([before, after], include_past=True)
    assert shown(found) == [("Alice", None, "2026-05-01"), ("Bob", "2026-05-01", None)]
    assert [edge.closed_by for edge in found] == [None, None]


def test_told_in_the_same_moment_both_are_kept() -> None:
    alice, bob = said("Alice", "2026-01-01"), said("Bob", "2026-01-01")
    assert len(edges([alice, bob], include_past=True)) == 2
    assert len(edges([alice, bob], at="2026-01-02")) == 1
    assert edges([alice, said("Alice", "2026-01-01", no_longer=True)]) == []


def test_what_begins_later_holds_only_then() -> None:
    alice, planned = said("Alice", "2026-01-01"), said("Bob", "2026-02-01", start="2026-07-01")
    assert leads_at("2026-03-01", alice, planned) == ["Alice"]
    assert leads_at("2026-08-01", alice, planned) == ["Bob"]
    assert [edge.source for edge in edges([alice, planned])] == ["Alice", "Bob"]
    assert [edge.source for edge in edges([alice, planned], at="2026-08-01", include_past=True)] == ["Alice", "Bob"]


def test_a_moment_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="at must be"):
        edges([UNTIL_Q2], at="Q1")


DAYS = st.integers(1, 28).map(lambda number: f"2026-02-{number:02}")
STATED = st.builds(
    said,
    st.sampled_from(["Alice", "Bob", "alice", "Carol"]),
    DAYS,
    st.none() | DAYS,
    st.none() | DAYS,
    memory=st.sampled_from(["m1", "m2", "m3", "m4", "m5"]),
    no_longer=st.integers(0, 3).map(lambda number: number == 0),
    slot=st.sampled_from([SLOT, SLOT, SLOT, None]),
)
MANY = st.lists(STATED, max_size=7)


@pytest.mark.covers("X67")
@given(MANY, st.randoms(use_true_random=False))
def test_the_order_of_telling_to_the_function_does_not_matter(many: list[StatedRelation], random) -> None:
    mixed = list(many)
    random.shuffle(mixed)
    assert edges(mixed, include_past=True) == edges(many, include_past=True)
    assert edges(mixed + many, include_past=True) == edges(many, include_past=True)


@given(MANY, st.integers(0, 6), DAYS)
def test_what_is_taken_back_leaves_no_trace(many: list[StatedRelation], which: int, when: str) -> None:
    undone = [replace(each, untold_at=day(when)) if place == which else each for place, each in enumerate(many)]
    without = [each for place, each in enumerate(many) if place != which]
    assert edges(undone, include_past=True) == edges(without, include_past=True)


@given(MANY)
def test_edges_of_one_slot_never_overlap_and_nobody_is_invented(many: list[StatedRelation]) -> None:
    slotted = [replace(each, relation=replace(each.relation, slot=SLOT)) for each in many]
    found = edges(slotted, include_past=True)
    for edge in found:
        assert edge.valid_from is None or edge.valid_until is None or edge.valid_from <= edge.valid_until
    lasting = [edge for edge in found if edge.valid_from is None or edge.valid_from != edge.valid_until]
    in_order = sorted(lasting, key=lambda edge: edge.valid_from or "")
    for before, after in pairwise(in_order):
        assert before.valid_until is not None and after.valid_from is not None
        assert before.valid_until <= after.valid_from
    stated = {each.relation.source_key for each in slotted if each.relation.polarity}
    assert {edge.source.casefold() for edge in found} == stated
    told = {each.memory_id for each in slotted if each.relation.polarity}
    assert {memory_id for edge in found for memory_id in edge.memory_ids} == told


@given(MANY, DAYS)
def test_a_moment_gives_the_edges_around_it(many: list[StatedRelation], when: str) -> None:
    moment = parse_moment(when)
    holding = edges(many, at=when)
    for edge in edges(many, include_past=True):
        begun = edge.valid_from is None or parse_moment(edge.valid_from) <= moment
        lasts = edge.valid_until is None or parse_moment(edge.valid_until) > moment
        assert (edge in holding) == (begun and lasts)


@pytest.mark.covers("X66")
def test_an_end_that_is_still_to_come_bounds_the_time_before_the_telling_too() -> None:
    early = said("Alice", "2026-03-01", end="2026-04-01")
    assert all_of(early) == [("Alice", None, "2026-04-01")]
    assert all_of(said("Carol", "2026-01-01"), early) == [
        ("Carol", "2026-01-01", "2026-03-01"),
        ("Alice", "2026-03-01", "2026-04-01"),
    ]


def test_a_start_that_somebody_stated_is_the_start_whoever_else_left_it_open() -> None:
    until = said("Alice", "2026-02-01", end="2026-03-01", memory="m")
    since = said("Alice", "2026-02-01", start="2026-02-01", memory="m")
    assert all_of(until, since) == all_of(since, until) == [("Alice", "2026-02-01", "2026-03-01")]


def test_the_last_moment_there_is_ends_nothing_wrongly() -> None:
    never = replace(said("Carol", "2026-01-01"), told_at="9999-12-31T23:59:59.999999+00:00")
    assert [edge.source for edge in edges([never, UNTIL_Q2], include_past=True)] == ["Alice", "Carol"]
