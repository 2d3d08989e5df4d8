"""What was said before a message tells who and what it speaks of; what was computed from texts can be dropped."""

from __future__ import annotations

from datetime import UTC, datetime

from perdure.domain.message import Message
from perdure.pipeline.curation.rules import slots
from perdure.pipeline.curation.rules.extraction import LONGEST_CONTEXT, extract
from perdure.pipeline.curation.rules.memo import forget_texts

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def test_only_the_last_messages_of_a_context_are_read() -> None:
    sister = Message("user", "My sister Ana lives in Oslo.")
    others = [Message("user", f"I own {number} books.") for number in range(LONGEST_CONTEXT)]
    fresh = [Message("user", "Ana plays the cello.")]
    assert [fact.text for fact in extract(fresh, now=NOW, context=[sister])] == ["User's sister Ana plays the cello"]
    far = extract(fresh, now=NOW, context=[sister, *others])
    assert [fact.text for fact in far] == ["Ana plays the cello"]
    assert far == extract(fresh, now=NOW, context=others)


def test_what_was_computed_from_texts_is_dropped() -> None:
    reading = slots.read("User lives in Oslo")
    assert slots.read("User lives in Oslo") is reading
    forget_texts()
    assert slots.read("User lives in Oslo") is not reading
