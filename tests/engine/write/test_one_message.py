"""What one message tells of one thing: its later sentences add to the earlier ones, unless they take them back."""

from __future__ import annotations

import pytest

from perdure import Memory
from tests.conftest import Open

ANA = {"user_id": "ana"}


def told(memory: Memory) -> set[str]:
    return {item.memory for item in memory.get_all(**ANA).results}


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (
            "I bought a canoe instead of a kayak. It's a Prospector. It's dark green.",
            {
                "User bought a canoe instead of a kayak",
                "User's canoe is a Prospector",
                "User's canoe is dark green",
            },
        ),
        (
            "Our hen is called Dolly, she's a Sussex, she's 3.",
            {"User's hen is called Dolly", "User's hen Dolly is a Sussex", "User's hen Dolly is 3"},
        ),
        ("I live in Hull. I mean, I live in Goole.", {"User lives in Goole"}),
        ("I work at Aldi. Actually I work at Lidl.", {"User works at Lidl"}),
        ("My budget is 500. My budget is for a bike. Sorry, my budget is 600.",
            {"User's budget is 600", "User's budget is for a bike"}),
        ("I play squash on Mondays. I no longer play squash.", {"User no longer plays squash"}),
    ],
)  # fmt: skip
def test_a_later_sentence_retires_an_earlier_one_only_if_it_takes_it_back(
    memory: Memory, said: str, left: set[str]
) -> None:
    memory.add(said, **ANA)
    assert told(memory) == left


def test_without_episodes_too(open_memory: Open) -> None:
    memory = open_memory(episodes="off")
    memory.add("I bought a canoe instead of a kayak. It's a Prospector. It's dark green.", **ANA)
    assert "User bought a canoe instead of a kayak" in told(memory)


def test_what_an_earlier_message_told_is_changed_once(memory: Memory) -> None:
    memory.add("I live in Hull.", **ANA)
    memory.add("I moved to Goole. I live in a flat near the docks.", **ANA)
    assert told(memory) == {"User moved to Goole", "User lives in a flat near the docks"}
    memory.add("I moved to Selby.", **ANA)
    assert "User moved to Goole" not in told(memory)


def test_another_message_of_the_same_call_still_changes_it(memory: Memory) -> None:
    memory.add([{"role": "user", "content": text} for text in ("I live in Hull.", "I moved to Goole.")], **ANA)
    assert told(memory) == {"User moved to Goole"}


def test_the_running_year_is_no_beginning_of_what_changes_in_it(memory: Memory) -> None:
    memory.add("I'm running the relay this year.", timestamp="2024-03-10", **ANA)
    memory.add("I'm not running the relay this year.", timestamp="2024-06-01", **ANA)
    (item,) = memory.get_all(**ANA).results
    assert item.memory == "User is not running the relay this year"
    assert (item.valid_from or "")[:10] == "2024-06-01"
