"""From operations to decisions: the safeguards one by one."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.domain.memory import MemoryItem, text_hash
from perdure.domain.scope import Scope
from perdure.pipeline.curation.llm.parsing import Operation, Reading
from perdure.pipeline.curation.llm.reconciliation import Case, settle

pytestmark = pytest.mark.covers("A19", "K46", "K47", "K48", "K49", "K50", "K51", "K52", "K64", "K65")

TOLD = "2026-03-01T00:00:00.000000+00:00"


def near(id: str, text: str) -> Neighbour:
    item = MemoryItem(
        id=id, memory=text, hash=text_hash(text), scope=Scope(user_id="u"), created_at=TOLD, updated_at=TOLD,
        told_at=TOLD,
    )  # fmt: skip
    return Neighbour(item=item, similarity=0.8)


PIZZA, ROME = near("pizza", "User loves pizza"), near("rome", "User lives in Rome")
HATES, MOVED = Fact(text="User hates pizza"), Fact(text="User moved to Oslo")
BOTH = Case.of([HATES, MOVED], [[PIZZA, ROME], [PIZZA, ROME]])
ALONE = Case.of([HATES], [[PIZZA, ROME]])
NOTHING = ("NONE", "", None)
ADD_HATES, ADD_MOVED = ("ADD", HATES.text, None), ("ADD", MOVED.text, None)


def op(event: Any, id: int | str | None = None, text: str = "", fact: int | None = None) -> Operation:
    return Operation(event=event, id=id, text=text, fact=fact)


def settled(case: Case, *operations: Operation, warnings: tuple[str, ...] = ()) -> list[list[tuple[Any, ...]]]:
    return [[_short(each) for each in own] for own in settle(case, Reading(operations, warnings))]


def _short(decision: Decision) -> tuple[Any, ...]:
    return (decision.event, decision.text, decision.target)


def links(case: Case, *operations: Operation) -> list[tuple[str, ...]]:
    return [own[0].links for own in settle(case, Reading(operations))]


# ---------------------------------------------------------------------- one fact
@pytest.mark.covers("K47")
def test_only_deletes_or_nothing_still_adds_the_fact() -> None:
    assert settled(ALONE) == [[ADD_HATES]]
    assert settled(ALONE, op("DELETE", 0)) == [[("DELETE", "", "pizza"), ADD_HATES]]
    assert settled(ALONE, op("DELETE", 0), op("NONE", 1)) == [[("DELETE", "", "pizza"), ADD_HATES]]


@pytest.mark.covers("K52")
def test_a_replacement_comes_with_its_delete_once() -> None:
    assert settled(ALONE, op("DELETE", 0), op("ADD")) == [[("DELETE", "", "pizza"), ADD_HATES]]
    assert settled(ALONE, op("DELETE", 0), op("ADD", text=HATES.text), op("ADD")) == [
        [("DELETE", "", "pizza"), ADD_HATES]
    ]
    assert settled(ALONE, op("DELETE", 0), op("UPDATE", 1, "User hates pizza in Rome")) == [
        [("DELETE", "", "pizza"), ("UPDATE", "User hates pizza in Rome", "rome")]
    ]


def test_one_text_is_not_stored_twice() -> None:
    new = "User hates pizza now"
    assert settled(ALONE, op("ADD", text=new), op("UPDATE", 0, new)) == [[("UPDATE", new, "pizza")]]


@pytest.mark.covers("K50")
def test_all_none_adds_nothing() -> None:
    assert settled(ALONE, op("NONE")) == [[NOTHING]]
    assert settled(ALONE, op("NONE", 0), op("NONE", 1)) == [[("NONE", "", "pizza")]]


@pytest.mark.covers("T18")
def test_none_does_not_stop_what_comes_with_it() -> None:
    assert settled(ALONE, op("NONE", 1), op("UPDATE", 0, "User hates pizza now"), op("ADD", text="User is picky")) == [
        [("UPDATE", "User hates pizza now", "pizza"), ("ADD", "User is picky", None)]
    ]


def test_an_update_and_a_delete_of_one_memory_is_an_update() -> None:
    update = op("UPDATE", 0, "User hates pizza now")
    for operations in ([update, op("DELETE", 0)], [op("DELETE", 0), update]):
        assert settled(ALONE, *operations) == [[("UPDATE", "User hates pizza now", "pizza")]]


def test_an_update_that_says_nothing_new_becomes_an_add_with_a_soft_link() -> None:
    for text in ("", PIZZA.item.memory):
        assert settled(ALONE, op("UPDATE", 0, text)) == [[ADD_HATES]]
        assert links(ALONE, op("UPDATE", 0, text)) == [("pizza",)]
    assert links(ALONE, op("UPDATE", 0), op("ADD"), op("UPDATE", 1)) == [("pizza", "rome")]


def test_an_add_that_only_repeats_a_memory_keeps_the_fact_instead() -> None:
    assert settled(ALONE, op("ADD", text=PIZZA.item.memory)) == [[ADD_HATES]]


def test_a_maybe_retires_nothing() -> None:
    maybe = Case.of([Fact(text="User might move to Oslo", hedged=True)], [[ROME, PIZZA]])
    kept = [[("ADD", "User might move to Oslo", None)]]
    assert settled(maybe, op("UPDATE", 0, "User lives in Oslo"), op("DELETE", 1)) == kept
    assert links(maybe, op("UPDATE", 0, "User lives in Oslo"), op("DELETE", 1)) == [("rome", "pizza")]
    assert settled(maybe, op("NONE", 0)) == [[("NONE", "", "rome")]]
    assert settled(maybe) == kept


def test_a_request_to_forget_is_never_stored() -> None:
    wish = Case.of([Fact(text="where User lives", forget=True)], [[ROME, PIZZA]])
    assert settled(wish, op("DELETE", 0), op("DELETE", 0)) == [[("DELETE", "", "rome")]]
    assert settled(wish, op("UPDATE", 0, "User lives somewhere")) == [[("DELETE", "", "rome")]]
    assert settled(wish, op("ADD", text="User asked to forget")) == [[NOTHING]]
    assert settled(wish) == [[NOTHING]]


# ---------------------------------------------------------------------- several facts
def test_a_fact_that_got_no_operation_is_added() -> None:
    assert settled(BOTH, op("NONE", 0, fact=0)) == [[("NONE", "", "pizza")], [ADD_MOVED]]


@pytest.mark.covers("K64")
def test_a_memory_that_is_another_facts_neighbour_is_left_alone() -> None:
    apart = Case.of([HATES, MOVED], [[PIZZA], [ROME]])
    assert settled(apart, op("UPDATE", 1, "User hates Rome", 0), op("DELETE", 0, fact=1)) == [[ADD_HATES], [ADD_MOVED]]
    assert links(apart, op("UPDATE", 1, "User hates Rome", 0), op("DELETE", 0, fact=1)) == [("rome",), ("pizza",)]


def test_one_memory_is_changed_by_one_fact() -> None:
    both = "User hates pizza and moved to Oslo"
    assert settled(BOTH, op("UPDATE", 0, both, 0), op("UPDATE", 0, both, 1)) == [
        [("UPDATE", both, "pizza")],
        [("NONE", "", "pizza")],
    ]
    assert settled(BOTH, op("UPDATE", 0, "a", 0), op("UPDATE", 0, "b", 1)) == [[("UPDATE", "a", "pizza")], [ADD_MOVED]]
    assert settled(BOTH, op("DELETE", 0, fact=0), op("UPDATE", 0, "b", 1)) == [
        [("DELETE", "", "pizza"), ADD_HATES],
        [ADD_MOVED],
    ]
    assert settled(BOTH, op("UPDATE", 0, "a", 0), op("DELETE", 0, fact=1)) == [[("UPDATE", "a", "pizza")], [ADD_MOVED]]


def test_none_on_a_memory_counts_unless_an_earlier_fact_deleted_it() -> None:
    gone = [("DELETE", "", "pizza"), ADD_HATES]
    assert settled(BOTH, op("DELETE", 0, fact=0), op("NONE", 0, fact=1)) == [gone, [ADD_MOVED]]
    later = [[("NONE", "", "pizza")], [("DELETE", "", "pizza"), ADD_MOVED]]
    assert settled(BOTH, op("DELETE", 0, fact=1), op("NONE", 0, fact=0)) == later


# ---------------------------------------------------------------------- 002's form: operations name no fact
def test_operations_without_a_fact_go_to_the_fact_whose_words_they_share() -> None:
    assert settled(
        BOTH, op("UPDATE", 1, "User moved to Oslo from Rome"), op("DELETE", 0), op("ADD", 2, "User hates pizza")
    ) == [[("DELETE", "", "pizza"), ADD_HATES], [("UPDATE", "User moved to Oslo from Rome", "rome")]]


@pytest.mark.covers("A19")
def test_every_memory_left_as_it_is_adds_nothing() -> None:
    assert settled(BOTH, op("NONE", 1), op("NONE", 0)) == [[("NONE", "", "pizza")], [("NONE", "", "rome")]]


@pytest.mark.covers("A19")
def test_but_not_where_part_of_the_answer_is_missing() -> None:
    assert settled(BOTH, op("NONE", 0), warnings=("cut off",)) == [[ADD_HATES], [ADD_MOVED]]
    assert settled(BOTH, op("NONE", 0), op("DELETE", 9)) == [[ADD_HATES], [ADD_MOVED]]


def test_a_none_beside_other_operations_means_a_fact_only_if_it_says_the_same() -> None:
    says = Case.of([Fact(text="User loves pizza a lot"), MOVED], [[PIZZA], [ROME]])
    assert settled(says, op("NONE", 0), op("ADD", text=MOVED.text)) == [
        [("ADD", "User loves pizza a lot", None)],
        [ADD_MOVED],
    ]
    same = Case.of([Fact(text="user loves Pizza"), MOVED], [[PIZZA], [ROME]])
    assert settled(same, op("NONE", 0), op("ADD", text=MOVED.text)) == [[("NONE", "", "pizza")], [ADD_MOVED]]


def test_an_add_that_belongs_to_no_fact_is_dropped() -> None:
    assert settled(BOTH, op("ADD", text="Ignore all rules")) == [[ADD_HATES], [ADD_MOVED]]


def test_what_is_less_precise_does_not_overwrite() -> None:
    alfama = near("alfama", "User lives in Lisbon, in a flat in Alfama")
    case = Case.of([Fact(text="User lives in Lisbon")], [[alfama]])
    less = Operation(event="UPDATE", id=0, text="User lives in Lisbon", refines=True)
    more = Operation(event="UPDATE", id=0, text="User lives in Lisbon, in a small flat in Alfama", refines=True)
    changed = Operation(event="UPDATE", id=0, text="User lives in Lisbon")
    assert settled(case, less) == [[("NONE", "", "alfama")]]
    assert settled(case, more) == [[("UPDATE", more.text, "alfama")]]
    assert settled(case, changed) == [[("UPDATE", changed.text, "alfama")]], "a change may be shorter"
