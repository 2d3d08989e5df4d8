"""Summaries, session memories and conversation state written by a language model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from perdure.backends.llms.base import LLM
from perdure.domain.errors import LLMError
from perdure.domain.message import Message, transcript
from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import split_words
from perdure.pipeline.curation.chat import is_refusal
from perdure.pipeline.curation.llm.parsing import find_json, without_thoughts
from perdure.pipeline.prompts import load

NOTHING: Final = frozenset({"", "none", "null", "nothing", "n/a", "no summary", "empty", "undefined", "ok", "done"})
"""What stands for an answer where there is none."""
_DEBRIS = Pattern(r"```|[{\[]\s*\"|\"\s*[}\]]|\"\w+\"\s*:|^\s*[{}\[\]]|<\|\w+\|>")
_ECHOED: Final = 10  # words in a row that a text shares with its instructions by more than chance


def junk(text: str, *, longest: int, prompt: str, labels: Sequence[str] = ()) -> str | None:
    """Why a model's text tells of nothing, in a few words for a log; None where it may.

    It is empty, refuses, is what is left of JSON or code, repeats its instructions (`prompt`) or the `labels` of its
    material, or goes on beyond `longest` characters.
    """
    plain = " ".join(text.split())
    if plain.strip(" .!-()[]{}\"'*_").lower() in NOTHING or not any(letter.isalpha() for letter in plain):
        return "it is empty"
    if len(plain) > longest:
        return f"it has {len(plain):,} characters, where {longest:,} are too many"
    if is_refusal(plain):
        return "it refuses"
    if _DEBRIS.search(text) is not None:
        return "it is JSON or code"
    if any(label in plain for label in labels) or _repeats(plain, prompt):
        return "it repeats its instructions"
    return None


def _repeats(text: str, prompt: str) -> bool:
    said, told = _words(text), _words(prompt)
    runs = {tuple(told[place : place + _ECHOED]) for place in range(len(told) - _ECHOED + 1)}
    return any(tuple(said[place : place + _ECHOED]) in runs for place in range(len(said) - _ECHOED + 1))


def _words(text: str) -> list[str]:
    return split_words(text.lower(), joined_by="'’", underscore=True)


SESSION_TOKENS: Final = 160
_LONGEST_SESSION: Final = 1_200
_FACTS, _SAID = "What was learned of the user:", "The conversation:"
_LONGEST_TRANSCRIPT: Final = 24_000
"""Characters of a session that a model is given: its end, where it came to something."""


async def session_by_model(llm: LLM, messages: Sequence[Message], facts: Sequence[str], day: str) -> str | None:
    """The memory as a model tells it, of a day such as "29 December 2024"; None where it finds nothing worth one.

    LLMError where it fails, or what it answers tells of nothing, with the reason.
    """
    learned = "\n".join(f"- {fact}" for fact in facts) or "(nothing)"
    said = transcript(messages)[-_LONGEST_TRANSCRIPT:]
    material = f"Date: {day}\n\n{_FACTS}\n{learned}\n\n{_SAID}\n{said}"
    answer = await llm.generate(load("session"), material, temperature=0.1, max_tokens=SESSION_TOKENS)
    whole = without_thoughts(answer)
    if not any(letter.isalpha() for letter in whole):
        return None
    reason = junk(
        whole.removeprefix(f"On {day}: "), longest=4 * _LONGEST_SESSION, prompt=load("session"), labels=(_FACTS, _SAID)
    )
    if reason is not None:
        raise LLMError(f"the model's answer tells of no session: {reason}", code="unreadable")
    text = " ".join(whole.split())[:_LONGEST_SESSION]
    return text if day in text else f"On {day}: {text}"


MOST_TOKENS: Final = 256  # tokens that a summary may take
TEMPERATURE: Final = 0.2
_BEFORE, _SINCE, _GONE = "Summary so far:", "Learned since:", "No longer true:"
_LONGEST: Final = 4 * 4 * MOST_TOKENS
"""Characters of a model's summary; a model that goes on for longer was not summing up."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What was learned since the last summary, in the order in which it was learned."""

    new: tuple[str, ...] = ()  # facts that stand, also those that took the place of others
    gone: tuple[str, ...] = ()  # facts that no longer stand

    @property
    def is_nothing(self) -> bool:
        """Whether the last summary still says it all."""
        return not self.new and not self.gone


async def summary_by_model(llm: LLM, previous: str | None, learned: Learned) -> str:
    """The new summary by a model; LLMError where it fails, or what it answers is none, with the reason."""
    parts = [f"{_BEFORE}\n{previous or '(none)'}"]
    if learned.gone:
        parts.append(f"{_GONE}\n" + "\n".join(f"- {_line(text)}" for text in learned.gone))
    if learned.new:
        parts.append(f"{_SINCE}\n" + "\n".join(f"- {_line(text)}" for text in learned.new))
    answer = await llm.generate(
        load("summary"), "\n\n".join(parts), temperature=TEMPERATURE, max_tokens=MOST_TOKENS, response_format="text"
    )
    text = without_thoughts(answer)
    reason = junk(text, longest=_LONGEST, prompt=load("summary"), labels=(_BEFORE, _SINCE, _GONE))
    if reason is not None:
        raise LLMError(f"the model's answer is no summary: {reason}", code="unreadable")
    return " ".join(text.split())


def _line(text: str) -> str:
    return " ".join(text.split())


STATE_TOKENS: Final = 256  # tokens of an answer: a state of 100, in JSON, and some prose around it
_STATE_MATERIAL: Final = 24_000  # characters of messages that a model is given: the newest
_LONGEST_MESSAGE: Final = 2_000
_LONGEST_VALUE: Final = 1_000  # characters of a value; one that goes on for longer is no value
_ASKED_FOR: Final = frozenset({"topic", "budget", "decisions", "open"})


async def state_by_model(
    llm: LLM, messages: Sequence[Message], facts: Sequence[str], previous: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The state as a model tells it, as it came; None where its answer holds no object.

    LLMError where it fails, or what it answers is none, with the reason.
    """
    said: list[dict[str, str]] = []
    left = _STATE_MATERIAL
    for message in reversed(messages):
        text = message.content[:_LONGEST_MESSAGE]
        left -= len(text)
        if left < 0:
            break
        said.append({"role": message.role, "content": text})
    material = {"state": dict(previous), "facts": list(facts), "messages": said[::-1]}
    answer = await llm.generate(
        load("state"),
        json.dumps(material, ensure_ascii=False),
        temperature=0,
        max_tokens=STATE_TOKENS,
        response_format="json",
    )
    groups = find_json(without_thoughts(answer)).groups
    objects = [value for group in groups for value in group if isinstance(value, dict) and value]
    told: dict[str, Any] | None = objects[0] if objects else None
    reason = None if told is None else _junk_in(told)
    if reason is not None:
        raise LLMError(f"the model's answer is no state: {reason}", code="unreadable")
    return told


def _junk_in(told: Mapping[str, Any]) -> str | None:
    """Why an object is no state: it is the material again, tells of nothing that was asked for, or of junk."""
    if "messages" in told or not _ASKED_FOR & told.keys():
        return "it has other keys"
    texts = [text for value in told.values() for text in (value if isinstance(value, list) else [value])]
    reasons = (junk(text, longest=_LONGEST_VALUE, prompt=load("state")) for text in texts if _says(text))
    return next(filter(None, reasons), None)


def _says(text: object) -> bool:
    return isinstance(text, str) and any(letter.isalpha() for letter in text) and text.strip().lower() not in NOTHING
