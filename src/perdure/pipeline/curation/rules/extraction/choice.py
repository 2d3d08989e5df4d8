"""What is kept of a message: facts, notes, or nothing.

Rules propose facts; each sentence may also stand whole in the third person. What is likely to be worth keeping is
kept: a sentence's own facts where they say nearly all of it, else the sentence as one fact if it is a clause that can
be read alone, else its words as a note.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.extraction import (
    cleaning,
    conversation_reader,
    coreference,
    filters,
    forget_requests,
    forget_target,
    grammar,
    notes,
    statements,
    worth,
)
from perdure.pipeline.curation.rules.extraction.dialogue import corrections
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.curation.rules.extraction.worth import Judge
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.lexicon import word_set, words

FACT = 0.45
"""Probability from which a rule's fact is kept.

It and the next three are of some five settings by totals of `benchmarks/data/talk/held.jsonl`, and by plain short
messages, of which higher ones lose some."""
FACT_ALONE = 0.35
"""The same of a fact that says all of a message of one sentence about the speaker: "I adopted a cat"."""
WHOLE = 0.65
"""The same of a whole sentence as a fact."""
NOTED = 0.4
"""The same of a sentence as a note."""
NOTED_ASKING = 0.6
"""The same of a question, which mostly tells nothing. Set by hand: .4 keeps "what about the weather on day 21?"."""
NOTED_ALONE = 0.25
"""The same where the message also asks to forget something: it is hidden, and nothing else would find the sentence.
Set by hand on a dozen sentences; no set of talk has enough of them to choose it by."""
SAYS_ALL = 0.7
"""Share of a sentence's topic words from which its facts are taken to say it."""
UNJUDGED = frozenset({"as given", "standing", "procedure", "correction"})
"""Rules whose facts are kept as they are: somebody asked for it, said how something is done, or put right in the same
message what it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """A message and what is known of it."""

    content: str
    at: int
    answers: bool
    """Whether the assistant asked something just before."""
    before: str
    """The last words of what the assistant said just before."""
    language: str
    """Its code if the message is in another language that is read, else empty."""
    is_hidden: bool = False
    """Whether the message was a request to forget as well, which is left out of the content."""

    @property
    def features(self) -> Mapping[str, float]:
        """What the models see of the message."""
        text = cleaning.clean(self.content, english=not self.language).text
        return worth.of_message(
            self.content, text, self.language, asdict(conversation_reader.kind_of(text, self.content))
        )


@dataclass(frozen=True, slots=True)
class Chosen:
    """The facts and the notes of a message."""

    drafts: list[Draft]
    notes: list[str]


@dataclass(slots=True)
class _Read:
    """A sentence with the facts that were made of it."""

    said: worth.SentenceOfMessage
    worth: float
    drafts: list[Draft]


def choose(told: Utterance, drafts: Sequence[Draft], talk: Discourse, judge: Judge) -> Chosen:
    """Return what is kept of a message of which the rules made `drafts`; `talk` is the state after it."""
    typed = notes.sentences(told.content)
    features = told.features
    read = [
        _Read(said, judge(worth.SENTENCE, said.text, told.before, worth.of_sentence(said)), [])
        for place, sentence in enumerate(typed)
        for said in [worth.SentenceOfMessage(sentence.text, place, len(typed), told.answers, features)]
    ]
    kept: list[Draft] = []
    sources = [_source(draft.text, typed) for draft in drafts]
    beside: dict[int, list[Draft]] = {}
    for draft, place in zip(drafts, sources, strict=True):
        beside.setdefault(place, []).append(draft)
    plain = {place for place, each in beside.items() if place >= 0 and _is_plain(read[place], each, talk.who)}
    for draft, place in zip(drafts, sources, strict=True):
        source = read[place] if place >= 0 else None
        if _is_unjudged(draft) or place in plain or _is_worth(draft, source, talk.who, judge):
            (kept if source is None else source.drafts).append(draft)
    corrected = any(draft.rule == "correction" for draft in drafts)  # what corrects it is no fact of its own
    for each in read:
        if told.language or (corrected and corrections.is_cued(each.said.text)):
            kept += each.drafts
        else:
            kept += _facts_of(each, told, talk, judge)
    kept = _fullest(kept)
    found: list[str] = []
    is_open = False
    least = NOTED_ALONE if told.is_hidden else NOTED
    for place, (each, sentence) in enumerate(zip(read, typed, strict=True)):
        enough = max(least, NOTED_ASKING) if each.said.text.rstrip().endswith("?") else least
        is_noted = each.worth >= enough and not _says(kept, each.said.text, notes.SAID)
        if is_noted:
            if not is_open and sentence.follows and not talk.is_owned(_plain(sentence.text)):
                found, is_open = [*found, typed[place - 1].text], True  # whose it is, the sentence before says
            found = notes.joined(found, sentence, is_next=is_open and sentence.follows)
        is_open = is_noted
    return Chosen(kept, found[: notes.MOST])


_BOUNDARY = Pattern(r"[,;:.!?)]*(?:\s+-+)?\s+|[.!?]*$")
_WORD = Pattern(r"[^\W_]+")


def beside_requests(content: str, language: str, requests: Sequence[Draft], talk: Discourse, *, at: int) -> str:
    """Return a message as it was typed without its requests to forget, and without what tells their matter or why.

    `requests` are what it asks to forget, `talk` is the state after it.
    """
    then = replace(talk, drafts=[draft for draft in talk.drafts if not draft.forget])
    if language:
        return forget_requests.foreign(content, language, then, at)[0] if language in cleaning.LANGUAGES else ""
    asked = forget_target.matters(requests, talk.who)
    left: list[str] = []
    behind = is_next = False
    for sentence in notes.sentences(content):
        spoken = filters.strip_openers(conversation_reader.normal(cleaning.clean(sentence.text).text))
        request = forget_requests.read(spoken, then, at)
        if request is not None:
            told = [_typed(part, sentence.text) for part in request.told]
        else:
            again = forget_target.tells_again(grammar.to_third(spoken, talk.who), asked, behind=behind)
            explains = is_next and forget_target.points(spoken) and not forget_target.renews(spoken)
            told = [] if again or explains else [sentence.text]
        left += [f"{' ' if sentence.follows else chr(10)}{part}" for part in told]
        is_next = request is not None
        behind = behind or is_next
    return "".join(left).strip()


def _typed(part: str, sentence: str) -> str:
    """Return the words of a sentence as they were typed that a part of its plain text is made of."""
    wanted = _WORD.findall(part.lower())
    edges = [0, *(found.end() for found in _BOUNDARY.finditer(sentence))]
    stops = [found.start() for found in _BOUNDARY.finditer(sentence)]
    for start in edges:
        for stop in reversed(stops):
            piece = sentence[start:stop]
            said = _WORD.findall(piece.lower())
            close = bool(said) and abs(len(said) - len(wanted)) < 9 and said[-1] == wanted[-1]
            if close and _WORD.findall(cleaning.clean(piece).text.lower()) == wanted:
                return piece
    return part


def _fullest(drafts: Sequence[Draft]) -> list[Draft]:
    """Return the facts without those that another one says whole, and more ("has a number", "the number is 7")."""
    topics = [worth.topic(draft.text) for draft in drafts]
    return [
        draft
        for draft, mine in zip(drafts, topics, strict=True)
        if _is_unjudged(draft) or not any(mine < topic for topic in topics)
    ]


def _is_unjudged(draft: Draft) -> bool:
    return draft.rule in UNJUDGED or draft.procedural


def _is_worth(draft: Draft, source: _Read | None, who: str, judge: Judge) -> bool:
    said, much = (source.said, source.worth) if source is not None else (None, 0.5)
    beside = said.text if said is not None else ""
    least = FACT_ALONE if said is not None and said.count == 1 and _is_all([draft], said, who) else FACT
    return judge(worth.FACT, draft.text, beside, worth.of_fact(draft.text, who, draft.rule, said, much)) >= least


def _is_all(drafts: Sequence[Draft], said: worth.SentenceOfMessage, who: str) -> bool:
    """Whether facts of the speaker say all that their sentence does."""
    if any(not draft.text.startswith(who) or worth.has_pronoun(draft.text) for draft in drafts):
        return False
    return _topic(said.text) <= frozenset[str]().union(*(worth.topic(draft.text) for draft in drafts))


def _is_plain(source: _Read, beside: Sequence[Draft], who: str) -> bool:
    """Whether a sentence's facts say of the speaker what lasts or is over, and it says nothing else.

    "I'm vegan", "I quit my job", "I like tea and I live in Paris".
    """
    return _is_all(beside, source.said, who) and all(_lasts(each, who) for each in beside)


def _lasts(draft: Draft, who: str) -> bool:
    """Whether a fact of the speaker says what lasts or is over."""
    if _OVER.match(draft.text.removeprefix(who)):
        return True
    slots = read_slots(draft.text.replace(" is not ", " is ", 1))
    if slots is not None and slots.attribute == "have":  # a pet, a child: other things come and go
        return _living().match(draft.text.partition(" has ")[2]) is not None
    return slots is not None and slots.attribute in word_set("worth.lasting")


_OVER = Pattern(
    r" (?:(?:was|got|has been) (?:just )?(?:fired|sacked|laid off|let go|made redundant|promoted|divorced)|"
    r"quit|resigned|retired|lost their job|gave up|(?:has )?stopped \w+ing|no longer \w+s|(?:broke|split) up with)\b",
    re.IGNORECASE,
)
"""How what held of somebody comes to an end; what was told of it before would stand on without the sentence."""
_COUNT = r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|\d{1,2})"
_FAMILY = (
    r"kids?|children|sons?|daughters?|boys|girls|sisters?|brothers?|siblings|grandkids|grandchildren|grandsons?|"
    r"granddaughters?|stepsons?|stepdaughters?|stepkids|nephews?|nieces?|twins|triplets"
)
_MORE = r"(?: (?:of my own|called|named|and|from|at|under|over|aged|both)\b.*)?$"


@cache
def _living() -> re.Pattern[str]:
    """Pets and family as one has them: "a cat called Miso", "no kids", "two grown sons"."""
    pets = sorted((re.escape(pet) for pet in words("pets.txt")), key=len, reverse=True)
    kinds = rf"{_FAMILY}|(?:{'|'.join(pets)})(?:e?s)?"
    counted = rf"^(?:no (?=kids|children)|{_COUNT} )(?:[\w'-]+ ){{0,4}}?"
    return re.compile(rf"{counted}(?:{kinds})\b(?!'){_MORE}", re.I)


def _facts_of(each: _Read, told: Utterance, talk: Discourse, judge: Judge) -> list[Draft]:
    """A sentence's own facts if they say nearly all of it; else the sentence, if it can stand as one."""
    if _says(each.drafts, each.said.text, SAYS_ALL) or any(map(_is_unjudged, each.drafts)):
        return each.drafts
    text = _whole(each.said.text, talk)
    if not text:
        return each.drafts
    features = worth.of_fact(text, talk.who, "whole", each.said, each.worth)
    sure = judge(worth.WHOLE, text, each.said.text, features)
    if sure < WHOLE:
        return each.drafts
    corrects = any(draft.corrects for draft in each.drafts)
    return [Draft(text, (told.at,), "whole", round(sure, 2), corrects=corrects)]


def _topic(sentence: str) -> frozenset[str]:
    """Return the topic words of a sentence without "by the way", "update:" and the like."""
    return worth.topic(conversation_reader.AMENDS.sub("", filters.strip_openers(sentence)))


def _says(drafts: Sequence[Draft], sentence: str, share: float) -> bool:
    """Whether the facts say that share of a sentence's topic words."""
    topic = _topic(sentence)
    said = frozenset[str]().union(*(worth.topic(draft.text) for draft in drafts))
    return bool(drafts) and len(topic & said) >= share * len(topic)


_PLEASE = Pattern(
    r",? (?:please|pls|plz)(?: (?:remember|note|save|store|keep|don't forget|bear)\b[^,.;]{0,40})?$", re.IGNORECASE
)


def _plain(sentence: str) -> str:
    """Return a sentence in regular spelling, without its end mark, what opens it, and a request to keep it."""
    return _PLEASE.sub("", filters.strip_openers(cleaning.clean(sentence).text.strip(" .!,;")))


def _whole(sentence: str, talk: Discourse) -> str:
    """Return a sentence in the third person if it is a clause that can be read alone, else ""."""
    plain = _plain(sentence)
    parts = plain.split()
    if not parts or sentence.endswith(("?", "\uff1f")) or filters.is_hypothetical(plain):
        return ""
    if grammar.subject_of(parts) not in ("first", "name", "noun"):
        return ""
    resolved = coreference.resolve(plain, talk) if talk.is_owned(plain) else None
    if resolved is None:
        return ""
    parts = resolved.split()
    if grammar.find_verb(parts, grammar.skip_adverbials(parts)) <= 0:
        return ""
    text = cleaning.clean(sentence).restore(statements.finish(resolved, talk))
    if re.search(rf"(?:[,;:]|\b(?:and|but|so|because)) {re.escape(talk.who)} ", text):
        return ""  # two clauses are two facts
    if coreference.leaves_out_who(resolved, talk):
        return ""
    return text if conversation_reader.may_be_stored(Draft(text, (), "whole", 1.0), talk.who) else ""


def _source(fact: str, typed: Sequence[notes.TypedSentence]) -> int:
    """Return the place of the sentence that shares most words with a fact, -1 if there is none."""
    mine = worth.topic(fact)
    return max(range(len(typed)), key=lambda place: len(mine & worth.topic(typed[place].text)), default=-1)
