"""A plain statement that no rule took apart, kept whole: "Keziah is going travelling", "Card reader is SumUp"."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline.extraction import dropping, grammar, reference, sentences, statements
from perdure.pipeline.extraction.discourse import Discourse, Draft

_ADDRESSED = Pattern(r"\b(?:you|your|yours|u|ur|thanks|thank|please|pls)\b|[\"“”?]", re.I)
_WORDS = range(3, 25)
_LONGEST_ITEM = 12
_LATEST_VERB = 7
"""Words that may stand before the verb: "Blood test for my mother was put back"."""


def whole(sentence: sentences.Sentence, at: int, talk: Discourse) -> list[Draft]:
    """The sentence in the third person, if it tells something definite of the speaker's own world.

    Asked only where a sentence gave nothing, and only once the conversation has told something of its own: an outsider
    could not tell such a sentence from one about the world at large.
    """
    if not talk.own or talk.asks or talk.task or sentence.question or sentence.header:
        return []
    text = dropping.strip_openers(sentence.text).strip(" ,.!")
    parts = text.split()
    if len(parts) not in _WORDS or _ADDRESSED.search(text) or _is_no_statement(text):
        return []
    resolved = reference.resolve(text, talk)
    if resolved is None:
        return []
    parts = resolved.split()
    verb = grammar.find_verb(parts, grammar.skip_adverbials(parts))
    if not 0 < verb <= _LATEST_VERB or not _definite(parts):
        return []
    fact = statements.finish(resolved, talk)
    if not statements.worthy(fact, talk):
        return []
    return [statements.make(fact, "plain", talk, at)]


def listed(sentence: sentences.Sentence, heading: str, at: int, talk: Discourse) -> list[Draft]:
    """An item without a verb in a list of the user's own: "User's setup: wezterm + fish"."""
    text = sentence.text.strip(" ,.!")
    if not sentence.item or sentence.question or len(text.split()) > _LONGEST_ITEM or _ADDRESSED.search(text):
        return []
    if _is_no_statement(text) or talk.task:
        return []
    said = statements.finish(text, talk)
    said = said[:1].lower() + said[1:] if text[:1].islower() else said
    return [statements.make(f"{heading}: {said}", "labelled", talk, at)]


def _is_no_statement(text: str) -> bool:
    return (
        dropping.is_hypothetical(text)
        or dropping.is_chatter(text)
        or dropping.is_question(text, False)
        or dropping.is_request(text)
    )


def _definite(parts: list[str]) -> bool:
    """Whether a number, a name or a time stands in it."""
    return any(
        grammar.is_name(part) or grammar.is_time_word(grammar.bare(part)) or any(char.isdigit() for char in part)
        for part in parts
    )
