"""How many tokens a long conversation costs with and without compression, and whether what counts is still there (V84).

    python benchmarks/gateway_tokens.py [CONVERSATION.json]

CONVERSATION.json is `{"messages": [{"role", "content"}, ...], "gold": [{"question", "holds": ["words", ...]}, ...]}`,
user and assistant in turns; without it one of 200 turns is made, in which six things that count are told early. Each
turn goes through the gateway's own steps, as a client sends it, with its whole history: what a model would be sent is
the state, the last turns and the memories that bear on the message. At the end each gold question is asked; it is held
where all of its words stand in the state or in one of the memories, and `raw` where only the last turns have them.
Curator and state go by the rules, the embedder is the embedded one. Tokens are 1.3 x words (checklist B11).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.backends.ledgers.base import Ledger
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.build import build
from perdure.engine.chat.compaction import Compaction
from perdure.engine.chat.memory_reader import MemoryReader, RecallRequest
from perdure.engine.chat.memory_writer import MemoryWriter
from perdure.engine.chat.settings import Conversation, GatewaySettings
from perdure.engine.chat.turn_log import PendingTurn
from perdure.engine.config.config import read_config
from perdure.engine.engine import Engine
from perdure.pipeline.prompting.context_block import system_block
from perdure.pipeline.prompting.quoting import estimate_tokens

TURNS = 200
TOLD_EVERY = 11
"""Turns between two things that count, in the conversation that is made."""
GOLD = (
    ("My budget for the Hawaii vacation is $10,000.", "What is my budget for the vacation?", ["10,000"]),
    ("We decided to fly direct to Hawaii.", "How do we fly to Hawaii?", ["direct"]),
    ("My sister Dana is coming along to Hawaii.", "Who is coming along to Hawaii?", ["Dana"]),
    ("I'm allergic to shellfish.", "What am I allergic to?", ["shellfish"]),
    ("I live in Seattle.", "Where do I live?", ["Seattle"]),
    ("I prefer hotels near the beach.", "Which hotels do I prefer?", ["beach"]),
)
_PLACES = ("Waikiki", "Hanauma Bay", "the Na Pali coast", "Haleakala", "Hilo", "Lahaina", "Pearl Harbor", "Kailua")
_ASIDES = (
    "What is there to see around {place} on a rainy day, and how crowded does it get in the afternoon?",
    "How long does the drive to {place} take from the airport if the traffic is as bad as they say it is?",
    "Could you tell me a little about the history of {place}, the short version for somebody on a plane?",
)
_ANSWER = (
    "There is a lot around {place}: a walk along the shore in the morning, a market with fruit and noodles, and a "
    "lookout that most visitors miss. Go early, take water and a hat along, and leave an hour for the way back."
)


@dataclass(frozen=True)
class Talk:
    """A conversation, and what must not be lost of it."""

    turns: list[tuple[str, str]]
    gold: list[tuple[str, list[str]]]


def made() -> Talk:
    """The conversation that is made."""
    told = {1 + number * TOLD_EVERY: text for number, (text, _, _) in enumerate(GOLD)}
    turns = []
    for number in range(1, TURNS + 1):
        place = _PLACES[number % len(_PLACES)]
        said = told.get(number) or _ASIDES[number % len(_ASIDES)].format(place=place)
        turns.append((said, _ANSWER.format(place=place)))
    return Talk(turns, [(question, words) for _, question, words in GOLD])


def read(path: Path) -> Talk:
    """The conversation of a file."""
    given = json.loads(path.read_text(encoding="utf-8"))
    turns: list[tuple[str, str]] = []
    for message in given["messages"]:
        if message["role"] == "user":
            turns.append((message["content"], ""))
        elif turns:
            turns[-1] = (turns[-1][0], f"{turns[-1][1]} {message['content']}".strip())
    return Talk(turns, [(each["question"], each["holds"]) for each in given.get("gold", ())])


def tokens(messages: list[dict[str, Any]]) -> int:
    """What messages cost."""
    return sum(estimate_tokens(message["content"]) for message in messages)


async def settled(ledger: Ledger) -> None:
    """Wait until no job is left."""
    while True:
        counts = await ledger.stats()
        if counts["jobs"] <= counts["parked"]:
            return
        await asyncio.sleep(0.01)


class Gateway:
    """The steps of a gateway between a client and a model."""

    def __init__(self, engine: Engine) -> None:
        settings = GatewaySettings.model_validate({"compression": {"enabled": True}})
        self._settings = settings
        self.talk = Conversation(scope=Scope(user_id="ann"), session="long", dialect="responses")
        self.remembering = MemoryWriter(engine, settings)
        self.compressing = Compaction(engine, settings, self.remembering.turns.enqueue_injected)
        self._recalling = MemoryReader(engine, settings)

    async def sends(self, history: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
        """What a model is sent: the messages, and the block of memories."""
        messages = await self.compressing(self.talk, history)
        found = await self._recalling(RecallRequest(conversation=self.talk, query=history[-1]["content"]))
        block = system_block(
            found.hits,
            directives=found.directives,
            canonical=found.canonical,
            summary=found.summary,
            max_tokens=self._settings.injected_tokens,
        )
        return messages, block


async def measure(talk: Talk, folder: str) -> None:
    """Hold the conversation, and print what it came to."""
    engine = build(read_config({"path": folder}))
    gateway = Gateway(engine)
    await gateway.remembering.start()
    await gateway.compressing.start()
    history: list[dict[str, Any]] = []
    whole_sum = sent_sum = 0
    print(f"{'turn':>5}{'whole':>9}{'sent':>7}{'state':>7}{'turns':>7}{'memories':>10}{'ratio':>8}")
    for number, (said, answer) in enumerate(talk.turns, start=1):
        history.append({"role": "user", "content": said})
        messages, block = await gateway.sends(history)
        short = messages is not history
        state = estimate_tokens(messages[0]["content"]) if short else 0
        whole, sent = tokens(history), tokens(messages) + estimate_tokens(block)
        whole_sum, sent_sum = whole_sum + whole, sent_sum + sent
        if number % 25 == 0 or number == len(talk.turns):
            turns, memories = tokens(messages) - state, estimate_tokens(block)
            print(f"{number:>5}{whole:>9}{sent:>7}{state:>7}{turns:>7}{memories:>10}{whole / sent:>7.1f}x")
        history.append({"role": "assistant", "content": answer})
        turn = PendingTurn(conversation=gateway.talk, user=Message("user", said))
        await gateway.remembering.turns.keep_answer(turn, answer)
        if engine.kernel.ledger is not None:
            await settled(engine.kernel.ledger)
    print(f"all requests: {whole_sum} tokens without compression, {sent_sum} with: {whole_sum / sent_sum:.1f}x")
    held = 0
    for question, words in talk.gold:
        asked = [*history, {"role": "user", "content": question}]
        messages, block = await gateway.sends(asked)
        cut = 0 if messages is asked else 1
        raw = json.dumps(messages[cut:-1], ensure_ascii=False)
        places = {"state": json.dumps(messages[:cut], ensure_ascii=False), "memories": block, "raw": raw}
        where = [name for name, text in places.items() if all(word.casefold() in text.casefold() for word in words)]
        held += any(name != "raw" for name in where)
        print(f"{', '.join(where) or 'LOST':>18}  {question}")
    if talk.gold:
        print(f"{held} of {len(talk.gold)} gold facts are held by the state and the memories")
    await gateway.compressing.close()
    await gateway.remembering.close()
    await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("conversation", nargs="?", type=Path, metavar="CONVERSATION.json")
    arguments = parser.parse_args()
    talk = made() if arguments.conversation is None else read(arguments.conversation)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(talk, folder))


if __name__ == "__main__":
    main()
