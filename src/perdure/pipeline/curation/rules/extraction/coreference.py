"""Who "she", "it" and "her teacher" are: pronouns replaced by what was last spoken of, and things remembered."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import grammar
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, kin_gender
from perdure.pipeline.lexicon import word_set

# Persons and animals that a clause brings in: "my sister Ana", "our cat called Tripod", "my cousin layla made ...".

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
    end: int  # number of words up to and with the mention


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
        between = " ".join(grammar.bare(part) for part in parts[start:place]).split()
        adjective = between[-1] if between and between[-1] in _KEPT else ""
        name, end = _name_at(parts, after)
        return Relation(adjective, noun, name, end)
    return None


def _name_at(parts: list[str], place: int) -> tuple[str, int]:
    if place < len(parts) and grammar.bare(parts[place]) in {"called", "named"}:
        place += 1
    is_told = (
        place + 1 < len(parts)
        and grammar.bare(parts[place]) == "is"
        and grammar.bare(parts[place + 1]) in {"called", "named"}
    )
    place += 2 if is_told else 0
    if place >= len(parts):
        return "", place
    if is_told and parts[place][:1].islower():
        return _small_name(parts, place)
    if grammar.is_name(parts[place]):
        end = place + 1
        while end < len(parts) and end < place + 3 and grammar.is_name(parts[end]) and not _closed(parts[end - 1]):
            end += 1
        return " ".join(_plain_name(part) for part in parts[place:end]), end
    return "", place


def _small_name(parts: list[str], place: int) -> tuple[str, int]:
    """The name behind "is called" as chat style has it, in small letters: "is called mr business and ..."."""
    others = ("prepositions.txt", "determiners.txt", "adverbs.txt")
    end = place
    while end < len(parts) and end < place + 3 and (end == place or not _closed(parts[end - 1])):
        word = grammar.bare(parts[end])
        if not word.isalpha() or grammar.is_time_word(word) or word in grammar.AUXILIARIES | grammar.POSSESSIVES:
            break
        if word in grammar.SUBJECTS | _NOT_CALLED or any(word in lexicon.words(name) for name in others):
            break
        end += 1
    return " ".join(_plain_name(part) for part in parts[place:end]), end


_NOT_CALLED = frozenset({"and", "or", "but", "so", "because", "away", "back", "home", "who", "which", "that"})


def _closed(part: str) -> bool:
    return part.endswith((",", ".", ")", "'s"))


def _plain_name(part: str) -> str:
    name = part.strip(grammar.PUNCTUATION)
    return name[:-2] if name.endswith("'s") else name


@cache
def _common() -> frozenset[str]:
    sets = word_set("people.common")
    return frozenset().union(*(lexicon.words(f"{name}.txt") for name in sets)) | relation_nouns()


def is_known_word(word: str) -> bool:
    """Whether the lower-case word is in any of the lists, and so not a name that was never introduced."""
    return word in _common() or grammar.is_form(word) or word in grammar.SUBJECTS or word in grammar.POSSESSIVES


def note_people(clause: str, talk: Discourse) -> tuple[str, str] | None:
    """Remember whom a first-person clause brings in; (relation, name) where the name is new and merits its own fact."""
    parts = clause.split()
    found = relation_in(parts)
    if found is None:
        found = _had(parts)
    if found is None:
        return None
    gender = kin_gender(found.noun) or ("f" if found.noun in {"landlady", "waitress", "actress"} else "n")
    relation = f"{talk.who}'s {found.adjective + ' ' if found.adjective else ''}{found.noun}"
    if not found.name or gender == "p":  # "my kids Sami and Lina": neither of them is the kids
        known = talk.kin.get(found.noun)
        talk.meet(f"{relation} {known}" if known and gender != "p" else relation, gender)
        return None
    fresh = found.name.lower() not in talk.names
    display = f"{relation} {found.name}"
    if not grammar.is_title(found.name.split()[0]):
        talk.call(found.name.split()[0], display)
    talk.call(found.name, display)
    talk.kin[found.noun] = found.name
    talk.meet(display, gender)
    return (relation, found.name) if fresh else None


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


_AND_SPEAKER = Pattern(r",? and (?:i|me|my|our)\b.*$", re.IGNORECASE)


def note_subject(name: str, talk: Discourse) -> str:
    """Remember a name that stands as the subject of a clause; the way it is to be called.

    Of "Marc and I" only Marc: that is who "he" is in what follows.
    """
    name = _AND_SPEAKER.sub("", name)
    display = talk.names.get(name.lower(), name)
    talk.call(name, display)
    talk.meet(display, "n")
    return display


# ------------------------------------------------------------------ replacing

_PERSONAL = {"he": "m", "she": "f"}
_OWNED = {"his": "m", "her": "f", "their": "p", "its": "t"}


def resolve(clause: str, talk: Discourse) -> str | None:
    """The clause with its opening pronoun replaced, or None if nothing is known that it could mean."""
    parts = clause.split()
    place = grammar.skip_adverbials(parts)
    if place >= len(parts):
        return clause
    head = grammar.bare(parts[place])
    if head in _PERSONAL:
        return _inner(_swap(parts, place, _singular(talk, _PERSONAL[head])), talk, head)
    if head == "we" and _counts(parts[place + 1 :]):
        return None
    if head == "they":
        return _they(parts, place, talk)
    if head in {"it", "this", "that"} and place + 1 < len(parts) and _verbal(grammar.bare(parts[place + 1])):
        return _swap(parts, place, talk.subject if head == "it" else "")
    if head in _OWNED and place + 1 < len(parts):
        owner = _singular(talk, _OWNED[head])
        if not owner:
            return None
        display = _swap(parts, place, owner + "'s")
        return _inner(display, talk, "he" if head == "his" else "she") if head in {"his", "her"} else display
    known, end = known_name(parts, place, talk)
    if known and relation_in(parts) is None:
        last = parts[end - 1]
        parts[place:end] = [known + last[len(last.rstrip(grammar.PUNCTUATION)) :]]
        talk.meet(known, "n" if known != talk.person else talk.gender)
    return _inner(" ".join(parts), talk, "")


def known_name(parts: list[str], place: int, talk: Discourse) -> tuple[str, int]:
    """How the bearer of the longest known name at a place is called, and where the name ends; "" if none is known."""
    for end in range(min(len(parts), place + 3), place, -1):
        known = talk.names.get(" ".join([*parts[place : end - 1], grammar.bare(parts[end - 1])]).lower())
        if known:
            return known, end
    return "", place


# Whether a clause is about somebody else: then what comes next without an owner may be theirs.


def tells_of_another(clause: str, talk: Discourse) -> bool:
    """Whether a clause is about a person or an animal other than the speaker: its subject, or who was dealt with.

    Who serves the speaker (a landlord, a doctor) mostly tells of the speaker's matters, and counts for none.
    """
    parts = clause.split()
    place = grammar.skip_adverbials(parts)
    verb = grammar.find_verb(parts, place)
    head = grammar.bare(parts[place])
    if head in grammar.FIRST:
        return verb >= 0 and _deals_with_another(parts, verb, talk)
    if head in {"he", "she", "his", "her"} or grammar.is_title(head):
        return True
    if head == "they":
        return bool(talk.group) and not talk.met
    subject = parts[place : max(verb, place + 1)]
    while len(subject) > 1 and grammar.bare(subject[-1]) in lexicon.words("adverbs.txt"):
        subject = subject[:-1]
    told = parts[verb:] if verb > place else []
    return _is_met(subject, 0, talk) or any(map(_is_living, subject)) or _acts_as_person(subject, told, talk)


def is_animate(clause: str, talk: Discourse) -> bool:
    """Whether a clause's subject is surely a person or an animal: only they share it with a verb of another clause."""
    parts = clause.split()
    place = grammar.skip_adverbials(parts)
    head = grammar.bare(parts[place])
    if head in grammar.SUBJECTS - {"it"} or head in word_set("people.anybody"):
        return True
    subject = parts[place : max(grammar.find_verb(parts, place), place + 1)]
    if any(grammar.bare(part) in relation_nouns() for part in subject) or _is_met(subject, 0, talk):
        return True
    return (grammar.is_name(parts[place]) or is_known_word(head)) and tells_of_another(clause, talk)


def leaves_out_who(sentence: str, talk: Discourse) -> bool:
    """Whether a sentence goes on from a thing with what only people do: "the skoda's gone, bought a kia"."""
    first, comma, rest = sentence.partition(", ")
    did = grammar.pasts().get(grammar.bare(rest.split(maxsplit=1)[0])) if comma else None
    return did in word_set("statements.persons_do") and not is_animate(first, talk)


def _is_met(parts: list[str], place: int, talk: Discourse) -> bool:
    """Whether the name at a place is one of somebody whom the speaker told of ("my sister Ola")."""
    name, _ = known_name(parts, place, talk)
    return name.startswith(f"{talk.who}'s ") or grammar.bare(parts[place]).removesuffix("'s") in talk.people


def names_thing(subject: str, talk: Discourse) -> bool:
    """Whether a subject that is nobody is surely a thing: it has an owner or an article, or once had one.

    "Drives a skoda" tells that one: no name has an article.
    """
    first = grammar.bare(subject.split(maxsplit=1)[0]).removesuffix("'s")
    if first in lexicon.words("determiners.txt") | grammar.POSSESSIVES or is_known_word(first):
        return True
    told = re.compile(rf"\b(?:an?|the|their|new|{re.escape(talk.who)}'s) (?:[\w-]+ )?{re.escape(first)}\b", re.I)
    return any(told.search(draft.text) for draft in talk.drafts)


def _is_living(part: str) -> bool:
    """Whether a word is a relative, a friend or an animal, or opens what belongs to one ("my dog's vaccination")."""
    word = grammar.bare(part).removesuffix("'s")
    return word in lexicon.pairs("kin.tsv") or word in lexicon.words("pets.txt")


def _acts_as_person(subject: list[str], predicate: list[str], talk: Discourse) -> bool:
    """Whether what a word in no list is told to do or to be is what people and pets do and are ("ola called")."""
    first = subject[0].strip(grammar.PUNCTUATION)
    is_name = grammar.is_name(first)
    if is_known_word(first.lower()) or first.isupper() or not first.isalpha() or not (is_name or len(subject) == 1):
        return False
    verb, after = (grammar.bare(part) for part in (*predicate[:2], "", "")[:2])
    people_do = word_set("statements.private") | word_set("statements.persons_do")
    if verb not in grammar.BE and verb not in {"has", "have"}:
        found = grammar.thirds().get(verb, grammar.pasts().get(verb, verb)) in people_do
    else:
        states = lexicon.words("states.txt") | lexicon.words("moods.txt") - word_set("people.no_moods")
        role = any(grammar.bare(part) in lexicon.words("roles.txt") for part in predicate[1:4])
        doing = grammar.ings().get(after, grammar.pasts().get(after, "")) if after != "gone" else ""
        found = after in states or role or (is_name and doing in people_do)
    if found and is_name:
        talk.people.add(first.lower())
    return found


def _deals_with_another(parts: list[str], verb: int, talk: Discourse) -> bool:
    """Whether the object right behind the verb is somebody: "took the cat to the vet"; who has one tells of oneself."""
    word = grammar.bare(parts[verb])
    if word in word_set("people.having") or word in grammar.AUXILIARIES:
        return False
    place = verb + 1
    while place < len(parts) and grammar.bare(parts[place]) in grammar.POSSESSIVES | {"the"}:
        place += 1
    if place >= len(parts):
        return False
    named = place == verb + 1 and not is_known_word(grammar.bare(parts[place])) and grammar.bare(parts[place]).isalpha()
    base = grammar.pasts().get(word, grammar.thirds().get(word, word))
    dealt = named and base in word_set("people.dealt_with")  # "took rollo to the vet"
    return dealt or _is_met(parts, place, talk) or _is_living(parts[place])


def _counts(predicate: list[str]) -> bool:
    """ "we are 8 people", "we were four": how many they are, which is true of no one of them."""
    low = [grammar.bare(part) for part in predicate[:3]]
    if len(low) < 2 or low[0] not in {"are", "were"} or low[1] == "one":
        return False
    measured = len(low) > 2 and (grammar.is_time_word(low[2]) or low[2] in lexicon.pairs("reconcile_units.tsv"))
    return (low[1].isdigit() or low[1] in lexicon.pairs("reconcile_numbers.tsv")) and not measured


def _verbal(word: str) -> bool:
    return (
        word in grammar.AUXILIARIES
        or word in grammar.thirds()
        or word in grammar.pasts()
        or word in lexicon.words("adverbs.txt")
    )


def _singular(talk: Discourse, gender: str) -> str:
    """Whom "she" means: the person of this message, or of the one before if there is no doubt of the gender."""
    if talk.gender == gender:
        return talk.person if talk.met <= 1 else ""
    return talk.person if talk.gender in {"n", ""} and talk.met == 0 else ""


def _swap(parts: list[str], place: int, display: str) -> str | None:
    if not display:
        return None
    return " ".join([*parts[:place], display, *parts[place + 1 :]])


def _they(parts: list[str], place: int, talk: Discourse) -> str | None:
    about_me = any(grammar.bare(part) in {"me", "my", "us", "our", "i"} for part in parts[place + 1 :])
    display = "" if talk.met else talk.group
    if not display:
        return " ".join([*parts[:place], "They", *parts[place + 1 :]]) if about_me else None
    after = parts[place + 1] if place + 1 < len(parts) else ""
    if grammar.bare(after) in lexicon.words("adverbs.txt") and place + 2 < len(parts):
        parts[place + 2] = grammar.agree(parts[place + 2])
    elif after:
        parts[place + 1] = grammar.agree(after)
    return _swap(parts, place, display)


def _inner(clause: str | None, talk: Discourse, used: str) -> str | None:
    """Subject pronouns inside the clause ("her teacher reckons she could") where only one person is meant."""
    if clause is None or not talk.person:
        return clause
    parts = clause.split()
    for place in range(1, len(parts)):
        head = grammar.bare(parts[place])
        if head in _PERSONAL and (used == head or talk.gender == _PERSONAL[head]):
            parts[place] = parts[place].lower().replace(head, talk.person, 1)
    return " ".join(parts)


# ------------------------------------------------------------------ things

_ABOUT = Pattern(
    r"\b(?:working on|building|writing|bought|buying|adopted|run|runs|running|own|owns|opened|opening|started|"
    r"starting|launched|called|project|planning|have|has|got|sold|drive|drives|use|uses|using|on)\s+((?:a|an|the|my|"
    r"our|their)\s+)?([\w&'-]+(?:\s+(?:for|of)?\s?[\w&'-]+){0,3})"
)


def note_thing(fact: str, talk: Discourse) -> None:
    """Remember what a fact was about, for a later "it" or a fragment: its subject, or the object that it names."""
    parts = fact.split()
    verb = grammar.find_verb(parts)
    if verb <= 0:
        return
    last = verb
    while last > 1 and grammar.bare(parts[last - 1]) in lexicon.words("adverbs.txt"):
        last -= 1
    subject = " ".join(parts[:last])
    if subject.startswith(f"{talk.who}'s ") or subject.split()[0].lower() in {"the", "a", "an"}:
        noun = grammar.bare(subject.split()[-1])
        if not kin_gender(noun) and subject != talk.person:
            talk.thing = talk.subject = subject
        return
    if subject.split()[0] == talk.who:
        match = _ABOUT.search(" ".join(parts[verb:]))
        if match or _last_noun(parts[verb:]):
            noun = _noun_phrase(match.group(2)) if match else ""
            if not noun:
                noun = _last_noun(parts[verb:])
            if noun:
                talk.thing = f"{talk.who}'s {noun}" if not noun[0].isupper() else noun
                is_new = match is not None and (match.group(1) or "").strip() in {"a", "an"}
                talk.subject = talk.thing if is_new else ""
    elif grammar.is_name(parts[0]) and subject.lower() not in talk.names:
        talk.thing = talk.subject = subject


def _last_noun(parts: list[str]) -> str:
    for place in range(len(parts) - 1, 0, -1):
        if grammar.bare(parts[place - 1]) in {"the", "their", "a", "an"}:
            phrase = _noun_phrase(
                " ".join(part for part in parts[place : place + 4] if grammar.bare(part) not in _ORDINALS)
            )
            return "" if phrase.split(" ")[0] in {"lot", "bit", "few", "couple"} else phrase
    return ""


_ORDINALS = frozenset(["first", "second", "third", "last", "next", "own", "new", "old", "same", "other"])


_NOT_THINGS = word_set("reference.not_things")


def _noun_phrase(words: str) -> str:
    kept: list[str] = []
    for word in words.split():
        low = grammar.bare(word)
        if low in lexicon.words("prepositions.txt") - {"of", "for"} or low in word_set("reference.noun_ends"):
            break
        if (
            low in lexicon.words("adverbs.txt")
            or low in grammar.AUXILIARIES
            or low in _NOT_THINGS
            or grammar.is_time_word(low)
        ):
            break
        kept.append(word.strip(grammar.PUNCTUATION))
    while kept and grammar.bare(kept[-1]) in {"of", "for", "the", "a"}:
        kept.pop()
    return " ".join(kept[:4])


# ------------------------------------------------------------------ a possessor without what is possessed

_POSSESSOR = Pattern(r"\b(?P<who>[^\W\d_][\w-]{0,40})['’]s (?=\S)")
_HEADED = Pattern(r"(?P<head>[a-z][a-z-]*(?: [a-z][a-z-]*){0,2}?) (?:is|was|are|were) (?P<value>[^\s,;.!?]+)")
_LACKS = Pattern(r"(?P<verb>(?:is|was|are|were)\b)|(?P<value>[$€£+]?\d[^\s,;.!?]*)")
_JOINED = Pattern(r"(?:,|;|\band\b)[^,;.]*$")
_REACH = 160  # characters from a possessor to the one that leaves out what it possesses


def with_heads(text: str) -> str:
    """The text with the noun that a later possessor leaves out: "my aunt's birthday is in May, my uncle's is in June".

    Where the verb is left out too, the two values must be of one shape ("... is 555-0134, my uncle's 555-0199").
    """
    out, done, head, shape, last = "", 0, "", "", 0
    for owner in _POSSESSOR.finditer(text):
        if owner["who"].lower() in word_set("possessors.contracted"):
            continue
        lacks, headed = _LACKS.match(text, owner.end()), _HEADED.match(text, owner.end())
        if lacks is not None and head and owner.end() - last <= _REACH:
            before = text[max(last, owner.start() - _REACH) : owner.start()]
            if lacks["verb"] or (_shape(lacks["value"]) == shape and _JOINED.search(before)):
                out += text[done : owner.end()] + (f"{head} " if lacks["verb"] else f"{head} is ")
                done, last = owner.end(), owner.end()
        elif headed is not None and not _is_no_head(headed["head"]):
            head, shape, last = headed["head"], _shape(headed["value"]), owner.end()
    return out + text[done:]


def _shape(value: str) -> str:
    """The kind of a value by its characters: digits, signs, letters."""
    return re.sub(r"[A-Za-z]+", "a", re.sub(r"\d", "0", value))


def _is_no_head(words: str) -> bool:
    others = lexicon.words("adverbs.txt") | lexicon.words("determiners.txt") | lexicon.words("prepositions.txt")
    return any(word in others or word in grammar.AUXILIARIES for word in words.split())
