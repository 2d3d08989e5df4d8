"""Condense a conversation without a model: its state, and its rolling summary."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, Final

from perdure.domain.memory import MemoryItem
from perdure.domain.message import Message
from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.slots import read
from perdure.pipeline.lexicon import lines, words
from perdure.pipeline.prompting.quoting import STATE, TOKENS_PER_WORD, estimate_tokens, fit, framed, one_line

# Reading a conversation for its state: topic, budget, decisions, open questions.

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
MOST_READ: Final = 8_000  # maximum characters of a message that are read: a longer one was pasted
MOST_WORDS: Final = 12  # maximum words of a decision, or of an open question
_FADING: Final = 0.97  # weight of a word for each message further back
_LEAST_WORD: Final = 3
_HALF: Final = 0.5
_STAYING: Final = 0.4  # share of the new topic's weight that the previous one needs to stay


@dataclass(slots=True)
class Told:
    """Decisions and open questions after the messages so far, oldest first, and the last budget."""

    decisions: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    budget: str | None = None
    _asked: list[str] = field(default_factory=list)  # questions of the user without an answer yet

    @classmethod
    def of(cls, decisions: Sequence[str], open: Sequence[str]) -> Told:
        """Start from an earlier state."""
        return cls(list(decisions), list(open))

    def hear(self, message: Message) -> None:
        """Process the next message of the user or the assistant."""
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
        self.budget = _state_budget(sentence) or self.budget
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
        """Remove the questions that the answer settles."""
        folded = _folded(answer)
        unsettled = folded.rstrip().endswith("?") or any(sign in folded for sign in lines("compress_unsettled.txt"))
        if unsettled:
            for question in self._asked:
                self.open = [*_without(self.open, question), question]
        self._asked = []


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, without white space around them."""
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


def topic_of(said: Sequence[str], previous: str) -> str | None:
    """Return the topic: the most frequent recent word with its neighbour; the previous one while still mentioned."""
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
                # A name has its capital everywhere, other words only at the beginning of sentences.
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
    """Return the word's key for counting; "" for a word without a topic."""
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
    """Return the entries with fewer than a share of their words in the text; one without own words stays."""
    said = _terms(text)
    return [each for each in entries if not (own := _terms(each)) or len(own & said) < max(1, least * len(own))]


def _state_budget(sentence: str) -> str | None:
    """Return the budget in a sentence, as it was written."""
    folded = _folded(sentence)
    amounts = _AMOUNT.findall(sentence)
    if not amounts or not any(re.search(rf"(?<!\w){re.escape(cue)}", folded) for cue in lines("compress_budget.txt")):
        return None
    return str(amounts[-1]).strip(" ,.")


def _first(patterns: Sequence[re.Pattern[str]], sentence: str) -> str:
    """Return the part that the first matching pattern captures, in the sentence's own words; "" for none."""
    folded = _folded(sentence)
    for pattern in patterns:
        match = pattern.search(folded)
        if match is not None:
            start, end = match.span(match.lastindex or 0)
            return _short(sentence[start:end])
    return ""


def _short(text: str) -> str:
    """Return a matter in few words, without introduction and reasons."""
    broken = _BREAK.search(text.casefold())
    kept = text[: broken.start()] if broken else text
    kept = " ".join(kept.split()[:MOST_WORDS])
    ending = "?" if kept.endswith(("?", "？")) else ""
    while (shorter := _TAILS.sub("", _LEADS.sub("", kept))) != kept:
        kept = shorter
    return kept + ending if kept else ""


def _folded(text: str) -> str:
    """Return the text for comparison, character by character."""
    folded = "".join(low if len(low := each.lower()) == 1 else each for each in text)
    return folded.replace("’", "'")


@cache
def _patterns(name: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(line) for line in lines(name))


# The state of a conversation: flat JSON with a slot for each result.

MOST_TOKENS: Final = 100  # maximum tokens of a state
COVERED: Final = "turns"  # the slot with the last turn that the state covers; models do not see it
_LISTS: Final = ("decisions", "open")
_MOST_LISTED: Final = 6  # maximum entries of a list, the newest
_LONGEST: Final = 90  # maximum characters of a value
_KEY = Pattern(r"[a-z][a-z0-9_]{0,30}")
Unfit = Callable[[str], bool]  # whether a text must not enter a prompt


def state_of(
    messages: Sequence[Message],
    facts: Sequence[MemoryItem],
    previous: Mapping[str, Any],
    *,
    unfit: Unfit = lambda _: False,
) -> dict[str, Any]:
    """Update a state from messages and facts, both oldest first: topic, budget, decisions, open, more.

    The further slots are the facts' attributes of the user (`home`, `diet`, ...). No model is called; newer values
    replace older ones. Unfit messages and values are left out; only messages of user and assistant count.
    """
    told = Told.of(_lines_of(previous, "decisions"), _lines_of(previous, "open"))
    fit = [each for each in messages if each.role in ("user", "assistant") and not unfit(each.content)]
    for message in fit:
        told.hear(message)
    state: dict[str, Any] = {**previous}
    stated = [item for item in facts if not unfit(item.memory)]
    topic = topic_of([each.content for each in fit if each.role == "user"], str(previous.get("topic") or ""))
    budget = told.budget or next(filter(None, map(_budget, reversed(stated))), None)
    found = {"topic": topic, "budget": budget, "decisions": told.decisions, "open": told.open, **_slots(stated)}
    state.update({key: value for key, value in found.items() if value is not None})
    return bounded(state, unfit=unfit)


def bounded(state: Mapping[str, Any], *, unfit: Unfit = lambda _: False) -> dict[str, Any]:
    """Return a state for storage: the four slots first, flat values on one line, within `MOST_TOKENS`.

    If it is too long, further slots are dropped first, then the oldest entries of the lists. Nested, unfit and empty
    values are left out.
    """
    given = {"topic": None, "budget": None, "decisions": [], "open": [], **state}
    kept: dict[str, Any] = {}
    for key, value in given.items():
        if key != COVERED and _KEY.fullmatch(key):
            flat = _flat(value, unfit, listed=key in _LISTS)
            if flat or key in _LISTS:
                kept[key] = flat
    further = [key for key in kept if key not in ("topic", "budget", *_LISTS)]
    while _cost(kept) > MOST_TOKENS and (further or any(kept[key] for key in _LISTS)):
        if further:
            del kept[further.pop(0)]
        else:
            longest = max(_LISTS, key=lambda key: len(kept[key]))
            del kept[longest][0]
    covered = state.get(COVERED)
    if isinstance(covered, int) and not isinstance(covered, bool) and covered > 0:
        kept[COVERED] = covered
    return kept if any(kept.values()) else {}


def rendered(state: Mapping[str, Any]) -> str:
    """Return the state as a block for a prompt, data between delimiters; "" if it is empty."""
    shown = {key: value for key, value in state.items() if key != COVERED and value}
    return framed(f"{STATE}\n{_line(shown)}") if shown else ""


def words_of(state: Mapping[str, Any]) -> list[str]:
    """Return the texts in a state, one by one, as somebody who repeats them would say them."""
    shown = [value for key, value in state.items() if key != COVERED]
    values = [each for value in shown for each in (value if isinstance(value, list) else [value])]
    return [each for each in values if isinstance(each, str) and each.strip()]


def _line(state: Mapping[str, Any]) -> str:
    return one_line(json.dumps(dict(state), ensure_ascii=False))


def _cost(state: Mapping[str, Any]) -> int:
    """Return the tokens of a state; JSON's punctuation counts as half a word for each value."""
    values = sum(len(value) if isinstance(value, list) else 1 for value in state.values())
    return estimate_tokens(_line(state)) + (len(state) + values) // 2


def _flat(value: Any, unfit: Unfit, *, listed: bool) -> Any:
    """Return a number, a text on one line, or a list of such texts, the newest; None for anything else."""
    if isinstance(value, (list, tuple)) or listed:
        entries = value if isinstance(value, (list, tuple)) else [value]
        single = [each for each in entries if not isinstance(each, (list, tuple))]
        texts = [text for each in single if (text := _flat(each, unfit, listed=False)) is not None]
        return list(dict.fromkeys(map(str, texts)))[-_MOST_LISTED:]
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, str) or unfit(value):
        return None
    return _cut(one_line(value)) or None


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return text[: _LONGEST - 1].rsplit(" ", 1)[0] + "…"


def _lines_of(state: Mapping[str, Any], key: str) -> list[str]:
    value = state.get(key)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _budget(item: MemoryItem) -> str | None:
    """Return the amount in a fact about a budget."""
    told = Told.of([], [])
    told.hear(Message("user", item.memory))
    return told.budget


def _slots(facts: Sequence[MemoryItem]) -> dict[str, str]:
    """Return the facts' attributes of the user; the newest fact of an attribute counts."""
    found: dict[str, str] = {}
    for item in facts:
        reading = read(item.memory)
        if reading.party.kind == "user" and not reading.topic and reading.slots:
            if not (reading.mood.negated or reading.mood.ended):
                for slot in reading.slots:
                    _put(found, slot.attribute, reading.text[slot.start : slot.end])
        elif item.slots is not None and item.slots.polarity and item.slots.subject.casefold() in ("user", ""):
            _put(found, item.slots.attribute, item.slots.value)
    return found


def _put(found: dict[str, str], attribute: str, value: str) -> None:
    key = re.sub(r"[^a-z0-9]+", "_", attribute.casefold()).strip("_")
    if value and key not in ("topic", "budget", COVERED, *_LISTS):
        found.pop(key, None)  # so that the newest come last, and are dropped last
        found[key] = value


def joined(older: Mapping[str, Any], newer: Mapping[str, Any], *, unfit: Unfit = lambda _: False) -> dict[str, Any]:
    """Merge two successive states: the lists are concatenated, and other values taken from the newer."""
    lists = {key: [*_lines_of(older, key), *_lines_of(newer, key)] for key in _LISTS}
    return bounded({**older, **newer, **lists}, unfit=unfit)


# A request's messages without those that the state covers: chat messages, or Responses items.

_INSTRUCTING = ("system", "developer")


def turns_of(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return where turns begin: at a user message that follows anything but user messages or instructions."""
    begins: list[int] = []
    talking = False
    for place, message in enumerate(messages):
        role = message.get("role")
        if role == "user" and not talking:
            begins.append(place)
        if role not in _INSTRUCTING:
            talking = role == "user"
    return begins


def turn_count(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of turns."""
    return len(turns_of(messages))


def compressed(messages: list[dict[str, Any]], state: Mapping[str, Any], keep_turns: int) -> list[dict[str, Any]]:
    """Return the last `keep_turns` turns, and the older ones as the state, in a message after the instructions.

    System and developer messages stay. A tool's result stays with its call, by keeping more turns if necessary. Returns
    the very same list if the state is empty or nothing is older.
    """
    begins = turns_of(messages)
    block = rendered(state)
    if not block or len(begins) <= keep_turns:
        return messages
    cut = _whole(messages, begins, len(begins) - keep_turns)
    older = [message for message in messages[:cut] if message.get("role") not in _INSTRUCTING]
    if not older:
        return messages
    kept = [message for message in messages[:cut] if message.get("role") in _INSTRUCTING]
    return [*kept, {"role": "system", "content": block}, *messages[cut:]]


def _whole(messages: Sequence[Mapping[str, Any]], begins: Sequence[int], turn: int) -> int:
    """Return where to cut, at this turn or an earlier one, so that no tool result loses its call."""
    while turn > 0:
        cut = begins[turn]
        called = {id for message in messages[:cut] for id in _calls(message)}
        if not any(_answers(message) in called for message in messages[cut:]):
            return cut
        turn -= 1
    return 0


def _calls(message: Mapping[str, Any]) -> list[str]:
    """Return the ids of a message's tool calls."""
    calls = message.get("tool_calls")
    ids = [call.get("id") for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    if str(message.get("type", "")).endswith("_call"):
        ids += [message.get("call_id"), message.get("id")]
    return [id for id in ids if isinstance(id, str)]


def _answers(message: Mapping[str, Any]) -> str | None:
    """Return the id of the call that a message answers."""
    id = message.get("tool_call_id")
    if str(message.get("type", "")).endswith("_output"):
        id = message.get("call_id")
    return id if isinstance(id, str) else None


SUMMARY_TOKENS: Final = 256  # maximum tokens of a summary


def summary_facts(facts: Sequence[str], budget: int = SUMMARY_TOKENS) -> list[int]:
    """Return the places of the newest facts that fit into a summary, oldest first."""
    costs = [math.ceil(TOKENS_PER_WORD * len(fact.split())) for fact in reversed(facts)]
    return sorted(len(facts) - 1 - place for place in fit(costs, budget))


def summary_text(facts: Sequence[str]) -> str:
    """Write a summary without a model: the facts, a sentence each, those of one subject together."""
    subjects = list(dict.fromkeys(_subject(fact) for fact in facts))
    ordered = sorted(facts, key=lambda fact: subjects.index(_subject(fact)))
    return " ".join(_sentence(fact) for fact in ordered)


def _subject(fact: str) -> str:
    words = fact.split()
    return " ".join(words[:2]) if words and words[0].endswith(("'s", "’s")) else (words[0] if words else "")


def _sentence(text: str) -> str:
    line = " ".join(text.split())
    return line if line.endswith((".", "!", "?", "…")) else f"{line}."
