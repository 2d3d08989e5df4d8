"""What was said in a short conversation is known in the next one, with every setting at its default.

The behaviours are those of the fifteen end-to-end tests of vLLM's semantic-router for its memory, in words of ours: it
speaks Responses, chains two requests at most, ends no session, and asks from outside of the chain. The model echoes, so
that what was put in can be seen.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from perdure.engine.chat.settings import GatewaySettings
from tests.frontends.gateway.dialects import CHAT, RESPONSES
from tests.frontends.gateway.talks import Numbered
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running, running

pytestmark = pytest.mark.covers("A5")

PERSONA = "You are Juniper, a helpful assistant with a memory."
_numbers = itertools.count()


@pytest.fixture(scope="module")
def gateway(model: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Nothing is set but what a test of any kind needs: where the model is, and that a busy machine fails nothing."""
    settings = GatewaySettings(upstream={"base_url": model.url, "responses": "native"})  # type: ignore[arg-type]
    patient = settings.model_copy(update={"recall_seconds": 20.0})
    with running(tmp_path_factory.mktemp("memory"), gateway=patient, embedder={"provider": "minilm"}) as found:
        yield found


@dataclass
class Guest:
    """Somebody whose client knows nothing of perdure but its address."""

    gateway: Running
    model: Upstream
    name: str = field(default_factory=lambda: f"guest-{next(_numbers)}")

    def __post_init__(self) -> None:
        self.model.always(RESPONSES, Numbered())

    def say(self, text: str, after: str | None = None, **headers: str) -> str:
        """One request, alone or after another; the id of its response."""
        body = {"model": "m", "input": text, "instructions": PERSONA, "metadata": {"user_id": self.name}}
        chained = {} if after is None else {"previous_response_id": after}
        answer = self.gateway.client.post(
            RESPONSES, json={**body, **chained}, headers={"x-authz-user-id": self.name, **headers}
        )
        assert answer.status_code == 200, answer.text
        found: str = answer.json()["id"]
        return found

    def tell(self, *texts: str) -> None:
        """A conversation of so many turns, that is kept and not ended."""
        last = None
        for text in texts:
            last = self.say(text, last)
        deadline = time.monotonic() + 60
        while self.gateway.app.state.gateway.under_way:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def ask(self, question: str, **headers: str) -> str:
        """All that the model was told, in lower case, where this began a conversation."""
        self.say(question, **headers)
        told = json.dumps(self.model.last.json, ensure_ascii=False).lower()
        assert question.lower() in told
        return told.replace(question.lower(), "")

    def kept(self) -> str:
        """What is remembered as soon as there is something, though nobody asks for it."""
        deadline = time.monotonic() + 60
        while not (rows := self._rows()):
            assert time.monotonic() < deadline, "nothing was kept"
            time.sleep(0.05)
        return " | ".join(row["content"] for row in rows)

    def _rows(self) -> list[dict[str, Any]]:
        headers = {"x-authz-user-id": self.name}
        found: list[dict[str, Any]] = self.gateway.client.get("/v1/memory?limit=100", headers=headers).json()[
            "memories"
        ]
        return found


@pytest.fixture
def ana(gateway: Running, model: Upstream) -> Guest:
    return Guest(gateway, model)


@pytest.fixture
def ben(gateway: Running, model: Upstream) -> Guest:
    return Guest(gateway, model)


# ------------------------------------------------------------------ walls
def test_01_a_secret_is_taken_in(ana: Guest) -> None:
    ana.tell("Remember this: my locker code is 4417.", "Good, keep it safe.")
    assert "4417" in ana.kept()


def test_02_nobody_else_is_told_it(ana: Guest, ben: Guest) -> None:
    ana.tell("Remember this: my locker code is 4417.", "That is the code of my locker.")
    assert "4417" in ana.kept()
    assert "4417" not in ben.ask("What is my locker code?")


def test_03_whose_it_is_is_told_it(ana: Guest) -> None:
    ana.tell("Remember this: my locker code is 4417.", "That is the code of my locker.")
    assert "4417" in ana.ask("What is my locker code?")


def test_04_two_users_are_apart_both_ways(ana: Guest, ben: Guest) -> None:
    ana.tell("Remember this: my locker code is 4417.", "That is my locker code.")
    ben.tell("Remember this: my password is marzipan.", "That is my password.")
    for who, own, other in ((ana, "4417", "marzipan"), (ben, "marzipan", "4417")):
        told = who.ask("What is my locker code, and what is my password?")
        assert own in told and other not in told


# ------------------------------------------------------------------ from one conversation to the next
def test_05_a_fact_of_one_turn_is_put_in_where_it_is_asked_for(ana: Guest) -> None:
    ana.tell("Please remember this: My bicycle is a green Brompton folding bike from 2021")
    assert "brompton" in ana.ask("Tell me about my bicycle")


def test_06_names_numbers_and_dates_are_kept_letter_by_letter(ana: Guest) -> None:
    ana.tell(
        "Please remember this: My badge number is KX-71833, I joined on 2023-09-04, "
        "and my supervisor is Dr. Amara Diallo in Hall 12.",
        "Thanks, that is all of it.",
    )
    found = ana.kept()
    assert [each for each in ("KX-71833", "2023-09-04", "Amara Diallo", "Hall 12") if each not in found] == []


def test_07_nothing_is_kept_that_was_not_said(ana: Guest) -> None:
    ana.tell("Remember: My favorite bakery is Petit Four on Elm Street", "A good bakery, right?")
    found = ana.kept().lower()
    assert "petit four" in found
    assert "france" not in found and "paris" not in found


def test_08_a_question_in_its_words_finds_it(ana: Guest) -> None:
    ana.tell("Remember: I drive a yellow Fiat Panda from 1998", "It is slow uphill.")
    told = ana.ask("Tell me about my yellow car")
    assert "panda" in told and "1998" in told


def test_09_of_two_homes_the_newer_one_is_kept(ana: Guest) -> None:
    ana.tell(
        "Remember: I currently live in Graz, Austria.",
        "Actually, I just moved to Porto last week.",
        "It was a big move across the continent.",
    )
    assert "Porto" in ana.kept()


def test_10_of_a_day_that_is_told_as_people_tell_it_three_questions_are_answered(ana: Guest) -> None:
    ana.tell(
        """
        What a day! I had dinner with my brother Pavel at the new ramen place by the station.
        He told me that he is getting married next summer to his girlfriend Lucia.
        I'm so happy for them! And I finally bought that camera that I had been looking
        at - a Fujifilm X100.
        """
    )
    for question, wanted in (
        ("Tell me about my brother Pavel and the ramen dinner", "station"),
        ("Which camera did I buy?", "fujifilm"),
        ("Who is Pavel getting married to?", "lucia"),
    ):
        assert wanted in ana.ask(question), question


def test_11_memory_stands_beside_the_request_s_own_instructions(ana: Guest) -> None:
    ana.tell(
        "Please remember this important code: my secret project codename is Heron-2031", "Got it, remember that code."
    )
    told = ana.ask("What is my secret project codename?")
    assert "heron-2031" in told and PERSONA.lower() in told


def test_12_the_request_s_own_instructions_are_kept_where_nothing_is_remembered(ana: Guest) -> None:
    assert PERSONA.lower() in ana.ask("Who are you? What's your name?")


def test_13_chat_completions_after_two_turns_in_a_fresh_list(ana: Guest, gateway: Running, model: Upstream) -> None:
    def chat(*said: str) -> str:
        messages = [{"role": "system", "content": PERSONA}]
        for place, text in enumerate(said):
            messages.append({"role": "assistant" if place % 2 else "user", "content": text})
        body = {"model": "m", "messages": messages, "metadata": {"user_id": ana.name}}
        answer = gateway.client.post(CHAT, json=body, headers={"x-authz-user-id": ana.name})
        told: str = answer.json()["choices"][0]["message"]["content"]
        return told

    first = "Please remember this: My favorite fruit is the quince"
    chat(first, chat(first), "Got it, thanks for remembering that.")
    assert "quince" in ana.kept()
    chat("What is my favorite fruit?")
    assert "quince" in model.last.body.decode()


# ------------------------------------------------------------------ as a request wants it
def test_14_a_request_without_memory_is_told_nothing_and_the_next_one_is(ana: Guest) -> None:
    ana.tell("My hamster's name is Biscuit and she is a golden hamster")
    question = "What is my hamster's name and what kind is she?"
    assert "biscuit" not in ana.ask(question, **{"x-disable-router-memory": "true"})
    assert "biscuit" in ana.ask(question)


def test_15_a_threshold_that_nothing_reaches_keeps_it_out_and_the_default_does_not(ana: Guest) -> None:
    ana.tell("My parrot's name is Mango and he is an amazon parrot")
    question = "What is my parrot's name and what kind is he?"
    assert "mango" not in ana.ask(question, **{"x-memory-score-threshold": "0.9999"})
    assert "mango" in ana.ask(question)


# ------------------------------------------------------------------ when it is read
def test_a_conversation_that_falls_silent_is_read_though_nobody_comes_back(model: Upstream, tmp_path: Path) -> None:
    settings = {"upstream": {"base_url": model.url, "responses": "native"}, "quiet_seconds": 0.05}
    with running(tmp_path, gateway=settings) as server:
        guest = Guest(server, model)
        guest.tell("I have a cat named Mia.")
        assert "Mia" in guest.kept()
