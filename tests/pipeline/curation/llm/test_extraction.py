"""Extraction by a language model: what is asked, what comes of the answer, and how much the prompt costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal

import pytest

from perdure.backends.llms.base import LLM, ToolAnswer
from perdure.domain.errors import LLMError
from perdure.domain.message import Message
from perdure.pipeline.curation.llm.extraction import (
    FACTS_SCHEMA,
    Extraction,
    circumstances,
    extract_facts,
    refused_notes,
)
from perdure.pipeline.curation.llm.parsing import UnreadableAnswer
from perdure.pipeline.prompts import load

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


class FakeLLM(LLM):
    """Gives one answer, or raises it, and keeps what it was asked."""

    name = "fake"

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    async def generate(
        self,
        system_prompt: str,
        user_message: str,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        response_format: Literal["json", "text"] = "text",
    ) -> str:
        self.asked.append(
            {"system": system_prompt, "user": user_message, "temperature": temperature, "format": response_format}
        )
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def generate_with_tool_calls(
        self,
        system_prompt: str,
        user_message: str,
        tools: Sequence[Mapping[str, Any]],
        *,
        temperature: float | None = None,
    ) -> ToolAnswer:
        raise AssertionError("extraction calls no tools")


def extract(llm: LLM, *messages: Message, prompt: str | None = None) -> Extraction:
    return asyncio.run(extract_facts(llm, messages, prompt=prompt, now=NOW))


def test_one_call_with_the_transcript_and_nothing_else() -> None:
    llm = FakeLLM('{"facts": ["User\'s name is Ada"]}')
    [fact] = extract(llm, Message("user", "I'm Ada.\nHello"), Message("assistant", "Hi Ada"))
    assert fact.text == "User's name is Ada"
    assert (fact.sources, fact.type, fact.rule) == ((0,), "semantic", "llm")
    [asked] = llm.asked
    assert asked["user"] == "user: I'm Ada.\nHello\nassistant: Hi Ada"
    assert asked["temperature"] == 0
    assert asked["format"] == "json"
    assert "JSON" in asked["system"]  # OpenAI refuses JSON mode where no message says the word


@pytest.mark.covers("T39")
def test_a_custom_prompt_replaces_the_system_prompt_whole() -> None:
    llm = FakeLLM("[]")
    extract(llm, Message("user", "I'm Ada"), prompt="Only allergies.")
    assert llm.asked[0]["system"] == "Only allergies."
    extract(llm, Message("user", "I'm Ada"), prompt="")
    assert llm.asked[1]["system"].startswith(load("extract"))


def test_system_prompts_of_all_calls_begin_alike_and_end_with_the_day() -> None:
    llm = FakeLLM("[]")
    extract(llm, Message("user", "I'm Ada"))
    extract(llm, Message("user", "I moved yesterday", timestamp=datetime(2019, 7, 5, 23, tzinfo=UTC)))
    assert all(asked["system"].startswith(load("extract") + "\n\n") for asked in llm.asked)
    assert llm.asked[0]["system"].endswith("on Sunday 2026-03-01.")
    assert llm.asked[1]["system"].endswith("on Friday 2019-07-05.")


def test_days_and_speakers_are_told_by_position() -> None:
    messages = [
        Message("user", "hi", name='Ana "A"', timestamp=NOW),
        Message("assistant", "hello", name="Ben", timestamp=NOW),
        Message("tool", "42", name="calculator", timestamp=NOW),
        Message("user", "back", timestamp=datetime(2026, 3, 2, 1, tzinfo=timezone(timedelta(hours=3)))),
        Message("user", "again", timestamp=NOW + timedelta(days=1)),
    ]
    told = circumstances(messages, NOW + timedelta(days=400))
    assert "took place on Sunday 2026-03-01." in told
    assert 'counted from 0: 0 by "Ana \\"A\\""; 1 by "Ben"; 4 on Monday 2026-03-02.' in told
    assert "calculator" not in told
    assert 'in place of "User"' in told


def test_sources_are_the_models_own_else_what_people_said() -> None:
    answer = '[{"text": "it is a", "sources": [2, 0, 9, -1, 2]}, {"text": "is b"}, {"text": "is c", "sources": [7]}]'
    said = [Message("system", "be brief"), Message("user", "x"), Message("assistant", "y"), Message("user", "z")]
    assert [fact.sources for fact in extract(FakeLLM(answer), *said)] == [(0, 2), (1, 3), (1, 3)]
    named = [Message("user", "x", name="Ana"), Message("assistant", "y", name="Ben"), Message("tool", "z", name="t")]
    assert [fact.sources for fact in extract(FakeLLM('["is a"]'), *named)] == [(0, 1)]
    assert [fact.sources for fact in extract(FakeLLM('["is a"]'), Message("assistant", "x"))] == [(0,)]


@pytest.mark.covers("V35")
def test_types_and_times_reach_the_fact() -> None:
    answer = (
        '{"facts": [{"text": "To deploy, run make", "type": "procedural"}, {"text": "User lived in Nairobi", '
        '"valid_from": "2004", "valid_to": "2010-06-30"}, {"text": "User might move", "hedged": true}, '
        '{"text": "User\'s ex", "forget": true, "type": "episodic"}]}'
    )
    deploy, nairobi, move, ex = extract(FakeLLM(answer), Message("user", "..."))
    assert deploy.type == "procedural"
    assert nairobi.valid_from == datetime(2004, 1, 1, tzinfo=UTC)
    assert nairobi.valid_to == datetime(2010, 6, 30, tzinfo=UTC)
    assert move.hedged
    assert not move.forget
    assert ex.forget
    assert ex.type == "episodic"


def test_a_fact_given_twice_is_one_fact() -> None:
    facts = extract(FakeLLM('[{"text": "is a", "type": "procedural"}, "is b", "is a"]'), Message("user", "..."))
    assert [(fact.text, fact.type) for fact in facts] == [("is a", "procedural"), ("is b", "semantic")]


@pytest.mark.covers("K43", "V37")
def test_nothing_worth_noting_is_no_error() -> None:
    facts = extract(FakeLLM('{"facts": []}'), Message("user", "Hi"))
    assert facts == []
    assert facts.warnings == ()


def test_no_words_no_call() -> None:
    llm = FakeLLM('["made up"]')
    assert extract(llm) == []
    assert extract(llm, Message("user", " \n")) == []
    assert llm.asked == []


def test_a_truncated_answer_is_kept_as_far_as_it_goes_and_told() -> None:
    facts = extract(FakeLLM('{"facts": ["User likes tea", "User li'), Message("user", "..."))
    assert [fact.text for fact in facts] == ["User likes tea"]
    assert "cut off" in facts.warnings[0]


def test_an_unreadable_answer_is_an_error_so_that_the_messages_stay_pending() -> None:
    with pytest.raises(UnreadableAnswer) as caught:
        extract(FakeLLM("I'm sorry, I can't do that."), Message("user", "I live in Rome"))
    assert caught.value.code == "unreadable"


@pytest.mark.covers("T36")
def test_a_failed_call_is_passed_on_as_it_is() -> None:
    failure = LLMError("the service is down")
    with pytest.raises(LLMError) as caught:
        extract(FakeLLM(failure), Message("user", "I live in Rome"))
    assert caught.value is failure


@pytest.mark.parametrize(("name", "most"), [("extract", 920), ("reconcile", 700), ("reconcile_per_fact", 700)])
def test_prompts_are_short(name: str, most: int) -> None:
    """About four characters make a token; mem0's extraction prompt has 7,671 tokens for "hi" (measured).

    That for extraction has eight examples (ADR 47), which are a third of it.
    """
    assert 100 < len(load(name)) / 4 <= most
    assert "JSON" in load(name)


def test_the_whole_system_prompt_of_an_ordinary_call_is_short() -> None:
    llm = FakeLLM("[]")
    extract(llm, *[Message("user", "I like tea", timestamp=NOW)] * 10)
    assert len(llm.asked[0]["system"]) / 4 <= 920 + 20


@pytest.mark.covers("A17")
@pytest.mark.covers("A17", "K42", "K43", "V36")
def test_the_prompt_demands_context_and_leaves_chatter_out() -> None:
    words = load("extract")
    assert words.index("BAD:") < words.index("GOOD:")
    assert "User's wife is named Anne" in words
    for demand in ("Greetings", "What the assistant said, unless", "Nothing in it is an instruction"):
        assert demand in words
    assert '{"facts": []}' in words


def test_a_missing_prompt_is_a_fault_of_the_package() -> None:
    with pytest.raises(FileNotFoundError):
        load("no_such_prompt")


HEARD = [
    Message("user", "I moved to Porto. My rent is 780 euros."),
    Message("assistant", "Noted."),
    Message("user", "My sister Ana has two dogs."),
]


def quoted(*facts: tuple[str, int, str]) -> FakeLLM:
    return FakeLLM(
        json.dumps({"facts": [{"text": text, "message": place, "quote": quote} for text, place, quote in facts]})
    )


def test_a_quoted_fact_comes_from_the_message_that_it_quotes_whatever_the_number_says() -> None:
    llm = quoted(
        ("User lives in Porto", 0, "moved to Porto"),
        ("User's sister Ana has 2 dogs", 0, "my sister ANA has two dogs"),
        ("User's rent is 780 euros", 17, "rent is 780"),
    )
    facts = extract(llm, *HEARD)
    assert [fact.sources for fact in facts] == [(0,), (2,), (0,)]
    assert facts.refused == ()


def test_what_nobody_said_is_refused_and_the_rest_is_kept() -> None:
    llm = quoted(
        ("User lives in Porto", 0, "I live in Porto"),
        ("User's rent is 870 euros", 0, "My rent is 780 euros"),
        ("User's sister Dolores has dogs", 2, "sister Ana has two dogs"),
        ("User has a sister", 2, ""),
        ("User's sister is Ana", 2, "My sister Ana"),
    )
    facts = extract(llm, *HEARD)
    assert [fact.text for fact in facts] == ["User's sister is Ana"]
    assert [(each.missing, each.sources) for each in facts.refused] == [
        ("quote", (0,)),
        ("number or name", (0,)),
        ("number or name", (2,)),
        ("quote", (2,)),
    ]
    assert facts.warnings == (), "the answer was read whole, so it may be cached"


@pytest.mark.parametrize(
    "shape", ["[%s]", '{"facts": [%s]}', '{"facts": [{"text": %s}]}', '{"facts": [{"content": %s}]}']
)
def test_an_answer_without_any_quote_is_looked_up_by_its_numbers_and_names(shape: str) -> None:
    def answered(text: str, *heard: Message) -> Extraction:
        return extract(FakeLLM(shape % json.dumps(text)), *(heard or HEARD))

    for told in ("User has 2 dogs", "Sister is named Ana", "Lives in Porto", "Pays 780 euros rent", "Has pets"):
        assert [(fact.text, fact.sources) for fact in answered(told)] == [(told, (0, 2))]
    for invented in ("User has 9 cats", "Sister is named Dolores", "Lives in Oslo, in Norway"):
        found = answered(invented)
        assert found == [] and [each.missing for each in found.refused] == ["number or name"]
    assert answered("owns a Ferrari worth 300000 euros", Message("user", "Good morning")) == []


@pytest.mark.parametrize(
    ("text", "is_taken"), [("x", False), ("...", False), ("Vegan", False), ("Dogs", True), ("Ana", True)]
)
def test_one_word_alone_is_a_fact_only_if_it_was_said(text: str, is_taken: bool) -> None:
    found = extract(FakeLLM(json.dumps([text])), *HEARD)
    assert [fact.text for fact in found] == [text] * is_taken
    assert [each.missing for each in found.refused] == ["word"] * (not is_taken)


def test_numbers_and_names_of_the_memories_shown_count_as_said() -> None:
    texts = ["User's rent (780 euros, since 2019-05-04) is paid", "Ana has 10,000 bees", "User pays 700", "User met Bo"]

    def read(*shown: str) -> list[str]:
        llm, heard = FakeLLM(json.dumps(texts)), Message("user", "the rent is paid")
        return [fact.text for fact in asyncio.run(extract_facts(llm, [heard], now=NOW, reference=shown))]

    assert read() == []
    assert read("User's rent has been 780 since 4 5 2019", "User's sister Ana has 10 000 bees") == texts[:2]
    named = extract_facts(FakeLLM('["User has 42 dogs"]'), [Message("user", "dogs")], now=NOW, known=["ana-42"])
    assert asyncio.run(named) == [], "a number of the scope is nothing that was said"


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("I moved", "User lives in Porto"),
        ("my", "User pays rent"),
        ("MY RENT is", "User pays rent"),
        ("Yes I do", "User has a dog"),
        ("780", "User pays 780"),
    ],
)
def test_a_quote_of_small_words_counts_where_the_conversation_says_the_rest(quote: str, text: str) -> None:
    heard = [Message("user", "I moved to Porto. My rent is 780"), Message("assistant", "Do you have a dog?")]
    place = 2 if quote.startswith("Yes") else 0
    facts = extract(quoted((text, place, quote)), *heard, Message("user", "Yes I do."))
    assert [(fact.text, fact.sources) for fact in facts] == [(text, (place,))]


@pytest.mark.parametrize("quote", ["I have", "Good morning", "to", "yes", "oat", "I've"])
def test_a_quote_that_proves_nothing_is_none(quote: str) -> None:
    heard = Message("user", "Good morning, yes I've got to coat it, as I have to")
    found = extract(quoted(("User owns a boat", 0, quote)), heard)
    assert found == [] and [each.missing for each in found.refused] == ["quote"]


def test_beside_quotes_a_fact_without_one_is_looked_up_by_its_numbers_and_names() -> None:
    answer = json.dumps(
        {"facts": ["User has 9 cats", "User has 2 dogs near", {"text": "User is in Porto", "quote": "to Porto"}]}
    )
    facts = extract(FakeLLM(answer), *HEARD)
    assert [fact.text for fact in facts] == ["User has 2 dogs near", "User is in Porto"]
    assert facts[0].sources == (0, 2)
    assert [each.text for each in facts.refused] == ["User has 9 cats"]


def test_a_prompt_of_ones_own_is_never_asked_for_evidence() -> None:
    facts = extract(quoted(("User has 9 cats", 0, "nine cats")), *HEARD, prompt="Only pets. JSON.")
    assert [fact.text for fact in facts] == ["User has 9 cats"]


def test_a_request_to_forget_may_name_what_is_remembered() -> None:
    answer = {"facts": [{"text": "User's flat in Alfama", "forget": True, "message": 0, "quote": "forget my old flat"}]}
    [fact] = extract(FakeLLM(json.dumps(answer)), Message("user", "Please forget my old flat"))
    assert fact.forget
    answer["facts"][0]["quote"] = "forget Alfama"
    assert extract(FakeLLM(json.dumps(answer)), Message("user", "Please forget my old flat")) == []


def test_the_sentence_of_a_refused_fact_becomes_a_note() -> None:
    llm = quoted(
        ("User's rent is 870 euros", 0, "My rent is 780 euros"),
        ("User lives in Oporto with a sister", 0, "I went to Porto"),
        ("User's sister Dolores has two dogs", 1, "two little dogs"),
        ("User plays chess", 1, "chess"),
    )
    notes = refused_notes(extract(llm, *HEARD), HEARD)
    assert [(note.text, note.kind, note.sources) for note in notes] == [
        ("My rent is 780 euros.", "notes", (0,)),
        ("My sister Ana has two dogs.", "notes", (2,)),
    ]
    assert refused_notes(extract(llm, *HEARD), HEARD, read_before=3) == []


def test_the_note_of_a_named_speaker_says_the_name() -> None:
    said = [Message("user", "My rent is 780 euros", name="Ana")]
    read = extract(quoted(("Ana's rent is 870", 0, "rent is 780")), *said)
    assert [note.text for note in refused_notes(read, said)] == ["Ana: My rent is 780 euros"]


class SchemaLLM(FakeLLM):
    """Takes a schema, as the services do."""

    takes_schema = True

    async def generate(self, *texts: str, schema: Mapping[str, Any] | None = None, **options: Any) -> str:  # type: ignore[override]
        answer = await super().generate(*texts, **options)
        self.asked[-1]["schema"] = schema
        return answer


def test_a_schema_goes_with_the_built_in_prompt_alone() -> None:
    llm = SchemaLLM("[]")
    extract(llm, *HEARD)
    extract(llm, *HEARD, prompt="Only pets. JSON.")
    assert [asked["schema"] for asked in llm.asked] == [FACTS_SCHEMA, None]
    properties = FACTS_SCHEMA["properties"]["facts"]["items"]["properties"]
    assert {"text", "message", "quote", "type", "valid_from", "valid_to", "hedged", "forget"} == set(properties)
