"""Derive insights from several memories by rules alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Final

from perdure.domain.maintenance import Experience, Insight
from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import words
from perdure.pipeline.curation.rules.slots import read
from perdure.pipeline.lexicon import words as entries
from perdure.pipeline.retrieval.standing_facts import is_standing

# Wishes for how to be answered, and lessons for the next time.

REFLECTIVE = "reflective"
_WISH = Pattern(r"^User\s+(?:prefers|wants|expects|would like|would rather have)\s+(?P<wish>.+)$", re.I | re.S)
_ANSWER = Pattern(r"\b(?:answers?|responses?|repl(?:y|ies)|explanations?|instructions|steps|advice)\b", re.I)
_FAULT = Pattern(
    r"\b(?:incorrect|wrong|incomplete|outdated|unhelpful|misleading|insufficient|too (?:long|short|vague|brief))\b",
    re.I,
)
_NEXT_TIME = Pattern(r"\bnext time\b[\s,:]*(?P<rest>.+)$", re.I | re.S)


def lessons(memories: Sequence[Experience]) -> list[Insight]:
    """Return wishes for how to be answered, and lessons, from single memories, one for each text, oldest first.

    A memory of type `reflective` is one or the other; any other memory only if it is plainly about answers.
    """
    found: dict[str, Insight] = {}
    for memory in memories:
        content = _style(memory.text) or _lesson(memory)
        if content is None:
            continue
        earlier = found.pop(content.casefold(), None)
        found[content.casefold()] = Insight(
            content=content,
            pattern="style" if content.startswith("Response style") else "lesson",
            count=max(len(memory.tellings), 1) + (earlier.count if earlier else 0),
            memory_ids=(*(earlier.memory_ids if earlier else ()), memory.id),
        )
    return sorted(found.values(), key=lambda insight: insight.pattern != "style")


def _style(text: str) -> str | None:
    wish = _WISH.match(text)
    if wish is not None and (_styles().search(wish["wish"]) or is_standing(text)):
        return f"Response style: {wish['wish'].rstrip(' .')}"
    return f"Response style: {text.rstrip(' .')}" if is_standing(text) else None


def _lesson(memory: Experience) -> str | None:
    if memory.type != REFLECTIVE and not (_ANSWER.search(memory.text) and _FAULT.search(memory.text)):
        return None
    rest = _NEXT_TIME.search(memory.text)
    return f"Lesson: {(rest['rest'] if rest else memory.text).rstrip(' .')}"


@cache
def _styles() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, entries('insight_styles.txt'))))})\b", re.I)


# How often something was said: counted by messages, because one memory may stand for many.

_SHARED: Final = 5  # minimum letters that two forms of one word share
_SENTENCE = Pattern(r"[^.!?\n]+[.!?]*")
_DENIED = Pattern(r"\b(?:not|never|no|without)\b|n't\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Telling:
    """One sentence: its message, and its stems."""

    message: str
    stems: frozenset[str]


def read_tellings(messages: Iterable[tuple[str, str]]) -> list[Telling]:
    """Return the sentences of messages, given by id and text; without questions and denials."""
    found: list[Telling] = []
    for id, text in messages:
        for sentence in _SENTENCE.findall(text):
            if not sentence.rstrip().endswith("?") and not _DENIED.search(sentence):
                found.append(Telling(id, frozenset(words(sentence))))
    return found


def told(members: Sequence[Experience], stems: frozenset[str], tellings: Sequence[Telling]) -> int:
    """Return how often it was said: in these memories' messages (at least once each), and in others with all stems."""
    known = frozenset[str]().union(*(member.tellings for member in members))
    return len(known | {telling.message for telling in tellings if stems <= telling.stems})


def is_topic(word: str) -> bool:
    """Whether a word carries a topic."""
    return word.casefold() not in entries("recall_stopwords.txt")


def speaks_of(topic: str, text: str) -> bool:
    """Whether a text has a word of the topic, in any form: "deploys" matches "deployment"."""
    asked = [stem for word in topic.split() if is_topic(word) for stem in words(word)] or words(topic)
    return any(_akin(one, other) for one in asked for other in words(text))


def _akin(one: str, other: str) -> bool:
    """Whether two stems are forms of one word: they differ in no more than their last letter or two."""
    shared = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return one == other or (
        shared >= _SHARED and shared >= min(len(one), len(other)) - 1 and abs(len(one) - len(other)) < 3
    )


# How the user does what they do: "Preferred approach: docker-compose".

PREFERRED: Final = 2  # mentions from which a way of doing something counts as preferred
_WAY = Pattern(r"\b(?:using|via|by means of|prefers? to use|prefers? using|always uses?)\s+", re.IGNORECASE)
_WITH = Pattern(r"\bwith\s+", re.IGNORECASE)
_WORD = Pattern(r"[^\W_][\w.+#-]*")
_ARTICLES = frozenset({"a", "an", "the", "their", "his", "her", "its"})
_LONGEST = 2  # maximum words of a way


@dataclass(slots=True)
class _Way:
    shown: str = ""
    members: dict[str, Experience] = field(default_factory=dict)
    matters: set[str] = field(default_factory=set)  # the verbs of what is done this way


def approaches(memories: Sequence[Experience], tellings: Sequence[Telling] = ()) -> list[Insight]:
    """Return ways of doing something mentioned at least `PREFERRED` times, most first; only the top one for each."""
    ways: dict[tuple[str, ...], _Way] = {}
    for memory in memories:
        verb = next((word for word in memory.text.casefold().split() if word in entries("insight_work.txt")), "")
        for shown in _ways(memory.text, works=bool(verb)):
            way = ways.setdefault(tuple(words(shown)), _Way())
            way.shown = shown
            way.members[memory.id] = memory
            way.matters |= set(words(verb))
    counts = {stems: told(list(way.members.values()), frozenset(stems), ()) for stems, way in ways.items()}
    insights: list[Insight] = []
    for stems, way in ways.items():
        rivals = [counts[other] for other, each in ways.items() if other != stems and way.matters & each.matters]
        if counts[stems] >= PREFERRED and all(rival < counts[stems] for rival in rivals):
            count = max(counts[stems], *(told(list(way.members.values()), frozenset({*stems, verb}), tellings)
                                         for verb in way.matters or {""}))  # fmt: skip
            content = f"Preferred approach: {way.shown}"
            insights.append(Insight(content=content, pattern="approach", count=count, memory_ids=tuple(way.members)))
    return sorted(insights, key=lambda insight: (-insight.count, insight.content))


def _ways(text: str, *, works: bool) -> Iterator[str]:
    starts = [found.end() for found in _WAY.finditer(text)]
    if works:  # "with" only counts for work: a tennis partner is not a way of doing something
        starts += [found.end() for found in _WITH.finditer(text)]
    for start in starts:
        shown = _name(text, start)
        if shown:
            yield shown


def _name(text: str, start: int) -> str:
    """Return the words from a position that name something, at most two, without an article before them."""
    found: list[str] = []
    end = start
    for word in _WORD.finditer(text, start):
        if not found and word[0].casefold() in _ARTICLES:
            end = word.end()
            continue
        if text[end : word.start()].strip() or not is_topic(word[0]) or word[0].isdigit() or len(found) == _LONGEST:
            break
        found.append(word[0].rstrip(".-"))
        end = word.start() + len(found[-1])
    return " ".join(found)


# What goes wrong again and again: "Common issue: port conflicts".

COMMON: Final = 2  # mentions from which a problem counts as common
_TOKEN = Pattern(r"[^\W_][\w-]*")
_HISSING = ("s", "x", "ch", "sh", "z")


def troubles(memories: Sequence[Experience], tellings: Sequence[Telling] = ()) -> list[Insight]:
    """Return the problems that memories mention at least `COMMON` times; most mentioned first."""
    found: dict[tuple[str, ...], list[tuple[Experience, str]]] = {}
    for memory in memories:
        for phrase in dict.fromkeys(_phrases(memory.text)):
            found.setdefault(tuple(words(phrase)), []).append((memory, phrase))
    insights: list[Insight] = []
    for stems, each in found.items():
        members = list({memory.id: memory for memory, _ in each}.values())
        count = told(members, frozenset(stems), tellings)
        if count >= COMMON:
            ids = tuple(member.id for member in members)
            content = f"Common issue: {_plural(each[-1][1])}"
            insights.append(Insight(content=content, pattern="issue", count=count, memory_ids=ids))
    return sorted(insights, key=lambda insight: (-insight.count, insight.content))


def _phrases(text: str) -> Iterator[str]:
    """Yield each noun of a problem in the text with the word before it, which says what the problem is with."""
    tokens = [(found[0], found.start(), found.end()) for found in _TOKEN.finditer(text)]
    for (before, _, end), (noun, start, _) in pairwise(tokens):
        if words(noun)[-1:] and words(noun)[-1] in _nouns() and text[end:start].isspace():
            low = before.casefold()
            if is_topic(before) and low not in entries("insight_no_trouble.txt") and not low.isdigit():
                yield f"{before if not before.istitle() else low} {noun.casefold()}"


@cache
def _nouns() -> frozenset[str]:
    return frozenset(stem for noun in entries("insight_troubles.txt") for stem in words(noun))


def _plural(phrase: str) -> str:
    """The phrase with its noun in the plural: "port conflicts", "server crashes"."""
    if words(phrase)[-1] != phrase.rsplit(" ", 1)[-1] and phrase.endswith("s"):
        return phrase
    return f"{phrase}es" if phrase.endswith(_HISSING) else f"{phrase}s"


# What the user does again and again: "User frequently deploys payment-service (12 times)".

FREQUENT: Final = 3  # mentions from which an action counts as frequent
_SUBJECT = Pattern(r"^User\s+", re.IGNORECASE)
_AUXILIARIES = frozenset({"is", "was", "has", "had", "have", "been"})
_LEADING_ARTICLES = frozenset({"a", "an", "the", "their", "his", "her", "its", "some", "another", "again"})
_AFTER = Pattern(r"\s+(?:using|via|with|by)\s.*$|\s+\d.*$", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Act:
    """The action in one memory."""

    verb: str  # one form for all tenses
    phrase: str  # the verb as it is written, with its auxiliary
    matter: str
    past: bool

    @property
    def stems(self) -> frozenset[str]:
        """The stems of the verb and its object."""
        return frozenset(words(self.phrase.split()[-1])) | frozenset(words(self.matter))


def actions(memories: Sequence[Experience], tellings: Sequence[Telling] = ()) -> list[Insight]:
    """Return the user's actions mentioned at least `FREQUENT` times; most first."""
    found: dict[tuple[str, tuple[str, ...]], list[tuple[Experience, _Act]]] = {}
    for memory in memories:
        act = _act_of(memory.text)
        if act is not None:
            found.setdefault((act.verb, tuple(words(act.matter))), []).append((memory, act))
    insights: list[Insight] = []
    for each in found.values():
        members = [memory for memory, _ in each]
        stems = [act.stems for _, act in each]
        count = max(told(members, one, tellings) for one in stems)
        if count >= FREQUENT:
            shown = next((act for _, act in reversed(each) if not act.past), each[-1][1])
            insights.append(
                Insight(
                    content=f"User {_often(shown.phrase)} {shown.matter} ({count} times)",
                    pattern="count",
                    count=count,
                    memory_ids=tuple(member.id for member in members),
                )
            )
    return sorted(insights, key=lambda insight: (-insight.count, insight.content))


def _act_of(text: str) -> _Act | None:
    reading = read(text)
    mood = reading.mood
    if mood.negated or mood.ended or mood.hedged or mood.planned or mood.denied or reading.topic:
        return None
    start = _SUBJECT.match(reading.text)
    first = reading.chunks[0] if reading.chunks else None
    if start is None or first is None or reading.party.kind != "user" or first.aside or not first.concepts:
        return None
    before = reading.text[start.end() : first.start].split()
    while before and before[-1].casefold() in _LEADING_ARTICLES:
        before.pop()
    main = next((word for word in before if word.casefold() not in _AUXILIARIES), "")
    if not main or main.casefold() in entries("insight_states.txt") or len(before) > 3:
        return None
    matter = _AFTER.sub("", reading.text[first.start : first.end]).strip()
    if not words(matter):
        return None
    return _Act(reading.verb, " ".join(before), matter, mood.past)


def _often(phrase: str) -> str:
    """Return the verb with "frequently", after its auxiliary."""
    first, _, rest = phrase.partition(" ")
    return f"{first} frequently {rest}" if rest and first.casefold() in _AUXILIARIES else f"frequently {phrase}"


def insights(memories: Sequence[Experience], messages: Iterable[tuple[str, str]] = ()) -> list[Insight]:
    """Return the insights of memories, oldest first: counts, common issues, preferred approaches, styles, lessons.

    `messages`, by id and text, count repetitions that made no memory. The same memories and messages give the same
    insights.
    """
    tellings = read_tellings(messages)
    return [
        *actions(memories, tellings),
        *troubles(memories, tellings),
        *approaches(memories, tellings),
        *lessons(memories),
    ]
