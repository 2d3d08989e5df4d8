"""Who "she", "it" and "her teacher" are: pronouns replaced by what was last spoken of, and things remembered."""

from __future__ import annotations

import re

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import grammar, people
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, kin_gender
from perdure.pipeline.lexicon import word_set

# An "it" that means nothing but the speaker's life: "it's two coffees a day now", "mondays it's yoga".
#
# Asked before "it" is taken for the thing spoken of; the answer is a statement in the first person, or "".

_GAVE_UP = Pattern(
    r"\b(?:dropped|gave up|given up|quit|used to|stopped|left|sold|ditched|binned|no longer|moved (?:off|away)|"
    r"cancelled|"
    r"canceled|retired|finished|swapped|switched|scrapped|replaced|lost|outgrew|abandoned|went off|got rid of)\b"
)
_FOR_ME = Pattern(r"\bfor (?:me|us)\b", re.I)
_NOW = Pattern(r"\b(?:now|these days|nowadays|at the moment|for now|currently|this year)\b", re.I)
_DOSE = Pattern(
    r"\b(?:\d[\d.,]* ?(?:mg|mcg|ml|g|iu)|(?:\d+|one|two|three|four|half an?|an?) (?:micrograms?|milligrams?|units?|"
    r"tablets?|pills?|capsules?|puffs?|drops?|insulin shots?|injections?|sachets?|patch(?:es)?))\b",
    re.I,
)


def read(parts: list[str], place: int, talk: Discourse) -> str:
    """The statement of a clause whose "it is" stands at `place`, or ""."""
    if place + 2 >= len(parts) or grammar.bare(parts[place + 1]) != "is" or talk.task:
        return ""
    rest = parts[place + 2 :]
    said = " ".join(rest)
    if not _names_something(rest):
        return ""
    lead = " ".join(parts[:place]).strip(" ,")
    if _DOSE.search(said) and (_FOR_ME.search(said) or (_NOW.search(f"{lead} {said}") and not talk.thing)):
        return f"I take {_FOR_ME.sub('', said).strip(' ,')}"
    if _FOR_ME.search(said):
        return f"I have {' '.join(_FOR_ME.sub('', said).split()).strip(' ,')}" if grammar.is_number(rest[0]) else ""
    if lead and _is_day(lead):
        return f"I have {said} {_on(lead)}"
    last = talk.drafts[-1].text if talk.drafts else ""
    instead = last.startswith(talk.who) and _GAVE_UP.search(last) is not None
    if _NOW.search(f"{lead} {said}") and (instead or (not talk.thing and not talk.asks)):
        verb = "use" if grammar.is_name(rest[0]) and instead else "have"
        return f"I now {verb} {_NOW.sub('', said).strip(' ,')}"
    return ""


def _names_something(rest: list[str]) -> bool:
    """Whether the words after "it is" name things or people: no state, no doing, no time."""
    head = grammar.bare(rest[0])
    if head in lexicon.words("moods.txt") | lexicon.words("states.txt") | lexicon.words("adverbs.txt"):
        return False
    if head in lexicon.words("prepositions.txt") | grammar.SUBJECTS | word_set("life.no_thing"):
        return False
    if head in grammar.ings() and head not in word_set("cleaning.noun_ing"):
        return len(rest) == 1
    time = all(grammar.is_time_word(grammar.bare(part)) or grammar.is_number(part) for part in rest)
    acts = any(grammar.bare(part) in grammar.AUXILIARIES for part in rest)
    return head not in grammar.pasts() and not time and not acts


def _is_day(lead: str) -> bool:
    """Whether the words before "it is" name days that come again ("mondays", "every other friday", "weekends")."""
    return (
        re.fullmatch(
            r"(?:(?:on|and|but|every|every other|most) )*(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekends|"
            r"weekdays|mornings|evenings|nights|lunchtimes|summers|winters|tues|thurs|weds|fri|sat|sun)",
            lead,
            re.I,
        )
        is not None
    )


def _on(lead: str) -> str:
    plain = re.sub(r"^(?:and|but) ", "", lead, flags=re.I)
    return plain if re.match(r"(?:on|every|most)\b", plain, re.I) else f"on {plain}"


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
        if head == "she" and (craft := _craft(parts, place, talk)):
            return _swap(parts, place, craft)
        if _renamed(parts, place, talk):
            return None
        return _inner(_swap(parts, place, _singular(talk, _PERSONAL[head])), talk, head)
    if head == "they":
        return _they(parts, place, talk)
    if head in {"it", "this", "that"} and place + 1 < len(parts) and _verbal(grammar.bare(parts[place + 1])):
        if head != "it":
            return None
        if told := read(parts, place, talk):
            return told
        life_now = _just_now(parts, place, talk)
        if life_now and grammar.bare(parts[place + 2]) in {"just", "only", "me", "mostly"}:
            return life_now
        return _swap(parts, place, talk.acted or talk.thing or (talk.person if talk.gender == "n" else "")) or life_now
    if head in _OWNED and place + 1 < len(parts):
        owner = _owner(head, talk)
        if not owner:
            return None
        display = _swap(parts, place, owner + "'s")
        return _inner(display, talk, "he" if head == "his" else "she") if head in {"his", "her"} else display
    known = talk.names.get(head)
    if known and people.relation_in(parts) is None:
        parts[place] = known + parts[place][len(head) :] if not parts[place].endswith("'s") else known + "'s"
        talk.meet(known, "n" if known != talk.person else talk.gender)
    return _inner(" ".join(parts), talk, "")


def _craft(parts: list[str], place: int, talk: Discourse) -> str:
    """The boat or the car that "she" means: it was spoken of in the statement just before."""
    noun = grammar.bare(talk.thing.split()[-1]) if talk.thing else ""
    last = talk.drafts[-1].text.lower() if talk.drafts else ""
    if noun not in word_set("reference.craft") or noun not in last or place + 1 >= len(parts):
        return ""
    return talk.thing if grammar.bare(parts[place + 1]) in {"is", "was", "has"} else ""


def _renamed(parts: list[str], place: int, talk: Discourse) -> bool:
    """ "she's called Curlew" where the person spoken of has another name: somebody else is meant."""
    after = [grammar.bare(part) for part in parts[place + 1 : place + 4]]
    if len(after) < 3 or after[0] != "is" or after[1] not in {"called", "named"}:
        return False
    told = [draft.text for draft in talk.drafts[-8:] if talk.person and draft.text.startswith(f"{talk.person} is ")]
    named = [text.split()[-1] for text in told if grammar.is_name(text.split()[-1])]
    relation = talk.person.split()[-1].lower() if talk.person else ""
    name = named[-1] if named else talk.kin.get(relation, "")
    return bool(name) and name.lower() != after[2]


def _just_now(parts: list[str], place: int, talk: Discourse) -> str | None:
    """ "these days it's just the crossword": nothing is meant by "it" but the speaker's life."""
    rest = [grammar.bare(part) for part in parts[place + 2 :]]
    cue = {"just", "only", "mostly", "mainly"} & set(rest) or {"now", "days", "nowadays"} & {
        grammar.bare(part) for part in parts
    }
    if rest and (rest[0] in grammar.ings() or (len(rest) > 1 and rest[1] in grammar.ings() and rest[0] == "just")):
        return None
    own = bool(rest) and rest[0] in {"a", "an", "me", "all"} and talk.about_self
    if grammar.bare(parts[place + 1]) in {"is", "was"} and rest and (cue or own) and talk.about_self:
        return f"{talk.who}: {' '.join(parts[place + 2 :])}"
    return None


def _verbal(word: str) -> bool:
    return (
        word in grammar.AUXILIARIES
        or word in grammar.thirds()
        or word in grammar.pasts()
        or word in lexicon.words("adverbs.txt")
    )


def _owner(head: str, talk: Discourse) -> str:
    wanted = _OWNED[head]
    if wanted == "t":
        return talk.acted or talk.thing
    if wanted == "p":
        return talk.group or talk.person or talk.thing
    return _singular(talk, wanted)


def _singular(talk: Discourse, gender: str) -> str:
    if talk.person:
        return talk.person if talk.gender in {gender, "n", ""} else ""
    return talk.named if talk.named and " " not in talk.named else ""


def _swap(parts: list[str], place: int, display: str) -> str | None:
    if not display:
        return None
    return " ".join([*parts[:place], display, *parts[place + 1 :]])


def _they(parts: list[str], place: int, talk: Discourse) -> str | None:
    about_me = any(grammar.bare(part) in {"me", "my", "us", "our", "i"} for part in parts[place + 1 :])
    display = talk.group or talk.named or ("" if about_me else talk.thing or talk.person)
    if not display:
        return " ".join([*parts[:place], "They", *parts[place + 1 :]]) if about_me else None
    if display == talk.group:
        return _swap(parts, place, display)
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
    named = re.findall(r"(?<=[a-z,] )[A-Z][\w&'-]+(?: [A-Z][\w&'-]+)*", fact)
    named = [name for name in named if not grammar.is_time_word(grammar.bare(name.split()[0]))]
    if named and named[-1].lower() not in talk.names and not named[-1].startswith(talk.who):
        talk.named = named[-1].removesuffix("'s")
    verb = grammar.find_verb(parts)
    if verb <= 0:
        return
    last = verb
    while last > 1 and grammar.bare(parts[last - 1]) in lexicon.words("adverbs.txt"):
        last -= 1
    subject = " ".join(parts[:last])
    if subject.startswith(f"{talk.who}'s ") or subject.split()[0].lower() in {"the", "a", "an"}:
        noun = grammar.bare(subject.split()[-1])
        if subject.split()[0].lower() in {"every", "each"}:
            return
        if not kin_gender(noun) and subject != talk.person:
            talk.thing = talk.topic = subject
        if kin_gender(noun) or noun in people.relation_nouns():
            talk.acted = _acted_on(parts, verb, talk)
        return
    if subject.split()[0] == talk.who:
        if (
            grammar.bare(parts[verb]) in {"has", "have"}
            and grammar.bare(" ".join(parts[verb + 1 : verb + 2])) in _pasts()
        ):
            verb += 1  # "has renamed the boat" has nothing
        match = _ABOUT.search(" ".join(parts[verb:]))
        if match or _last_noun(parts[verb:]):
            noun = _noun_phrase(match.group(2)) if match else ""
            if not noun:
                noun = _last_noun(parts[verb:])
            if noun:
                if noun.startswith(("this ", "that ")):
                    noun = f"The {noun[5:]}"
                talk.thing = f"{talk.who}'s {noun}" if not noun[0].isupper() else noun
                talk.topic = talk.thing
    elif grammar.is_name(parts[0]):
        if subject.lower() not in talk.names:
            talk.thing = talk.topic = subject
        talk.acted = _acted_on(parts, verb, talk)


def _pasts() -> frozenset[str]:
    return frozenset(grammar.pasts()) - {"got", "had"}


def _acted_on(parts: list[str], verb: int, talk: Discourse) -> str:
    """What somebody does something to ("my editor cut the book"): a later "it" is that, never the person."""
    after = parts[verb + 1 : verb + 6]
    if not after or grammar.bare(parts[verb]) in grammar.AUXILIARIES:
        return ""
    if after[0].lower() == "the" and len(after) > 1:
        noun = _noun_phrase(" ".join(after[1:5]))
        return f"The {noun}" if noun else ""
    if after[0] == f"{talk.who}'s":
        noun = _noun_phrase(" ".join(after[1:5]))
        return f"{talk.who}'s {noun}" if noun and not people.relation_in(["my", *noun.split()]) else ""
    if after[0].lower() in {"her", "his", "their"} and len(after) > 1:
        noun = _noun_phrase(" ".join(after[1:5]))
        return f"{' '.join(parts[:verb])}'s {noun}" if noun and not kin_gender(grammar.bare(noun)) else ""
    return ""


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
