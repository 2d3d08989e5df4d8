"""Loading: what a program that starts fast leaves for its first request, a server takes in before it listens."""

from __future__ import annotations

from datetime import UTC, datetime

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction import extract
from perdure.pipeline.curation.rules.reconciliation import decide
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.retrieval.question import read_question
from perdure.pipeline.retrieval.search_gate import is_general, should_search

_SAID = "I moved to Oslo last week. My sister Ana works at the harbour and has two dogs."


def load_rules() -> None:
    """Read a sentence and a question by the rules: their modules, word files and patterns are then in place.

    It takes some tenths of a second, which else the first messages' answers would wait for.
    """
    now = datetime.now(UTC)
    for fact in extract([Message("user", _SAID)], now=now):
        decide(fact, [])
        read_slots(fact.text)
    for question in ("Where does Ana work?", "What did I do last week?"):
        should_search(question)
        is_general(question)
        read_question(question, now=now)
