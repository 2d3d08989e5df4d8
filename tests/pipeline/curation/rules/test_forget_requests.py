"""Requests to forget: how they are made, what they name, which memories they mean, and what only looks like one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.fact import Fact, Neighbour
from perdure.domain.memory import MemoryItem
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.pipeline.curation.rules.extraction import extract, read_messages
from perdure.pipeline.curation.rules.reconciliation import decide

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def told(text: str, *before: str) -> tuple[list[str], list[str]]:
    """What a message asks to forget, without the words of asking, and the facts that it leaves."""
    context = [Message("user", line) for line in before]
    found = extract([Message("user", text)], now=NOW, context=context)
    asked = [fact.text.removeprefix("User asked to forget").lstrip() for fact in found if fact.forget]
    return asked, [fact.text for fact in found if not fact.forget]


@pytest.mark.parametrize(
    "text",
    [
        "Please delete everything you know about me.", "forget everything you know about me", "Erase all my data.",
        "Forget everything.", "Can you erase everything about me?", "Clear all the data you have on me",
        "Remove all information about me please", "I want you to delete all of my personal data.", "Wipe your memory.",
        "Forget all I told you.", "I want everything you know about me deleted.", "pls delete all my memories",
        "Delete everything you have stored about me and my family",
    ],
)  # fmt: skip
def test_a_request_for_everything_is_one_and_names_no_fact(text: str) -> None:
    assert told(text, "I live in Rome.", "My sister Anna lives in Oslo.") == (["everything"], [])


@pytest.mark.parametrize(
    ("text", "matters"),
    [
        ("Forget everything about my divorce.", ["User's divorce"]),
        ("Forget everything I told you about the audition.", ["the audition"]),
        ("Don't forget everything I told you.", []),
        ("I can't forget everything you know about me", []),
        ("Delete all my data from the second table.", []),
        ("I lost everything in the fire.", []),
    ],
)
def test_a_request_with_a_matter_or_none_at_all_is_not_for_everything(text: str, matters: list[str]) -> None:
    assert told(text)[0] == matters


@pytest.mark.parametrize(
    ("text", "matter"),
    [
        ("take the boathouse code out of your notes will you, dont want it written down", "the boathouse code"),
        ("would you mind deleting what I said about my savings", "User's savings"),
        ("Pray strike out my remark concerning Mrs Bell.", "Mrs Bell"),
        ("plz scrub the bit about the divorce, we sorted it", "the divorce"),
        ("can you lose the thing about Ida wanting out?", "Ida wanting out"),
        ("I don't want my salary stored anywhere", "User's salary"),
        ("I'd rather you didn't keep my home address", "User's home address"),
        ("The vestas application thing can go", "the vestas application"),
        ("what i owe kaj, you can delete", "what User owes kaj"),
        ("Can we please have the part about my therapist wiped", "User's therapist"),
        ("let's pretend I never told you about the audition", "the audition"),
        ("could you see to it that my iban is deleted", "User's iban"),
        ("forget this, the crying, it was silly", "the crying"),
        ("I take back what I said about Ingrid", "Ingrid"),
        ("get the ring out of your head, my wife reads this", "the ring"),
        ("Please treat what I said about the rehab as unsaid.", "the rehab"),
        ("What I mentioned regarding the rehab must not be kept.", "the rehab"),
        ("pls forget where the spare key is", "where the spare key is"),
        ("court date - delete please", "court date"),
        ("no need to hold on to my gym membership number", "User's gym membership number"),
    ],
)
def test_a_request_names_its_matter_and_leaves_nothing(text: str, matter: str) -> None:
    assert told(text) == ([matter], [])


@pytest.mark.parametrize(
    ("text", "matter"),
    [
        (
            "My son says I should never have told you the pin for my card, so rub it out please.",
            "the pin for User's card",
        ),
        ("The yard password - don't hold on to it please", "the yard password"),
        ("why do you know my passport number? remove it", "User's passport number"),
        ("I've settled up with Baxter, so please forget I ever mentioned owing him.", "owing Baxter"),
        ("who I voted for is nobody's business, erase that", "who User voted for"),
    ],
)
def test_a_pronoun_means_what_was_said_to_have_been_told(text: str, matter: str) -> None:
    assert told(text) == ([matter], [])


def test_what_is_told_beside_a_request_is_kept_and_its_reason_is_not() -> None:
    asked, kept = told("our vet is Dr Odhiambo now, and pls remove the chip number, ive got it in the app")
    assert asked == ["the chip number"] and len(kept) == 1 and "Odhiambo" in kept[0]
    asked, kept = told("forget my Hull address, I live in Leeds at 4 Elm Row now")
    assert asked == ["User's Hull address"] and len(kept) == 1 and "Elm Row" in kept[0]
    assert told("The lump was nothing. I'd like you to forget the lump.") == (["the lump"], [])
    assert told("delete my weight if I said it, and my age also")[0] == ["User's weight", "User's age"]


@pytest.mark.parametrize(
    ("text", "matter", "news"),
    [
        (
            "Actually scratch what I said about days: they've put me back on nights from August.",
            "days",
            "They have put User back on nights from August",
        ),
        (
            "Disregard the green thing, my favourite colour has been teal since I painted the hall.",
            "the green",
            "User's favourite colour has been teal since User painted the hall",
        ),
        ("Strike what I told you about the rent: it went up to 1020", "the rent", "The rent went up to 1020"),
        ("Forget my number, my number is 0477 12 34 now.", "User's number", "User's number is 0477 12 34 now"),
        (
            "Ignore what I said about Lidl: the parcels go to the Coop on Mill Road.",
            "Lidl",
            "The parcels go to the Coop on Mill Road",
        ),
        ("forget my pin, it's private, my bike is a Kona", "User's pin", "User's bike is a Kona"),
    ],
)
def test_what_holds_instead_is_kept_though_it_points_at_the_matter(text: str, matter: str, news: str) -> None:
    assert told(text) == ([matter], [news])


@given(
    st.sampled_from(["Please forget the Oslo trip", "Scratch what I said about Oslo", "I take back my remark on Oslo"]),
    st.sampled_from([", ", "; ", ": ", " - ", ". ", "! ", ", and "]),
    st.sampled_from(["my dog is called Rex", "our caravan is in Tenby", "I play the cello on Sundays"]),
)
def test_a_request_ends_where_its_clause_ends(request: str, end: str, news: str) -> None:
    asked, kept = told(request + end + news)
    assert "Oslo" in asked[0] and any(news.rpartition(" ")[2] in fact for fact in kept)


def noted(text: str) -> list[str]:
    """The notes of a message of which each sentence is worth one, and no fact."""
    judged = read_messages([Message("user", text)], now=NOW, judge=lambda model, *_: float(model == "sentence"))
    assert any(fact.forget for fact in judged.facts) and not any(fact.text in text for fact in judged.facts)
    return [note.text for note in judged.notes]


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (
            "Please forget my old number; call me on 0477 12 after 6, my husband's up before that.",
            ["call me on 0477 12 after 6, my husband's up before that."],
        ),
        ("Forget the gym - they've put the fees up, again!", ["they've put the fees up, again!"]),
        (
            "My dentist's Dr Obi. Forget the old one. The new rooms are nicer",
            ["My dentist's Dr Obi. The new rooms are nicer"],
        ),
        ("Vergiss bitte, dass ich in Köln wohne. Das Klavier war zu laut.", ["Das Klavier war zu laut."]),
    ],
)
def test_what_of_the_rest_is_no_fact_is_noted_as_it_was_typed(text: str, notes: list[str]) -> None:
    assert noted(text) == notes


@pytest.mark.parametrize(
    "text",
    [
        "Please forget my PIN. It was 4471.",
        "I live in Ghent. Forget that I live in Ghent.",
        "My pin is 2607 - actually, delete that",
        "forget what I told you about Tom: he was in prison in Hull",
        "forget my salary, my wife reads this",
        "The lump was nothing. I'd like you to forget the lump.",
        "Vergiss bitte, dass ich in Köln wohne.",
    ],
)
def test_neither_the_request_nor_its_matter_nor_its_reason_is_noted(text: str) -> None:
    assert noted(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "I keep forgetting my keys",
        "remove the onions from the recipe",
        "drop the kids off at 8",
        "forget about the weather, what shall I cook?",
        "Forget the pasta. What can I make with rice?",
        "can you drop the last line",
        "take Ida's name off the guest list you drafted",
        "I just want to sit, relax, and forget my job",
        "how do I delete my account",
        "I'd rather not keep the Skoda",
        "lose weight by summer",
        "I want to forget my ex",
        "can you forget a language?",
        "wipe my phone before I sell it",
        "we took the number off the door",
        "I want my name taken off the lease",
        "you can forget the beach if it rains",
        "can you take out the bit about salt and make it vegan",
        "the gate must not be left open",
        "forget it",
        "Forget me nots are my favourite",
        "The dog can go in the crate",
        "I'd like the wall removed",
    ],
)
def test_what_is_no_request_to_forget(text: str) -> None:
    assert told(text, "I live at 12 Oak Street.")[0] == []


def beside(*texts: str, message: str = "") -> list[Neighbour]:
    """Memories near a request, in the order of their nearness; those of one message share its id."""
    return [
        Neighbour(
            item=MemoryItem(
                id=f"m{number}",
                memory=text,
                hash=str(number),
                scope=Scope(user_id="u"),
                created_at=NOW.isoformat(),
                updated_at=NOW.isoformat(),
                told_at=(NOW + timedelta(days=number)).isoformat(),
                sources=(message or f"e{number}",),
            ),
            similarity=0.5 - number / 50,
        )
        for number, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("matter", "memories", "gone"),
    [
        ("Fay's phone number", ("User's accountant Fay is on 07700 900412", "User's number is 0117 496"), {"m0"}),
        ("User's age", ("User is 79", "User's dog is 6", "User takes 5 mg of bisoprolol"), {"m0"}),
        ("User's weight", ("User weighs 92 kilos", "User weighs flour every Sunday"), {"m0"}),
        ("User's salary", ("User earns 41,000 kroner a month", "User pays 900 for the flat"), {"m0"}),
        ("User's date of birth", ("User was born on 4 May 1981", "User's sister Frida's birthday is 3 March"), {"m0"}),
        ("User's old address", ("User's new address is Elm Row 4", "User's address is Oak Lane 9"), {"m1"}),
        (
            "Malte's bedwetting",
            ("Malte wets the bed", "x", "x", "x", "x", "x", "User's sons are Malte and Storm"),
            {"m0"},
        ),
        ("leaving Signe", ("User may leave Signe", "x", "x", "x", "x", "x", "User lives in Aarhus with Signe"), {"m0"}),
        ("the aquarium", ("User keeps bees", "User lives in Ghent"), set()),
    ],
)
def test_a_request_means_the_memories_that_hold_its_matter(
    matter: str, memories: tuple[str, ...], gone: set[str]
) -> None:
    fact = Fact(text=f"User asked to forget {matter}", forget=True)
    assert {decision.target for decision in decide(fact, beside(*memories))} == gone


def test_a_datum_is_known_by_its_value_beside_what_the_same_message_says_of_whose_it_is() -> None:
    fact = Fact(text="User asked to forget User's Peru number", forget=True)
    message = beside("User got a Peru sim", "User's number here is 987 555 0142", message="e")
    assert [decision.target for decision in decide(fact, message)] == ["m1"]
    apart = beside("User got a Peru sim", "User's number here is 987 555 0142")
    assert decide(fact, apart) == []


def test_a_whole_statement_pointed_at_is_deleted_alone() -> None:
    fact = Fact(text="User asked to forget: User lives in Ghent, near the canal", forget=True)
    near = beside("User lives in Ghent", "User lives in Ghent, near the canal")
    assert [decision.target for decision in decide(fact, near)] == ["m1"]


def test_a_named_speaker_s_request_means_the_matter_alone() -> None:
    """Where people speak under their names, the request opens with a name instead of "User"."""
    (asked,) = extract([Message("user", "Please forget the door code of the building.", name="Mara")], now=NOW)
    assert asked.forget and asked.text.startswith("Mara asked to forget")
    scope = Scope(user_id="household")
    memories = [
        Neighbour(
            item=MemoryItem(
                id=str(place), memory=text, hash="", scope=scope, created_at=NOW, updated_at=NOW, told_at=NOW
            ),
            similarity=similarity,
        )
        for place, (text, similarity) in enumerate(
            [("The door code of the building is 4471", 0.7), ("Mara's bike has a code lock", 0.4)]
        )
    ]
    assert [(each.event, each.target) for each in decide(asked, memories)] == [("DELETE", "0")]


@pytest.mark.parametrize(
    ("text", "matters"),
    [
        ("Vergiss bitte, dass ich in Köln wohne.", ["that User lives in Köln", "wohne Köln"]),
        ("Könntest du bitte meine Schulden vergessen?", ["User's Schulden", "Schulden"]),
        ("Ich möchte, dass du vergisst, was ich über Kreta gesagt habe.", ["Kreta", "Kreta"]),
        ("Olvida que vivo en Madrid, por favor.", ["that User lives in Madrid", "vivo Madrid"]),
        ("¿Puedes borrar lo que te dije sobre mi deuda?", ["User's deuda", "deuda"]),
        ("Oublie que j'habite à Lyon, s'il te plaît.", ["that User lives in Lyon", "habite Lyon"]),
        ("Veuillez effacer ma dette, parce que c'est privé.", ["User's dette", "dette"]),
        ("Esqueça que moro em Lisboa.", ["that User lives in Lisboa", "moro Lisboa"]),
        ("Por favor, esquece a minha dívida.", ["User's dívida", "dívida"]),
        ("Dimentica che abito a Torino.", ["that User lives in Torino", "abito Torino"]),
        ("Cancella quello che ti ho detto sul mio debito.", ["User's debito", "debito"]),
        ("Vergiss das bitte.", [""]),
        ("Vergiss, dass meine Schwester Epilepsie hat.", ["User's sister has Epilepsie", "Schwester Epilepsie"]),
        ("Olvida Creta.", ["Creta"]),
    ],
)
def test_in_another_language_a_request_names_its_matter_in_english_and_in_its_words(
    text: str, matters: list[str]
) -> None:
    asked, facts = told(text)
    assert (list(dict.fromkeys(asked)), facts) == (list(dict.fromkeys(matters)), [])


@pytest.mark.parametrize(
    "text",
    [
        "Vergiss bitte nicht, dass ich in Köln wohne.",
        "Bitte vergiss meine Tabletten nicht!",
        "No olvides que vivo en Madrid.",
        "N'oublie pas que j'habite à Lyon.",
        "Oublie pas que j'habite à Lyon.",
        "Não esqueças que moro em Lisboa.",
        "Non dimenticare che abito a Torino.",
        "Olvida el café, mejor un té.",
        "Borra la última línea del poema y escribe otra.",
        "Lösch die letzte Zeile aus der Tabelle.",
    ],
)
def test_in_another_language_a_reminder_or_another_task_is_no_request_to_forget(text: str) -> None:
    assert told(text)[0] == []


def test_what_a_message_in_another_language_tells_beside_its_request_is_read() -> None:
    asked, facts = told("Vergiss bitte, dass ich in Köln wohne. Ich wohne jetzt in Bonn.")
    assert asked == ["that User lives in Köln", "wohne Köln"]
    assert facts == ["User lives now in Bonn"]
