"""Messages of kinds that state nothing (jokes, sums, named texts, dreams, brush-offs), and look-alikes that do."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def facts(*turns: str) -> list[str]:
    """The facts of turns, of which those that begin with "a: " are the assistant's."""
    messages = [Message("assistant" if turn.startswith("a: ") else "user", turn.removeprefix("a: ")) for turn in turns]
    return [fact.text for fact in extract(messages, now=NOW)]


@pytest.mark.parametrize(
    "text",
    [
        "bro im a 700 year old swamp goblin from hull",
        "yes this is dog, i would like one walk please",
        "sure ill just teleport to Osaka and be back by lunch",
        "someone call Geneva, we've got a Nobel winner here",
        "husband for sale, slightly used, will swap for a sandwich",
        "i walk 3 km north then 4 km east, how far am i from the start",
        "my dad is 4 times my age and in 20 years he will be twice my age, how old am i",
        "I have keys but no locks, space but no room. What am I?",
        "chem hw: how many grams of NaCl in 2 l of a 0.4 M solution. i got 5.84",
        "limerick about a man called Boris who sells hats in Delft",
        "python class Car with brand Tesla, year 2021, and a drive method",
        "email from a tenant called Gary to his landlord, boiler broken since monday",
        "two truths and a lie: i met the pope, i have 11 toes, i was born on a boat",
        "we practice hotel check in, you are receptionist, I am guest named Anna Berg",
        "had a dream i was the mayor of oslo n my cat was my deputy",
        "picture this: i'm 70, i live on a boat in croatia, three parrots",
        "so mozart was born in salzburg in 1756 and was only 35 when he died, wild",
        "DELETE FROM orders WHERE id=7; ran it without a backup. can i undo",
        "what is this?\nUserWarning: Could not infer format, so each element will be parsed individually",
        "im so done today goodnight",
        "my friend sent this: I quit my job, I'm moving to Goa. thoughts?",
    ],
)
def test_a_message_of_its_kind_states_nothing(text):
    assert facts(text) == []


@pytest.mark.parametrize(
    "turns",
    [
        ("a: Pottery? Birdwatching? Fencing?", "lol no"),
        ("a: You told me your sister Ulla plays the harp.", "Pardon? I only wanted the weather."),
        ("a: Are you a vegetarian, then?", "lol no idea, whatever"),
        ("a: Do you have kids?", "id rather not say"),
        (
            "In another life I'd have been a lighthouse keeper",
            "a: On which coast?",
            "Brittany. We had a donkey, Gaston",
        ),
    ],
)
def test_a_claim_waved_off_or_a_play_gone_on_with_states_nothing(turns):
    assert facts(*turns) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("im a ghost writer for chefs", "ghost writer"),
        ("I'm a dragon boat racer from Hull", "dragon boat"),
        ("we practice judo on Tuesdays", "judo"),
        ("my dream house is in Cork", "Cork"),
        ("i asked for a raise and got 5%", "raise"),
        ("i drive 40 km to work every day, how much is that a year", "40 km"),
        ("I wish I was a morning person. I work nights at a bakery", "bakery"),
        ("I would rather not fly, I'm scared of it", "not fly"),
        ("i am off to Porto on the 9th", "Porto"),
        ("dreamt of my school again. i teach at Bolton Primary", "Bolton"),
    ],
)
def test_a_look_alike_still_tells(text, word):
    assert any(word in fact for fact in facts(text))


@pytest.mark.parametrize(
    ("text", "own"),
    [
        (
            "Forwarding this:\n> Hi Tessa, I live in Cardiff now.\n> Gareth\nI live in Bristol.",
            ["User lives in Bristol"],
        ),
        ("Hi,\nI moved to Leeds last week.\nBest, Bob\n\nCan you answer this mail for me?", []),
        ("From: Ana\nSubject: hello\nI moved to Rome.\n---\nI live in Kiel.", ["User lives in Kiel"]),
        ("Hallo,\nich wohne in Bremen.\nViele Grüße\nUwe\n\nBitte übersetze die Nachricht.", []),
        ('My boss wrote: "I\'m on leave and my deputy is Karl, call him". I work at IKEA.', ["User works at IKEA"]),
        ("Got this from Noreen: 'Can we do quartz? I moved to Bandon, ring me on 555 0134. Noreen'", []),
        ("Hi!\nI live in Kiel.\nThanks", ["User lives in Kiel"]),
    ],
)
def test_what_others_wrote_is_no_fact_about_the_user(text: str, own: list[str]) -> None:
    assert facts(text) == own


@pytest.mark.parametrize(
    "text",
    [
        "- groceries\n- butcher\n- plumber",
        "dentist!!",
        "Errands: stamps, florist, tailor",
        "to sort out:\n- ring the roofer\n- tax advisor\n- vet??",
        "electrician in Leeds",
        "new teacher! Year 4 starts on Monday",
        "- vegan sausages\n- married couples photo",
    ],
)
def test_what_stands_on_a_list_is_nobodys_job_or_state(text: str) -> None:
    assert not [fact for fact in facts(text) if fact.startswith("User is")]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("I'm Marisol, district nurse", "User is a district nurse"),
        ("my name is Ilse, retired roofer", "User is a retired roofer"),
        ("My neighbour is Jo, vet in Hull", "User's neighbour is a vet in Hull"),
        ("plumber here", "User is a plumber"),
        ("adopted a dog", "User adopted a dog"),
        ("single dad, two girls", "User is a single dad, two girls"),
        ("vegan since 2019", "User is vegan since 2019"),
        ("allergic to peanuts", "User is allergic to peanuts"),
        ("dyslexic btw so keep ur answers short", "User is dyslexic"),
    ],
)
def test_a_job_or_a_state_is_told_behind_who_one_is_or_by_a_word_that_says_so(text: str, fact: str) -> None:
    assert fact in facts(text)


def test_a_bare_job_answers_the_question_for_it() -> None:
    assert facts("a: What do you do for a living?", "patent lawyer") == ["User works as a patent lawyer"]


@pytest.mark.parametrize(
    "text",
    [
        "Jin left btw. Took a job at DeepL in Cologne.",
        "My boss quit. Moved to Oslo in May.",
        "Priya quit in May. Never been to Peru.",
        "He is in Oslo now. Born in Leeds.",
    ],
)
def test_what_follows_on_another_person_without_a_subject_is_not_told_of_the_user(text: str) -> None:
    assert not [fact for fact in facts(text) if "DeepL" in fact or re.match(r"User (?:moved|has never|was born)", fact)]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("My sister moved to Leeds. Need to book a train.", "User needs to book a train"),
        ("Mum is coming on Friday. Lost my keys today.", "User lost their keys today"),
        ("I moved to Leeds. Started at IKEA in May.", "User started at IKEA in May"),
    ],
)
def test_a_verb_or_a_word_that_means_the_user_stays_his(text: str, fact: str) -> None:
    assert fact in facts(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "I met Rosa who owns 4 goats and lives in Alvito",
            ["User met Rosa who owns 4 goats and lives in Alvito"],
        ),
        (
            "I work with Ivo who speaks Czech and plays the tuba",
            ["User works with Ivo who speaks Czech and plays the tuba"],
        ),
        ("As a kid I lived in Bonn", ["As a kid User lived in Bonn"]),
        ("as a student I rented a room in Graz", ["As a student User rented a room in Graz"]),
        ("I've given up plot 17, I'm afraid", ["User has given up plot 17"]),
        ("I'm afraid of dogs", ["User is afraid of dogs"]),
        ("took 40 minutes", []),
        ("cost about 30 euros", []),
        ("took a week off in May", ["User took a week off in May"]),
        ("took 2 paracetamol at noon", ["User took 2 paracetamol at noon"]),
        ("we're 8 people", []),
        ("we were three at the table", []),
        ("we're 2 hours from Porto", ["User is 2 hours from Porto"]),
        ("no bananas tho ... dont ask", []),
        ("don't apologise", ["User does not want the assistant to apologise"]),
        ("My course is in Leeds, 2 weeks", ["User's course is in Leeds, 2 weeks"]),
        ("My dog is called Biscuit, 2 years", ["User's dog is called Biscuit", "User's dog is 2 years old"]),
        ("se fue a Lyon con su novio", []),
        ("Mi hermana se fue a Lyon con su novio", []),
    ],
)
def test_a_fact_says_whom_the_words_tell_of(text: str, told: list[str]) -> None:
    assert facts(text) == told
