"""The first answer is right: facts about different things stand side by side, and none borrows another's place."""

from __future__ import annotations

import random

import pytest

from perdure import Memory
from perdure.domain.memory import MemoryItem
from perdure.engine.maintenance.doctor import examine
from perdure.engine.read.search import FAINT
from perdure.frontends.library.portal import PORTAL

ANA = {"user_id": "ana"}
TOLD = {
    "Where do I live?": ("I live in Lisbon.", "Lisbon"),
    "What am I allergic to?": ("I'm allergic to penicillin.", "penicillin"),
    "What is my dog called?": ("My dog is called Rex.", "Rex"),
    "Where do I work?": ("I work at the harbour office.", "harbour"),
    "What does my sister study?": ("My sister Ludmila studies law.", "law"),
    "What do I drive?": ("I drive an old Skoda.", "Skoda"),
    "Which instrument do I play?": ("I play the oboe.", "oboe"),
    "What does my husband do?": ("My husband is a baker.", "baker"),
    "Which language am I learning?": ("I'm learning Danish.", "Danish"),
    "Who is my dentist?": ("My dentist is Dr. Huber.", "Huber"),
}
APART = [
    ("My gym locker is number 7.", "My work locker is number 19."),
    ("I have locker number 7.", "I have locker number 9."),
    ("I take 20 mg of omeprazole in the morning.", "I take 40 mg of omeprazole in the evening."),
    ("My morning dose of lithium is 300 mg.", "My evening dose of lithium is 600 mg."),
    ("My brother Ivan lives in Graz.", "My brother Mark lives in Linz."),
    ("My brother works at a bank.", "My other brother works at a school."),
    ("My older brother is a plumber.", "My younger brother is a nurse."),
    ("I have a meeting with Anna on Monday at 10.", "I have a meeting with Anna on Tuesday at 15."),
    ("I have a meeting with Anna at 10:15.", "I have a meeting with Anna at 14:40."),
    ("My grandfather on my mother's side was a baker.", "My grandfather on my father's side was a plumber."),
    ("In summer I go to work by bike.", "In winter I go to work by bus."),
    ("I am meeting the plumber on Friday.", "I am meeting the electrician on Friday."),
    ("I run 5 km every Monday.", "I run 10 km every Sunday."),
    ("The blue bin is emptied on Monday.", "The brown bin is emptied on Wednesday."),
    ("I'm allergic to nuts.", "I'm not allergic to peanuts."),
    ("I live in Utrecht.", "I don't live in Paris."),
    ("I live in Utrecht.", "I used to live in Paris."),
    ("I live in Utrecht.", "My boss thinks I live in Paris."),
    ("I live in Utrecht.", "Next year I'll live in Paris."),
    ("I like coffee.", "I don't like iced coffee."),
    ("I take ramipril 5 mg.", "My mother takes ramipril 10 mg now."),
    ("My favourite colour is blue.", "My wife's favourite colour is red."),
    ("My sister lives in Rome.", "My other sister lives in Milan now."),
    ("I work at Shell.", "I also work at a bakery on Saturdays."),
    ("My bank is ING.", "My business bank is Rabobank."),
    ("I have a call with Bob at 9 tomorrow.", "I have a call with Bob at 4 tomorrow."),
]
CHANGED = [
    ("I live in Berlin.", "I moved to Munich last month.", "Munich"),
    ("My locker is number 12.", "My locker is number 30 now.", "30"),
    ("I take 20 mg of omeprazole in the morning.", "The doctor raised my omeprazole to 40 mg in the morning.", "40"),
    ("The meeting with Anna is on Monday.", "The meeting with Anna was moved to Tuesday.", "Tuesday"),
    ("My boss is Kurt.", "My new boss is Helga.", "Helga"),
    ("My boss is Olga.", "My new boss is Tim.", "Tim"),
    ("I'm allergic to nuts.", "I'm not allergic to nuts anymore.", "not"),
    ("I eat meat.", "I don't eat meat anymore.", "meat"),
    ("Always answer in German.", "Always answer in French.", "French"),
]


def live(memory: Memory) -> list[MemoryItem]:
    return memory.get_all(**ANA).results


def test_what_has_nothing_to_do_with_another_is_not_linked_to_it(memory: Memory) -> None:
    memory.add("I am allergic to nuts.", **ANA)
    memory.add("My dog is Rex.", **ANA)
    assert not any(item.older for item in live(memory))
    first = memory.search("what am I allergic to?", **ANA).results[0]
    assert "nuts" in first.memory
    assert not any(finding.kind == "contradiction" for finding in PORTAL.call(examine(memory._memory._engine)).findings)


@pytest.mark.parametrize("limit", [None, 1, 100])
def test_plain_questions_get_their_own_fact_first_in_whatever_order_they_were_told(
    memory: Memory, limit: int | None
) -> None:
    said = list(TOLD.values())
    random.Random(limit).shuffle(said)
    for text, _ in said:
        memory.add(text, **ANA)
    asked = {} if limit is None else {"limit": limit}
    for question, (_, answer) in TOLD.items():
        found = memory.search(question, explain=True, **asked, **ANA).results
        assert answer in found[0].memory, question
        for item in found:
            assert item.explanation is not None
            assert item.score == pytest.approx(item.explanation["score"]), "a score is never another item's"


def test_faint_rows_are_no_hits_beside_a_better_one(memory: Memory) -> None:
    for text, _ in TOLD.values():
        memory.add(text, **ANA)
    found = memory.search("Which instrument do I play?", **ANA).results
    everything = memory.search("Which instrument do I play?", threshold=0, **ANA).results
    best = everything[0].score or 0.0
    faint = [item.id for item in everything if (item.score or 0.0) < FAINT * best]
    assert faint, "there are some"
    assert [item.id for item in found] == [item.id for item in everything if item.id not in faint]
    absence = memory.why_not(faint[0], "Which instrument do I play?", **ANA)
    assert absence.reason == "faint"


@pytest.mark.parametrize(("first", "second"), APART)
def test_facts_about_different_things_stand_side_by_side(memory: Memory, first: str, second: str) -> None:
    for text in (first, second, first):
        memory.add(text, **ANA)
    assert len(live(memory)) == 2


@pytest.mark.parametrize(
    "text", ["I have locker number {}.", "The code of locker {} is 44{}.", "Room {} is for group {}."]
)
def test_thirty_told_one_by_one_all_live(memory: Memory, text: str) -> None:
    for number in range(10, 40):
        memory.add(text.format(number, number), **ANA)
    assert len(memory.get_all(limit=100, **ANA).results) == 30


@pytest.mark.parametrize(("first", "second", "now"), CHANGED)
def test_what_changed_still_takes_the_place_of_the_earlier(memory: Memory, first: str, second: str, now: str) -> None:
    memory.add(first, **ANA)
    before = [item.memory for item in live(memory)]
    memory.add(second, **ANA)
    after = [item.memory for item in live(memory)]
    assert any(now in text for text in after)
    assert not set(before) <= set(after)


def test_a_link_to_what_the_same_call_changes_is_taken_back(memory: Memory) -> None:
    memory.add_facts(["User's dog is called Bandit"], **ANA)
    memory.add_facts(["User's dog is called Juno", "User's dog Bandit died"], **ANA)
    items = {item.id: item for item in live(memory)}
    for item in items.values():
        assert all(id in items and items[id].version == 1 for id in item.older)


def test_the_doctor_names_what_contradicts_by_its_words_and_advises_no_deletion(memory: Memory) -> None:
    memory.add("My dog is called Bandit.", **ANA)
    memory.add("My dog is called Juno.", **ANA)
    (found,) = [f for f in PORTAL.call(examine(memory._memory._engine)).findings if f.kind == "contradiction"]
    assert "Bandit" in found.sentence and "Juno" in found.sentence
    assert "delet" not in found.sentence and found.notice
