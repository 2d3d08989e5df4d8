"""What was read of a context is known with the next message: the same facts, and each message read once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.pipeline.curation.rules import slots
from perdure.pipeline.curation.rules.extraction import Contexts, conversation_reader, extract, scoped_contexts
from perdure.pipeline.curation.rules.extraction.dialogue import watched as contexts
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.curation.rules.memo import forget_texts

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
    assert len(known) == 19


def test_a_window_that_slides_has_little_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    user_message = conversation_reader.user_message
    monkeypatch.setattr(
        conversation_reader, "user_message", lambda text, *rest: (read.append(text), user_message(text, *rest))
    )
    messages = [Message("user", f"I own {n} books.", timestamp=NOW + timedelta(minutes=n)) for n in range(60)]
    known = Contexts()
    for place in range(1, 60):
        extract(messages[place:][:1], now=NOW, context=messages[max(0, place - 24) : place], contexts=known)
    assert len(read) < 4 * 59, "24 times 59 without what was kept"


@given(TALKS, st.integers(1, 8))
def test_the_same_facts_are_read_in_a_window_that_slides(chosen: list[tuple[tuple[str, str], int]], size: int) -> None:
    known, messages = Contexts(), talk(chosen)
    for place in range(1, len(messages)):
        before, fresh = messages[max(0, place - size) : place], messages[place : place + 1]
        assert extract(fresh, now=NOW, context=before, contexts=known) == extract(fresh, now=NOW, context=before)


def test_contexts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "MOST_MESSAGES", 3)
    monkeypatch.setattr(contexts, "MOST_SCOPES", 2)
    every = scoped_contexts()
    for user in "abc":
        known = every.of(Scope(user_id=user))
        for number in range(9):
            before = [Message("user", f"I live at number {number}.", timestamp=NOW)]
            extract([Message("user", "I like tea.", timestamp=NOW)], now=NOW, context=before, contexts=known)
        assert len(known) == 3
    assert len(every) == 2
    assert len(every.of(Scope(user_id="c"))) == 3
    assert len(every.of(Scope(user_id="a"))) == 0, "the least recently read one was dropped"


def test_a_message_without_a_moment_is_kept_too() -> None:
    known = Contexts()
    for fresh in (Message("user", "I like tea."), Message("user", "I like tea.", timestamp=NOW)):
        before = [Message("user", "My sister Ana lives in Oslo.")]
        alone = extract([fresh], now=NOW, context=before)
        assert extract([fresh], now=NOW, context=before, contexts=known) == alone
    assert len(known) == 1


def test_what_is_forgotten_is_dropped_with_all_that_was_computed_from_texts() -> None:
    every = scoped_contexts()
    ana, bo = Scope(user_id="ana", run_id="1"), Scope(user_id="bo")
    for scope in (ana, bo):
        before = [Message("user", "My sister lives in Oslo.", timestamp=NOW)]
        extract([Message("user", "I like tea.")], now=NOW, context=before, contexts=every.of(scope))
    reading = slots.read("User lives in Oslo")
    assert slots.read("User lives in Oslo") is reading
    forget_texts(Scope(user_id="ana"))
    assert slots.read("User lives in Oslo") is not reading
    assert len(every.of(ana)) == 0
    assert len(every.of(bo)) == 1, "another's talk goes on"


@given(
    st.lists(st.sampled_from(["some", "last", "back", "few", "all", "add", "drop", "change"]), max_size=6),
    st.integers(0, 4),
)
def test_a_repeated_change_is_the_change_itself(steps: list[str], count: int) -> None:
    """Whatever a reader does to the drafts, and whatever it has seen of them, a fitting change ends in the same."""

    def reader(message: Message, at: int, now: Discourse) -> None:
        for number, step in enumerate(steps):
            if step == "some" and now.drafts:
                now.drafts.append(made(f"some {number}"))
            elif step == "last" and now.drafts:
                now.thing = now.drafts[-1].text
            elif step == "back":
                now.thing = next((draft.text for draft in reversed(now.drafts) if "1" not in draft.text), "none")
            elif step == "few":
                now.acted = " ".join(draft.text for draft in now.drafts[-2:])
            elif step == "all":
                now.topic = " ".join(draft.text for draft in now.drafts)
            elif step == "add":
                now.drafts.append(made(f"new {number}"))
            elif step == "drop":
                del now.drafts[-1:]
            elif step == "change" and "ana" in now.names and now.drafts:
                now.drafts[-1].text += now.names["ana"]
                now.call("bo", now.person)

    known = Contexts()
    message = Message("user", "anything")
    for size in (count, count + 1, count, 0, 1, 2):
        for person in ("", "Ana"):
            plain = Discourse(person=person, drafts=[made(str(each)) for each in range(size)], names={"ana": "Ana"})
            cached = plain.copy()
            reader(message, -1, plain)
            known.read(message, cached, reader)
            assert cached == plain


def made(text: str) -> Draft:
    return Draft(text, (-1,), "rule", 1.0)
