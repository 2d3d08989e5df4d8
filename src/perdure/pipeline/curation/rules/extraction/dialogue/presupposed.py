"""What a question or a request takes for granted of the user: "why does my 2016 Subaru shake" has a 2016 Subaru."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import coreference, filters, grammar, sentences, statements
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.lexicon import word_set

_OWNED = Pattern(
    r"\b[Mm]y ((?:(?:new|old|first|second|beloved|trusty|current|poor|little|big|\d{4}|\d+[- ]year[- ]old) "
    r")*)((?:\d{4} )?[A-Z][\w-]+(?: [A-Z0-9][\w.-]*){0,3})"
)
_AGED = Pattern(
    r"\b(?:my|our) (\d{1,2}|[a-z]+teen|two|three|four|five|six|seven|eight|nine|ten|twelve)[- ]?(?:year|yr|"
    r"yo|y/o|month|week)s?[- ]?(?:old)? ?((?:[\w-]+ ){0,2}?)"
    r"(son|daughter|kid|child|boy|girl|baby|dog|cat|puppy|kitten|nephew|niece|brother|sister|grandson|"
    r"granddaughter|twins|toddler|beagle|labrador|husky|car|laptop|house)?\b(?: ([A-Z]\w+))?",
    re.I,
)
_WHO = Pattern(
    r"\bfor (?:a|my|our) ((?:[\w-]+ ){0,5}?[\w-]+?),? who(?: is|'s)? (.{3,60}?)(?=$|,| and (?:i|my)\b)", re.I
)
_AS = Pattern(
    r"\b(?:as|being) (an? (?!if\b|for\b|result\b|gift\b|present\b|bonus\b|side\b|last\b|way\b|start\b|whole\b|rule\b|"
    r"beginner\b|user\b|test\b|list\b|table\b|poem\b)[^,?]{3,60}?)(?=$|,| (?:i|how|what|should|who|can|do|would)\b)",
    re.I,
)
_GIVEN = Pattern(
    r"\b(?:given that|since|because|considering(?: that)?|as|now that|seeing as|bearing in mind(?: that)?|"
    r"even though|although|but|and|when) ((?:i|we|my) (?:am|have|'ve|live|work|own|can't|don't|use|drive|"
    r"only|just|already|got|is|has|am|take|eat|need|was|did|moved|bought|had|wife|husband|son|daughter|"
    r"partner|kids|boss|dog|cat|landlord|car|mum|mom|dad)\b[^,?]{3,120})",
    re.I,
)


def read(text: str, talk: Discourse, source: int) -> list[Draft]:
    """The facts that the wording of a question or request holds about the user; mostly none."""
    drafts: list[Draft] = []
    who = talk.who
    for match in _AGED.finditer(text):
        noun = (match.group(3) or "").lower() or "child"
        unit = re.search(r"month|week", match.group(0), re.I)
        age = f"{match.group(1)} {unit.group().lower() + 's' if unit else 'years'} old"
        name = match.group(4) or ""
        display = f"{who}'s {match.group(2)}{noun}{' ' + name if name and grammar.is_name(name) else ''}"
        drafts.append(statements.make(f"{display} is {age}", "aged", talk, source))
        talk.meet(display, "n")
    for match in _OWNED.finditer(text):
        thing = f"{match.group(1)}{match.group(2)}"
        if not grammar.is_name(match.group(2).split()[0]) and not match.group(2)[0].isdigit():
            continue
        if match.group(2).split()[0].lower() in coreference.relation_nouns():
            continue
        noun = _noun_behind(text[match.end() :])
        drafts.append(statements.make(f"{who} has {article(thing)} {thing}{noun}", "owned", talk, source))
        talk.thing = f"{who}'s {match.group(2)}{noun}"
    for match in _WHO.finditer(text):
        drafts.extend(_described(match, talk, source))
    for match in _AS.finditer(text):
        if re.search(r"\b(?:i|me|my|we)\b", text, re.I) and not re.search(
            r"\b(?:act|pretend|think|explain|write|speak|answer)\b", text, re.I
        ):
            role = statements.finish(match.group(1), talk)
            drafts.append(statements.make(f"{who} is {role[:1].lower()}{role[1:]}", "as", talk, source))
    for match in _GIVEN.finditer(text):
        drafts.extend(statements.read(match.group(1), "", talk, statements.Sentence(source)))
    drafts.extend(_more(text, talk, source))
    parts = text.split()
    relation = coreference.relation_in(parts)
    if relation and relation.name:
        naming = coreference.note_people(text, talk)
        if naming:
            drafts.append(statements.make(f"{naming[0]} is named {naming[1]}", "naming", talk, source))
    elif relation:
        coreference.note_people(text, talk)
    return drafts


def _noun_behind(after: str) -> str:
    """ " dishwasher" of "my Bosch Series 6 dishwasher freeze": the common nouns behind a make, at most two."""
    if not after.startswith(" "):
        return ""
    words = re.split(r"[,.;:?!()]", after)[0].split()
    found: list[str] = []
    for place, word in enumerate(words[:3]):
        following = words[place + 1] if place + 1 < len(words) else ""
        ends = not following or grammar.is_form(following) or following in lexicon.words("prepositions.txt")
        doubtful = grammar.is_form(word) and (found or not (word in lexicon.words("nounish.txt") and ends))
        if not word.islower() or not word.isalpha() or doubtful or word in _no_nouns() or len(found) == 2:
            break
        found.append(word)
    return f" {' '.join(found)}" if found else ""


@cache
def _no_nouns() -> frozenset[str]:
    names = ("prepositions", "determiners", "adverbs", "time_words", "moods", "states")
    return (
        frozenset().union(*(lexicon.words(f"{name}.txt") for name in names))
        | grammar.SUBJECTS
        | word_set("presupposed.no_nouns")
    )


_PENDING = Pattern(
    r"\bfor (?:a|an|my) (\d{1,3}|[a-z]+teen)[- ]?(?:year|yr|yo|y/o)s?[- ]?(?:old)?(?: (?:man|woman|lady|"
    r"guy|person|boy|girl|kid|child))?(?: who (.{3,60}?))?$",
    re.I,
)


def bearer(words: str, talk: Discourse, source: int) -> list[Draft]:
    """ "it's for my mother-in-law Gunilla": who was meant, and what the question before had said of that person."""
    naming = coreference.note_people(words, talk)
    drafts = [statements.make(f"{naming[0]} is named {naming[1]}", "naming", talk, source)] if naming else []
    if coreference.relation_in(words.split()) and talk.person and talk.pending:
        drafts.extend(
            statements.make(f"{talk.person} {predicate}", "described", talk, source) for predicate in talk.pending
        )
        talk.pending.clear()
    return drafts


def note_described(text: str, talk: Discourse) -> None:
    """Remember what a question says of somebody not yet named ("a 60 year old who loves gardening")."""
    old = _OLD.search(text)
    if old:
        unit = {"yr": "year", "mo": "month"}.get(old.group(2).lower(), old.group(2).lower())
        talk.pending[:] = [f"is {old.group(1)} {unit}s old"]
    match = _PENDING.search(text.strip(" ?."))
    if match:
        talk.pending[:] = [f"is {match.group(1)}"] + ([match.group(2)] if match.group(2) else [])


_OLD = Pattern(
    r"\b(?:in|for|with|is|does|can|give|has|of) (?:a|an|my|our) (\d{1,2})[- ]?(month|year|week|yr|mo)s?[- ]?(?:old)\b",
    re.I,
)


def unnamed(talk: Discourse, source: int) -> list[Draft]:
    """The child of whose age a question spoke, and of whom "he" or "she" goes on to tell."""
    young = any("week" in predicate or "month" in predicate for predicate in talk.pending)
    display = f"{talk.who}'s {'baby' if young else 'child'}"
    talk.meet(display, "n")
    drafts = [statements.make(f"{display} {predicate}", "described", talk, source) for predicate in talk.pending]
    talk.pending.clear()
    return drafts


def named(name: str, talk: Discourse, source: int) -> list[Draft]:
    """ "this is Ottilia": the one of whom the question before had told the age."""
    talk.call(name, name)
    talk.meet(name, "n")
    drafts = [statements.make(f"{name} {predicate}", "described", talk, source) for predicate in talk.pending]
    talk.pending.clear()
    return drafts


_NEW = Pattern(
    r"\b(?:my|our) ((?:brand )?new (?:[\w-]+ )?[a-z][\w-]+)(?=$|[,.?!]| (?:is|has|keeps|that|which|in|at|"
    r"for|and|smells|doesn't|won't)\b)"
)


_BABY = Pattern(r"\b[Bb]aby ([A-Z][\w'-]+)")
_EVENT = Pattern(
    r"\b(?:before|after|for|until|during|to) (?:my|our|a|an) ((?:[\w-]+ ){0,3}?(?:meeting|appointment|interview|"
    r"wedding|flight|exam|surgery|operation|audition|presentation|funeral|party|conference|scan|viva|recital|race|"
    r"match|gig|deadline|holiday|trip|layover|shift|check-?up|procedure) (?:(?:in|at|on|with|to|next|this|tomorrow|"
    r"from) ?[^,?]{2,50}))",
    re.I,
)
_HARDWARE = Pattern(r"\b(?:rtx|gtx|rx|ryzen|i[3579]-?\d|m[1-4]\b|\d{1,3} ?gb|\d ?tb|\d{4}x(?:3d|t)?\b)", re.I)


def _more(text: str, talk: Discourse, source: int) -> list[Draft]:
    drafts = []
    for match in _BABY.finditer(text):
        if match.group(1).lower() not in talk.names:
            talk.call(match.group(1), f"{talk.who}'s baby {match.group(1)}")
            drafts.append(statements.make(f"{talk.who}'s baby is named {match.group(1)}", "naming", talk, source))
        talk.meet(f"{talk.who}'s baby {match.group(1)}", "n")
    for match in _NEW.finditer(text):
        if match.group(1).split()[-1] not in word_set("presupposed.of_a_text"):
            drafts.append(statements.make(f"{talk.who} has a {match.group(1)}", "owned", talk, source))
            talk.thing = f"{talk.who}'s {match.group(1)}"
    for match in _EVENT.finditer(text):
        if re.search(r"\b(?:in|at|on|with|tomorrow|next|this)\b.*(?:[A-Z]|\d|day|week|month|tomorrow)", match.group(1)):
            drafts.append(
                statements.make(
                    statements.finish(f"I have {article(match.group(1))} {match.group(1)}", talk),
                    "presupposed",
                    talk,
                    source,
                )
            )
    note_described(text, talk)
    return drafts


def hardware(text: str) -> bool:
    """Whether a fragment names parts of a computer, which one lists as one's own."""
    return _HARDWARE.search(text) is not None and len(text.split()) <= 5


def article(thing: str) -> str:
    """The indefinite article before a thing, by its first letter."""
    return "an" if thing[:1].lower() in "aeio" else "a"


def _described(match: re.Match[str], talk: Discourse, source: int) -> list[Draft]:
    noun = match.group(1).strip()
    relation = coreference.relation_in(["my", *noun.split()])
    subject = f"{talk.who}'s {noun}" if relation else f"The {noun}"
    if not relation:
        return []
    talk.meet(subject, "n")
    predicate = match.group(2).strip()
    first = grammar.bare(predicate.split()[0])
    verb = "" if first in grammar.thirds() or first in grammar.pasts() or first in grammar.AUXILIARIES else "is "
    return [statements.make(f"{subject} {verb}{predicate}", "described", talk, source)]


# What a sentence of any kind tells of the user by a mere mention, be it a question, a request or a statement.

_ALLERGY = Pattern(
    r"\b(?:my|with(?: my| an?)?) (?:(?:severe|bad|mild|terrible|nasty|bit of an?) )?(?P<what>(?!food\b|skin\b|drug\b|"
    r"seasonal\b|any\b|other\b|this\b|new\b)[a-z]+(?: [a-z]+)?) (?P<how>allerg(?:y|ies)|intolerance)\b",
    re.I,
)
_TRADE = Pattern(
    r"\b(?:my|our) (?P<kind>(?:[a-z][\w-]+ ){0,3}(?P<noun>[a-z]+)),? (?:called |named )?"
    r"(?P<name>[A-ZÀ-Þ][\w'&-]+(?: (?:& |and |of )?[A-ZÀ-Þ][\w'-]+){0,3})"
)


_APPOSED_AGE = Pattern(
    r"\b(?P<whose>(?:my|our) (?:[a-z-]+ ){1,3}?(?P<name>[A-ZÀ-Þ][\w'-]+)), (?:aged )?(?P<age>\d{1,2})"
    r"(?=,|$|\?|\.| who\b)"
)


def read_mentioned(text: str, talk: Discourse, source: int) -> list[Draft]:
    """What a sentence of any kind tells by a mere mention: allergies, named firms, ages behind names, named kin."""

    @cache
    def told() -> set[str]:  # asked seldom: what came before is looked at only by then
        return {draft.text for draft in talk.drafts if source in draft.sources}

    drafts = [
        *_conditions(text, talk, source),
        *_trades(text, talk, source),
        *_taught(text, talk, source, told),
        *_lives(text, talk, source, told),
    ]
    for match in _APPOSED_AGE.finditer(text):
        if coreference.relation_in(match.group("whose").split()) and not any(
            match.group("age") in fact.split() for fact in told()
        ):
            coreference.note_people(match.group("whose"), talk)
            drafts.append(statements.make(f"{match.group('name')} is {match.group('age')}", "aged", talk, source))
    return [draft for draft in drafts if not any(_within(draft.text, fact) for fact in told())]


def _within(fact: str, told: str) -> bool:
    """Whether all that a fact says is told already."""
    return set(fact.lower().split()) - {"a", "an", "the", "named", "has"} <= set(told.lower().split())


def named_kin(text: str, talk: Discourse, source: int) -> list[Draft]:
    """Who or what has a name, in a sentence that gave nothing else ("my parrot Duchess swears, do I call a priest")."""
    relation = coreference.relation_in(text.split())
    if relation is None or relation.noun.removesuffix("s") in coreference.relation_nouns() - {relation.noun}:
        return []  # two dogs have no one name
    naming = coreference.note_people(text, talk)
    return [statements.make(f"{naming[0]} is named {naming[1]}", "naming", talk, source)] if naming else []


_TAUGHT = Pattern(
    r"\bmy (?P<who>(?:[Yy]ear|[Gg]rade) \d{1,2}s?(?: class| group| pupils| students)?|\d{1,2}(?:st|nd|rd|"
    r"th)[- ]grad(?:e|ers)(?: class)?|(?:[\w-]+ ){0,2}?(?:pupils|students)|(?:GCSE|A[- ]level|ESL|EFL|ESOL|IB|AP|"
    r"[ABC][12]) (?:[a-z]+ )?(?:class|group|set))\b(?P<size>(?: of|,(?: there are| a class of)?) \d{1,3}(?: of them| "
    r"kids| students| pupils)?)?"
)
"""Those whom a teacher teaches: nobody else has a Year 3 or students."""


def _taught(text: str, talk: Discourse, source: int, told: Callable[[], set[str]]) -> list[Draft]:
    """ "word problems for my Year 3s, there are 28 of them": the user teaches them."""
    return [
        statements.make(
            f"{talk.who} teaches {match.group('who')}{(match.group('size') or '').replace(' there are', '')}",
            "presupposed",
            talk,
            source,
        )
        for match in _TAUGHT.finditer(text)
        if match.group("size") or " " in match.group("who") or not told()
    ]


def _conditions(text: str, talk: Discourse, source: int) -> list[Draft]:
    """ "What can I eat with my shellfish allergy": allergic to shellfish."""
    drafts = []
    for match in _ALLERGY.finditer(text):
        if not match.group().lower().startswith("my") and not re.search(r"\b(?:my|i)\b", text, re.I):
            continue
        kind = "allergic to" if match.group("how").lower().startswith("allerg") else "intolerant to"
        drafts.append(
            statements.make(f"{talk.who} is {kind} {match.group('what').lower()}", "presupposed", talk, source)
        )
    return drafts


def _trades(text: str, talk: Discourse, source: int) -> list[Draft]:
    """ "a flyer for my dog walking business, Muddy Paws": the kind of firm, and its name."""
    return [
        statements.make(
            f"{talk.who} has {article(match.group('kind'))} {match.group('kind')} named {match.group('name')}",
            "owned",
            talk,
            source,
        )
        for match in _TRADE.finditer(text)
        if match.group("noun") in word_set("mentioned.trades")
    ]


_WITH = Pattern(r"\b(?:with my|my|with) (?P<what>(?:type [12] |chronic |severe |mild |bad )?[a-z]+)\b", re.I)
_TRAIT = Pattern(r"\b(?P<whose>my|our) (?P<trait>[a-z]+) (?P<who>[a-z-]+)(?: (?P<name>[A-ZÀ-Þ][\w'-]+))?")
_COUNTED = Pattern(
    r"\b(?:my|our) (?P<what>(?:(?:\d{1,2}|two|three|four|five|six) )?(?P<noun>twins|triplets|[a-z]+s|children))\b", re.I
)
_KIND = Pattern(
    r"\b(?P<thing>(?:my|our) (?:[a-z-]+ )?[a-z-]+), (?P<kind>an? (?:\d{4} |[a-z]+ ){0,2}[A-ZÀ-Þ][\w'-]+"
    r"(?: [A-Z0-9][\w'-]*){0,2})(?=,|$)"
)


def _lives(text: str, talk: Discourse, source: int, told: Callable[[], set[str]]) -> list[Draft]:
    """Conditions, traits, numbers and makes: "with my asthma", "my vegan sister", "my twins", "my oven, a Neff"."""

    def heard(word: str) -> bool:  # asked seldom, and of all that was told: nothing is made ready for it
        return any(word in fact.lower().split() for fact in told())

    mine = re.search(r"\b(?:i|my|we|our|me)\b", text, re.I) is not None
    clauses = [
        f"I have {match.group('what')}"
        for match in _WITH.finditer(text)
        if mine and _condition(match) and not heard(match.group("what").split()[-1].lower())
    ]
    clauses.extend(
        f"{match.group('name') or 'my ' + match.group('who')} is {match.group('trait')}"
        for match in _TRAIT.finditer(text)
        if match.group("trait") in word_set("mentioned.traits") and match.group("who") in coreference.relation_nouns()
    )
    clauses.extend(
        f"I have {match.group('what')}"
        for match in _COUNTED.finditer(text)
        if _numbered(match) and not heard(match.group("noun").lower())
    )
    clauses.extend(f"{match.group('thing')} is {match.group('kind')}" for match in _KIND.finditer(text))
    return [statements.make(statements.finish(clause, talk), "presupposed", talk, source) for clause in clauses]


def _condition(match: re.Match[str]) -> bool:
    """Whether it names a condition, said of the speaker and not of others ("a child with asthma")."""
    own = match.group().lower().startswith(("my", "with my")) or match.string[
        : match.start()
    ].rstrip().lower().endswith(" i")
    return own and match.group("what").split()[-1].lower() in word_set("mentioned.conditions")


def _numbered(match: re.Match[str]) -> bool:
    """Whether it counts children or animals: "my twins", "our three cats"."""
    noun = match.group("noun").lower()
    if noun in {"twins", "triplets"}:
        return True
    counted = " " in match.group("what")
    return counted and (noun in {"kids", "children", "sons", "daughters"} or noun[:-1] in lexicon.words("pets.txt"))


# What a message tells beside the text, the story or the supposition that is dropped: for whom, by when, of what.

LONGEST_TASK = 400
"""Characters: a longer message brings its text along unmarked, and a clause of it could be anybody's."""

LONGEST_BROUGHT = 4000
"""Characters in which quotations are looked for."""

_QUOTED = Pattern(r"[\"“«][^\"”»]*(?:[\"”»]|$)|(?<!\w)['‘][^'’\n]*(?:['’](?!\w)[^'’\n]*)*['’](?!\w)|`[^`]*`")
_BROUGHT = Pattern(r"\b(?:this|below|following)\b|\bhow (?:to|do (?:i|you)) say\b", re.I)
_RECEIVER = Pattern(
    r"\b(?:for|to) (?P<whose>(?:my|our) (?:[a-z-]+ ){1,3}?(?P<name>[A-ZÀ-Þ][\w'-]+))(?P<more>(?:,| who| and|\.).*)?$"
)
_AGE = Pattern(r"^,? ?(?:aged? |who is |she is |he is )?(?P<age>\d{1,2})(?= ?(?:$|,|\.| and | years? old))")
_OF_THEM = Pattern(r"^(?:,? ?(?:and )?(?:who|she|he)) (?P<said>[a-z']+ .{2,80})$", re.I)
_WHICH = Pattern(
    r"\b(?:the|my|our) (?P<thing>(?:[\w-]+ ){0,2}[\w-]+), (?:which|that) (?P<who>I|we) "
    r"(?P<verb>(?:have |'ve )?(?:just |only |already )?[a-z]+)(?P<rest> [^,?.]{2,50})?",
    re.I,
)


def read_around_task(text: str, at: int, talk: Discourse) -> list[Draft]:
    """The facts about the user around a text or a task: of the one it is for, and in clauses of the user's own."""
    head = _own_words(text)
    told = filters.is_fiction(text) or filters.is_role(text)
    if not head:
        return [] if told else _opening(text, at, talk)
    asked = not told and re.search(r"\b(?:for|to) (?:my|our)\b", head)
    drafts = read(head, talk, at) if asked else []
    drafts.extend([] if told else read_mentioned(head, talk, at))
    if not any(draft.rule == "described" for draft in drafts):
        drafts.extend(receiver(head, at, talk))
    return drafts if told else [*_opening(text, at, talk), *drafts, *_clauses(head, at, talk)]


def aside(text: str, at: int, talk: Discourse) -> list[Draft]:
    """ "if I sold the food truck, which I've had since 2016": what a supposition tells of a thing beside itself."""
    match = _WHICH.search(text)
    if match is None or grammar.bare(match.group("verb").split()[-1]) not in grammar.pasts():
        return []
    verb = match.group("verb").replace("'ve", "have")
    clause = f"{match.group('who')} {verb} my {match.group('thing')}{match.group('rest') or ''}"
    return [statements.make(statements.finish(clause, talk), "presupposed", talk, at)]


def _own_words(text: str) -> str:
    """The message without the text it brings; "" where the two cannot be told apart."""
    left = _QUOTED.sub(" ", text) if len(text) <= LONGEST_BROUGHT else text
    if len(left) > LONGEST_TASK:
        return ""
    head = re.split(r":(?=\s|$)|\n", left, maxsplit=1)[0]
    unmarked = left == text and head == left and _BROUGHT.search(head)
    return "" if unmarked else " ".join(head.split())


def receiver(head: str, at: int, talk: Discourse) -> list[Draft]:
    """Age and doings of the one for whom something is asked ("my wife Ines, she turns 40 in May")."""
    drafts: list[Draft] = []
    for sentence in re.split(r"(?<=[.!?]) +", head):
        match = _RECEIVER.search(sentence) or _IS_MINE.search(sentence)
        if match is None or coreference.relation_in(match.group("whose").split()) is None:
            continue
        name, more = match.group("name"), (match.group("more") or "").strip(" .!?")
        naming = coreference.note_people(match.group("whose"), talk)
        if naming:
            drafts.append(statements.make(f"{naming[0]} is named {naming[1]}", "naming", talk, at))
        aged = _AGE.match(more)
        if aged:
            drafts.append(statements.make(f"{name} is {aged.group('age')}", "aged", talk, at))
            more = more[aged.end() :].strip(" .")
        said = _OF_THEM.match(more)
        if said and _finite(said.group("said")):
            drafts.append(
                statements.make(statements.finish(f"{name} {said.group('said')}", talk), "described", talk, at)
            )
    return drafts


_IS_MINE = Pattern(
    r"^[\w' ]{2,40}? is (?P<whose>(?:my|our) (?:[a-z-]+ ){1,3}?(?P<name>[A-ZÀ-Þ][\w'-]+))(?P<more>,.*)?$"
)
"""Who the task is for, told in a sentence of its own: "The listener is my daughter Wren, 4, who hates baths"."""


def _finite(said: str) -> bool:
    words = [grammar.bare(part) for part in said.split()]
    verb = next((word for word in words if word not in lexicon.words("adverbs.txt")), "")
    return verb.endswith("s") or verb in grammar.simple_pasts() or verb in grammar.AUXILIARIES


def _clauses(head: str, at: int, talk: Discourse) -> list[Draft]:
    """The clauses behind the request that open with the speaker or something of his and hold something definite."""
    drafts: list[Draft] = []
    for part in _CLAUSES.split(head)[1:]:
        clause = part.strip(" .!?")
        if not _of_speaker(clause) or filters.is_chatter(clause) or filters.is_hypothetical(clause):
            continue
        if filters.is_question(clause, False) or filters.is_request(clause):
            continue
        state = statements.Sentence(at)
        for piece in sentences.split_clauses(clause):
            drafts.extend(statements.read(piece.text, piece.joint, talk, state))
    return drafts


def _opening(text: str, at: int, talk: Discourse) -> list[Draft]:
    """What the speaker tells of himself before he asks for something to be done with a text that follows."""
    own: list[str] = []
    for sentence in _SENTENCES.split(text[:LONGEST_TASK])[:4]:
        said = sentence.strip(" .!?")
        if filters.is_request(said) or filters.is_task(said) or _BROUGHT.search(said):
            break
        if not _of_speaker(said) or filters.is_chatter(said) or filters.is_hypothetical(said):
            return []
        own.append(said)
    else:
        return []
    drafts: list[Draft] = []
    for said in own:
        for piece in sentences.split_clauses(said):
            drafts.extend(statements.read(piece.text, piece.joint, talk, statements.Sentence(at)))
    return drafts


_SENTENCES = Pattern(r"(?<=[.!?])\s+|\n+")
_CLAUSES = Pattern(r"(?:[.!?;] +|, (?:and |but |so |because )?| (?:because|since) )")


def _of_speaker(clause: str) -> bool:
    parts = clause.split()
    if len(parts) < 3:
        return False
    first = grammar.bare(parts[0])
    if first in {"i", "we"}:
        said = [grammar.bare(part) for part in parts[1:]]
        lasting = any(word in word_set("requested.lasting") for word in said[:3])
        return said[0] not in word_set("requested.wanting") and (lasting or statements.specific(parts[1:]))
    verb = grammar.find_verb(parts)
    if first not in {"my", "our"} or not 1 < verb < 6 or not statements.specific(parts[verb:]):
        return False
    return not any(grammar.bare(part) in lexicon.words("formats.txt") for part in parts[1:verb])
