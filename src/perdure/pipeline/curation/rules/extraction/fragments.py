"""Words without a verb that still tell something: members of a list, and values that belong to what was spoken of."""

from __future__ import annotations

import re

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import coreference, filters, grammar, sentences, statements, subjects
from perdure.pipeline.curation.rules.extraction.dialogue import corrections
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.curation.rules.extraction.sentences import Clause
from perdure.pipeline.lexicon import word_set

# A plain statement that no rule took apart, kept whole: "Keziah is going travelling", "Card reader is SumUp".

_ADDRESSED = Pattern(r"\b(?:you|your|yours|u|ur|thanks|thank|please|pls)\b|[\"“”?]", re.I)
_WORDS = range(3, 25)
_LATEST_VERB = 7
"""Words that may stand before the verb: "Blood test for my mother was put back"."""


def plain_statement(sentence: sentences.Sentence, at: int, talk: Discourse) -> list[Draft]:
    """The sentence in the third person, if it tells something definite of the speaker's own world.

    Asked only where a sentence gave nothing, and only once the conversation has told something of its own: an outsider
    could not tell such a sentence from one about the world at large.
    """
    if not talk.own or talk.asks or talk.task or sentence.question or sentence.header:
        return []
    text = filters.strip_openers(sentence.text).strip(" ,.!")
    parts = text.split()
    if len(parts) not in _WORDS or _ADDRESSED.search(text) or _is_no_statement(text):
        return []
    resolved = coreference.resolve(text, talk) if talk.is_owned(text) else None
    if resolved is None or coreference.leaves_out_who(resolved, talk):
        return []
    parts = resolved.split()
    verb = grammar.find_verb(parts, grammar.skip_adverbials(parts))
    if not 0 < verb <= _LATEST_VERB or not statements.specific(parts):
        return []
    fact = statements.finish(resolved, talk)
    if not statements.worthy(fact, talk):
        return []
    return [statements.make(fact, "plain", talk, at)]


def _is_no_statement(text: str) -> bool:
    return (
        filters.is_hypothetical(text)
        or filters.is_chatter(text)
        or filters.is_question(text, False)
        or filters.is_request(text)
    )


# Verbless pieces of a sentence: left with their statement, made a readable one of their own, or refused.

LONGEST_TAIL = 8
"""Words of a tail that stays with its statement."""
LONGEST_FACT = 24
"""Words of a statement that still takes a tail."""


def attach(text: str, joint: str, source: int, talk: Discourse) -> bool:
    """Whether the piece after a comma was left with the statement before it ("takes bisoprolol, 2.5 mg")."""
    last = talk.drafts[-1] if talk.drafts else None
    words = text.split()
    if last is None or not joint.startswith(",") or len(words) > LONGEST_TAIL or last.sources[-1:] != (source,):
        return False
    if last.forget or last.procedural or last.rule in _CLOSED or len(last.text.split()) > LONGEST_FACT:
        return False
    if joint.strip(", ") or not _worth_keeping(words) or _comments(words):
        return False
    if not last.text.startswith(talk.who) and coreference.leaves_out_who(f"{last.text}, {text}", talk):
        return False
    keep = (
        grammar.is_name(words[0])
        or words[0].isupper()
        or text.startswith(talk.who)
        or grammar.is_time_word(grammar.bare(words[0]))
    )
    last.text = f"{last.text}, {text if keep else text[:1].lower() + text[1:]}"  # a small letter stays small
    return True


_CLOSED = frozenset({"standing", "labelled", "naming", "aged", "owned", "as given", "rescheduled"})


def _comments(words: list[str]) -> bool:
    """Whether a tail remarks on what was said; "no stairs" does not."""
    head = grammar.bare(words[0])
    return head in word_set("tails.comments") and not (head == "no" and len(words) > 1)


def _worth_keeping(words: list[str]) -> bool:
    """Whether a tail holds a value (number, name, time) or narrows what was said ("ever", "at night")."""
    return (
        valued(" ".join(words))
        or (1 < len(words) < 6 and grammar.bare(words[0]) not in lexicon.words("moods.txt"))
        or (words[0].lower() == "no" and len(words) < 5)
        or grammar.bare(words[0]) in lexicon.words("prepositions.txt") - {"like", "as", "than"}
        or (len(words) == 1 and (len(words[0]) > 4 or grammar.bare(words[0]) in {"ever", "only", "too"}))
    )


def valued(text: str) -> bool:
    """Whether a piece holds a typed value: a number, money, a date, a time or a proper name."""
    return corrections.typed(text) is not None or statements.holds_value(text.split())


_LIST_VERBS = word_set("fragments.list_verbs")
_LABELLED = Pattern(r"^(?P<label>[A-Za-z][\w' /-]{1,40}?)(?: ?: | ?= ?)(?P<value>\S.{0,200})$")
LONGEST = 18
"""Words of a fragment; a longer one is no fragment but a sentence that was not understood."""


def read(piece: Clause, talk: Discourse, sentence: statements.Sentence) -> list[Draft]:
    """The fact of a fragment: labelled, had, or continued from the list before it; [] if it tells nothing by itself."""
    text = filters.strip_openers(piece.text).strip(" ,.:;-!()")
    if not text or filters.is_chatter(text) or len(text.split()) > LONGEST or filters.is_hypothetical(text):
        return []
    if re.fullmatch(r"[1-9]\d", text) and piece.joint == "," and re.match(r"I am (?!in\b|at\b|on\b)", sentence.last):
        return [statements.make(f"{talk.who} is {text}", "aged", talk, sentence.source)]
    if not talk.of_being:  # behind a clause about somebody else a value may be theirs
        found = _labelled(text, talk, sentence) or _measured(text, talk, sentence)
        if found:
            return found
    if sentence.is_open:
        if sentence.kept:  # "she is at the Foreign Office, first posting is Tallinn"
            attach(text, piece.joint, sentence.source, talk)
        return []
    if grammar.subject_of(text.split()) or not _tells(text):
        return []
    if sentence.list_head and piece.joint.startswith(",") and _may_share(sentence, text):
        fact = statements.finish(f"{sentence.list_head} {text}", talk)
        return [statements.make(fact, "list", talk, sentence.source)]
    if not (_ADVERBIAL.match(text) and sentence.kept and _append(text, talk, sentence)):
        _with_statement(text, talk, sentence.source, piece.joint)
    return []


_ADVERBIAL = Pattern(
    r"(?:\d+ (?:days?|hours?|times|nights?|shifts?) (?:a|per|each) \w+|usually|sometimes|often|roughly|"
    r"about|around|once|twice|every|each|daily|weekly|monthly|nightly|"
    r"(?:two|three|four|five|\d+) times|since|until|mornings|evenings|weekends|weekdays|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|usually (?:on|at|in)|mostly (?:on|at|in)) ?\b",
    re.I,
)


def _append(text: str, talk: Discourse, sentence: statements.Sentence) -> bool:
    """An adverbial ("twice a day") goes with the statement before it."""
    last = talk.drafts[-1] if talk.drafts else None
    if last is None or last.sources[-1:] != (sentence.source,) or last.forget or last.procedural:
        return False
    if last.rule in {"standing", "labelled"}:
        return False
    named = grammar.is_time_word(grammar.bare(text.split(maxsplit=1)[0]))
    last.text = f"{last.text}, {text if named else text[:1].lower() + text[1:]}"
    return True


def is_label(label: str, *, freely: bool = False) -> bool:
    """Whether words before a colon name something of the user's ("goal for this year")."""
    label = re.sub(
        r" (?:so far|for now|at the moment|before (?:we|i) start|right now|currently|update)$", "", label, flags=re.I
    )
    words = label.split()
    head = grammar.bare(words[0])
    if head in lexicon.words("imperatives.txt") - {"note", "name", "plan", "order", "move", "test"} or len(words) > 7:
        return False
    if any(grammar.bare(word) in grammar.AUXILIARIES for word in words) or head in lexicon.words("prepositions.txt"):
        return False
    own = words[1:] if head in {"my", "our", "the"} else words
    if not own:
        return False
    plain = freely and len(own) <= 2 and all(word.isalpha() for word in own) and head not in grammar.bases()
    return head in {"my", "our"} or subjects.is_personal(own) or plain


def owned_label(label: str, talk: Discourse) -> str:
    """ "goal for this year" as "User's goal for this year"."""
    words = label.split()
    bare = " ".join(words[1:]) if grammar.bare(words[0]) in {"my", "our", "the"} else label
    first = bare.split()[0]
    bare = grammar.to_third(bare, talk.who)
    keep = first.isupper() or (grammar.is_name(first) and not coreference.is_known_word(first.lower()))
    return f"{talk.who}'s {bare if keep else bare[:1].lower() + bare[1:]}"


def labelled(label: str, values: list[str], talk: Discourse, at: int) -> list[Draft]:
    """One fact for each value under a label."""
    owner = owned_label(label, talk)
    talk.thing = owner
    single = len(values) == 1
    return [
        statements.make(
            f"{owner} {'is' if single or (number == 0 and not owner.endswith('s')) else '-'} {value}".replace(
                " - ", ": ", 1
            ),
            "labelled",
            talk,
            at,
        )
        for number, value in enumerate(_said(value, talk) for value in values)
        if value
    ]


def _said(value: str, talk: Discourse) -> str:
    turned = statements.finish(value.strip(" ."), talk)
    return turned[:1].lower() + turned[1:] if value[:1].islower() else turned


def _labelled(text: str, talk: Discourse, sentence: statements.Sentence) -> list[Draft]:
    match = _LABELLED.match(text)
    if match is None or len(match.group("label").split()) > 5:
        return []
    label = match.group("label").strip()
    head = grammar.bare(label.split()[0])
    owner = "" if head in {"my", "our", "the"} else "my "
    fact = statements.finish(f"{owner}{label} is {match.group('value')}", talk)
    return [statements.make(fact, "labelled", talk, sentence.source)]


_MEASURE = Pattern(
    r"^(?P<label>[a-z][a-z' -]{2,30}?) (?P<value>(?:[$€£]?\d[\w.,:/%-]*)(?: ?(?:cm|kg|lbs?|k|am|pm|euros?|"
    r"pounds|quid|dollars|a month|a week|per month|months?|years?|%))?)$",
    re.I,
)


def _measured(text: str, talk: Discourse, sentence: statements.Sentence) -> list[Draft]:
    """ "shoe size 38", "budget 4k": a personal noun with its number."""
    match = _MEASURE.match(text)
    if (
        match is None
        or re.match(
            r"(?:no|not|chapter|unit|page|question|part|step|level|season|episode)\b", match.group("label"), re.I
        )
        or not subjects.is_personal(match.group("label").split())
    ):
        return []
    label = re.sub(r"^(?:my|our|the) ", "", match.group("label"))
    led = _LED.search(label)  # "gig on the 29th" is on the 29th
    value = f"{led.group(1)} {match.group('value')}" if led else match.group("value")
    label = label[: led.start()] if led else label
    if grammar.bare(label.split()[-1]) in lexicon.words("prepositions.txt") | lexicon.words("determiners.txt"):
        return []
    return [statements.make(f"{talk.who}'s {label} is {value}", "measure", talk, sentence.source)]


_LED = Pattern(r" ((?:on|at|from|until|by|over|under|above|below)(?: the)?)$", re.I)


def _tells(text: str) -> bool:
    """Whether a fragment holds a number, a name, a time, a negation, or two content words."""
    parts = text.split()
    if statements.holds_value(parts):
        return True
    content = [
        part for part in map(grammar.bare, parts) if len(part) > 1 and part not in lexicon.words("prepositions.txt")
    ]
    return len(content) >= 1 and grammar.bare(parts[0]) not in lexicon.words("moods.txt")


def _may_share(sentence: statements.Sentence, text: str) -> bool:
    first = grammar.bare(text.split(maxsplit=1)[0])
    if (first in grammar.bases() or first in grammar.thirds()) and first not in lexicon.words("nounish.txt"):
        return False
    verb = grammar.bare(sentence.list_head.split()[-1])
    head = grammar.bare(text.split(maxsplit=1)[0])
    return (
        verb in _LIST_VERBS
        and head
        not in lexicon.words("prepositions.txt")
        | lexicon.words("adverbs.txt")
        | {"no", "not", "now", "closed", "open", "all"}
        and not grammar.is_number(text.split(maxsplit=1)[0])
    )


def _with_statement(text: str, talk: Discourse, source: int, joint: str) -> None:
    """Leave a piece that tells nothing by itself with the statement before it, where it belongs there."""
    head = grammar.bare(text.split(maxsplit=1)[0])
    acts = (head in grammar.bases() or head in grammar.thirds()) and head not in lexicon.words("nounish.txt")
    if talk.task or acts or head in {"not", "tastes", "looks", "sounds", "means"} or corrections.is_cued(text):
        return
    if head in {"for", "with", "about", "of", "as"} and not statements.holds_value(text.split()):
        return
    said = statements.finish(text, talk)
    small = text[:1].islower() and not said.startswith(talk.who)
    attach(said[:1].lower() + said[1:] if small else said, joint, source, talk)
