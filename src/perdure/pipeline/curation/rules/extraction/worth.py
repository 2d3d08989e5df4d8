"""Worth: how likely a sentence, or a fact that was made of it, is worth keeping.

Three logistic regressions over features of the text: of a sentence, of a fact that a rule took out of it, and of a fact
that is the whole sentence in the third person. Their weights are in the lexicon (`worth_weights.tsv`), fitted on
dialogues of many voices by `benchmarks/worth/fit.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from perdure.domain.fact import PairJudge
from perdure.domain.memory import Slots
from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import runs, stem
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import cleaning, filters, grammar, statements
from perdure.pipeline.curation.rules.memo import per_text
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.lexicon import word_set

Features = dict[str, float]
"""Values by name; one that is not there counts 0."""
Judge = Callable[[str, str, str, Mapping[str, float]], float]
"""The probability, by a model, that a text with these features is worth keeping, read beside another text: a sentence
beside what the assistant said before it, a fact beside its sentence."""

HEARD, SUREST = 0.4, 3.0
"""Weight of the learned judge's log odds beside the features' own, and most of them that counts. Of .2 to .7 the AUC on
unread dialogues differs by .004 (benchmarks/worth/fit.py)."""
DOUBTFUL = (-1.7, 2.1)
"""Log odds between which the learned judge can turn a decision: the thresholds of `choice.py` and what it may add."""
LONGEST_BESIDE = 40
"""Last words of the assistant's message beside which a sentence is read, as in training (benchmarks/heads)."""

SENTENCE, FACT, WHOLE = "sentence", "fact", "whole"
"""The three models."""

_FIRST = Pattern(r"(?<![\w'])(?:i|i'?m|i'?ve|i'?d|i'll|me|my|mine|we|we're|us|our|ours)(?![\w'])", re.IGNORECASE)
_SIGNS: Mapping[str, Pattern] = {
    name: Pattern(pattern, re.IGNORECASE)
    for name, pattern in {
        "number": r"\d",
        "numbers": r"\d+\D+\d",
        "you": r"\b(?:you|your|u|ur)\b",
        "order": r"\b(?:please|pls|plz|can you|could you|write|draft|explain|tell me|give me)\b",
        "reply": r"\b(?:lol|haha+|thanks|thx|ok|okay|yes|no|cool|nice|great)\b",
        "change": r"\b(?:now|from now|instead|changed|moved|new|no longer|anymore|switched)\b",
        "maybe": r"\b(?:would|could|might|maybe|if|should)\b",
        "past": r"\b(?:was|were|had|went|did|got)\b",
        "being": r"\b(?:is|are|am|has|have)\b|'[sm]\b",
        "lasting": r"\b(?:always|never|every|prefer|hate|love|like|allergic)\b",
        "colon": r":",
        "comma": r",",
        "quotes": r'"',
        "code": r"[{}=<>\\|_]|::|\(\)",
        "date": r"\b(?:mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b",
        "measure": r"[€$£]|\b(?:euros?|eur|gbp|usd|pounds|quid|kg|km|mg|am|pm)\b",
        "state": r"\b(?:live|lives|living|work|works|working|play|plays|speak|speaks|eat|drink|drive|drives|wear|own|"
        r"teach|study|studied|married|divorced|born|birthday|name|called|use|uses|keep|grew|moved|moving|bought|sold|"
        r"adopted)\b",
        "denied": r"\b(?:\w+n't|not|never|no)\b",
        "clause": r"\b(?:when|because|so|but)\b",
        "pronoun": r"\b(?:it|that|this|them|they|he|she|him|her|those|ones?|there)\b",
        "figure": r"\b(?:like an?|as an?|literally|basically|apparently|honestly)\b",
        "thinking": r"\b(?:think|thinking|considering|maybe|might)\b",
    }.items()
}


@dataclass(frozen=True, slots=True)
class SentenceOfMessage:
    """A sentence of a message as it was typed, and what is known of the message."""

    text: str
    place: int
    count: int
    """Sentences of the message."""
    answers: bool
    """Whether the assistant asked something just before it."""
    message: Mapping[str, float]
    """`of_message`."""


def odds(model: str, text: str, beside: str, features: Mapping[str, float]) -> float:
    """Return the probability, by one of the models, that a text with these features is worth keeping."""
    return _logistic(_score(model, features))


def learned(find: Callable[[], PairJudge | None]) -> Judge:
    """Return a judge that hears, where the features leave doubt, what a learned judge says of the text itself.

    `find` gives that judge, or None; it is asked at the first doubt.
    """

    def judge(model: str, text: str, beside: str, features: Mapping[str, float]) -> float:
        score = _score(model, features)
        if not DOUBTFUL[0] < score < DOUBTFUL[1] or features.get("message.foreign"):
            return _logistic(score)
        reader = find()
        if reader is None:
            return _logistic(score)
        (share,) = reader.worth(SENTENCE if model == SENTENCE else FACT, [(text, beside)])
        heard = math.log(max(share, 1e-9) / max(1 - share, 1e-9))
        return _logistic(score + HEARD * max(-SUREST, min(SUREST, heard)))

    return judge


def _score(model: str, features: Mapping[str, float]) -> float:
    weights = _weights(model)
    return sum(weights.get(name, 0.0) * value for name, value in features.items() if value)


def _logistic(score: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, score))))


def of_message(content: str, text: str, language: str, kinds: Mapping[str, bool]) -> Features:
    """Return the features of a message: `text` is its plain text, `kinds` what it is besides something told."""
    asks, own = filters.asks(text), filters.speaks_of_self(text)
    found = {f"message.{name}": float(value) for name, value in kinds.items()}
    return found | {
        "message.opens_play": float(filters.opens_play(text)),
        "message.asks": float(asks),
        "message.of_self": float(own),
        "message.only_asks": float(asks and not own),
        "message.foreign": float(bool(language)),
        "message.question": float("?" in content),
        "message.words": min(math.log1p(len(content.split())), 6.0),
    }


def of_sentence(sentence: SentenceOfMessage) -> Features:
    """Return the features of a sentence, its message's among them."""
    return {**_of_text(sentence.text), **sentence.message} | {
        "bias": 1.0,
        "opens": float(sentence.place == 0),
        "alone": float(sentence.count == 1),
        "answers": float(sentence.answers and sentence.place == 0),
    }


@per_text(2048)
def _of_text(text: str) -> Features:
    words = text.split()
    names = sum(word[:1].isupper() for word in words[1:])
    plain = cleaning.clean(text).text.strip(" .!")
    said = filters.strip_openers(plain) if plain else ""
    parts = said.split()
    subject = grammar.subject_of(parts) if parts else ""
    signs = {name: 1.0 for name in _SENTENCE_SIGNS if _SIGNS[name].search(text)}
    return signs | {
        "words": math.log1p(len(words)),
        "few": float(len(words) < 3),
        "short": float(len(words) < 5),
        "asking": float(text.endswith("?")),
        "calling": float(text.endswith("!")),
        "of_self": float(_FIRST.search(text) is not None),
        "named": float(names > 0),
        "names": float(min(3, names)),
        "question": float(bool(plain) and filters.is_question(plain, text.endswith("?"))),
        "request": float(bool(plain) and filters.is_request(plain)),
        "hypothetical": float(bool(plain) and filters.is_hypothetical(plain)),
        "chatter": float(filters.is_chatter(plain)),
        "mockery": float(filters.is_mockery(text)),
        "joke": float(filters.is_joke(text)),
        "value": float(statements.holds_value(parts)),
        "verb": float(bool(parts) and grammar.find_verb(parts, grammar.skip_adverbials(parts)) >= 0),
        f"subject.{subject or 'none'}": 1.0,
    }


_SENTENCE_SIGNS = (
    "number", "numbers", "you", "order", "reply", "change", "maybe", "past", "being", "lasting", "colon", "comma",
    "quotes", "code", "date", "measure", "thinking", "state", "denied",
)  # fmt: skip
_FACT_SIGNS = (
    "number", "colon", "comma", "date", "measure", "change", "denied", "maybe", "clause", "pronoun", "figure",
)  # fmt: skip


def of_fact(text: str, who: str, rule: str, sentence: SentenceOfMessage | None, worth: float) -> Features:
    """Return the features of a fact beside the sentence that it was made of, which is worth so much."""
    plain = text.replace(who, "User") if who != "User" else text
    words = plain.split()
    low = [word.lower().strip(".,:;") for word in words]
    mine = topic(plain)
    theirs = topic(sentence.text) if sentence is not None else frozenset()
    names = sum(word[:1].isupper() for word in words[1:] if not word.startswith("User"))
    found = {f"fact.{name}": 1.0 for name in _FACT_SIGNS if _SIGNS[name].search(plain)}
    found |= of_sentence(sentence) if sentence is not None else {}
    verb = next((word for word in low[1:6] if word in word_set("worth.verbs")), "none")
    slots = read_slots(text)
    return found | {
        "bias": 1.0,
        "fact.words": math.log1p(len(words)),
        "fact.under_4": float(len(words) < 4),
        "fact.under_6": float(len(words) < 6),
        "fact.over_14": float(len(words) > 14),
        "fact.of_user": float(words[0] == "User"),
        "fact.of_users": float(words[0] == "User's"),
        "fact.the": float(words[0] == "The"),
        "fact.small": float(words[0][:1].islower()),
        "fact.named": float(names > 0),
        "fact.names": float(min(3, names)),
        "fact.twice": float(plain.count("User") > 1),
        "fact.topic": float(min(len(mine), 8)),
        "fact.bare": float(len(mine) < 2),
        "fact.covers": len(mine & theirs) / max(1, len(theirs)),
        "fact.said": len(mine & theirs) / max(1, len(mine)),
        "fact.worth": worth,
        "fact.many": float(sentence is not None and sentence.count > 5),
        f"rule.{rule if rule in word_set('worth.rules') else 'other'}": 1.0,
        f"verb.{verb}": 1.0,
        f"slot.{_attribute(slots)}": 1.0,
        "slot.of_user": float(slots is not None and slots.subject == "user"),
        "slot.empty": float(slots is not None and not slots.value),
    }


def _attribute(slots: Slots | None) -> str:
    """Return the attribute of a fact's slots if it has a weight of its own."""
    if slots is None:
        return "none"
    named = slots.attribute in word_set("worth.lasting") or slots.attribute in ("be", "have", "do", "want")
    return slots.attribute if named else "other"


def has_pronoun(text: str) -> bool:
    """Whether a text has a word that points at something else: "that", "it"."""
    return _SIGNS["pronoun"].search(text) is not None


@per_text(4096)
def topic(text: str) -> frozenset[str]:
    """Return the stems of a text's words that have a topic."""
    return frozenset(stem(word) for word in runs(text)) - _empty()


@cache
def _empty() -> frozenset[str]:
    return frozenset(stem(run) for entry in lexicon.words("recall_stopwords.txt") for run in runs(entry))


@cache
def _weights(model: str) -> Mapping[str, float]:
    rows = lexicon.pairs("worth_weights.tsv").items()
    return {name.removeprefix(f"{model}/"): float(value) for name, value in rows if name.startswith(f"{model}/")}
