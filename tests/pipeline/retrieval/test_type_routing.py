"""Memory-type routing: a how-to query gets procedures first."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.lexicon import lines
from perdure.pipeline.retrieval.search_gate import how_to, procedural_first

pytestmark = pytest.mark.covers("V74")

TYPES = st.lists(st.sampled_from(["semantic", "procedural", "episodic", "reflective", None]), max_size=12)


@pytest.mark.covers("V74")
@pytest.mark.parametrize(
    "query",
    [
        "How do I deploy payment-service?",
        "how  do\nwe roll back a release",
        "remind me how to reset the router",
        "What are the steps to publish the podcast?",
        "what's our procedure when the pager goes off",
        "Ana's recipe for risotto",
        "WALK ME THROUGH the release",
        "How should I water the orchid?",
        "how did I fix the dishwasher last time?",
        "¿Cómo puedo reiniciar el router?",
        "como puedo renovar la licencia",
        "como posso renovar o passaporte",
        "come si fa il pesto?",
        "Wie kann ich das Fahrrad reparieren?",
        "comment faire la pâte à crêpes",
        "我怎么做红烧肉？",
    ],
)
def test_how_to(query: str) -> None:
    assert how_to(query)


@pytest.mark.covers("V74")
@pytest.mark.parametrize(
    "query",
    [
        "",
        "What is my budget for Hawaii?",
        "how do I take my coffee?",
        "How do I feel about my new job",
        "how do I like my eggs",
        "how many steps did I walk",
        "how old is my cat",
        "how is Anna?",
        "somehow today was good",
        "how are you doing",
        "what did I say on the footsteps tour",
        "我怎么了",
    ],
)
def test_not_how_to(query: str) -> None:
    assert not how_to(query)


@pytest.mark.covers("V74")
@pytest.mark.parametrize("entry", lines("recall_howto.txt"))
def test_every_entry_does_something(entry: str) -> None:
    """A phrase asks for a procedure; one of the exceptions would ask for it too, were it not an exception."""
    phrase = entry.removeprefix("-")
    assert how_to(f"{phrase}?") != entry.startswith("-")
    if entry.startswith("-"):
        assert any(not other.startswith("-") and phrase.startswith(other) for other in lines("recall_howto.txt"))


@pytest.mark.covers("V74")
@given(st.sampled_from(lines("recall_howto.txt")), st.sampled_from(["NFC", "NFD"]))
def test_case_and_spelling_of_accents_are_of_no_matter(entry: str, form: str) -> None:
    phrase = entry.removeprefix("-")
    written = unicodedata.normalize(form, f"  {phrase.upper()}\t this".replace("'", "’"))  # type: ignore[arg-type]
    assert how_to(written) == how_to(f"{phrase} this")


@pytest.mark.covers("V74")
def test_procedures_first_and_only_then() -> None:
    types = ["semantic", "procedural", None, "procedural"]
    assert procedural_first("how do I deploy it", types) == [1, 3, 0, 2]
    assert procedural_first("what is my budget", types) == [0, 1, 2, 3]


@pytest.mark.covers("V74")
@given(TYPES)
def test_each_part_keeps_its_order(types: list[str | None]) -> None:
    places = procedural_first("steps to deploy", types)
    first = [place for place in range(len(types)) if types[place] == "procedural"]
    assert places == first + [place for place in range(len(types)) if types[place] != "procedural"]
