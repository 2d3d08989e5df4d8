"""What the llm curator sends stays short: an `add` of two messages fits 2,300 tokens, both calls together.

Counted with all-MiniLM's WordPiece tokenizer, which every development environment has. It makes a token of each
punctuation mark, and so more of JSON than the tokenizers of language models do: for this `add` it counts 2,269.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest
from tokenizers import Tokenizer

from perdure.backends.embedders.minilm import find_model
from perdure.backends.llms.scripted import ScriptedLLM
from perdure.domain.fact import Neighbour
from perdure.domain.memory import MemoryItem, text_hash
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.pipeline.curation.llm.extraction import extract_facts
from perdure.pipeline.curation.llm.reconciliation import decide_batch
from perdure.pipeline.prompts import load

NOW = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
FRAME = 3
"""Tokens that a chat format adds to each message and to each request, by OpenAI's own recipe."""
MESSAGES = [
    Message(
        "user",
        "Hi! Some news about me. I moved from Lisbon to Porto last week, and I started a new job there as a data "
        "engineer at Critical Software. My rent is 780 euros a month now, I cycle to work these days, and I also "
        "adopted a greyhound named Brisa.",
    ),
    Message("assistant", "Congratulations on the move and the job! I'll keep that in mind for next time."),
]
FACTS = [
    "User lives in Porto",
    "User works as a data engineer at Critical Software",
    "User's rent in Porto is 780 euros a month",
    "User cycles to work",
    "User has a greyhound named Brisa",
]
KNOWN = [
    "User lives in Lisbon, in a flat in Alfama that belongs to an uncle",
    "User works as a data analyst at Farfetch and leads a team of three",
    "User's rent in Lisbon is 950 euros a month, with water and heating",
    "User commutes by metro and reads novels on the way",
    "User has a cat named Mia, who is 11 years old and needs a diet",
    "User's sister Ana lives in Coimbra with two children",
    "User drives a 2016 Renault Clio that fails its inspections",
    "User studied statistics at the University of Porto from 2011 to 2016",
    "User worked as an intern at Critical Software in the summer of 2018",
    "User is allergic to penicillin and takes an antihistamine in spring",
]


@pytest.fixture(scope="module")
def tokens() -> Callable[[str], int]:
    """The number of WordPiece tokens of a text, of any length."""
    files = find_model(None, None)
    assert files is not None, "the development environment brings all-MiniLM's files"
    tokenizer = Tokenizer.from_file(str(files.tokenizer))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def neighbours(texts: Sequence[str]) -> list[Neighbour]:
    """Memories as a store would give them, each told on another day than it became true: the longest form."""
    return [
        Neighbour(
            item=MemoryItem(
                id=f"00000000-0000-4000-8000-{number:012}", memory=text, hash=text_hash(text),
                scope=Scope(user_id="ana"), created_at="2026-03-01T00:00:00.000000+00:00",
                updated_at="2026-03-01T00:00:00.000000+00:00", told_at="2026-03-01T00:00:00.000000+00:00",
                valid_from="2024-05-01T00:00:00.000000+00:00",
            ),
            similarity=0.6,
        )
        for number, text in enumerate(texts)
    ]  # fmt: skip


def add_of_two_messages(known: Sequence[str]) -> ScriptedLLM:
    """Both steps of an `add`, and the model that was asked."""
    said = {"facts": [{"text": text, "type": "semantic"} for text in FACTS]}
    done = {"operations": [{"fact": number, "event": "ADD"} for number in range(len(FACTS))]}
    llm = ScriptedLLM(ScriptedLLM.Settings(answers=(said, done)))

    async def run() -> None:
        facts = await extract_facts(llm, MESSAGES, now=NOW)
        outcome = await decide_batch(llm, facts, [neighbours(known)] * len(facts))
        assert [decision.text for each in outcome.decisions for decision in each] == FACTS

    asyncio.run(run())
    return llm


@pytest.mark.parametrize(("name", "most"), [("extract", 1_100), ("reconcile", 700), ("reconcile_per_fact", 700)])
def test_a_system_prompt_is_short(name: str, most: int, tokens: Callable[[str], int]) -> None:
    assert 100 < tokens(load(name)) <= most


def test_an_add_of_two_messages_beside_10_memories_is_2_calls_of_at_most_2300_tokens(
    tokens: Callable[[str], int],
) -> None:
    llm = add_of_two_messages(KNOWN)
    assert len(llm.calls) == 2
    for text in (*(message.content for message in MESSAGES), *FACTS, *KNOWN):
        assert any(text in call.user_message for call in llm.calls), "everything is shown, so that all of it is counted"
    sent = sum(tokens(text) + FRAME for call in llm.calls for text in (call.system_prompt, call.user_message))
    assert sent + FRAME * len(llm.calls) <= 2_300


def test_each_further_memory_costs_little_more_than_its_own_words(tokens: Callable[[str], int]) -> None:
    few, many = (add_of_two_messages(KNOWN[:count]).calls[1].user_message for count in (5, 10))
    words = sum(tokens(text) for text in KNOWN[5:])
    assert tokens(many) - tokens(few) <= words + 30 * len(KNOWN[5:])
