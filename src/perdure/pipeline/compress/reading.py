"""Reading a conversation for its state: what it is about, what may be spent, what is decided, what is open."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Final

from perdure.domain.message import Message
from perdure.domain.pattern import Pattern
from perdure.pipeline.lexicon import lines, words

_SENTENCE = Pattern(r"(?<=[.!?。！？])\s+|[\n;]+")
_WORD = Pattern(r"[^\W\d_][\w'-]*")
_AMOUNT = Pattern(
    r"(?:[$€£¥₹]|\b(?:usd|eur|gbp) )\s?\d[\d.,]*\d?(?:\s?(?:k|m|thousand|million)\b)?"
    r"|\b\d[\d.,]*\d?\s?(?:k\b|thousand\b|million\b)?\s?(?:dollars|euros?|pounds|bucks|usd|eur|gbp|€|£)"
    r"|\b\d+(?:\.\d+)?k\b",
    re.IGNORECASE,
)
_LEADS = Pattern(r"^(?:the|a|an|to|that|on|for|our|my|it|just|really|then)\s+", re.IGNORECASE)
_TAILS = Pattern(r"[\s,.!?:;]+$|\s+(?:please|then|instead|now|after all|i think|for now)[.!]*$", re.IGNORECASE)
_BREAK = Pattern(
    r",? (?:because|since|so that|which is|but|and then|if that|as long as|instead of|rather than)\b"
    r"|, (?:and|so|ok|right)\b"
)
_INSTEAD = Pattern(r"\b(?:instead of|rather than|not|no longer) ([^,.;]+)")
_ASKING = Pattern(r"^(?:and |so |but |ok(?:ay)?,? )*(?:which|what|when|where|who|how|should|shall)\b", re.IGNORECASE)

MOST_READ: Final = 8_000
"""Characters of a message that are read: what is longer was pasted."""
MOST_WORDS: Final = 12
"""Words of a decision, or of what is open."""
_FADING: Final = 0.97
"""What a word weighs of one message further back."""
_LEAST_WORD: Final = 3
_HALF: Final = 0.5
_STAYING: Final = 0.4
"""What the topic before must weigh of the new one to stay."""


@dataclass(slots=True)
class Told:
    """What is decided and open after the messages heard so far, oldest first, and the last budget."""

    decisions: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    budget: str | None = None
    _asked: list[str] = field(default_factory=list)
    """Questions of the user that wait for an answer."""

    @classmethod
    def of(cls, decisions: Sequence[str], open: Sequence[str]) -> Told:
        """What stood before."""
        return cls(list(decisions), list(open))

    def hear(self, message: Message) -> None:
        """Take in the next message: the user's words, or the answer to them."""
        if message.role != "user":
            self._answered(message.content[:MOST_READ])
            return
        self._asked = []
        for sentence in sentences(message.content[:MOST_READ]):
            if sentence.endswith(("?", "？")):
                if _ASKING.match(sentence):
                    self._asked.append(_short(sentence))
                continue
            self._stated(sentence)

    def _stated(self, sentence: str) -> None:
        self.budget = _budget(sentence) or self.budget
        left = _first(_patterns("compress_open.txt"), sentence)
        if left:
            self.open = [*_without(self.open, left), left]
            return
        decided = _first(_patterns("compress_decisions.txt"), sentence)
        if decided:
            for dropped in _INSTEAD.findall(sentence):
                self.decisions = _without(self.decisions, dropped, least=_HALF)
            self.decisions = [*(each for each in self.decisions if each.casefold() != decided.casefold()), decided]
        about = decided or (sentence if _AMOUNT.search(sentence) else "")
        if about:
            self.open = _without(self.open, about, least=_HALF)

    def _answered(self, answer: str) -> None:
        """What the answer leaves unanswered stays open."""
        folded = _folded(answer)
        unsettled = folded.rstrip().endswith("?") or any(sign in folded for sign in lines("compress_unsettled.txt"))
        if unsettled:
            for question in self._asked:
                self.open = [*_without(self.open, question), question]
        self._asked = []


def sentences(text: str) -> list[str]:
    """The sentences of a text, without white space around them."""
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


def topic_of(said: Sequence[str], previous: str) -> str | None:
    """What the messages are about, oldest first: the word that comes most, newer ones weighing more, and its neighbour.

    The topic before stays while it is spoken of as much.
    """
    weights: dict[str, float] = defaultdict(float)
    pairs: dict[tuple[str, str], float] = defaultdict(float)
    shown: dict[str, str] = {}
    for age, text in enumerate(reversed(said)):
        weight = _FADING**age
        run = [_WORD.findall(part) for part in re.split(r"[^\w\s'-]+", text[:MOST_READ])]
        heard = {stem for part in run for word in part if (stem := _stem(word))}
        for stem in heard:
            weights[stem] += weight
        for part in run:
            for word in part:
                stem = _stem(word)
                # A name is written with its capital everywhere, another word at the beginning of sentences alone.
                if stem not in shown or word.islower():
                    shown[stem] = word
            stems = [_stem(word) for word in part]
            for left, right in set(pairwise(stems)):
                if left and right and left != right:
                    pairs[left, right] += weight
    if not weights:
        return previous or None
    best = max(weights, key=lambda stem: (weights[stem], -list(weights).index(stem)))
    of_previous = [weights[stem] for word in _WORD.findall(previous) if (stem := _stem(word))]
    if of_previous and max(of_previous) >= weights[best] * _STAYING:
        return previous
    beside = [pair for pair in pairs if best in pair and pairs[pair] > 1]
    if beside:
        left, right = max(beside, key=lambda pair: (pairs[pair], pair))
        return f"{shown[left]} {shown[right]}"
    others = [stem for stem in sorted(weights, key=lambda stem: -weights[stem]) if stem != best][:1]
    return " ".join([shown[best], *(shown[stem] for stem in others if weights[stem] > 1)])


def _stem(word: str) -> str:
    """The word as it is counted; "" for one that says nothing of a topic."""
    folded = word.casefold().replace("’", "'").removesuffix("'s").strip("'-")
    if len(folded) < _LEAST_WORD and folded.isascii():
        return ""
    if folded in words("recall_stopwords.txt") or folded in words("compress_generic.txt") or "'" in folded:
        return ""
    return (
        folded[:-1] if folded.endswith("s") and not folded.endswith("ss") and len(folded) > _LEAST_WORD + 1 else folded
    )


def _terms(text: str) -> set[str]:
    return {stem for word in _WORD.findall(text) if (stem := _stem(word))}


def _without(entries: Sequence[str], text: str, *, least: float = 1.0) -> list[str]:
    """The entries of whose words fewer than a share stand in the text; one without words of its own stays."""
    said = _terms(text)
    return [each for each in entries if not (own := _terms(each)) or len(own & said) < max(1, least * len(own))]


def _budget(sentence: str) -> str | None:
    """The amount that may be spent, as it was written."""
    folded = _folded(sentence)
    amounts = _AMOUNT.findall(sentence)
    if not amounts or not any(re.search(rf"(?<!\w){re.escape(cue)}", folded) for cue in lines("compress_budget.txt")):
        return None
    return str(amounts[-1]).strip(" ,.")


def _first(patterns: Sequence[re.Pattern[str]], sentence: str) -> str:
    """What the first pattern that fits says was meant, in the words of the sentence; "" for none."""
    folded = _folded(sentence)
    for pattern in patterns:
        match = pattern.search(folded)
        if match is not None:
            start, end = match.span(match.lastindex or 0)
            return _short(sentence[start:end])
    return ""


def _short(text: str) -> str:
    """A matter in few words, without what leads to it and what follows as its reason."""
    broken = _BREAK.search(text.casefold())
    kept = text[: broken.start()] if broken else text
    kept = " ".join(kept.split()[:MOST_WORDS])
    ending = "?" if kept.endswith(("?", "？")) else ""
    while (shorter := _TAILS.sub("", _LEADS.sub("", kept))) != kept:
        kept = shorter
    return kept + ending if kept else ""


def _folded(text: str) -> str:
    """The text for comparing, a character for a character."""
    folded = "".join(low if len(low := each.lower()) == 1 else each for each in text)
    return folded.replace("’", "'")


@cache
def _patterns(name: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(line) for line in lines(name))
