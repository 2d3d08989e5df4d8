"""What was read of a context is known with the next message: the same facts, and each message read once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.message import Message
from perdure.pipeline.curation.rules import extraction
from perdure.pipeline.curation.rules.extraction import Contexts, conversation_reader, extract

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
SAID = (
    ("user", "My sister Ana lives in Oslo."),
    ("user", "She works as a nurse there, and I live in Lisbon."),
    ("assistant", "Do you have a dog?"),
    ("user", "Yes, his name is Rex."),
    ("assistant", "When did you move to Lisbon?"),
    ("user", "In 2019. Actually, I meant Porto."),
    ("user", "Forget what I said about the dog."),
    ("user", "Let's play a game: you are a pirate."),
    ("user", "Ich wohne in Hamburg."),
    ("assistant", "That sounds good."),
    ("user", "User's favourite tea is Earl Grey"),
    ("user", "Please always answer in short sentences."),
)
TALKS = st.lists(st.tuples(st.sampled_from(SAID), st.integers(0, 90)), min_size=2, max_size=12)


def talk(chosen: list[tuple[tuple[str, str], int]]) -> list[Message]:
    moment, made = NOW, []
    for (role, content), minutes in chosen:
        moment += timedelta(minutes=minutes)
        made.append(Message(role, content, timestamp=moment))
    return made


@given(st.lists(TALKS, min_size=1, max_size=3))
def test_the_same_facts_are_read_with_and_without(talks: list[list[tuple[tuple[str, str], int]]]) -> None:
    known = Contexts()
    said = [talk(each) for each in talks]
    for place in range(1, 12):  # one conversation beside the other
        for messages in said:
            before, fresh = messages[:place], messages[place : place + 1]
            alone = extract(fresh, now=NOW, context=before)
            assert extract(fresh, now=NOW, context=before, contexts=known) == alone
            assert extract(fresh, now=NOW, context=before, contexts=known) == alone, "reading it changed nothing kept"


def test_each_message_is_read_once_as_context(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    user_message = conversation_reader.user_message
    monkeypatch.setattr(
        conversation_reader, "user_message", lambda text, *rest: (read.append(text), user_message(text, *rest))
    )
    messages = [Message("user", f"I own {n} books.", timestamp=NOW) for n in range(20)]
    known = Contexts()
    for place in range(1, 20):
        extract(messages[place:][:1], now=NOW, context=messages[:place], contexts=known)
    assert len(read) == 2 * 19, "as what is read now, and as context to what follows"
    assert len(known) == 1


def test_contexts_are_bounded_and_without_moments_none_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "MOST_CONVERSATIONS", 3)
    known = Contexts()
    for number in range(9):
        before = [Message("user", f"I live at number {number}.", timestamp=NOW)]
        extract([Message("user", "I like tea.", timestamp=NOW)], now=NOW, context=before, contexts=known)
    assert len(known) == 3
    for each in (Message("user", "I like tea."), Message("user", "I like tea.", timestamp=NOW)):
        extract([each], now=NOW, context=[Message("user", "I live in Oslo.")], contexts=known)
    assert len(known) == 3
