"""Which known entity a name means, and what a question asks the graph for."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.clock import iso
from perdure.domain.graph import Entity
from perdure.pipeline.curation.rules.relations.clauses import MOST_NAMES, read_question
from perdure.pipeline.curation.rules.relations.names import resolve

pytestmark = pytest.mark.covers("X66")

NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)


def known(*names: str, type: str = "person") -> list[Entity]:
    return [Entity(name=name, type=type) for name in names]


@pytest.mark.parametrize(
    ("name", "type", "candidates", "meant"),
    [
        ("alice  smith", "person", known("Alice Smith"), "Alice Smith"),
        ("Ms. Alice Smith", "person", known("Alice Smith", "Alice Jones"), "Alice Smith"),
        ("Alice Smith", "person", known("Dr. Alice Smith"), "Dr. Alice Smith"),
        ("José García", "person", known("Jose Garcia"), "Jose Garcia"),
        ("Jean-Luc Picard", "person", known("Jean Luc Picard"), "Jean Luc Picard"),
        ("Google Inc.", "organization", known("Google", type="organization"), "Google"),
        ("the Acme Corp", "organization", known("ACME", type="organization"), "ACME"),
        ("Google's", "concept", known("Google", type="organization"), "Google"),
        ("Fundraisng", "project", known("Fundraising", type="project"), "Fundraising"),
        ("Alice Schmitterling", "person", known("Alice Schmiterling"), "Alice Schmiterling"),
        ("Alice Petersno", "person", known("Alice Peterson"), "Alice Peterson"),
        ("Alice", "concept", known("Alice"), "Alice"),
    ],
)
def test_a_name_that_can_mean_only_one(name: str, type: str, candidates: list[Entity], meant: str) -> None:
    assert resolve(name, type, candidates) == meant


@pytest.mark.parametrize(
    ("name", "type", "candidates"),
    [
        ("Alice Smith", "person", known("Alice Jones")),
        ("Alice", "person", known("Alice Smith")),
        ("Alice", "person", known("Alice Smith", "Alice Jones")),
        ("Peter Andersen", "person", known("Peter Anderson")),  # two families
        ("Ann", "person", known("Anna")),
        ("fundraising 2", "project", known("fundraising", "fundraising 3", type="project")),
        ("Mercury", "location", known("Mercury Inc.", type="organization")),
        ("Fundraisng", "person", known("Fundraising", type="project")),
        ("Platforms", "project", known("Platform", type="project")),
        ("Platfrom A", "project", known("Platform B", type="project")),
        ("Fundraisin", "project", known("Fundraising", "Fundraisinx", type="project")),  # one of two: which?
        ("Dr.", "person", known("Dr. Alice Smith")),
        ("", "person", known("Alice")),
        ("Alice", "person", []),
    ],
)
def test_in_doubt_it_is_nobody_known(name: str, type: str, candidates: list[Entity]) -> None:
    assert resolve(name, type, candidates) is None


NAMES = st.sampled_from(
    ["Alice Smith", "Alice Jones", "Ms. Alice Smith", "alice smith", "Google", "Google Inc.", "Bob"]
)


@given(st.lists(NAMES, unique_by=lambda name: " ".join(name.casefold().split())), NAMES, st.randoms())
def test_the_order_of_candidates_does_not_matter_and_the_same_name_wins(names: list[str], name: str, random) -> None:
    mixed = list(names)
    random.shuffle(mixed)
    meant = resolve(name, "person", known(*names))
    assert meant == resolve(name, "person", known(*mixed))
    assert meant is None or meant in names
    if name in names:
        assert meant == name


# ---------------------------------------------------------------------------------------------------------- questions
@pytest.mark.covers("X66")
@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("Who was the lead in Q1?", "2026-01-01", "2026-03-31"),
        ("Who leads the launch team in Q1?", "2026-01-01", "2026-03-31"),
        ("Who led the fundraising project last year?", "2025-01-01", "2025-12-31"),
        ("Where did Alice work on 2026-02-01?", "2026-02-01", "2026-02-01"),
        ("Who was the lead in December?", "2025-12-01", "2025-12-31"),
        ("Who will be the lead in Q4?", "2026-10-01", "2026-12-31"),
        ("Who was the lead between January and March 2026?", "2026-01-01", "2026-03-31"),
        ("Who has been lead since 2024?", "2024-01-01", "2026-05-20"),
        ("Who was the lead until Q2?", "0001-01-01", "2026-03-31"),
    ],
)
def test_the_time_that_a_question_asks_about(question: str, first: str, last: str) -> None:
    window = read_question(question, now=NOW).window
    assert window is not None
    assert (window[0][:10], window[1][:10]) == (first, last)


@pytest.mark.parametrize("question", ["Who is the lead?", "who leads fundraising", "", "What may I do?"])
def test_a_question_without_a_time_asks_about_now(question: str) -> None:
    assert read_question(question, now=NOW).window is None


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Who was the lead of the fundraising project?", {"lead", "fundraising", "fundraising project"}),
        ("Where does Alice's manager live?", {"Alice", "manager"}),
        ("does alice smith work for Google?", {"alice", "alice smith", "Google"}),
    ],
)
def test_names_that_a_question_may_mean(question: str, names: set[str]) -> None:
    assert names <= set(read_question(question, now=NOW).names)


def test_known_names_are_found_in_any_case_and_come_first() -> None:
    asked = read_question(
        "where does alice's boss live, in são paulo?", now=NOW, known=["Alice", "São Paulo", "Bob", "!"]
    )
    assert asked.names[:2] == ("Alice", "São Paulo")
    assert "Bob" not in asked.names and "alice" not in asked.names


def test_who_came_before_and_after() -> None:
    assert read_question("who was the lead before Bob?", now=NOW).before == "Bob"
    assert read_question("who replaced Alice Smith as lead?", now=NOW).after == "Alice Smith"
    assert read_question("who was the lead before 2025?", now=NOW).before is None


@given(st.text(max_size=200))
def test_any_text_may_be_asked(text: str) -> None:
    asked = read_question(text, now=NOW)
    assert len(asked.names) <= MOST_NAMES and len(set(asked.names)) == len(asked.names)
    assert asked.window is None or asked.window[0] <= asked.window[1]
    assert asked.window is None or all(iso(datetime.fromisoformat(each)) == each for each in asked.window)
