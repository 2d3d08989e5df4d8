"""002 §4 with a model that reads, over real HTTP at both ends: what it is asked, and what its answers and faults do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.domain.scope import Scope
from tests.backends.wire.openai import KEY
from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.dialects import Speaker
from tests.frontends.gateway.scripts import Play, Reply, completion
from tests.frontends.gateway.upstream import Exchange, Upstream, upstream

CHAT = "/v1/chat/completions"
GREEN, BLACK = "User likes green tea", "User likes black coffee"
SAID = {"I like green tea.": GREEN, "I like black coffee.": BLACK}


class Reader:
    """A model that reads each of the messages known for its fact, and decides as a test tells it."""

    def __init__(self, decision: Reply | None = None) -> None:
        self.decision = decision
        self.read: list[str] = []
        """The prompts that it read for facts."""
        self.decided = 0

    async def __call__(self, exchange: Exchange) -> None:
        prompt = "\n".join(str(each["content"]) for each in exchange.seen.messages if each["role"] == "user")
        if "You read a conversation" in json.dumps(exchange.seen.json):
            self.read.append(prompt)
            texts = [fact for said, fact in SAID.items() if said in prompt]
            told = {"facts": [{"text": text, "type": "semantic"} for text in texts]}
            await exchange.play(Reply.of_json(completion(json.dumps(told))))
            return
        self.decided += 1
        await exchange.play(self.decision or Reply.error(500))


def decided(*operations: dict[str, Any], around: str = "%s") -> Reply:
    return Reply.of_json(completion(around % json.dumps({"operations": list(operations)})))


@pytest.fixture(scope="module")
def server() -> Iterator[Upstream]:
    with upstream() as found:
        yield found


def learned(server: Upstream, model: Upstream, folder: Path, reader: Reader, *said: str) -> list[str]:
    """What stands after these messages, each of them read before the next is said."""
    server.clear()
    server.always(CHAT, reader)
    llm = {"provider": "openai", "config": {"base_url": server.url, "api_key": KEY, "model": "r", "retries": 0}}
    with gateway_to(folder, model.url, llm=llm, gateway={"summaries": False}) as gateway:
        ana = Speaker(gateway, model, "chat")
        for text in said:
            ana.told(text)
        return sorted(ana.memories)


@pytest.mark.covers("K39", "K44")
def test_only_what_the_user_says_is_read_and_without_neighbours_nothing_is_decided(
    server: Upstream, model: Upstream, tmp_path: Path
) -> None:
    reader = Reader()
    model.chat(Reply.of_json(completion("A secret of the assistant's.")))
    assert learned(server, model, tmp_path / "memory", reader, "I like green tea.") == [GREEN]
    assert reader.decided == 0 and len(reader.read) == 1
    assert "I like green tea." in reader.read[0] and "secret" not in reader.read[0]


FAULTS = {
    "an-error": Reply.error(500),
    "no-key": Reply.error(401),
    "it-breaks-off": Reply.stream(b"{", Play.BREAK_OFF),
    "no-json": Reply.of_json(completion("I would rather not say.")),
    "prose-around-junk": Reply.of_json(completion("Sure! ```json\n{]\n```")),
    "ids-of-nothing": decided({"event": "UPDATE", "id": 77, "fact": 0}, {"event": "DELETE", "id": "zz"}),
    "nothing": decided(),
}


@pytest.mark.covers("K46", "K51", "K56", "K65")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_decision_that_fails_loses_no_fact(server: Upstream, model: Upstream, tmp_path: Path, fault: str) -> None:
    reader = Reader(FAULTS[fault])
    kept = learned(server, model, tmp_path / "memory", reader, *SAID)
    assert reader.decided >= 1, "or nothing was at stake"
    assert kept == [BLACK, GREEN], "both facts, and no junk beside them"


@pytest.mark.covers("K45", "K47", "K50", "K56")
@pytest.mark.parametrize(
    ("operation", "kept"),
    [
        ({"event": "ADD", "fact": 0}, [BLACK, GREEN]),
        ({"event": "NONE", "id": 0, "fact": 0}, [GREEN]),
        ({"event": "DELETE", "id": 0, "fact": 0}, [BLACK]),
    ],
    ids=["K45-add", "K50-none", "K47-delete-keeps-the-new-fact"],
)
@pytest.mark.parametrize("around", ["%s", "So I think:\n```json\n%s\n```\nThat is it."], ids=["bare", "K56-fenced"])
def test_what_is_decided_is_done(
    server: Upstream, model: Upstream, tmp_path: Path, operation: dict[str, Any], kept: list[str], around: str
) -> None:
    reader = Reader(decided(operation, around=around))
    assert learned(server, model, tmp_path / "memory", reader, *SAID) == kept


@pytest.mark.covers("K64")
def test_rules_never_change_a_fact_of_another_subject(model: Upstream, tmp_path: Path) -> None:
    with gateway_to(tmp_path / "memory", model.url) as gateway:
        ana = Speaker(gateway, model, "chat")
        ana.told("I live in Lisbon.")
        before = {each["id"]: each["content"] for each in ana.rows}
        ana.told("I work at Nokia.", "I have a dog named Rex.")
        after = {each["id"]: each["content"] for each in ana.rows}
    assert len(after) == 3 and {id: after[id] for id in before} == before


@pytest.mark.covers("K54")
@pytest.mark.covers("K54")
@pytest.mark.parametrize(("most", "kept"), [(4, 4), (6, 6), (0, 9)])
def test_a_conversation_keeps_its_newest_entries_and_its_summary(
    model: Upstream, tmp_path: Path, most: int, kept: int
) -> None:
    model.always(CHAT, Reply.of_json(completion("I see.")))
    with gateway_to(
        tmp_path / "memory", model.url, gateway={"max_entries": most, "default_retrieval_limit": 1}
    ) as gateway:
        ana = Speaker(gateway, model, "chat")
        ana.told("I live in Lisbon.", "I work at Nokia.", "I have a dog named Rex.")

        async def said() -> int:
            return len(await (await gateway.service.ledger()).recent_episodes(Scope(user_id=ana.user), 100))

        deadline = time.monotonic() + 20  # what is too much goes after what was read has been marked
        while (held := len(ana.memories) + gateway.wait(said())) != kept:
            assert time.monotonic() < deadline, f"{held} facts and turns"
            time.sleep(0.02)
        told = ana.asked("Where do I live, and what is my dog called?")
        assert "Rex" in told
        if kept > 4:  # else one fact is left, which is put in as a memory
            assert "Conversation summar" in told, "K6, K35: the summary is exempt"
