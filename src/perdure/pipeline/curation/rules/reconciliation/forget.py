"""Forgetting: which memories a request to forget names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from perdure.domain.fact import Neighbour
from perdure.domain.memory import NOTES
from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.reconciliation.pairing import content, folded, generic, uncovered, values_fit
from perdure.pipeline.curation.rules.slots import USER, Reading, read
from perdure.pipeline.curation.rules.slots.scan import MAX_TEXT, fold
from perdure.pipeline.lexicon import lines, pairs
from perdure.pipeline.retrieval.words import holds_topic

# A datum that a request to forget names ("Fay's phone number"), and by what a memory of it is known: a typed value.

_DIGITS = Pattern(r"\d(?:[ .-]?\d){2,}|\b(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{5,}\b", re.IGNORECASE)
_PLACE = Pattern(
    r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b(?:https?://|www\.)\S+|\b[a-z]{1,2}\d[a-z\d]? ?\d[a-z]{2}\b|\b(?:at|address is|"
    r"lives? (?:at|on|in)) .*\d|\b\d+[a-z]? [\w' ]+\b(?:st|street|road|rd|lane|avenue|ave|row|close)\b",
    re.IGNORECASE,
)
_AGE = Pattern(
    r"\b(?:is|turns?|turned|turning|aged?|be) (?:now |already )?\d{1,3}(?:$|[,.;]| years?\b| this| in| on| next| and)|"
    r"\bhas \d{1,3} years\b|\b\d{1,3}[- ]years?[- ]old\b|\bage is \d",
    re.IGNORECASE,
)
_MONEY = Pattern(
    r"[$€£]\s?\d|\b\d[\d,.]*k?\s?(?:euros?|dollars?|pounds?|quid|bucks|grand|k|usd|eur|gbp|a (?:month|year|week|"
    r"hour))\b|\b(?:ow(?:es?|ed|ing)|earns?|earned|earning|pa(?:ys?|id)|makes?|made) .*\d",
    re.IGNORECASE,
)
_WAGE = Pattern(r"\b(?:earn\w*|salary|wages?|paid|makes?|income|takes? home|brings? home|is on) .*\d", re.IGNORECASE)
_OWED = Pattern(r"\b(?:ow(?:es?|ed|ing)|debts?|loans?|borrow\w*|behind with)\b", re.IGNORECASE)
_MAIL = Pattern(r"[^\s@]+@[^\s@]+\.\w+")
_BORN = Pattern(r"\bborn\b|\bbirth\w*", re.IGNORECASE)
_LONG = Pattern(r"\b\d(?:[.,]\d+)? ?(?:m|cm|ft|foot|feet|metres?|meters?)\b|\btall\b", re.IGNORECASE)
_WEIGHS = Pattern(r"\bweigh\w* .*\d|\d ?(?:kg|kilos?|lbs?|pounds|stone|st)\b", re.IGNORECASE)

_KINDS: dict[str, Pattern] = {
    "digits": _DIGITS,
    "place": _PLACE,
    "age": _AGE,
    "money": _MONEY,
    "wage": _WAGE,
    "debt": _OWED,
    "mail": _MAIL,
    "date": _BORN,
    "length": _LONG,
    "weight": _WEIGHS,
}
_BARE = frozenset({"age", "weight", "length", "date", "mail", "wage", "debt"})
"""Kinds by whose value alone a memory of the same party is known: "User is 79" tells an age."""


@dataclass(frozen=True, slots=True)
class Datum:
    """What a request names by its kind: the noun, the kind of its value, the words that say whose or which it is."""

    noun: str
    kind: str
    rest: str

    def told_in(self, text: str) -> bool:
        """Whether a text holds a value of the kind."""
        return _KINDS[self.kind].search(text) is not None

    @property
    def bare(self) -> bool:
        """Whether only a memory with a value of the kind can tell the datum, whatever other words it holds."""
        return self.kind in _BARE

    def known_by_value(self, matter: Reading, memory: Reading) -> bool:
        """Whether a memory of the same party tells the datum by its value alone."""
        return self.kind in _BARE and of_same(matter, memory) and not memory.topic and self.told_in(memory.text)


def of_same(matter: Reading, memory: Reading) -> bool:
    """Whether a memory is about the very party of the matter."""
    one, two = matter.party, memory.party
    return (one.kind, one.relation, one.name) == (two.kind, two.relation, two.name)


@cache
def _table() -> dict[str, str]:
    return {noun: kind for noun, kind in pairs("forget_data.tsv").items() if kind in _KINDS}


def datum(matter: str) -> Datum | None:
    """The datum that the words of a request name, or None if they name none of a known kind of value."""
    low = fold(re.sub(r"\bdate of birth\b", "birthdate", matter.strip(), flags=re.IGNORECASE)).lower()
    head, _, owner = low.partition(" of ") if " of " in low else low.partition(" for ")
    words = head.split()
    for length in (2, 1):
        noun = " ".join(words[-length:])
        if len(words) >= length and noun in _table():
            rest = " ".join([*words[:-length], *owner.split()])
            return Datum(noun, _table()[noun], rest)
    return None


NEAR = 0.45  # cosine from which the nearest memory is meant when the words alone name none

NAMED, NEAREST = 0.8, 0.1
"""Confidence where a name and half the words are shared, and how far behind the nearest such a memory may then be."""

_STRIPS = 4  # how many openings are taken off a request's matter ("everything", "that was said about")


_NAMED_ASKS = Pattern(r"^[^:]{1,80}? asked to forget ", re.IGNORECASE)
"""What the extraction writes before the matter, where the speaker has a name."""


def requested(text: str, *, marked: bool = False) -> str | None:
    """What a statement asks to forget ("their salary"), or None if it asks nothing of the kind.

    `marked`: known to be a request, whoever makes it ("Mara asked to forget the door code").
    """
    text = text.strip()[:MAX_TEXT]
    named = _NAMED_ASKS.match(text) if marked else None
    if named is not None:
        return _matter(text[named.end() :])
    for pattern in _patterns("reconcile_requests.txt"):
        match = pattern.search(text)
        if match is not None:
            group = next((group for group in match.groups() if group), None)
            return _matter(group if group is not None else text[match.end() :])
    return None


def _matter(words: str) -> str:
    """The matter of a request without what opens it; a statement that it quotes as a whole (": User ...") as it is."""
    if words.startswith(":"):
        return words
    matter = re.split(r"[,;:] | because | since ", words.strip(" .:!,"), maxsplit=1)[0]
    for _ in range(_STRIPS):
        for pattern in _patterns("reconcile_request_fillers.txt"):
            shorter = pattern.sub("", matter, count=1).strip()
            matter = shorter or matter
    return re.sub(r"\b(?:their|his|her|my)\b", "User's", matter)


@cache
def _patterns(name: str) -> tuple[re.Pattern[str], ...]:
    closed = name == "reconcile_request_fillers.txt"
    return tuple(re.compile(rf"^{line}\s+" if closed else line, re.IGNORECASE) for line in lines(name))


def holders(matter: str, memories: Sequence[Neighbour]) -> list[tuple[Neighbour, float]]:
    """The memories that hold the matter, each with a confidence; empty if none does."""
    if matter.startswith(":"):
        whole = folded(matter.lstrip(": "))
        return [(memory, 0.95) for memory in memories if folded(memory.item.memory) == whole]
    wanted = _words(_OLD.sub("", matter))
    if not wanted[0] and not wanted[1].values:
        return []
    older = _OLD.search(matter) is not None
    read_ = [(memory, read(memory.item.memory)) for memory in memories]
    found = [(memory, sure) for memory, old in read_ if (sure := _holds(wanted, old)) and not (older and _new(old))]
    named = datum(_OLD.sub("", matter))
    if named is not None:
        found = _of_datum(named, wanted, found, [each for each in read_ if not (older and _new(each[1]))])
    best = max((sure for _, sure in found), default=0.0)
    if best:
        meant = [(memory, sure) for memory, sure in found if sure >= best - 0.1]
        meant = meant if best > NAMED and not _thin(matter, wanted) else _nearest(meant)
        return meant + _told_with(wanted[0], [memory for memory, _ in meant], memories)
    spread = [] if named is not None else _spread(wanted, read_)
    if spread:
        return spread
    near = [memory for memory in memories if (memory.similarity or 0.0) >= NEAR]
    if named is None and (len(near) == 1 or (near and (near[0].similarity or 0) - (near[1].similarity or 0) > 0.1)):
        shared = content(read(near[0].item.memory)) & wanted[0]
        if shared:
            return [(near[0], 0.6), *_told_with(wanted[0], near[:1], memories)]
    return []


def holders_in(language: str, matter: str, memories: Sequence[Neighbour]) -> list[tuple[Neighbour, float]]:
    """The notes that hold every topic word of a matter in another language, each with a confidence."""
    notes = [memory for memory in memories if memory.item.kind == NOTES]
    return [(memory, 0.9) for memory in notes if holds_topic(matter, memory.item.memory, language)]


def _thin(matter: str, wanted: tuple[frozenset[str], Reading]) -> bool:
    """Whether of a matter with more words only a name counts ("leaving Signe"): not every holder is meant then."""
    named = wanted[1].names | frozenset(wanted[1].party.name.split())
    light = frozenset(pairs("sets.tsv")["forget.light"].split())
    told = [word for word in re.findall(r"[\w-]+", matter.lower()) if word not in light]
    return bool(wanted[0]) and wanted[0] <= named and len(told) > len(wanted[0]) and not matter.istitle()


def _nearest(found: list[tuple[Neighbour, float]]) -> list[tuple[Neighbour, float]]:
    """Of memories that share a name with the matter but not all its words, those that are nearest to it."""
    best = max(memory.similarity or 0.0 for memory, _ in found)
    return [(memory, sure) for memory, sure in found if (memory.similarity or 0.0) >= best - NEAREST]


def _spread(
    wanted: tuple[frozenset[str], Reading], memories: Sequence[tuple[Neighbour, Reading]]
) -> list[tuple[Neighbour, float]]:
    """The memories of one message that hold the matter between them ("had an email from a parent", "is Mrs Lovatt")."""
    telling = frozenset(word for word in wanted[0] if not generic(word))
    if len(telling) < 2:
        return []
    for first, _ in memories:
        told = [(memory, _held(old)) for memory, old in memories if set(memory.item.sources) & set(first.item.sources)]
        if len(told) > 1 and not uncovered(telling, frozenset().union(*(held for _, held in told))):
            return [(memory, 0.7) for memory, held in told if held & telling]
    return []


_OLD = Pattern(r"\b(?:old|previous|former|earlier|wrong|outdated)\b ?", re.IGNORECASE)


def _new(old: Reading) -> bool:
    """Whether a memory tells what replaced an older value: a request for the old one does not mean it."""
    return old.mood.changed or re.search(r"\bnew\b", old.text, re.IGNORECASE) is not None


def _of_datum(
    named: Datum,
    wanted: tuple[frozenset[str], Reading],
    found: Sequence[tuple[Neighbour, float]],
    memories: Sequence[tuple[Neighbour, Reading]],
) -> list[tuple[Neighbour, float]]:
    """Of what holds the words of a datum's name, what tells the datum; and what tells it by its value in other words.

    "User got a Peru SIM. My number here is 987" tells the Peru number in a memory that does not say Peru: then the
    memories of one message say together whose it is.
    """
    noun = _words(named.noun)[0]
    rest = frozenset(word for word in wanted[0] - noun if not generic(word))
    parties = {memory.item.id: old for memory, old in memories}
    meant = {
        memory.item.id: (memory, sure)
        for memory, sure in found
        if (named.told_in(memory.item.memory) or (not named.bare and noun <= _words(memory.item.memory)[0]))
        and (
            rest
            or "thing" in (wanted[1].party.kind, parties[memory.item.id].party.kind)
            or of_same(wanted[1], parties[memory.item.id])
        )
    }
    if not rest and wanted[1].party.kind == "thing" and len(meant) > 1:  # "the code": of several, the one told last
        last = max(memory.item.told_at for memory, _ in meant.values())
        return [(memory, sure) for memory, sure in meant.values() if memory.item.told_at == last]
    kinds = noun.union(*(_words(word)[0] for word in named.noun.split()))
    for memory, old in memories:
        if memory.item.id in meant or not named.told_in(memory.item.memory):
            continue
        called = of_same(wanted[1], old) and bool(_held(old) & kinds)
        alone = not rest and (called or named.known_by_value(wanted[1], old))
        others = [each for each in memories if not _tells_whole(named, kinds, each)]
        if alone or (rest and not _of_another(wanted[1], old) and _together(rest, noun, memory, old, others)):
            meant[memory.item.id] = (memory, 0.9)
    return list(meant.values())


def _of_another(matter: Reading, memory: Reading) -> bool:
    """Whether both are about a relative, or both about somebody by name, and not about the same one."""
    kind = matter.party.kind
    return kind in ("relative", "named") and memory.party.kind == kind and not of_same(matter, memory)


def _tells_whole(named: Datum, kinds: frozenset[str], told: tuple[Neighbour, Reading]) -> bool:
    """Whether a memory tells such a datum by itself ("the gate code is 4411"): it says nothing of another's value."""
    memory, old = told
    return named.told_in(memory.item.memory) and bool(kinds & _held(old))


def _together(
    rest: frozenset[str],
    noun: frozenset[str],
    memory: Neighbour,
    old: Reading,
    memories: Sequence[tuple[Neighbour, Reading]],
) -> bool:
    """Whether a memory with a datum's value says, with those of the same message, whose the datum is."""
    held = _held(old)
    if not uncovered(rest, held):
        return True
    told = [
        _held(other)
        for each, other in memories
        if each.item.id != memory.item.id and set(each.item.sources) & set(memory.item.sources)
    ]
    touching = bool(held & (rest | noun)) or any(held & other and not uncovered(rest, other) for other in told)
    return touching and not uncovered(rest, held.union(*told))


_POINTING = Pattern(r"\b(?:it|this|them)$", re.IGNORECASE)


def _told_with(
    words: frozenset[str], meant: Sequence[Neighbour], memories: Sequence[Neighbour]
) -> list[tuple[Neighbour, float]]:
    """The memories of the same message that point back at what is meant by a word of the matter ("is dreading it")."""
    told = {source for memory in meant for source in memory.item.sources}
    ids = {memory.item.id for memory in meant}
    found: list[tuple[Neighbour, float]] = []
    for memory in memories:
        if memory.item.id in ids or not told & set(memory.item.sources):
            continue
        text = memory.item.memory.rstrip(" .!")
        if _POINTING.search(text) and content(read(text)) & words:
            found.append((memory, 0.75))
    return found


def _words(matter: str) -> tuple[frozenset[str], Reading]:
    reading = read(f"the {matter}" if matter[:1].isupper() and not matter.startswith("User") else matter)
    own = set(reading.party.name.split()) | ({reading.party.relation} if reading.party.relation else set())
    return frozenset((content(reading) | own) - _ASKING - {USER, ""}), reading


_ASKING = frozenset({"why", "how", "when", "where", "who", "what", "which", "whether"})


def _holds(wanted: tuple[frozenset[str], Reading], old: Reading) -> float:
    words, matter = wanted
    held = _held(old)
    telling = {word for word in words if not generic(word)} or set(words)
    if not values_fit(matter.values, old.values):
        return 0.0
    lacking = uncovered(telling, held)
    if not lacking:
        return 0.95
    named = {word for word in telling if word in matter.names or word in matter.party.name.split()}
    return NAMED if named and not lacking & named and len(lacking) * 2 <= len(telling) else 0.0


def _held(old: Reading) -> frozenset[str]:
    return content(old) | frozenset(old.party.name.split()) | ({old.party.relation} if old.party.relation else set())
