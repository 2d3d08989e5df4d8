"""Rescore the candidates of one query: words and letters, recency, diversity, and repeats left out."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import MemoryItem, Slots
from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import split_words, undrawn
from perdure.pipeline.lexicon import word_set, words
from perdure.pipeline.retrieval.features import QUESTION_MARKS, SENTENCE_END, read_unit
from perdure.pipeline.retrieval.weights import RECENCY_WEIGHT, TRADE

# --- Words and letters beside meaning

# Min-max scaling: scores of any unit as relevance in [0, 1] within one batch of candidates.


def min_max(scores: Sequence[float]) -> list[float]:
    """Return (score - worst) / (best - worst), in order: the best is 1, the worst 0.

    Scores may have any finite unit, as logits have. Equal scores, also a single one, are 1, because 0 would drop the
    only memory found under any threshold.
    """
    if not scores:
        return []
    worst, best = min(scores), max(scores)
    if best == worst:
        return [1.0] * len(scores)
    return [(score - worst) / (best - worst) for score in scores]


MEANING, WORDS, LETTERS = 0.7, 0.2, 0.1  # weights of cosine, BM25 and 3-gram likeness in mode `weighted`
RRF_K: Final = 60  # added to a rank before it is inverted (Cormack, Clarke and Buettcher 2009)
K1, B = 1.2, 0.75  # BM25's saturation of a repeated word, and its share of the text's length
GRAM: Final = 3  # letters in a gram


def hybrid(query: str, texts: Sequence[str], cosines: Sequence[float], mode: str = "weighted") -> list[float]:
    """Return a score in [0, 1] for each candidate, in order; `cosines` are clipped to [0, 1].

    `weighted` is .7 cosine + .2 BM25 + .1 3-gram Jaccard, with BM25 by min-max over texts with a word of the query.
    `rrf` is the sum of 1 / (60 + rank) over the three rankings, with ties sharing a rank and a score of 0 having none,
    divided by the best possible sum, 3/61. Undivided, as in the reference, it never exceeds .05 and every cosine
    threshold would drop all. Any other mode is `weighted`. InvalidInputError unless there is a cosine for each text.
    """
    if len(cosines) != len(texts):
        raise InvalidInputError(
            f"hybrid needs a cosine for each of {len(texts)} texts, not {len(cosines)}",
            field="cosines",
            value=len(cosines),
        )
    meaning = [min(1.0, max(0.0, cosine)) for cosine in cosines]
    words = bm25(query, texts)
    letters = [gram_likeness(query, text) for text in texts]
    if mode == "rrf":
        best = 3 / (RRF_K + 1)
        shares = (_reciprocal_ranks(arm) for arm in (meaning, words, letters))
        return [min(1.0, sum(each) / best) for each in zip(*shares, strict=True)]
    scaled = _scaled_hits(words)
    return [
        MEANING * cosine + WORDS * word + LETTERS * letter
        for cosine, word, letter in zip(meaning, scaled, letters, strict=True)
    ]


def bm25(query: str, texts: Sequence[str]) -> list[float]:
    """Return BM25 of each text for the query's words, each counted once; 0 without a common word.

    Tokens are lower-case letters and digits. Document frequency and mean length are those of `texts`; idf = ln((N - n +
    .5) / (n + .5) + 1), which is never negative.
    """
    asked = dict.fromkeys(_tokens(query))
    counts = [Counter(_tokens(text)) for text in texts]
    lengths = [count.total() for count in counts]
    mean = sum(lengths) / len(lengths) if lengths else 0.0
    holders = {token: sum(token in count for count in counts) for token in asked}
    idf = {token: math.log((len(texts) - held + 0.5) / (held + 0.5) + 1) for token, held in holders.items()}
    scores = []
    for count, length in zip(counts, lengths, strict=True):
        weight = K1 * (1 - B + B * length / mean) if mean else K1
        scores.append(sum(idf[token] * count[token] * (K1 + 1) / (count[token] + weight) for token in asked))
    return scores


def gram_likeness(query: str, text: str) -> float:
    """Return the Jaccard similarity of two texts' letter trigrams, in [0, 1], for misspelt and inflected words."""
    asked, held = _grams(query), _grams(text)
    return len(asked & held) / len(asked | held) if asked and held else 0.0


def _tokens(text: str) -> list[str]:
    return split_words(text.lower())


def _grams(text: str) -> set[str]:
    """Return the character trigrams; a shorter text is a gram by itself."""
    lowered = text.lower().strip()
    return {lowered[start : start + GRAM] for start in range(max(1, len(lowered) - GRAM + 1))} - {""}


def _scaled_hits(scores: Sequence[float]) -> list[float]:
    """Scale values above 0 by min-max; the others stay 0."""
    scaled = iter(min_max([score for score in scores if score > 0]))
    return [next(scaled) if score > 0 else 0.0 for score in scores]


def _reciprocal_ranks(scores: Sequence[float]) -> list[float]:
    """Return 1 / (60 + rank), the best at rank 1; 0 for a score of 0, which the arm did not find."""
    first: dict[float, int] = {}
    for rank, score in enumerate(sorted(scores, reverse=True), start=1):
        first.setdefault(score, rank)
    return [1 / (RRF_K + first[score]) if score > 0 else 0.0 for score in scores]


# --- Recency

# What age does to a score, in the two formulas of the specs: both say 30 days and mean different things.
#
# 001's is a half-life that multiplies the score, 002's an e-fold whose value is blended with it.
# After 30 days 001 leaves .5 of a score, while 002's recency is .368 and moves the score by its weight alone.

E_FOLD_DAYS: Final = 30.0  # days in which recency falls to 1/e
HALF_LIFE_DAYS: Final = 30.0  # days in which a score falls to its half


def recency(age_days: float, e_fold: float = E_FOLD_DAYS) -> float:
    """Return exp(-age / e_fold) in [0, 1]: 1 for new, .3679 after one e-fold.

    A negative age counts as 0. InvalidInputError for an e-fold not above 0.
    """
    _check_days(e_fold, "e_fold")
    return math.exp(-max(age_days, 0.0) / e_fold)


def blend(relevance: float, recency_score: float, weight: float = RECENCY_WEIGHT) -> float:
    """Return (1 - weight) * relevance + weight * recency; InvalidInputError for a weight outside [0, 1]."""
    if not 0 <= weight <= 1:
        raise InvalidInputError(f"recency weight must be in [0, 1], not {weight!r}", field="weight", value=weight)
    return (1 - weight) * relevance + weight * recency_score


def half_life_decay(score: float, age_days: float, half_life: float = HALF_LIFE_DAYS) -> float:
    """Return score * exp(-ln 2 * age / half_life), half of it after one half-life.

    A negative age counts as 0. InvalidInputError for a half-life not above 0.
    """
    _check_days(half_life, "half_life")
    return score * math.exp(-math.log(2) * max(age_days, 0.0) / half_life)


def _check_days(days: float, field: str) -> None:
    if not days > 0:  # so written, it refuses NaN too
        raise InvalidInputError(f"{field} must be above 0 days, not {days!r}", field=field, value=days)


ABOUT_EQUAL = 0.5
"""Share of another's score from which a memory answers a question about as well; what scores less answers another."""


Links = Mapping[str, Collection[str]]
"""For ids of memories, the ids of those that they may have replaced."""


def newer_first(
    items: Sequence[MemoryItem],
    *,
    of_now: bool = False,
    links: Links | None = None,
    marks: frozenset[str] = frozenset(),
) -> list[MemoryItem]:
    """Return the items, best first, with newer ones before those that they may have replaced, if both answer as well.

    An item moves up past items that score about as much, but not past one that replaced it. Where the question asks how
    things stand (`of_now`), what was replaced comes after all that scores about as much. Items keep their scores, so
    the scores of such a pair may rise. A link counts only to an item that was not said later; circular links count as
    none. `links` are further ones than the items' own. Of two items one of which has a name or number of the question
    (`marks`, as stems) that the other lacks, neither replaced the other.
    """
    older = _links(items, links or {}, marks)
    if not older:
        return list(items)
    ordered: list[MemoryItem] = []
    for item in items:
        ordered.insert(_place(item, ordered, older), item)
    if not of_now:
        return ordered
    places = {item.id: place for place, item in enumerate(ordered)}
    gone = {id for newer, ids in older.items() for id in ids if places[newer] < places[id]}
    for item in [item for item in ordered if item.id in gone]:
        ordered.remove(item)
        floor = ABOUT_EQUAL * (item.score or 0.0)
        behind = [place for place, other in enumerate(ordered) if (other.score or 0.0) >= floor or other.id in gone]
        ordered.insert(max(behind, default=-1) + 1, item)
    return ordered


def _links(items: Sequence[MemoryItem], further: Links, marks: frozenset[str]) -> dict[str, frozenset[str]]:
    """Return the ids that each item precedes, by direct or indirect links, without circles."""
    here = {item.id: item for item in items}
    direct: dict[str, set[str]] = {}
    for item in items:
        for id in (*item.older, *further.get(item.id, ())):
            other = here.get(id)
            if other is None or other is item or item.told_at < other.told_at:
                continue
            if marks and topics(item.memory) & marks != topics(other.memory) & marks:
                continue
            direct.setdefault(item.id, set()).add(id)
    reached = {id: _reached(id, direct) for id in direct}
    return {
        id: frozenset(each for each in ids if id not in reached.get(each, ())) - {id} for id, ids in reached.items()
    }


def _reached(start: str, direct: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(direct[start])
    while waiting:
        id = waiting.pop()
        if id not in found:
            found.add(id)
            waiting += direct.get(id, ())
    return found


def _place(item: MemoryItem, ordered: Sequence[MemoryItem], older: Mapping[str, frozenset[str]]) -> int:
    """Return the item's place: at the end, or before the first that it may have replaced."""
    mine = older.get(item.id, frozenset())
    score = item.score or 0.0
    place = len(ordered)
    for position in range(len(ordered) - 1, -1, -1):
        other = ordered[position]
        if score < ABOUT_EQUAL * (other.score or 0.0) or item.id in older.get(other.id, ()):
            break
        if other.id in mine:
            place = position
    return place


USER = "user"  # the subject of what is about the user, as it stands in slots

# --- Messages beside what was read out of them

SAYS_WHOLE = 0.9
"""Share of a message's topic words that its facts and notes must hold to stand for it. Of a hundred answers in the talk
sets (docs/adr/0042), about one fewer was among five results with .75, and two to five with .6."""

TELLS_AGAIN = 0.75
"""Share of a memory's topic words in a message that tells it again."""

LEAST_WORDS = 5  # of a statement; a greeting or an exclamation beside a question tells nothing
MOST_WORDS = 20
"""Of a text that only asks; a longer question tells what it is asked about ("I've saved 5,000 for the trip in May, can
you ...?"). Without this bound .47 of BEAM's evidence was among ten results in place of .66."""


def message_links(items: Sequence[MemoryItem], known: Sequence[MemoryItem] = ()) -> dict[str, set[str]]:
    """Return what facts and notes, and the messages that they came from, replace beyond the links of the items.

    Messages have no links of their own: one that told the older of two statements is older than one that told the
    newer, and so are the earlier sources of a fact whose text was changed, if nothing else was read out of them (those
    come last: `said_once`). `known` are memories that are not among the items.
    """
    here = {item.id: item for item in (*known, *items)}
    read_out = _read_out(here.values())
    found: dict[str, set[str]] = {}
    for item in items:
        if item.is_said:
            continue
        told_last = item.sources[-1:]
        earlier = item.sources[:-1] if item.version > 1 else ()
        replaced = {id for id in earlier if all(each is item for each in read_out.get(id, ()))}
        for id in item.older:
            replaced |= {id, *(here[id].sources if id in here else ())}
        replaced.difference_update(told_last)
        if replaced:
            for id in (item.id, *told_last):
                found.setdefault(id, set()).update(replaced)
    return found


def said_once(
    items: Sequence[MemoryItem],
    beside: Sequence[MemoryItem] = (),
    ended: Sequence[MemoryItem] = (),
    *,
    about: frozenset[str] = frozenset(),
    asked: frozenset[str] = frozenset(),
    of_now: bool = True,
    in_prompt: bool = False,
) -> list[MemoryItem]:
    """Return the items, best first, without messages whose facts and notes say them whole, or say what holds now.

    The best of these takes the message's place, with its score if that is higher, if it answers about as well. A
    message that says more stands behind a fact of it that answers about as well, and before all else that was read out
    of it. At the end come messages that only ask, or ask of what the question is `about` (topic words, as stems): they
    resemble the next question most, and answer none. So do those of which something no longer holds; if nothing does,
    because of what was said later, only where the question is not `of_now` or asks for a name (`asked`, as stems) that
    they alone have. `beside` are no results, `ended` no longer hold. What comes last is left out `in_prompt`.
    """
    results = {item.id for item in items}
    read_out = _read_out([*items, *(item for item in (*beside, *ended) if item.id not in results)])
    past = {item.id for item in ended}
    ordered: dict[str, MemoryItem] = {}
    repeats: dict[str, MemoryItem] = {}
    last: dict[str, MemoryItem] = {}
    for item in items:
        if item.id in ordered or item.id in repeats:
            continue
        of_it = read_out.get(item.id, []) if item.is_said else []
        if item.is_said and (asks_of(item.memory, about) or (not of_it and only_asks(item.memory))):
            last[item.id] = item
            continue
        standing = [each for each in of_it if each.id not in past and not _is_superseded(item, each)]
        floor = ABOUT_EQUAL * (item.score or 0.0)
        good = [
            each
            for each in (standing or of_it)
            if each.id in results and (each.score or 0.0) >= floor and each.id not in repeats
        ]
        if not of_it:
            ordered[item.id] = item
        elif (
            not standing
            and any(len(each.sources) > 1 for each in of_it)
            and (not of_now or _alone_has(item, of_it, asked))
        ):
            ordered.update((each.id, _in_place_of(item, each)) for each in good[:1] if each.id not in ordered)
            last.update((each.id, each) for each in (*of_it, item) if each.id not in past)
        elif standing and not says_whole(standing, item):
            if len(standing) < len(of_it):  # some of it holds no longer
                last[item.id] = item
                continue
            fact = next((each for each in good if each.kind == "facts"), None)
            if fact is not None:
                ordered.setdefault(fact.id, _in_place_of(item, fact))
            ordered[item.id] = item
            repeats.update((each.id, each) for each in standing if each.id in results and each.id not in ordered)
        elif good:
            ordered.setdefault(good[0].id, _in_place_of(item, good[0]))
        elif standing:
            # It ranks by the turns around it: good enough for a result, not for the first.
            told = [each for each in standing if each.id in ordered]
            if ordered and not (told and says_whole(told, item)):
                ordered[item.id] = item
        elif len(statements(item.memory)) > 1:  # nothing holds of what was read out of it
            last[item.id] = item
        else:
            last.update((each.id, each) for each in of_it if each.id not in past)
    placed = {*ordered, *repeats}
    last = {id: item for id, item in last.items() if id not in placed and not (in_prompt and item.is_said)}
    lowest = min((item.score or 0.0 for item in ordered.values()), default=1.0)
    behind = [_scored(item, min(item.score or 0.0, lowest)) for item in (*repeats.values(), *last.values())]
    return [*ordered.values(), *behind]


def _alone_has(message: MemoryItem, read_out: Iterable[MemoryItem], asked: frozenset[str]) -> bool:
    """Whether a message has all that is asked for by name, and nothing that was read out of it has."""
    return (
        bool(asked) and asked <= topics(message.memory) and not any(asked <= topics(each.memory) for each in read_out)
    )


def _in_place_of(message: MemoryItem, fact: MemoryItem) -> MemoryItem:
    """Return a fact with the score of the message that it stands for, or before, if that is higher."""
    return _scored(fact, max(fact.score or 0.0, message.score or 0.0))


def _scored(item: MemoryItem, score: float) -> MemoryItem:
    if item.score == score:
        return item
    explained = None if item.explanation is None else {**item.explanation, "score": score}
    return item.with_(score=score, explanation=explained)


def only_asks(text: str) -> bool:
    """Whether a short text's sentences are questions or too short to say much ("Nice! And then?")."""
    asks = any(mark in text for mark in QUESTION_MARKS) and not statements(text)
    return asks and len(split_words(text)) <= MOST_WORDS


SHORT = 12  # words of a message that may say nothing; a longer one has a word of some matter
_LAUGHS = Pattern(r"(?:b?[ha]{3,}|[he]{4,}|l+o+l+|l+m+f?a+o+|r+o+f+l+|x+d+|h+m+|a+h+|o+h+|u+h+|e+r+m*|u+m+|a+w+|k+)")
_RIDDLE = Pattern(
    r"\A[^?]{8,160}\?[^?]{2,160}(?:\b(?:lo+l|lmao|rofl|(?:ha){2,}h?|(?:he){2,})\b|[\U0001f602\U0001f923\U0001f606])\W*\Z",
    re.IGNORECASE,
)
_OF_ONESELF = Pattern(r"\b(?:i|me|my|mine|we|us|our)\b", re.IGNORECASE)


def says_nothing(text: str) -> bool:
    """Whether a message has no word of any matter ("thx", "lol ok"), or is a riddle with its answer and a laugh."""
    said = split_words(text.casefold().replace("’", "'"), joined_by="'")
    if len(said) <= SHORT and all(_is_small(word) for word in said):
        return True
    return _RIDDLE.search(text) is not None and _OF_ONESELF.search(text) is None


def _is_small(word: str) -> bool:
    if _LAUGHS.fullmatch(word):
        return True
    small = words("recall_stopwords.txt") | word_set("talk.small")
    return bool({word, *undrawn(word)} & small)


def asks_of(text: str, about: frozenset[str]) -> bool:
    """Whether a text asks of a matter and tells nothing of it ("Where did I work before? My CV needs a polish")."""
    sentences = [sentence.strip() for sentence in SENTENCE_END.split(text)]
    asking = [each for each in sentences if each.endswith(QUESTION_MARKS) and len(split_words(each)) <= MOST_WORDS]
    told = " ".join(each for each in sentences if each not in asking)
    return bool(asking and topics(" ".join(asking)) & about) and not topics(told) & about


def statements(text: str) -> list[str]:
    """Return the sentences of a text that ask nothing and have some length."""
    sentences = (sentence.strip() for sentence in SENTENCE_END.split(text))
    return [
        sentence
        for sentence in sentences
        if not sentence.endswith(QUESTION_MARKS) and len(split_words(sentence)) >= LEAST_WORDS
    ]


def says_whole(items: Sequence[MemoryItem], message: MemoryItem) -> bool:
    """Whether facts and notes hold nearly all words of a message that have a topic."""
    told = topics(message.memory)
    held = frozenset[str]().union(*(topics(item.memory) for item in items))
    return len(told & held) >= SAYS_WHOLE * len(told)


def tells_again(memory: frozenset[str], message: frozenset[str]) -> bool:
    """Whether a message tells what a memory says, from the `topics` of both: most of its words, or a number of it.

    Years count as words only: they are told of many things.
    """
    held = memory - {USER}
    shared = held & message
    if any(_is_telling_number(word) for word in shared):
        return True
    return bool(held) and len(shared) >= TELLS_AGAIN * len(held)


def _is_telling_number(word: str) -> bool:
    digits = sum(character.isdigit() for character in word)
    return digits >= 3 and not (digits == len(word) == 4 and word[:2] in ("19", "20"))


def adds_to(standing: Sequence[MemoryItem], message: MemoryItem, best: float) -> bool:
    """Whether a message has its place in a prompt beside what stands there anyway, of which some was read out of it.

    It has none if that says it whole, or if it answers less well than the best result, whose score is `best`.
    """
    read_out = [item for item in standing if message.id in item.sources]
    if not read_out:
        return True
    return (message.score or 0.0) >= ABOUT_EQUAL * best and not says_whole(read_out, message)


def _read_out(items: Iterable[MemoryItem]) -> dict[str, list[MemoryItem]]:
    """Return the facts and notes by the messages that they came from."""
    found: dict[str, list[MemoryItem]] = {}
    for item in items:
        if not item.is_said:
            for source in item.sources:
                found.setdefault(source, []).append(item)
    return found


def _is_superseded(message: MemoryItem, fact: MemoryItem) -> bool:
    """Whether a fact of a message was changed since: by a later message, or by hand to a text of other words."""
    if fact.version == 1:
        return False
    if len(fact.sources) > 1:
        return fact.sources[-1] != message.id
    said = topics(fact.memory) - {USER}
    return 2 * len(said & topics(message.memory)) <= len(said)


def topics(text: str) -> frozenset[str]:
    """Return the stems of a text's words, without those that say little."""
    return frozenset(read_unit(text).stems)


def without_retold(items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the items without facts and notes that come after a message that they were read out of."""
    said: set[str] = set()
    kept = []
    for item in items:
        if item.is_said:
            said.add(item.id)
        elif not said.isdisjoint(item.sources):
            continue
        kept.append(item)
    return kept


# --- Diversity and repeats

# Repeats: of wordings that say the same, only the best is told (five ways to like coffee are one memory).


def without_repeats(texts: Sequence[tuple[str, Slots | None]]) -> list[int]:
    """Return the places of the texts that add something to those before them.

    Two texts say the same if they are about the user, with equal canonical attribute and value, whatever the wording:
    "User loves coffee" and "User is fond of coffee" do, "User visited Rome in 2021" and "in 2023" do not. Texts about
    others always stay, because a subject's own details are not in its slots ("house number 7"). Each text comes with
    its known slots; for None they are read. A text without slots repeats nothing.
    """
    said: set[tuple[str, str, bool]] = set()
    kept: list[int] = []
    for place, (text, known) in enumerate(texts):
        key = _key(known or _read(text))
        if key is None or key not in said:
            kept.append(place)
        if key is not None:
            said.add(key)
    return kept


def _key(slots: Slots | None) -> tuple[str, str, bool] | None:
    if slots is None or slots.subject != USER or not slots.value.strip():
        return None
    return slots.attribute, " ".join(slots.value.casefold().split()), slots.polarity


@lru_cache(maxsize=4_096)
def _read(text: str) -> Slots | None:
    """Return the slots of a text about the user, which must contain that word."""
    if text.isascii() and USER not in text.lower():
        return None
    from perdure.pipeline.curation.rules.slots import read_slots  # its patterns take 50 ms to compile

    return read_slots(text)


_DECIMALS: Final = 9
"""Similarities are rounded to so many: equal vectors must tie, and a matrix product may differ in its last bits."""

Vector = NDArray[np.floating]


def mmr(
    relevance: Sequence[float], vectors: Sequence[Vector | None] | Vector, limit: int, trade: float = TRADE
) -> list[int]:
    """Return the places of at most `limit` candidates in order of selection, the most relevant first.

    Each next one maximises trade * relevance - (1 - trade) * (largest cosine to a selected one), ties by place
    (Carbonell and Goldstein 1998). A trade of 1 is the ranking by relevance. `vectors` has a row of any length for each
    candidate, shape (n, d); None, zeros, or another width than the first is similar to nothing. O(n * d * limit).
    InvalidInputError for a trade outside [0, 1], a negative limit, or missing rows.
    """
    count = len(relevance)
    if not 0 <= trade <= 1:
        raise InvalidInputError(f"mmr trade must be in [0, 1], not {trade!r}", field="trade", value=trade)
    if limit < 0:
        raise InvalidInputError(f"mmr limit must not be negative: {limit!r}", field="limit", value=limit)
    if len(vectors) != count:
        raise InvalidInputError(
            f"mmr needs a vector or None for each of {count} candidates, not {len(vectors)}",
            field="vectors",
            value=len(vectors),
        )
    if not count or not limit:
        return []
    units = _units(vectors)
    worth = np.asarray(relevance, dtype=np.float64)
    free = np.ones(count, dtype=bool)
    nearest = np.full(count, -1.0)
    selected = [int(np.argmax(worth))]  # not weighed by the trade, or a trade of 0 would begin with any
    while len(selected) < min(limit, count):
        free[selected[-1]] = False
        nearest = np.maximum(nearest, np.round(units @ units[selected[-1]], _DECIMALS))
        selected.append(int(np.argmax(np.where(free, trade * worth - (1 - trade) * nearest, -np.inf))))
    return selected


def _units(vectors: Sequence[Vector | None] | Vector) -> NDArray[np.float64]:
    """Return the rows at length 1, with zeros for a candidate without a usable vector: shape (n, d)."""
    width = next((len(vector) for vector in vectors if vector is not None), 0)
    rows = np.zeros((len(vectors), width))
    for place, vector in enumerate(vectors):
        if vector is not None and len(vector) == width:
            rows[place] = vector
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    return rows
