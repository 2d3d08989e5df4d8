"""B24's end-to-end cases over both APIs: the model echoes, so that what was injected can be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.frontends.gateway.conftest import gateway_to, knowing
from tests.frontends.gateway.dialects import Speaker
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("B24")

OFF = "a model without memory"
SETTINGS: dict[str, Any] = {"disabled_models": [OFF], "default_similarity_threshold": 0.3}
Meet = Callable[[], Speaker]


@pytest.fixture(scope="module")
def gateway(model: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Words mean something here: the embedder is the one that perdure brings."""
    folder = tmp_path_factory.mktemp("memory")
    with gateway_to(folder, model.url, gateway=knowing(model, SETTINGS), embedder={"provider": "minilm"}) as found:
        yield found


@pytest.fixture(params=["chat", "responses"])
def meet(request: pytest.FixtureRequest, gateway: Running, model: Upstream) -> Meet:
    """Makes somebody new who speaks this API."""
    return lambda: Speaker(gateway, model, request.param)


@pytest.mark.covers("B24", "V1")
def test_what_was_told_is_known_in_a_new_session(meet: Meet) -> None:
    ana = meet()
    ana.told("I just bought a Tesla Model 3, so my car is a Tesla Model 3.")
    ana.new_session()
    assert "Tesla" in ana.asked("What car do I drive?")


@pytest.mark.covers("B24", "V2")
def test_users_are_apart_both_ways(meet: Meet) -> None:
    ana, ben = meet(), meet()
    ana.told("My favorite color is crimson.")
    ben.told("My favorite color is turquoise.")
    for who, own, other in ((ana, "crimson", "turquoise"), (ben, "turquoise", "crimson")):
        who.new_session()
        told = who.asked("What is my favorite color?")
        assert own in told and other not in told


@pytest.mark.covers("B24")
def test_two_turns_and_then_a_fresh_list(meet: Meet) -> None:
    ana = meet()
    ana.told("My favorite color is purple.", "I also like long walks by the sea.")
    ana.new_session()
    assert "purple" in ana.asked("What is my favorite color?")


@pytest.mark.covers("B24")
def test_what_is_told_comes_back_letter_by_letter(meet: Meet) -> None:
    ana = meet()
    ana.told(
        "My employee ID is EMP-90210.",
        "I started my job on 2024-03-15.",
        "My manager is Evelyn Zhao.",
        "My office is in Building 7.",
    )
    ana.new_session()
    for question, wanted in (
        ("What is my employee ID?", "EMP-90210"),
        ("When did I start my job?", "2024-03-15"),
        ("Who is my manager?", "Evelyn Zhao"),
        ("Where is my office?", "Building 7"),
    ):
        assert wanted in ana.asked(question)


@pytest.mark.covers("B24")
def test_nothing_of_somebody_else_is_mixed_in(meet: Meet) -> None:
    ana, ben = meet(), meet()
    ana.told("I am allergic to peanuts.")
    ben.told("My dentist is called Dr. Holm.")
    ben.new_session()
    told = ben.asked("What am I allergic to, and who is my dentist?")
    assert "Holm" in told and "peanuts" not in told
    assert not any("peanut" in each for each in ben.memories)


@pytest.mark.covers("B24")
def test_a_related_question_finds_it(meet: Meet) -> None:
    ana = meet()
    ana.told("I drive a Toyota Camry to work every day.")
    ana.new_session()
    assert "Camry" in ana.asked("Which vehicle do I use for my commute?")


@pytest.mark.covers("B24")
def test_of_two_that_contradict_each_other_the_newer_holds(meet: Meet) -> None:
    ana = meet()
    ana.told("I live in Boston.")
    ana.new_session()
    ana.told("I live in Seattle now.")
    ana.new_session()
    told = ana.asked("Where do I live?")
    assert "Seattle" in told
    facts = [each["content"] for each in ana.rows if each["type"] != "episodic"]
    assert not any("Boston" in each for each in facts), facts


@pytest.mark.covers("B24")
def test_three_facts_of_one_message_answer_three_questions(meet: Meet) -> None:
    ana = meet()
    ana.told("My name is Alice. I work at Acme Robotics. My cat is called Miso.")
    ana.new_session()
    for question, wanted in (
        ("What is my name?", "Alice"),
        ("Where do I work?", "Acme Robotics"),
        ("What is my cat called?", "Miso"),
    ):
        assert wanted in ana.asked(question)


@pytest.mark.covers("B24")
def test_memory_stands_beside_a_system_prompt_that_is_kept(meet: Meet) -> None:
    ana = meet()
    ana.told("My project code is Phoenix-2026.")
    ana.new_session()
    persona = "You are Captain Hook, a pirate. Say so whenever you are asked."
    told = ana.asked("What is my project code?", system=persona)
    assert persona in told and "Phoenix-2026" in told
    assert told.index(persona) < told.index("Phoenix-2026")


@pytest.mark.covers("B24")
def test_a_model_without_memory_is_told_nothing_while_another_is(meet: Meet) -> None:
    ana = meet()
    ana.told("My cat is called Luna.")
    ana.new_session()
    question = "What is my cat called?"
    off = ana.post(question, model=OFF)
    assert off.headers["x-memory-status"] == "policy_blocked" and off.headers["x-memory-reason"] == "model_config"
    assert "Luna" not in ana.model.last.body.decode()
    assert "Luna" not in ana.asked(question, headers={"x-disable-router-memory": "true"})
    assert "Luna" in ana.asked(question)


@pytest.mark.covers("B24")
@pytest.mark.parametrize(("threshold", "wanted"), [(0.99, False), (0.45, True), (0.10, True)])
def test_a_threshold_lets_through_what_is_above_it(meet: Meet, threshold: float, wanted: bool) -> None:
    ana = meet()
    ana.store("User's dog is called Max", "User's parrot is called Kiwi", "User plays the violin on Sundays")
    told = ana.asked("What is my dog called?", memory_config={"similarity_threshold": threshold})
    if ana.dialect == "chat":  # of a chat the best one has relevance 1, the last one 0 (002): the others fall away
        assert "Max" in told and ("Kiwi" in told) == wanted and "violin" not in told
    else:
        assert ("Max" in told) == wanted
