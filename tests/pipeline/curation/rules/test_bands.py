"""001's similarity bands with U8: nearness alone never overwrites."""

from __future__ import annotations

import pytest

from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.pipeline.curation.chat import decide_by_bands
from perdure.pipeline.curation.rules.reconciliation import same_matter
from tests.domain.test_nouns import item

pytestmark = pytest.mark.covers("V38", "V39", "V40", "V41", "V42")


def decided(fact: str, *memories: Neighbour) -> Decision:
    return decide_by_bands(Fact(text=fact), memories, same_matter)


def beside(text: str, similarity: float | None, id: str = "m1") -> Neighbour:
    return Neighbour(item=item(id=id, memory=text), similarity=similarity)


@pytest.mark.covers("V38")
def test_near_duplicate_is_updated_with_the_newer_words() -> None:
    decision = decided("User prefers dark mode.", beside("User prefers dark mode", 0.98))
    assert (decision.event, decision.target, decision.text) == ("UPDATE", "m1", "User prefers dark mode.")


@pytest.mark.covers("V38")
def test_a_changed_value_of_one_attribute_is_updated() -> None:
    decision = decided("User's budget for Hawaii is $15,000", beside("User's budget for Hawaii is $10,000", 0.95))
    assert (decision.event, decision.target) == ("UPDATE", "m1")


@pytest.mark.covers("U8")
@pytest.mark.parametrize(
    ("old", "new", "similarity"),
    [
        ("User visited Rome in 2021", "User visited Rome in 2023", 0.937),
        ("User has a meeting with Anna on Monday", "User has a meeting with Anna on Tuesday", 0.985),
        ("User's sister lives in Oslo", "User's brother lives in Oslo", 0.93),
        ("Invoice 2041 was paid in April", "Invoice 2042 was paid in April", 0.96),
    ],
)
def test_near_equal_sentences_that_state_different_facts_are_added(old: str, new: str, similarity: float) -> None:
    decision = decided(new, beside(old, similarity))
    assert (decision.event, decision.text, decision.rule) == ("ADD", new, "bands.near-equal")


@pytest.mark.covers("V39", "V40", "V41")
@pytest.mark.parametrize(
    ("similarity", "rule"),
    [
        (0.9, "bands.gray"),
        (0.75, "bands.gray"),
        (0.7, "bands.gray"),
        (0.69, "bands.new"),
        (-0.2, "bands.new"),
        (None, "bands.new"),
    ],
)
def test_below_or_at_the_band_a_memory_is_new(similarity: float | None, rule: str) -> None:
    decision = decided("User likes tea", beside("User likes tea", similarity))
    assert (decision.event, decision.rule) == ("ADD", rule)


@pytest.mark.covers("V42")
def test_no_memory_of_the_type_makes_a_new_one() -> None:
    assert decided("User likes tea").event == "ADD"


def test_the_nearest_agreeing_memory_is_the_one_updated() -> None:
    near = [beside("User visited Rome in 2021", 0.96, "m1"), beside("User visited Rome in 2023", 0.93, "m2")]
    assert decided("User visited Rome in 2023", *near).target == "m2"
