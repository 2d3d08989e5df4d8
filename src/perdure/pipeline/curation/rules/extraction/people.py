"""Persons and animals that a clause brings in: "my sister Ana", "our cat called Tripod", "my cousin layla made ..."."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import grammar
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, kin_gender
from perdure.pipeline.lexicon import word_set

_TWO_WORD = frozenset(
    {"best friend", "best mate", "line manager", "tech lead", "little one", "head chef", "guinea pig"}
)
_KEPT = word_set("people.kept")


@dataclass(frozen=True, slots=True)
class Relation:
    """A mention: "my younger sister Ana" has adjective "younger", noun "sister", name "Ana" (or "")."""

    adjective: str
    noun: str
    name: str
    end: int
    """Number of words up to and with the mention."""


@cache
def relation_nouns() -> frozenset[str]:
    """Nouns of relatives, occupations and animals."""
    return frozenset(lexicon.pairs("kin.tsv")) | lexicon.words("roles.txt") | lexicon.words("pets.txt")


def relation_in(parts: list[str], owners: frozenset[str] = frozenset({"my", "our"})) -> Relation | None:
    """The first relation that one of `owners` opens, in the words of a clause."""
    for place, part in enumerate(parts):
        if grammar.bare(part) in owners:
            found = _relation_at(parts, place + 1)
            if found:
                return found
    return None


def _relation_at(parts: list[str], start: int) -> Relation | None:
    for place in range(start, min(start + 4, len(parts))):
        word = grammar.bare(parts[place])
        pair = f"{word} {grammar.bare(parts[place + 1])}" if place + 1 < len(parts) else ""
        noun, after = (pair, place + 2) if pair in _TWO_WORD else (word, place + 1)
        if noun not in _TWO_WORD and noun not in relation_nouns():
            if word in lexicon.words("prepositions.txt") or word.endswith("'s") or parts[place].endswith(","):
                return None
            continue
        following = grammar.bare(parts[after]) if after < len(parts) else ""
        if noun in _KEPT and following in relation_nouns():
            continue
        if noun not in lexicon.pairs("kin.tsv") and following in relation_nouns() and not parts[place].endswith(","):
            continue
        between = " ".join(grammar.bare(part) for part in parts[start:place]).split()
        adjective = between[-1] if between and between[-1] in _KEPT else ""
        name, end = _name_at(parts, after)
        return Relation(adjective, noun, name, end)
    return None


def _name_at(parts: list[str], place: int) -> tuple[str, int]:
    if place < len(parts) and grammar.bare(parts[place]) in {"called", "named"}:
        place += 1
    elif parts[place - 1].endswith((".", ";", ":")):
        return "", place
    if (
        place + 1 < len(parts)
        and grammar.bare(parts[place]) == "is"
        and grammar.bare(parts[place + 1]) in {"called", "named"}
    ):
        place += 2
    if place >= len(parts):
        return "", place
    if grammar.is_name(parts[place]):
        end = place + 1
        while end < len(parts) and end < place + 3 and grammar.is_name(parts[end]) and not _closed(parts[end - 1]):
            end += 1
        return " ".join(_plain_name(part) for part in parts[place:end]), end
    word = parts[place]
    if _could_be_name(word) and place + 1 < len(parts) and _verb_follows(parts, place):
        return _plain_name(word).capitalize(), place + 1
    return "", place


def _closed(part: str) -> bool:
    return part.endswith((",", ".", ")", "'s"))


def _plain_name(part: str) -> str:
    name = part.strip(grammar.PUNCTUATION)
    return name[:-2] if name.endswith("'s") else name


def _could_be_name(word: str) -> bool:
    return word.isalpha() and word.islower() and 2 < len(word) < 13 and not is_known_word(word)


@cache
def _common() -> frozenset[str]:
    sets = word_set("people.common")
    return frozenset().union(*(lexicon.words(f"{name}.txt") for name in sets)) | relation_nouns()


def is_known_word(word: str) -> bool:
    """Whether the lower-case word is in any of the lists, and so not a name that was never introduced."""
    return word in _common() or grammar.is_form(word) or word in grammar.SUBJECTS or word in grammar.POSSESSIVES


def _verb_follows(parts: list[str], place: int) -> bool:
    after = grammar.bare(parts[place + 1])
    if after in lexicon.words("adverbs.txt") and place + 2 < len(parts):
        after = grammar.bare(parts[place + 2])
    return (
        after in grammar.AUXILIARIES
        or after in grammar.thirds()
        or after in grammar.simple_pasts()
        or after in {"and", "has"}
    )


def note_people(clause: str, talk: Discourse) -> tuple[str, str] | None:
    """Remember whom a first-person clause brings in; (relation, name) where the name is new and merits its own fact."""
    parts = clause.split()
    found = relation_in(parts)
    if found and not found.name:
        found = _named_before(parts, found)
    if found is None:
        found = _had(parts)
    if found is None:
        _note_called(parts, talk)
        return None
    gender = kin_gender(found.noun) or ("f" if found.noun in {"landlady", "waitress", "actress"} else "n")
    relation = f"{talk.who}'s {found.adjective + ' ' if found.adjective else ''}{found.noun}"
    if not found.name:
        known = talk.kin.get(found.noun)
        talk.meet(f"{relation} {known}" if known and gender != "p" else relation, gender)
        _note_called(parts, talk)
        return None
    fresh = found.name.lower() not in talk.names
    display = f"{relation} {found.name}"
    talk.call(found.name.split()[0], display)
    talk.call(found.name, display)
    talk.kin[found.noun] = found.name
    talk.meet(display, gender)
    return (relation, found.name) if fresh and gender != "p" else None


def _had(parts: list[str]) -> Relation | None:
    """ "I have a sister" and "we adopted a dog": the one that the speaker has, where nobody else is spoken of."""
    place = next((at for at, part in enumerate(parts) if grammar.bare(part) in {"i", "we"}), len(parts)) + 1
    first = place
    while place < len(parts) and grammar.bare(parts[place]) in lexicon.words("adverbs.txt") | word_set("people.having"):
        place += 1
    if place == first or place >= len(parts) or grammar.bare(parts[place]) not in {"a", "an"}:
        return None
    found = _relation_at(parts, place + 1)
    if found is None or any(grammar.bare(part) in relation_nouns() for part in parts[found.end :]):
        return None
    return found


def _named_before(parts: list[str], found: Relation) -> Relation:
    """ "Theo is still my flatmate" and "is Theo still my flatmate": the name stands first."""
    owner = next((at for at, part in enumerate(parts) if grammar.bare(part) in {"my", "our"}), -1)
    before = [
        part
        for part in parts[: max(owner, 0)]
        if grammar.bare(part) not in lexicon.words("adverbs.txt") | {"is", "was", "and"}
    ]
    if 0 < len(before) <= 2 and all(grammar.is_name(part) for part in before) and owner < 6:
        return Relation(found.adjective, found.noun, " ".join(_plain_name(part) for part in before), found.end)
    return found


def _note_called(parts: list[str], talk: Discourse) -> None:
    for place in range(1, len(parts) - 1):
        if grammar.bare(parts[place]) not in {"called", "named"} or not grammar.is_name(parts[place + 1]):
            continue
        name, _ = _name_at(parts, place + 1)
        noun = grammar.bare(parts[place - 1])
        if noun in {"is", "are"} and place >= 2:
            noun = grammar.bare(parts[place - 2])
        if noun in relation_nouns():
            display = f"{talk.who}'s {noun} {name}"
            talk.call(name.split()[0], display)
            talk.meet(display, kin_gender(noun) or "n")
        else:
            talk.thing = talk.topic = name
        return


def note_subject(name: str, talk: Discourse) -> str:
    """Remember a name that stands as the subject of a clause; the way it is to be called."""
    display = talk.names.get(name.lower(), name)
    talk.call(name, display)
    talk.meet(display, "n")
    return display
