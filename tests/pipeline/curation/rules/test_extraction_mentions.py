"""Facts in messages that seem to hold none: beside a text asked for, in questions, in lists, in reasons for asking."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def facts(text: str) -> list[str]:
    return [fact.text for fact in extract([Message("user", text)], now=NOW)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("write a poem for my aunt Greta, she turns 70 in July", ["Greta turns 70 in July"]),
        (
            "Tell me a story about a fox. The listener is my son Bram, 6, who hates peas.",
            ["Bram is 6", "Bram hates peas"],
        ),
        ("Test me on the periodic table, my chemistry final is on 3 June", ["User's chemistry final is on 3 June"]),
        (
            "Draft a cover letter to a bakery, I have worked at Greggs for 6 years",
            ["User has worked at Greggs for 6 years"],
        ),
        (
            "if i rented out the cottage, which we bought in 2011, would i owe tax",
            ["User bought their cottage in 2011"],
        ),
    ],
)
def test_what_stands_around_a_task_is_told(text: str, told: list[str]):
    found = facts(text)
    assert [fact for fact in told if fact not in found] == []


@pytest.mark.parametrize(
    "text",
    [
        "translate this to French: my sister Ana turns 40 in May",
        "proofread: For my wife Ines, she turns 40 in May",
        "Write a story about a girl called Mira, she lives in Oslo with her cat",
        "Write a scene where my hero Tom, who is 40, sells the farm",
        "if a tenant rented the cottage, which they bought in 2011, who pays",
    ],
)
def test_what_belongs_to_the_task_is_not(text: str):
    assert facts(text) == []


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("Which of these can I eat with my sesame allergy: hummus, falafel?", "User is allergic to sesame"),
        ("can I fly with my pacemaker", "User has pacemaker"),
        ("a slogan for our bakery, Crust & Co", "User has a bakery named Crust & Co"),
        ("what should my coeliac husband eat", "User's husband is coeliac"),
        ("why do my twins fight at bedtime", "User has twins"),
        ("why does my oven, a Neff Slide, smell of gas", "User's oven is a Neff Slide"),
        ("how do I explain fractions to my 4th graders", "User teaches 4th graders"),
        ("make a limerick for our neighbour Winnie, 91, who still cycles to church", "Winnie is 91"),
        ("my parrot Duchess just learned to swear, do i call a priest", "User's parrot is named Duchess"),
    ],
)
def test_a_mention_in_a_question_is_a_fact(text: str, fact: str):
    assert fact in facts(text)


@pytest.mark.parametrize(
    "text", ["is running bad for a child with asthma", "what foods trigger a nut allergy?", "who are my ancestors"]
)
def test_a_general_question_mentions_nothing(text: str):
    assert facts(text) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("I only ask because we live in Ghent", ["User lives in Ghent"]),
        ("Is Leeds safe? asking as someone who works nights in Bradford", ["User works nights in Bradford"]),
        ("How do I bleed radiators in a house from 1904? Ours has 3 boilers.", ["User's house has 3 boilers"]),
        ("gave up coffee in May. it's just green tea these days", ["User has only green tea these days"]),
        ("8 hour shifts four days a week", ["User works 8 hour shifts four days a week"]),
        ("Provisionally, Lisbon with Ana in May", ["User provisionally plans Lisbon with Ana in May"]),
        ("kitchen = Bo, bar = me and door = Kim", ["Kitchen: Bo", "Bar: User", "Door: Kim"]),
        ("my allergies:\n- walnuts\n- cats", ["User's allergies: walnuts", "User's allergies: cats"]),
    ],
)
def test_short_forms_are_read_whole(text: str, told: list[str]):
    found = facts(text)
    assert [fact for fact in told if fact not in found] == [] and len(found) <= len(told) + 1


def test_a_tentative_plan_is_hedged():
    (fact,) = extract([Message("user", "tentatively: Luang Prabang in mid January")], now=NOW)
    assert fact.hedged
