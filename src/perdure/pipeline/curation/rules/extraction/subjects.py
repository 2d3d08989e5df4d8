"""A clause without its subject, as chat style has it, completed: "lost my passport", "vegan", "rent is 780".

The result still speaks in the first person ("I lost my passport", "my rent is 780"); `person` turns it.
"""

from __future__ import annotations

import re

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import coreference, grammar
from perdure.pipeline.lexicon import word_set

# Openings of chat style that leave out subject, verb or article: "insulin pump since 2011", "dialysis nurse".

_ARTICLE_AN = "aeiou"
YEAR_OF = Pattern(
    r"^(?:first|second|third|fourth|fifth|final|last|1st|2nd|3rd|4th|5th|6th) (?:year|yr|term|semester) (?!of (?:the|"
    r"a)\b|in a row|running)[a-z][\w' -]*(?: (?:in|at|of) (?:my |the )?[\w' -]+)$"
)
"""How far somebody's studies are: "third year of my phd in Ljubljana", "2nd year architecture in Brno"."""
_SINCE = Pattern(
    r"^(?P<thing>(?:an? )?(?:[\w'-]+ ){0,3}[\w'-]+) since (?P<when>(?:i was|birth|childhood|school|\d{4}|the \w+|last|"
    r"january|february|march|april|may|june|july|august|september|october|november|december|age) ?.{0,40})$",
    re.I,
)
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


def is_bare_role(parts: list[str]) -> bool:
    """Whether two or three words end in an occupation and are nothing else ("Dialysis nurse", not "My nurse")."""
    words = [grammar.bare(part) for part in parts]
    plain = 1 < len(words) < 4 and all(word.replace("-", "").isalpha() for word in words)
    if not plain or words[-1] not in lexicon.words("roles.txt") or words[0] in lexicon.words("determiners.txt"):
        return False
    known = (
        grammar.POSSESSIVES | lexicon.words("imperatives.txt") | lexicon.words("prepositions.txt") | grammar.AUXILIARIES
    )
    capitals = sum(part[:1].isupper() for part in parts)
    return words[0] not in known | {"no", "new", "not", "dear", "for", "hi"} and capitals < 2


def unlisted_verb(head: str, after: str) -> str:
    """ "past" or "ing" for a word at the head that no list has, but that ends and goes on as such a form does."""
    goes_on = after in lexicon.words("prepositions.txt") | lexicon.words("determiners.txt") | grammar.POSSESSIVES
    if not goes_on or coreference.is_known_word(head) or not head.isalpha() or len(head) < 6:
        return ""
    if head.endswith("ed") and not head.endswith(("eed", "red")):
        return "past"
    takes = after in lexicon.words("determiners.txt") | grammar.POSSESSIVES
    return "ing" if takes and head.endswith("ing") and head not in word_set("cleaning.noun_ing") else ""


def had_since(text: str) -> str:
    """ "insulin pump since I was 11": what one has had since then, or ""."""
    match = _SINCE.match(text)
    words = match.group("thing").split() if match else []
    if match is None or not words or any(grammar.is_time_word(grammar.bare(word)) for word in words):
        return ""
    last = grammar.bare(words[-1])
    known = coreference.is_known_word(last) and not grammar.is_form(grammar.bare(words[0]))
    if not known or grammar.bare(words[0]) in lexicon.words("adverbs.txt") | lexicon.words("prepositions.txt"):
        return ""
    if last in lexicon.words("states.txt") | lexicon.words("moods.txt") | lexicon.words("adverbs.txt"):
        return ""
    thing = match.group("thing")
    counted = words[0].lower() in {"a", "an"} or last.endswith("s")
    return f"I have had {thing if counted else f'{article(thing)} {thing}'} since {match.group('when')}"


_PLACE = word_set("subjects.place")
_HERE = Pattern(r"^(.{2,60}?),? here$", re.I)
_ROLE_TAIL = Pattern(r"^(?:of|in|at|for|from|on|with|by|to|turned|based|living|working|and|specialising|specializing)$")
_PARENT = Pattern(
    r"^(?:proud |single |busy |working )*(?:mum|mom|mother|dad|father|parent|grandma|grandad|granny|godmother|"
    r"godfather|godparent|stepmum|stepdad|stepmother|stepfather|foster (?:mum|dad|parent|carer)|aunt|auntie|uncle|"
    r"guardian) (?:of|to) ",
    re.I,
)


def complete(text: str, carried: str = "") -> tuple[str, str]:
    """The clause with a subject, and the rule that gave it one; ("", "") where it is a mere fragment.

    `carried` is the subject of the clause before in the same sentence, "" if there is none.
    """
    parts = text.split()
    if not parts:
        return "", ""
    head = grammar.bare(parts[0])
    if (
        head in {"think", "reckon", "guess", "believe", "pretty", "fairly", "quite", "suppose", "thinking"}
        and len(parts) > 2
    ):  # a verb of opinion that stands without its I
        led = _led(parts)
        if led:
            return led, "first"
    if YEAR_OF.match(text):
        return f"I am in the {text}", "place"
    taken = (
        head in grammar.simple_pasts() and len(parts) > 1 and grammar.bare(parts[1]) in lexicon.words("determiners.txt")
    )
    if not carried and not taken and is_bare_role(parts):  # "Found a gardener" is no occupation
        lowered = " ".join([lower_first(parts[0]), *parts[1:]])
        return f"I am {article(lowered)} {lowered}", "role"
    if not carried and not _is_role(parts, 0) and (had := had_since(text)):
        return had, "first"
    if head in {"left", "right"} and len(parts) > 1 and _adjective(head, grammar.bare(parts[1])):
        return _verbless_subject(text, parts, carried)
    kind = grammar.subject_of(parts)
    if kind == "name" and coreference.is_known_word(head) and is_personal(parts[: max(1, grammar.find_verb(parts))]):
        kind, parts = "noun", [lower_first(parts[0]), *parts[1:]]
        text = " ".join(parts)
    if kind:
        return (text, kind) if kind != "noun" else (_owned(text, parts), "noun")
    here = _HERE.match(text)
    if here and not grammar.is_number(here.group(1).split()[0]):
        return _here(here.group(1)), "here"
    if parts[0][:1].isupper() and parts[0][1:].islower() and coreference.is_known_word(parts[0].lower()):
        text = text[:1].lower() + text[1:]
        parts = text.split()
    return _verbless_subject(text, parts, carried)


def _led(parts: list[str]) -> str:
    """ "think I'm going to ..." and "pretty sure Mags moved" with the I that they leave out."""
    head = grammar.bare(parts[0])
    if head in {"pretty", "fairly", "quite"}:
        return (
            f"I am {' '.join(parts)}"
            if grammar.bare(parts[1]) in {"sure", "certain", "confident"} and len(parts) > 3
            else ""
        )
    after = grammar.bare(parts[1])
    if after in grammar.SUBJECTS | grammar.POSSESSIVES | {"that", "the"} or grammar.is_name(parts[1]):
        return f"I {'am ' if head == 'thinking' else ''}{' '.join(parts)}"
    return ""


def _verbless_subject(text: str, parts: list[str], carried: str) -> tuple[str, str]:
    place = 0
    adverbs = lexicon.words("adverbs.txt") | {"not", "no longer"}
    while place < len(parts) - 1 and grammar.bare(parts[place]) in adverbs - {"never"}:
        place += 1
    head = grammar.bare(parts[place])
    after = grammar.bare(parts[place + 1]) if place + 1 < len(parts) else ""
    if grammar.bare(parts[0]) == "not" and len(parts) > 1 and not grammar.is_number(parts[1]):
        return _not(text, parts, carried)
    if head == "no" and after == "longer":
        return _no_longer(text, parts, place, carried)
    if head == "back" and after in lexicon.words("prepositions.txt"):
        return f"{carried or 'I'} {_be(carried or 'I')} {text}", "place"
    if head == "never" and place + 1 < len(parts):
        if after in grammar.ings():
            return f"{carried or 'I'} {_be(carried or 'I')} {text}", "never"
        if after in lexicon.words("determiners.txt"):
            want = "want" if not carried or carried.lower() in grammar.FIRST else "wants"
            return f"{carried or 'I'} never {want} {text[6:]}", "never"
        have = "have " if after in grammar.pasts() and after not in grammar.simple_pasts() else ""
        return f"{carried or 'I'} {have}{text}", "never"
    subject = carried or "I"
    first = subject.lower() in grammar.FIRST
    be = _be(subject)
    if head in _OTHERS_DO and first and after:
        return f"he {text}", "pronoun"
    if (
        head in {"is", "has", "was", "does", "isn't", "hasn't", "doesn't", "wasn't"}
        and first
        and head not in {"was", "wasn't"}
    ):
        return f"he {text}", "pronoun"
    if head in {"should", "would", "could", "shall", "may"} and first:
        return "", ""
    if head in grammar.AUXILIARIES:
        return f"{subject} {text}", "auxiliary"
    if head == "ex" and after and not carried:
        return f"I am {'' if after not in lexicon.words('roles.txt') else 'an '}{text}", "state"
    if (
        head in _PARTICLES
        and after in {"to", "at", "from", "in", "on", "with", "off"}
        and len(parts) > 2
        and not carried
    ):
        return f"I am {text}", "place"
    if head in {"been", "gone"}:
        return f"{subject} {'have' if first else 'has'} {text}", "been"
    if _adjective(head, after):
        be = "was" if head in {"born", "raised"} else be
        return f"{subject} {be} {text}", "state"
    if head in word_set("subjects.passive") or (head == "made" and after == "redundant"):
        return f"{subject} {'were' if subject.lower() == 'we' else 'was'} {text}", "past"
    if head in grammar.ambiguous_pasts() and after in {"in", "up", "down", "off", "out"} and first:
        return f"{subject} have {text}", "past"
    if head in grammar.simple_pasts() and not _noun_use(head, after):
        return f"{subject} {text}", "past"
    if head in grammar.thirds() and carried and not first and not _noun_use(head, after):
        return f"{subject} {text}", "third"
    if head in grammar.ings() and after in {"me", "us"} and carried and not first:
        return f"{carried} is {text}", "progressive"
    if head in grammar.ings() and after and after not in {"is", "was", "and", "me", "us"}:
        return f"{subject} {be} {text}", "progressive"
    unlisted = unlisted_verb(head, after) if first else ""
    if unlisted:
        return f"{subject} {text}" if unlisted == "past" else f"{subject} {be} {text}", "past"
    if head in grammar.bases() and not _noun_use(head, after):
        if after in {"me", "us"}:
            return "", ""
        if carried or head in lexicon.words("statement_verbs.txt") or DATED.match(text):
            return f"{subject} {text}", "base"
        return "", ""
    return _nominal(text, parts, place, subject)


_PARTICLES = frozenset(["down", "halfway", "back", "over", "away", "partway", "overdue"])


_OTHERS_DO = word_set("subjects.others_do")


def _be(subject: str) -> str:
    return "am" if subject == "I" else "are" if subject.lower() == "we" else "is"


_BREED = Pattern(
    r"^(?:an? )?(?P<age>\d+ ?(?:months?|years?|weeks?|yrs?|yo)(?:[- ]old)?)(?: (?P<noun>[\w' -]{2,40}))?$", re.I
)


def _nominal(text: str, parts: list[str], place: int, subject: str) -> tuple[str, str]:
    head = grammar.bare(parts[place])
    be = _be(subject)
    breed = _BREED.match(text)
    if breed and subject.lower() not in grammar.FIRST:
        aged = (
            breed.group("age")
            if re.search(r"old|yo", breed.group("age")) or breed.group("noun")
            else f"{breed.group('age')} old"
        )
        return f"{subject} is {'a ' + text.removeprefix('a ') if breed.group('noun') else aged}", "age"
    after = grammar.bare(parts[place + 1]) if place + 1 < len(parts) else ""
    if _PARENT.match(text) or _is_role(parts, place):
        noun = text if head in {"a", "an", "the"} else f"{article(' '.join(parts[place:]))} {text}"
        return f"{subject} {be} {noun}", "role"
    if (
        head in _PLACE
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
    if second in {"a", "an"} and " since " in text:
        has = "has" if carried and carried.lower() not in grammar.FIRST else "have"
        return f"{carried or 'I'} {has} not had {' '.join(parts[1:])}", "state"
    if second in word_set("subjects.after_not") | lexicon.words("states.txt"):
        subject = carried or "I"
        return f"{subject} {'am' if subject == 'I' else 'is'} {text}", "state"
    if not carried and (second in grammar.ings() or second in word_set("subjects.not_being")) and len(parts) > 2:
        return f"I am {text}", "state"
    if carried and carried.lower() not in grammar.FIRST and _QUALITY.search(second):
        return f"{carried} {'are' if _plural(carried) else 'is'} {text}", "noun"
    return "", ""


_QUALITY = Pattern(r"(?:able|ible|ed|ive|ful|ous|able's|valid|open|free|due|included|allowed)$")
"""Ends of adjectives that go on with the "is" of the clause before ("30%, not refundable")."""


def _plural(subject: str) -> bool:
    word = grammar.bare(subject.rsplit(maxsplit=1)[-1])
    return word.endswith("s") and not word.endswith(("ss", "us"))


def _no_longer(text: str, parts: list[str], place: int, carried: str) -> tuple[str, str]:
    subject = carried or "I"
    third = grammar.bare(parts[place + 2]) if place + 2 < len(parts) else ""
    if third in grammar.bases() or third in grammar.thirds() or third in grammar.AUXILIARIES:
        return f"{subject} {text}", "no longer"
    return f"{subject} {'am' if subject == 'I' else 'is'} {text}", "no longer"


def _adjective(head: str, after: str) -> bool:
    return head in lexicon.words("states.txt") or f"{head} {after}" in lexicon.words("states.txt")


def _noun_use(head: str, after: str) -> bool:
    if (head == "left" and after in _BODY) or head in {"shut", "closed", "open"}:
        return True
    return head in lexicon.words("nounish.txt") and after in _AFTER_NOUN


_AFTER_NOUN = frozenset(["", "and", "or", "of", "is", "are", "was", "here", "only", "mostly", "please", "so", "but"])
_BODY = word_set("subjects.body")


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
    if grammar.bare(parts[-1]) == "brain":
        return f"I have {article(words)} {words}"
    if grammar.bare(parts[0]) in lexicon.words("states.txt"):
        return f"I am {words}"
    if len(parts) == 1 and not coreference.is_known_word(grammar.bare(parts[0])) and parts[0].isalpha():
        return f"my name is {words.capitalize()}"
    return f"I am {words}" if any(grammar.bare(part) in _PLACE for part in parts) else f"I have {words}"


_OWN_SUBJECT = word_set("subjects.own_subject")


def _owned(text: str, parts: list[str]) -> str:
    """ "rent is 780" with its owner: bare personal nouns, relatives and animals get "my"."""
    place = grammar.skip_adverbials(parts)
    head = grammar.bare(parts[place])
    verb = grammar.find_verb(parts, place)
    if head.endswith("'s") and head[:-2] in lexicon.pairs("kin.tsv"):
        return " ".join([*parts[:place], "my", lower_first(parts[place]), *parts[place + 1 :]])
    if place + 1 < len(parts) and grammar.bare(parts[place + 1]) == "of" and head in lexicon.words("common_words.txt"):
        return text
    if head in _OWN_SUBJECT or head.endswith("'s") or head.isdigit() or grammar.is_name(parts[place]) or verb <= place:
        return text
    if is_personal(parts[place:verb]):
        owner = "my"
        return " ".join([*parts[:place], owner, lower_first(parts[place]), *parts[place + 1 :]])
    return text


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
