"""A clause without its subject, as chat style has it, completed: "lost my passport", "vegan", "rent is 780".

The result still speaks in the first person ("I lost my passport", "my rent is 780"); `person` turns it.
"""

from __future__ import annotations

import re

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import coreference, grammar
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import kin_gender
from perdure.pipeline.lexicon import word_set

# Openings of chat style that leave out subject, verb or article: "insulin pump since 2011", "dialysis nurse".

_ARTICLE_AN = "aeiou"
DATED = Pattern(
    r"(?:start|finish|move|open|fly|play|leave|arrive|graduate|retire|run|present|sign) (?:(?:on|at|from|in|"
    r"back|out|over) )*"
    r"(?:the )?(?:\d|mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|next|this|tomorrow)",
    re.I,
)
"""A verb and a date: what the speaker does then ("start 4th nov")."""
NO_PLACE = Pattern(
    r"\bplease$|^(?:by|until|before|after|from) (?:the )?(?:end|start|middle|beginning) of\b|^in (?:plain|simple|past|"
    r"present|short|bold|english|french|german|spanish|italian|latin|dutch)\b",
    re.I,
)
"""Openings with a preposition that tell of a time or of how to answer, and not where somebody is."""


def article(noun: str) -> str:
    """The indefinite article of a noun phrase."""
    return "an" if noun[:1].lower() in _ARTICLE_AN else "a"


def lower_first(word: str) -> str:
    """A word that is capitalised only because it opens, in small letters."""
    return word.lower() if word[:1].isupper() and word[1:].islower() else word


SAID = frozenset({"first", "name", "noun", "pronoun"})
"""Rules of clauses that have their subject; the others were given one."""
_PLACE = word_set("subjects.place")
_HERE = Pattern(r"^(.{2,60}?),? here$", re.I)
_ROLE_TAIL = Pattern(r"^(?:of|in|at|for|from|on|with|by|to|turned|based|living|working|and|specialising|specializing)$")


def complete(text: str, carried: str = "") -> tuple[str, str]:
    """The clause with a subject, and the rule that gave it one; ("", "") where it is a mere fragment.

    `carried` is the subject of the clause before in the same sentence, "" if there is none.
    """
    parts = text.split()
    if not parts:
        return "", ""
    head = grammar.bare(parts[0])
    kind = grammar.subject_of(parts)
    if kind == "name" and coreference.is_known_word(head) and is_personal(parts[: max(1, grammar.find_verb(parts))]):
        kind, parts = "noun", [lower_first(parts[0]), *parts[1:]]
        text = " ".join(parts)
    if kind:
        return (text, kind) if kind != "noun" else _owned(text, parts)
    here = _HERE.match(text)
    if here and not grammar.is_number(here.group(1).split()[0]):
        return _here(here.group(1)), "here"
    if parts[0][:1].isupper() and parts[0][1:].islower() and coreference.is_known_word(parts[0].lower()):
        text = text[:1].lower() + text[1:]
        parts = text.split()
    return _verbless_subject(text, parts, carried)


def _verbless_subject(text: str, parts: list[str], carried: str) -> tuple[str, str]:
    place = 0
    adverbs = lexicon.words("adverbs.txt") | {"not", "no longer"}
    while place < len(parts) - 1 and grammar.bare(parts[place]) in adverbs - {"never"}:
        place += 1
    head = grammar.bare(parts[place])
    after = grammar.bare(parts[place + 1]) if place + 1 < len(parts) else ""
    if grammar.bare(parts[0]) == "not" and len(parts) > 1 and not grammar.is_number(parts[1]):
        return _not(text, parts, carried)
    if head == "never" and place + 1 < len(parts):
        have = "have " if after in grammar.pasts() and after not in grammar.simple_pasts() else ""
        return f"{carried or 'I'} {have}{text}", "never"
    subject = carried or "I"
    first = subject.lower() in grammar.FIRST
    be = _be(subject)
    if head in _OTHERS_DO and first and after:
        return f"he {text}", "pronoun"
    if first and _TAKES_TIME.match(text):
        return "", ""
    if (
        head in {"is", "has", "was", "does", "isn't", "hasn't", "doesn't", "wasn't"}
        and first
        and head not in {"was", "wasn't"}
    ):
        return f"he {text}", "pronoun"
    if head in grammar.AUXILIARIES:
        return f"{subject} {text}", "auxiliary"
    if head in {"been", "gone"}:
        return f"{subject} {'have' if first else 'has'} {text}", "been"
    if _adjective(parts[place:]):
        be = "was" if head in {"born", "raised"} else be
        return f"{subject} {be} {text}", "state"
    if head in lexicon.words("states.txt") and kin_gender(after) in {"m", "f"}:
        return f"{subject} {be} {article(head)} {text}", "state"  # "single dad, two girls"
    if head in lexicon.words("states.txt") and not _begins_object(parts[place + 1 :]):
        return _nominal(text, parts, place, subject)  # "retired nurse", "vegan cheese": no verb
    if head in grammar.simple_pasts() and not _noun_use(head, after):
        return f"{subject} {text}", "past"
    if head in grammar.thirds() and carried and not first and not _noun_use(head, after):
        return f"{subject} {text}", "third"
    names = after in {"is", "was", "and", "me", "us"} or after in word_set("subjects.compound_heads")
    if head in grammar.ings() and after and not names:  # a booking code is a thing
        return f"{subject} {be} {text}", "progressive"
    if head in _RETURNS and _is_when(parts[place + 1 :]):
        return f"{subject} {be} {text}", "returns"
    if head in grammar.bases() and not _noun_use(head, after):
        if carried or head in lexicon.words("statement_verbs.txt") or DATED.match(text):
            return f"{subject} {text}", "base"
        return "", ""
    return _nominal(text, parts, place, subject)


_RETURNS = frozenset({"back", "home", "away", "abroad"})
"""Where somebody is at a time ("back the 11th"): no verbs there, whatever else they are."""


def _is_when(parts: list[str]) -> bool:
    """Whether words say when, and open with no noun: "the 11th", "to work on monday"; "day 9 October" is none."""
    head = grammar.bare(parts[0]) if parts else ""
    named = lexicon.pairs("reconcile_weekdays.tsv").keys() | lexicon.pairs("reconcile_months.tsv").keys()
    opens = lexicon.words("prepositions.txt") | {"the", "next", "this", "tomorrow", "tonight", "today", "again"} | named
    return (head in opens or grammar.is_number(head)) and any(map(_is_time, parts))


def _is_time(part: str) -> bool:
    return grammar.is_time_word(grammar.bare(part)) or grammar.is_number(part)


def reads_as_noun(text: str) -> bool:
    """Whether a bare form that nouns have too opens words with no object: "interview on monday", but "interview staff".

    What people say of themselves so ("work at Tesco", "run on Mondays") is a verb.
    """
    parts = text.split()
    head, after = grammar.bare(parts[0]), grammar.bare(" ".join(parts[1:2]))
    if head in lexicon.words("statement_verbs.txt") or DATED.match(text) or head not in lexicon.words("nounish.txt"):
        return False
    led = after in lexicon.words("prepositions.txt") or (after == "the" and any(map(_is_time, parts[2:3])))
    return head in grammar.bases() and (led or not after or _is_time(after))


_TAKES_TIME = Pattern(
    r"(?:takes?|took|lasts?|lasted|costs?) (?:(?:me|us|about|around|almost|nearly|over|only|just|like) )*"
    r"(?:ages|forever|[$\u20ac\u00a3]\d|(?:\d[\d.,]*|an?|two|three|four|five|six|ten|several|some|half an?)[ -]?"
    r"(?:min|hour|hr|day|week|month|year|yr|age|euro|eur|pound|quid|dollar))(?!.*\boff\b)",
    re.I,
)
"""What takes time or costs money is a thing or an affair ("took 40 minutes"); who takes time off is a person."""
_OTHERS_DO = word_set("subjects.others_do")


def _be(subject: str) -> str:
    return "am" if subject == "I" else "are" if subject.lower() == "we" else "is"


_BREED = Pattern(
    r"^(?:an? )?(?P<age>\d+ ?(?:months?|years?|weeks?|yrs?|yo)(?:[- ]old)?)(?: (?P<noun>[\w' -]{2,40}))?$", re.I
)


def _lives(subject: list[str]) -> bool:
    """Whether a subject is a person or an animal, of whom a bare "2 years" is the age."""
    return grammar.is_name(subject[0]) or coreference.relation_in(subject) is not None


def _nominal(text: str, parts: list[str], place: int, subject: str) -> tuple[str, str]:
    head = grammar.bare(parts[place])
    be = _be(subject)
    breed = _BREED.match(text)
    old = breed is not None and re.search(r"old|yo", breed.group("age")) is not None
    if breed and subject.lower() not in grammar.FIRST and (old or _lives(subject.split())):
        aged = breed.group("age") if old or breed.group("noun") else f"{breed.group('age')} old"
        return f"{subject} is {'a ' + text.removeprefix('a ') if breed.group('noun') else aged}", "age"
    after = grammar.bare(parts[place + 1]) if place + 1 < len(parts) else ""
    if _is_role(parts, place):
        noun = text if head in {"a", "an", "the"} else f"{article(' '.join(parts[place:]))} {text}"
        return f"{subject} {be} {noun}", "role"
    if (
        head in _PLACE
        and (head != "with" or subject.lower() in grammar.FIRST)  # "the trip is off, with the baby and all"
        and after not in {"everything", "all", "it", "that", "this", "them", "fact", "general"}
        and len(parts) > place + 1
        and not _time_only(parts[place:])
        and not NO_PLACE.search(text)
    ):
        return f"{subject} {be} {text}", "place"
    return "", ""


def _not(text: str, parts: list[str], carried: str) -> tuple[str, str]:
    """ "not a fan of mushrooms", "not from here": said of the subject in hand."""
    second = grammar.bare(parts[1])
    if second in word_set("subjects.after_not") | lexicon.words("states.txt"):
        subject = carried or "I"
        return f"{subject} {'am' if subject == 'I' else 'is'} {text}", "state"
    return "", ""


def _adjective(parts: list[str]) -> bool:
    """ "vegan", "allergic to nuts": a state with nothing behind it that it could belong to ("vegan cheese")."""
    states = lexicon.words("states.txt")
    low = [grammar.bare(part) for part in parts[:3]]
    size = 2 if " ".join(low[:2]) in states else 1
    if size == 1 and low[0] not in states:
        return False
    behind = low[size] if len(low) > size and not parts[size - 1].endswith((",", ".", ":")) else ""
    return not behind or _ends_state(behind) or grammar.is_number(parts[size])


def _begins_object(parts: list[str]) -> bool:
    """Whether a participle's next words make it a verb: "adopted a dog", "retired last year", "married Ana"."""
    head = grammar.bare(parts[0]) if parts else ""
    opens = head in lexicon.words("determiners.txt") or head in word_set("grammar.time_openers")
    return opens or (head != "" and grammar.is_name(parts[0]))


def _ends_state(word: str) -> bool:
    """Whether a word goes on behind a state and is no noun that the state describes."""
    lists = ("prepositions.txt", "adverbs.txt", "states.txt")
    return word in {"and", "or", "but", "that", "so", "because", "if", "when", "though", "tho", "btw", "pls"} or (
        grammar.is_time_word(word) or any(word in lexicon.words(name) for name in lists)
    )


def _noun_use(head: str, after: str) -> bool:
    return head in lexicon.words("nounish.txt") and after in _AFTER_NOUN


_AFTER_NOUN = frozenset(["", "and", "or", "of", "is", "are", "was", "here", "only", "mostly", "please", "so", "but"])


def _time_only(parts: list[str]) -> bool:
    return all(
        grammar.is_time_word(grammar.bare(part))
        or grammar.is_number(part)
        or grammar.bare(part) in _PLACE | {"the", "last"}
        for part in parts
    )


def _is_role(parts: list[str], place: int) -> bool:
    """ "sparky in Geelong", "retired bus driver", "phd student": an occupation within the first words, then an end."""
    roles = lexicon.words("roles.txt")
    for at in range(place, min(place + 5, len(parts))):
        word = grammar.bare(parts[at])
        if word in {"my", "our", "the", "his", "her", "their"} or word.endswith("'s"):
            return False
        if word in roles:
            following = grammar.bare(parts[at + 1]) if at + 1 < len(parts) else ""
            if not following or _ROLE_TAIL.match(following) or parts[at].endswith((",", ".")):
                return grammar.find_verb(parts, place) < 0
        elif word in lexicon.words("prepositions.txt"):
            return False
    return False


def _here(words: str) -> str:
    parts = words.split()
    if _is_role(parts, 0) or grammar.bare(parts[-1]) in lexicon.words("roles.txt"):
        return f"I am {words}" if parts[0].lower() in {"a", "an"} else f"I am {article(words)} {words}"
    if len(parts) <= 3 and all(grammar.is_name(part) for part in parts):
        return f"my name is {words}"
    return f"I am {words}" if any(grammar.bare(part) in _PLACE for part in parts) else f"I have {words}"


_OWN_SUBJECT = word_set("subjects.own_subject")


def _owned(text: str, parts: list[str]) -> tuple[str, str]:
    """ "rent is 780" with its owner: bare personal nouns, relatives and animals get "my"."""
    place = grammar.skip_adverbials(parts)
    head = grammar.bare(parts[place])
    verb = grammar.find_verb(parts, place)
    if head.endswith("'s") and head[:-2] in lexicon.pairs("kin.tsv"):
        return " ".join([*parts[:place], "my", lower_first(parts[place]), *parts[place + 1 :]]), "noun"
    if has_owner(head) or head.isdigit() or grammar.is_name(parts[place]) or verb <= place:
        return text, "noun"
    if not is_personal(parts[place:verb]):
        return text, "noun"
    if head in lexicon.words("prepositions.txt"):  # "as a kid I lived in Bonn": no noun phrase, so nobody's
        speaks = any(grammar.bare(part) in grammar.FIRST for part in parts[place:verb])
        return (text, "noun") if speaks else ("", "")
    return " ".join([*parts[:place], "my", lower_first(parts[place]), *parts[place + 1 :]]), "noun"


def has_owner(head: str) -> bool:
    """Whether the first word of a noun phrase says which one or whose it is."""
    return head in _OWN_SUBJECT or head.endswith("'s")


def is_personal(subject: list[str]) -> bool:
    """Whether a bare noun phrase names something that one has: its head, or its first words, are in the lists."""
    low = [grammar.bare(part) for part in subject]
    if not low:
        return False
    personal = lexicon.words("personal_nouns.txt")
    kept = [word for word in low if word not in lexicon.words("adverbs.txt")]
    if not kept:
        return False
    head = kept[-1]
    for word in (
        head,
        head.rstrip("s"),
        head[:-3] + "y" if head.endswith("ies") else head,
        " ".join(kept),
        " ".join(kept[-2:]),
    ):
        if word in personal or word in coreference.relation_nouns():
            return True
    if any(word in coreference.relation_nouns() for word in kept) or (
        kept[0] in personal and grammar.is_name(subject[-1])
    ):
        return True
    before = [
        at
        for at, word in enumerate(kept)
        if word in {"for", "of", "at", "in", "with", "to", "on", "over", "above", "under", "below", "between", "from"}
    ]
    return bool(before) and before[0] > 0 and is_personal(subject[: before[0]])
