"""Plain changes: constructions that tell another value without a word of change, and what only looks like one."""

from __future__ import annotations

import pytest

from perdure import Memory
from tests.pipeline.curation.rules.test_reconciliation import only

CHANGES = {
    "another holder of a post": [
        ("Amira is captain for the rest of the season", "User's captain is Reuben"),
        ("Jagdeep has stepped up as assistant coach", "User's assistant coach is Phil"),
        ("Dr Oyelaran has kindly agreed to be the keynote speaker", "The keynote speaker is Sir Dermot Vance"),
        ("The parish council made Edwin clerk", "The clerk is Mrs Pell"),
        ("User got a lass called Shanice as apprentice", "User's apprentice is Tyler"),
        ("User's instructor is Philippa until the end", "User's instructor is Garrick"),
        ("Harbour Lights are the agency now", "The care agency is Seabreeze Care"),
    ],
    "another one who does it": [
        ("User's niece Jodie does the lights", "User's mate Dougie does the lights"),
        ("Mrs Laidlaw from the choir is making the cake now", "The cake comes from Pringle's Bakery"),
        ("Hallam & Co. are doing the removal instead", "User has engaged Bright & Daughters for the removal"),
        ("The eggs come from a farm in Wells", "User buys the eggs at Tesco"),
        ("Bea walks Waffle now", "User's dog walker is Jools"),
        ("Tomasz does User's physio", "User's physio is 2x a week with Marguerite"),
    ],
    "another value of one subject and verb": [
        ("User's bookings go through Fresha", "User's bookings go through Booksy"),
        ("The garden faces east", "The garden faces north"),
        ("User's target race is Valencia in December", "User's target race is the Rotterdam marathon"),
        ("User's final project is a lost-pet map", "User's final project is a recipe app"),
        ("Shirts are teal now", "Shirts are amber"),
        ("Classes are in the mornings from Monday on", "Classes are in the evenings"),
        ("Ci runs on woodpecker now", "Ci runs on github actions"),
        ("User is staying at the Pension Merkur in Leipzig", "User is staying at the Hotel Lindenhof"),
        ("Matches kick off at 9.45 from this week", "Sunday matches kick off at 10.30"),
    ],
    "another day of one event": [
        ("User's grandson Toby comes to dig on Saturdays", "User's grandson Toby comes to dig on Sundays"),
        ("User's twins start school on 7 September", "User's twins start school on 4 September"),
        ("User lands in Lima on 5 February", "User lands in Lima on 4 February"),
    ],
    "told by who or what caused it": [
        ("The committee lowered the registration fee to £160", "The registration fee is £185"),
        ("The council wants £48 a year for the plot", "The rent of the plot is £42 a year"),
        ("The nursery wants 61 a day from January", "The nursery is 55 a day"),
        ("User's clinic cut User's physio to once a week", "User's physio is 2x a week with Marguerite"),
        ("Varnish won't dry so launch day has slipped to 22 June", "Launch day is 8 June"),
        ("They shuffled User around and User's mentor is Shanelle now", "User's mentor is Piers"),
        ("User's budget has crept up to 950", "User's budget for it is 600"),
        ("User has 29 in the class", "There are 28 children in User's class"),
        ("User bought a car so no more bus", "User gets the 38 bus now"),
    ],
    "another place, way, price or colour in other words": [
        ("User shall have the party at St Aidan's hall", "The party will be at the bowls club in Morpeth"),
        ("User's neighbour Desmond drives User to the clinic", "User goes to the clinic on the 14 bus"),
        ("User works out of Hammock Works now", "The office is on Vasagatan"),
        ("User's lessons are 45 an hour", "User charges 40 an hour"),
        ("Cabinets are going to be navy", "User's wife Ottavia picked sage green for the cabinets"),
        ("User swapped to a hostel called Pisco Garden", "Hostel in Lima is Casa Tucan"),
    ],
}

OTHER_MATTERS = {
    "posts": [
        ("User's son Finn is captain of the chess team", "User's captain is Reuben"),
        ("They say Ben is captain of the second team", "User's captain is Reuben"),
        ("Mo likes the secretary", "User's secretary is Ravi"),
        ("User's cousin might take over as treasurer", "User's treasurer is Celia"),
        ("User's second lab partner is Noor", "User's lab partner is Hugo"),
        ("User's new neighbour is Noor", "User's neighbour is Hugo"),
        ("User's nephew is Leo", "User's nephew is Max"),
        ("User's teacher is Mrs Lund", "User's teacher is Mr Dahl"),
        ("User's Spanish teacher is Luz", "User's piano teacher is Igor"),
    ],
    "doers": [
        ("Marta feeds the cat", "Bo brushes the cat"),
        ("Rosa feeds the hens", "Ahmed feeds the horses"),
        ("Anna does the school run on Mondays", "Ben does the school run on Tuesdays"),
        ("The milk comes from Clun Farm", "The cheese comes from Tugford Dairy"),
        ("Marta cleans the flat now", "User's window cleaner is Ray"),
        ("Jo walks to school now", "User's dog walker is Jools"),
        ("User's brother plays the viola", "User's sister plays the viola"),
    ],
    "values": [
        ("User's house has 3 bedrooms", "User's house has 2 bathrooms"),
        ("The choir has 4 tenors", "The choir has 28 members"),
        ("User's side character is called Ines", "User's main character is called Marta"),
        ("User's car is a Volvo", "User's car is a rental"),
        ("User trains at the track on Mondays", "User trains at the pool on Thursdays"),
        ("User's hobby is pottery", "User's hobby is climbing"),
        ("User's costume is green", "User's costume is a witch"),
        ("User's class has been shifted to the music room", "There are 29 children in User's class"),
    ],
    "days": [
        ("User's son starts school on 6 September", "User's daughter starts school on 4 September"),
        ("User flies to Oslo on 3 May", "User flies to Oslo on 9 September"),
        ("User swims on Mondays", "User swims on Thursdays"),
        ("User has a rehearsal on Tuesday", "User has a rehearsal on Friday"),
        ("User visited Seville in 2023", "User visited Seville in 2021"),
    ],
    "causes": [
        ("The price of the posters is £95", "The price of the flyers is £80"),
        ("Anna's boss moved the meeting to Friday", "User's meeting is on Monday"),
        ("In 2019 the club raised the fee to 30 euros", "The fee is 45 euros"),
        ("User's sister's landlord put the rent up to 900", "User's rent is 700"),
        ("User hopes to move the launch to June", "The launch is in May"),
        ("It rained so User stayed in", "The barbecue is in the park"),
        ("The gym is so far away", "The gym is in Leith"),
    ],
    "places": [
        ("The party is on Saturday", "The party will be at the bowls club"),
        ("Desmond drove User to the clinic", "User goes to the clinic on the 14 bus"),
        ("User goes to the clinic on Mondays", "User goes to the clinic on the 14 bus"),
        ("User's friend drives User to the airport", "User goes to the clinic by taxi"),
        ("User charges 30 for a haircut", "User charges 60 for a colour"),
        ("User's kitchen is blue", "User's bathroom is white"),
        ("User's cat is white", "User's cat is black"),
        ("User's dad drives User to work on Mondays", "User walks to work"),
        ("User's daughter sleeps in the attic", "User's cat sleeps in the kitchen"),
    ],
}


@pytest.mark.parametrize(("fact", "memory"), [pair for pairs in CHANGES.values() for pair in pairs])
def test_a_plain_change_retires_the_former_value(fact: str, memory: str) -> None:
    decision = only(fact, memory)
    assert (decision.event, decision.target) == ("UPDATE", "m1")


@pytest.mark.parametrize(("fact", "memory"), [pair for pairs in OTHER_MATTERS.values() for pair in pairs])
def test_what_may_hold_beside_a_memory_is_added(fact: str, memory: str) -> None:
    assert only(fact, memory).event == "ADD"


def test_who_left_makes_room_for_who_does_it_on_another_day() -> None:
    here, there = "Anna does the school run on Mondays", "Ben does the school run on Tuesdays"
    assert only(here, there).event == "ADD"
    assert only(here, there, "Ben is off to university").target == "m1"


def test_a_new_place_keeps_the_day_of_the_old_one() -> None:
    decision = only("The reunion is in the Castle Dargan hotel", "User's reunion is on 2 August at Fergal's farm")
    assert decision.text == "The reunion is in the Castle Dargan hotel on 2 August"


def test_a_count_of_something_retires_no_number_for_it() -> None:
    with Memory({"vector_store": {"provider": "memory"}}) as memory:
        for said in ("My phone number for the booking is 555-0142.", "And the booking is for six people."):
            memory.add(said, user_id="ana")
        held = [item.memory for item in memory.get_all(user_id="ana").results]
    assert held == ["User's phone number for the booking is 555-0142", "The booking is for six people"]
