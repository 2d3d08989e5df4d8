"""Clauses that state something, each with who it speaks of and when; what only asks, wishes or quotes has none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from perdure.domain.clock import EARLIEST, iso
from perdure.domain.graph import entity_key
from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import runs
from perdure.pipeline.curation.rules.relations.names import NAME, lines, names_in, read_thing, trimmed, type_of
from perdure.pipeline.curation.rules.relations.times import Times, take_times
from perdure.pipeline.lexicon import words

# The verbs and ways of saying "is" that relations are read by, as patterns made from the data files.


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in one of its senses."""

    forms: tuple[str, str, str, str, str]  # present, base, past, participle, gerund
    after: tuple[str, ...]  # words one of which follows; empty text is none
    relation: str
    tells: str  # holds, begins, ends or event


@cache
def verbs() -> tuple[Verb, ...]:
    """The verbs of verbs.tsv."""
    found = []
    for row in lines("verbs.tsv"):
        forms, after, relation, tells = (cell.strip() for cell in row.split("\t"))
        present, base, past, participle, gerund = forms.split("/")
        found.append(Verb((present, base, past, participle, gerund), tuple(after.split("|")), relation, tells.strip()))
    return tuple(found)


@cache
def copulas() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Ways to say that somebody is something, each with its tense, from the start of a predicate."""
    rows = [tuple(row.split("\t")) for row in lines("copulas.tsv")]
    return tuple((re.compile(rf"(?:{pattern})\s+(?P<role>.+)"), tense.strip()) for pattern, tense in rows)


def _either(words: set[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=lambda word: (-len(word), word)))


@cache
def adverbs() -> re.Pattern[str]:
    """Words that change nothing, with the space after them."""
    return re.compile(rf"\b(?:{_either(set(lines('adverbs.txt')))})\b,? ?", re.IGNORECASE)


@cache
def begins_predicate() -> re.Pattern[str]:
    """What a predicate begins with."""
    forms = {form for verb in verbs() for form in verb.forms}
    ways = "|".join(row.split("\t")[0] for row in lines("copulas.tsv"))
    others = (
        r"no longer|does(?:n't| not)|do(?:n't| not)|is(?:n't| not)|has|have|had|will|used to|took|takes|replaced|"
        r"replaces|succeeded|succeeds|handed|hands|formerly|previously|stopped|co-leads?|co-led|employs|employed|stepped"
    )
    return re.compile(rf"(?:{adverbs().pattern})*(?:{others}|{ways}|{_either(forms)})\b")


@cache
def past_words() -> re.Pattern[str]:
    """Words by which a sentence speaks of the past."""
    forms = {verb.forms[2] for verb in verbs()} - {verb.forms[1] for verb in verbs()}
    more = "was|were|had|used to|became|took|stepped|handed|replaced|succeeded|formerly|previously|appointed|named"
    return re.compile(rf"\b(?:{_either(forms)}|{more}|elected|promoted|started|began|born)\b")


@cache
def unsure() -> re.Pattern[str]:
    """What makes a sentence no statement of what is so."""
    return re.compile("|".join(f"(?:{line})" for line in lines("unsure.txt")), re.IGNORECASE)


_SENTENCE_END = Pattern(r"(?<=[.!?])\s+(?=[^\W_a-z])|\s*\n+\s*|;\s+")
_ABBREVIATED = Pattern(r"(?:\b(?:Mr|Mrs|Ms|Mx|Dr|Prof|St|Inc|Ltd|Corp|Co|vs|e\.g|i\.e|No|Jr|Sr)|\b[A-Z])\.$")
_QUOTED = Pattern(r"[\"“”„«»‹›]|(?<!\w)['‘][^'’]{3,}['’](?!\w)|^\s*>")
_JOINT = Pattern(r"(,? (?:and|but|while|whereas|then) |, )")
_OPENER = Pattern(
    r"^(?:[-*•–]\s+|(?:update|note|fyi|heads up|reminder|status|news|so|and|also|but|btw|by the way|well|yes|"
    r"good news|as you know|remember|then|later|afterwards|before that|today|meanwhile|since then|these days|"
    r"at the moment)\s*[:,–-]?\s+(?=\S))+",
    re.IGNORECASE,
)
_AT_END = Pattern(r"[, ]+(?:now|currently|again|too|as well|these days|at the moment|right now|already|together)$")
_ADVERBIAL = Pattern(r"^(?:Since|After|Before|During|With|Following|At|On|For|Under|In) [^,]{3,50}, (?=\S)")
_BESIDE = Pattern(r" ?\(([^()]*)\)")
_GONE = Pattern(
    r"\bno longer\b|\b(?:(?:does|do)|(?P<verb>is|are|am))(?:n['’]t| not)(?P<kept>.{0,60}?)\b(?:any ?more|any longer)\b",
    re.IGNORECASE,
)
_FORMER = Pattern(r"\b(?:formerly|previously|once)\b,? ?", re.IGNORECASE)
_VERB = r"(?P<verb>is|was|became|will be|has been)(?: named| called)?"
_OWNED_ROLE = Pattern(rf"(?P<owner>[Mm]y|{NAME}['’]s) (?P<role>[A-Za-z][a-zA-Z' -]{{1,30}}) {_VERB} (?P<name>{NAME})")
_THE_ROLE = Pattern(
    rf"(?:[Tt]he|[Oo]ur) (?P<role>(?!(?:project|team) (?:is|was))[A-Za-z][\w' -]{{1,50}}?) {_VERB} (?P<name>{NAME})"
)
_SEVERAL = Pattern(rf"({NAME}(?:, {NAME})*,? and {NAME}) (?=\S)")
_OWNED = Pattern(rf"(?P<owner>{NAME}?)['’]s? (?P<role>[a-z][\w' -]{{1,30}}?),? (?P<name>{NAME}),? ")
_MINE = Pattern(rf"(?P<owner>[Mm]y|[Oo]ur|[Tt]he) (?P<role>[a-zA-Z][\w' -]{{1,30}}?),? (?P<name>{NAME}),? ")
_ONE = Pattern(rf"({NAME})(?:,? \((?P<beside>[^()]+)\)|, (?P<apposed>(?:the|our|a|an)? ?[^,]{{3,50}}),)? (?=\S)")
_PRONOUN = Pattern(r"(he|she|they) ", re.IGNORECASE)
_SELF = Pattern(r"I(?: |(?=['’]))")
_GROUND = Pattern(r"((?:the|our|their) [\w&'’ -]{2,50}?) (?=(?:is|are|was|were|has been|will be|has) )", re.IGNORECASE)

LONGEST_SENTENCE = 500  # characters of a sentence that is read: who writes longer ones writes no memories


@dataclass(slots=True)
class Clause:
    """One statement: who it speaks of, what it says of them, and when."""

    subjects: tuple[str, ...]
    subject_type: str  # of a project or team in small letters; else "-"
    predicate: str  # without its times, and without words that change nothing
    times: Times
    gone: bool = False  # it is no longer so
    former: bool = False  # it was so: "formerly"
    role: tuple[str, str] | None = None  # whose what the subject is said to be beside: ("Alice", "sister")
    apposed: str | None = None  # what the subject is beside: "Ana, the head of sales, moved"
    plural: bool = False  # whether the verb stands as after "I" or "they"


def clauses(text: str, told: datetime, *, me: str | None) -> Iterator[Clause]:
    """The clauses of a text; `me` is who says "I", whose clauses are left out where that is not known."""
    last: str | None = None
    for sentence in sentences(text):
        if is_quoted(sentence) or "?" in sentence or len(sentence) > LONGEST_SENTENCE:
            continue
        subjects: tuple[str, ...] = ()
        for piece in _pieces(_OPENER.sub("", _rewritten(sentence))):
            past = past_words().search(piece)
            way = -1 if past else 1 if re.search(r"\b(?:will|going to)\b", piece) else 0
            times = take_times(_plain(piece, told).rstrip(" .!"), told, way)
            clause = _clause(times, me=me, last=last, before=subjects)
            if clause is None:
                continue
            subjects = clause.subjects
            if clause.subject_type == "-" and len(subjects) == 1 and type_of(subjects[0]) in ("person", "concept"):
                last = subjects[0]
            yield clause


def _plain(piece: str, told: datetime) -> str:
    """The clause without what stands beside it with a time of its own: "Ana (lead until Q2) moved"."""

    def kept(found: re.Match[str]) -> str:
        rest = take_times(found[1], told, -1).rest
        return found[0] if rest in ("", found[1].strip()) or rest.startswith("(") or found[1][:4].isdigit() else ""

    return _BESIDE.sub(kept, piece)


def _rewritten(sentence: str) -> str:
    """The sentence as the readers know it."""
    for pattern, instead in _rewrites():
        sentence = pattern.sub(instead, sentence)
    return sentence


@cache
def _rewrites() -> tuple[tuple[re.Pattern[str], str], ...]:
    rows = [line.split("\t") for line in lines("rewrites.tsv")]
    return tuple((re.compile(pattern.format(NAME=NAME)), instead) for pattern, instead in rows)


def is_quoted(sentence: str) -> bool:
    """Whether a sentence holds what somebody else said or wrote."""
    return _QUOTED.search(sentence) is not None


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text; an abbreviation ends none."""
    held = ""
    for piece in _SENTENCE_END.split(text):
        held = f"{held} {piece}".strip()
        if not _ABBREVIATED.search(held):
            yield held
            held = ""
    if held:
        yield held


def _pieces(sentence: str) -> Iterator[str]:
    """A sentence by its clauses: a part is one of its own if it has a predicate, and what stands before it too."""
    parts = _JOINT.split(sentence)
    held = parts[0]
    for joint, part in zip(parts[1::2], parts[2::2], strict=True):
        if _has_predicate(part) and _stated().search(held):
            yield held
            held = part
        else:
            held += joint + part
    yield held


@cache
def _stated() -> re.Pattern[str]:
    """Somebody and what is said of them, anywhere."""
    return re.compile(
        rf"(?:{NAME}|\b(?:I|he|she|they|He|She|They|project|team|is|are|was))(?:,[^,]+,)? {begins_predicate().pattern}"
    )


def _has_predicate(part: str) -> bool:
    part = re.sub(rf"^(?:{adverbs().pattern})+", "", part)
    if begins_predicate().match(part):
        return True
    subject = _ONE.match(part) or _PRONOUN.match(part) or _SELF.match(part) or _OWNED.match(part) or _MINE.match(part)
    subject = subject or _GROUND.match(part)
    return subject is not None and begins_predicate().match(part, subject.end()) is not None


def _clause(times: Times, *, me: str | None, last: str | None, before: tuple[str, ...]) -> Clause | None:
    text = _AT_END.sub("", _OPENER.sub("", times.rest))
    gone = _GONE.search(text)
    if gone is not None:
        text = " ".join(
            f"{text[: gone.start()]} {gone['verb'] or ''} {gone['kept'] or ''} {text[gone.end() :]}".split()
        )
    former = _FORMER.search(text)
    text = _FORMER.sub("", text).strip(" ,")
    text = re.sub(rf"^(?:{adverbs().pattern})+", "", text)
    goes_on = bool(before) and begins_predicate().match(text) is not None
    if unsure().search(f"{before[0]} {text}" if goes_on else text):  # "is ..." alone would be a question
        return None
    clause = _subject(_ADVERBIAL.sub("", text), times, me=me, last=last)
    if clause is None and goes_on:
        clause = Clause(before, "-", text, times, plural=len(before) > 1)
    if clause is not None:
        clause.predicate = re.sub(rf"^(?:{adverbs().pattern})+", "", clause.predicate)
        clause.predicate = re.sub(
            rf"(?<=^is )(?:{adverbs().pattern})+|(?<=^has )(?:{adverbs().pattern})+", "", clause.predicate
        )
        clause.gone, clause.former = gone is not None, former is not None
    return clause


def _turned(text: str, times: Times, me: str | None) -> Clause | None:
    """ "Alice's manager is Bob" and "the lead of fundraising is Bob" as said of Bob."""
    if (found := _OWNED_ROLE.fullmatch(text)) is not None:
        owner = me if found["owner"].lower() == "my" else found["owner"].removesuffix("'s").removesuffix("’s")
        said = f"{found['verb']} {owner}'s {found['role']}"
        return Clause((found["name"],), "-", said, times) if owner else None
    if (found := _THE_ROLE.fullmatch(text)) is not None:
        return Clause((found["name"],), "-", f"{found['verb']} the {found['role']}", times)
    return None


def _subject(text: str, times: Times, *, me: str | None, last: str | None) -> Clause | None:
    if (turned := _turned(text, times, me)) is not None:
        return turned
    if (found := _SEVERAL.match(text)) and begins_predicate().match(text, found.end()):
        names = [trimmed(name) for name in re.split(r",? and |, ", found[1])]
        return Clause(tuple(filter(None, names)), "-", text[found.end() :], times, plural=True)
    if (found := _SELF.match(text)) is not None:
        return None if me is None else Clause((me,), "-", text[found.end() :], times, plural=True)
    if (found := _OWNED.match(text) or _MINE.match(text)) and begins_predicate().match(text, found.end()):
        owner = {"my": me, "our": None, "the": None}.get(found["owner"].lower(), found["owner"])
        name = trimmed(found["name"])
        role = (owner, found["role"]) if owner else None
        return Clause((name,), "-", text[found.end() :], times, role=role) if name else None
    if (found := _PRONOUN.match(text)) is not None:
        plural = found[1].lower() == "they"
        return None if last is None or plural else Clause((last,), "-", text[found.end() :], times)
    if (found := _GROUND.match(text)) and (thing := read_thing(found[1])):
        return Clause((thing.name,), thing.type, text[found.end() :], times)
    if (found := _ONE.match(text)) and begins_predicate().match(text, found.end()):
        name = trimmed(found[1])
        beside = found["beside"] or found["apposed"]
        return Clause((name,), "-", text[found.end() :], times, apposed=beside) if name else None
    return None


# What a question asks the graph for: names that may be entities, and the time that it asks about.

MOST_WORDS = 4  # words of a name in small letters
MOST_NAMES = 60  # names of one question; a longer text is no question
LONGEST_QUESTION = 2_000  # characters of a question that are read
_PAST = Pattern(r"\b(?:did|been)\b", re.IGNORECASE)
_FUTURE = Pattern(r"\b(?:will|going to)\b", re.IGNORECASE)
_BEFORE = Pattern(rf"\b(?:before|preced(?:ed|ing)|prior to) ({NAME})")
_AFTER = Pattern(rf"\b(?:after|replaced|succeeded|followed) ({NAME})")
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Question:
    """What a question names, and when it asks about."""

    names: tuple[str, ...]
    """Names with capitals first, then every run of up to four words that may be a name: "fundraising"."""
    window: tuple[str, str] | None  # first and last moment asked about, both included, ISO 8601; None is now
    before: str | None = None  # whose predecessor is asked for: "who was the lead before Bob"
    after: str | None = None  # whose successor is asked for


def read_question(text: str, *, now: datetime, known: Iterable[str] = ()) -> Question:
    """What a question names and when it asks about; `known` are names that are looked for in any case.

    A name is given as the question writes it, a known one as it is known; what no entity is called does no harm.
    """
    text = " ".join(text[:LONGEST_QUESTION].split())
    past = _PAST.search(text) or past_words().search(text)
    times = take_times(text.rstrip(" ?.!"), now, -1 if past else 1 if _FUTURE.search(text) else 0)
    padded = f" {' '.join(runs(text))} "
    found = [name for name in known if f" {' '.join(runs(name))} " in padded and any(runs(name))]
    found += names_in(times.rest)
    found += _phrases(times.rest)
    names = {entity_key(name): name for name in reversed(found)}
    return Question(
        tuple(list(dict.fromkeys(names[entity_key(name)] for name in found))[:MOST_NAMES]),
        _window(times, now),
        _beside(_BEFORE, times.rest),
        _beside(_AFTER, times.rest),
    )


def _window(times: Times, now: datetime) -> tuple[str, str] | None:
    if times.within is not None:
        last = max(times.within.start, times.within.end - _TICK)
        return iso(times.within.start), iso(last)
    if times.start is None and times.end is None:
        return None
    start = times.start or EARLIEST
    end = times.end - _TICK if times.end else max(now, start)
    return (iso(start), iso(end)) if start <= end else None


def _phrases(text: str) -> Iterator[str]:
    """Runs of words that may be a name: none begins or ends with a word that carries no topic."""
    plain = [word.removesuffix("'s").removesuffix("’s") for word in re.findall(r"[\w&+.'’-]*\w[+]*", text)]
    empty = words("recall_stopwords.txt")
    for length in range(1, MOST_WORDS + 1):
        for place in range(len(plain) - length + 1):
            run = plain[place : place + length]
            if run[0].lower() not in empty and run[-1].lower() not in empty:
                yield " ".join(run)


def _beside(pattern: Pattern, text: str) -> str | None:
    found = pattern.search(text)
    return (trimmed(found[1]) or None) if found else None
