"""Changes as conversations tell them: posts that pass on, appointments that move, details that retire nothing."""

from __future__ import annotations

import pytest

from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.pipeline.curation.rules.reconciliation import decide
from tests.domain.test_nouns import item


def beside(*memories: str, sources: tuple[str, ...] = ()) -> list[Neighbour]:
    return [
        Neighbour(item=item(id=f"m{n}", memory=text, sources=sources), similarity=0.7)
        for n, text in enumerate(memories, 1)
    ]


def only(fact: str, *memories: str) -> Decision:
    (decision,) = decide(Fact(text=fact), beside(*memories))
    return decision


@pytest.mark.parametrize(
    ("fact", "memory"),
    [
        ("Bartosz is acting product owner", "Product owner is Ingvild"),
        ("Sheila Nance has taken over as treasurer", "User's treasurer is Clement Hoskin"),
        ("User's rent goes to 1,020 from May", "User's rent is 900 a month"),
        ("User's gig got moved to 11 july because of the weather", "User's first gig is 4 july at the school fair"),
        ("Femi's class teacher is mr Dacosta now", "The class teacher is miss Prentice"),
        ("User's supplier is Don Valley Trade from this month", "User's supplier is Hallam Pipes"),
    ],
)
def test_a_change_retires_what_was_so(fact: str, memory: str) -> None:
    decision = only(fact, memory)
    assert (decision.event, decision.target) == ("UPDATE", "m1")


@pytest.mark.parametrize(
    ("fact", "memory"),
    [
        ("User owns boat number 1", "User owns boat number 0"),
        ("User's new social worker: Assessment on 17 November", "User's new social worker is Ms Achterberg"),
        ("Kundai's school trip costs 260", "Kundai's school trip is the Isle of Wight"),
        ("User's father is 83", "User's father has vascular dementia"),
        ("User renamed the band", "User plays the drums in a band called Damp Socks"),
        ("User bought the cello in the end", "User took up the cello at 44"),
        ("Uncle Bernard sold his static caravan", "User owns a static caravan in Filey"),
    ],
)
def test_another_matter_is_added(fact: str, memory: str) -> None:
    assert only(fact, memory).event == "ADD"


def test_a_new_place_keeps_the_date() -> None:
    decision = only("The leek show is at the Scout Hut instead", "The leek show is on 13 September at the Miners' Hall")
    assert decision.text == "The leek show is at the Scout Hut instead on 13 September"


def test_a_lettered_number_is_swapped_whole() -> None:
    assert only("User's parking spot is 22A", "User's parking spot is 14B").text == "User's parking spot is 22A"


@pytest.mark.parametrize("sources", [("e1",), ()])
def test_what_points_back_is_forgotten_with_its_matter(sources: tuple[str, ...]) -> None:
    fact = Fact(text="User asked to forget the secret wedding", forget=True)
    near = beside("User has a secret wedding in May", "User keeps a secret of it", "User likes tea", sources=sources)
    gone = {decision.target for decision in decide(fact, near)}
    assert gone == ({"m1", "m2"} if sources else {"m1"})


@pytest.mark.parametrize(
    ("told", "stays"),
    [
        ("Ilse doesn't eat eggs", "Ilse doesn't eat fish either"),
        ("Jonas gave up freelancing", "Jonas's mother is still with Jonas until the end of the month"),
        ("Jonas works as an editor at Porto Editora now", "Tomas works at a hotel by the river"),
        ("User owns boat number 5", "User owns boat number 4"),
    ],
)
def test_likeness_alone_ends_nothing_of_another_matter(told: str, stays: str) -> None:
    assert only(told, stays).event == "ADD"
