"""One message after the other: which of its sentences are dropped, which are read, and by which rule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import (
    cleaning,
    coreference,
    filters,
    forget_requests,
    forget_target,
    fragments,
    grammar,
    procedures,
    sentences,
)
from perdure.pipeline.curation.rules.extraction import sentence as telling
from perdure.pipeline.curation.rules.extraction.dialogue import corrections, presupposed, questions, replies
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft, kin_gender
from perdure.pipeline.curation.rules.memo import per_text
from perdure.pipeline.lexicon import word_set

# A sentence put into the order that the rules expect: asides out, names beside whom they name.

_A_NAMED = Pattern(r"\b((?:an?|the|my|our) (?:[\w-]+ )?[a-z-]+), ([A-ZÀ-Þ][\w'-]+)(,|$|\.)")
_THE_FAMILY = Pattern(
    r"\b[Tt]he (twins|kids|boys|girls|baby|toddler|wife|husband|missus|in-laws|grandkids|grandchildren|"
    r"other half)\b(?!')"
)
_CLEFT = Pattern(r"\b(?:[Ii]t is|[Ii]t was) ([A-Z][\w'-]+|(?:my|our) \w+(?: [A-Z]\w+)?) (?:who|that) ")
_APPOSITIVE = Pattern(
    r"\b((?:[Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Tt]he)(?: [\w'-]+){1,3}), ([A-ZÀ-Þ][\w'-]+(?: [A-ZÀ-Þ][\w'-]+)?),(?= [a-z])"
)
_BRACKETS = Pattern(r"\b([a-z-]+) \(([A-ZÀ-Þ][\w'-]+(?: [A-ZÀ-Þ][\w'-]+)?)\)(?= )")

_BRACKETS = Pattern(r"\s*\(([^()]{1,300})\)")


def unbracketed(found: list[sentences.Sentence]) -> list[sentences.Sentence]:
    """Long asides in brackets taken out of their sentence and put behind it."""
    out: list[sentences.Sentence] = []
    for sentence in found:
        asides = [aside for aside in _BRACKETS.findall(sentence.text) if "," in aside or len(aside.split()) > 4]
        text = sentence.text
        for aside in asides:
            text = text.replace(f"({aside})", " ")
        out.append(replace(sentence, text=" ".join(text.split())) if asides else sentence)
        out.extend(sentences.Sentence(aside) for aside in asides if grammar.subject_of(aside.split()) == "first")
    return out


_RECORDS = Pattern(
    r"^(?:(?:please|pls|kindly|can you|could you|so|and|also|ok),? )*(?:(?:amend|update|correct|adjust|change|fix|"
    r"edit) (?:your|the|my) (?:records?|notes?|files?|memory|profile|details|info)(?: please)?[:,-]+ ?(?:to say )?|"
    r"(?:note|put|write|add) (?:it )?(?:down )?(?:for|in|on|to) (?:your|the) (?:records?|notes?|files?|"
    r"memory)(?: that|:|,) )",
    re.I,
)
_OWN_LABEL = Pattern(r"^the (?=(?:sur|last |first |middle |maiden |user|nick)?name is\b|spelling is\b)", re.I)
_NAME_BARE = Pattern(r"^((?:[Hh]ello|[Hh]i|[Gg]ood \w+)?,? ?[Mm]y name) (?=[A-ZÀ-Þ][a-zà-ÿ]+(?:,|\.|$| and\b))")


_BARE_VERB = Pattern(
    r"\b([Mm]y|[Oo]ur) ([a-z-]+)(?: ([A-ZÀ-Þ][\w'-]+))? ([a-z]+)(?= (?:the|a|an|my|in|at|to|me|for|as|on|no|with)\b)"
)


def _agreeing(text: str) -> str:
    """ "my wife pass the test" as "my wife passes the test": one relative, and a verb that fits no other reading."""
    match = _BARE_VERB.search(text)
    if match is None or kin_gender(match.group(2)) not in {"m", "f"} or match.group(2).endswith("s"):
        return text
    verb = match.group(4)
    if verb not in grammar.bases() - grammar.ambiguous_pasts() or re.search(
        r"\b(?:does|did|can|will|let|lets|make|makes|help)\b", text
    ):
        return text
    return text[: match.start(4)] + grammar.third(verb) + text[match.end(4) :]


def _is_person(noun: str) -> bool:
    return noun in coreference.relation_nouns() or noun in lexicon.words("roles.txt")


AMENDS = Pattern(
    r"^(?:(?:an?|one|another|small|quick|slight|minor|little) )*(?:corrections?|amendment|update|news)"
    r"(?: (?:on|about|re|regarding) [^:,.]{2,40})?(?::|,| -+) ?(?=\w)",
    re.I,
)
"""What announces that a sentence corrects an earlier one; the sentence itself tells what holds."""


def normal(text: str) -> str:
    """The sentence in plain order: "my boss, Ana, says" is "my boss Ana says"."""
    text = AMENDS.sub("", text)
    recorded = _RECORDS.sub("", text)
    text = text if recorded == text else _OWN_LABEL.sub("my ", recorded)
    text = _NAME_BARE.sub(r"\1 is ", text)
    text = _agreeing(text)
    text = _THE_FAMILY.sub(r"my \1", text)
    text = _CLEFT.sub(r"\1 ", text)
    text = _A_NAMED.sub(
        lambda m: f"{m.group(1)} named {m.group(2)}{m.group(3)}" if _is_person(m.group(1).split()[-1]) else m.group(),
        text,
    )
    return _APPOSITIVE.sub(r"\1 \2", text)


# Sentences that are read whole: forgetting, corrections, introductions, moved dates, labelled lists, procedures.

_LABELLED = Pattern(r"^(?P<label>(?:[A-Za-z][\w'/-]*)(?: [\w'/-]+){0,6}?)(?: ?: | ?= )(?P<rest>\S.*)$")


def read(sentence: sentences.Sentence, at: int, talk: Discourse) -> sentences.Sentence | None:
    """What is left to read of the sentence: all of it if it is none of these, None if nothing."""
    text = filters.strip_openers(sentence.text)
    request = forget_requests.read(text, talk, at)
    if request is not None:
        talk.drafts.extend(Draft(asked, (at,), "forget", 0.9, forget=True) for asked in request.asked)
        talk.subject = forget_target.thing(request.asked[0], talk.who) if request.asked else talk.subject
        return replace(sentence, text=request.left, question=False) if request.left else None
    forget_target.note(text, talk, at)
    if sentence.question:
        return sentence
    if corrections.apply_correction(sentence.text, talk, at):
        return None
    first, comma, rest = sentence.text.partition(", ")
    if comma and len(first) < 40 and corrections.is_cued(first) and corrections.apply_correction(first, talk, at):
        return replace(sentence, text=rest)
    if _labelled(text, at, talk):
        return None
    steps = procedures.read(text, talk.who)
    if steps:
        talk.drafts.extend(Draft(step, (at,), "procedure", 0.8, procedural=True) for step in steps)
        talk.own = True
    return None if steps else sentence


def _labelled(text: str, at: int, talk: Discourse) -> bool:
    """ "Physio exercises: clamshells 3x12, then bridge 3x15": each value is told of the label."""
    match = _LABELLED.match(text)
    freely = not talk.asks and match is not None and "," in match.group("rest")
    if match is None or not fragments.is_label(match.group("label"), freely=freely):
        return False
    rest = match.group("rest")
    if procedures.is_process(match.group("label")) and (procedures.is_sequence(rest) or rest.count(",") > 1):
        return False
    pieces = [part for part in re.split(r",(?!\d)\s*(?:and |then )*|\s+\+\s+", rest) if part.strip()]
    ordered = grammar.bare(pieces[0].split()[0]) in grammar.bases() if pieces else False
    if not ordered and any(sentences.has_verb(piece) and grammar.subject_of(piece.split()) for piece in pieces[:1]):
        return False
    if ordered and not re.search(
        r"\b(?:goal|aim|plan|ambition|resolution|dream|target|task|job)s?\b", match.group("label"), re.I
    ):
        return False
    talk.drafts.extend(fragments.labelled(match.group("label"), pieces, talk, at))
    return True


_FACT_LINE = Pattern(r"^(?:[Tt]he )?[Uu]ser(?:'s)? [^?\n]{2,500}$")


def user_message(content: str, at: int, talk: Discourse) -> None:
    """Read one message of the user; what it says is appended to `talk.drafts`."""
    content = sentences.unwrapped(sentences.without_quotations(content))
    facts = _ready_facts(content)
    if facts:
        talk.drafts.extend(Draft(fact, (at,), "as given", 1.0) for fact in facts)
        talk.own = True
        return
    before = len(talk.drafts)
    language = cleaning.language_of(content, talk.language)
    if language in cleaning.LANGUAGES:
        content, asked = forget_requests.foreign(content, language, talk, at)
        talk.drafts.extend(asked)
    elif not language:
        content = coreference.with_heads(content)
    cleaned = cleaning.clean(content, english=not language)
    if language:
        cleaned.text = cleaning.gloss(cleaned.text, language)
        talk.language = language
    _read_text(cleaned.text, content, at, talk)
    for place in range(before, len(talk.drafts)):
        draft = talk.drafts[place]
        draft.text = cleaned.restore(draft.text)
    talk.drafts[before:] = [draft for draft in talk.drafts[before:] if may_be_stored(draft, talk.who)]
    if language:
        left = cleaning.unglossed(content, cleaned.text, language) | _short_words_left(content, cleaned.text)
        talk.drafts[before:] = _in_one_language(talk.drafts[before:], left)
    if any(draft.forget for draft in talk.drafts[before:]):
        talk.drafts[before:] = forget_target.without_matters(talk.drafts[before:], talk.who)
    talk.commanded = talk.asks and not talk.about_self and len(talk.drafts) <= before


def _in_one_language(drafts: Sequence[Draft], left: set[str]) -> list[Draft]:
    """The facts of a message in another language, without those that hold a word which has no gloss."""
    return [draft for draft in drafts if draft.forget or not left & set(re.findall(r"[^\W\d_]+", draft.text.lower()))]


_SHORT_WORD = Pattern(r"(?<![\w'.-])(?<!\d )[^\W\d_]{2}(?![\w'.-])")


def _short_words_left(said: str, glossed: str) -> set[str]:
    """The words of two small letters that a gloss has taken over and that are no English ones ("se", "zu")."""
    both = set(_SHORT_WORD.findall(said)) & set(_SHORT_WORD.findall(glossed))
    return {word for word in both if word.islower() and not coreference.is_known_word(word)}


_FIRST_PERSON = Pattern(r"(?<![\w'.])(?:i|i'm|i've|i'd|i'll|my|me|mine|we|our)(?![\w'.-])", re.I)
_QUOTED = Pattern(r"\"[^\"]*\"|`[^`]*`|(?<!\w)'[^']*'(?!\w)")


_ASSISTANT = Pattern(
    r"^(?!(?:Any|Every|Each|When|If|No|All)\w* ).*(?<!uses )(?<!reads )(?<!asks )\bthe assistant\b", re.I
)
_TO_THE_ASSISTANT = word_set("telling.to_the_assistant")
"""Rules whose facts may speak of the assistant: the others only overheard a "you"."""


def may_be_stored(draft: Draft, who: str) -> bool:
    """Whether a fact may be stored: not somebody's quoted sentence, and no first person left outside quotes."""
    if draft.rule == "as given":
        return True
    if _FIRST_PERSON.search(_QUOTED.sub(" ", draft.text)):
        return False
    if not draft.forget and draft.rule not in _TO_THE_ASSISTANT and _ASSISTANT.search(draft.text):
        return False  # said to the assistant, or a general "you"
    if not draft.forget and not filters.readable(draft.text, who, draft.rule):
        return False
    return draft.rule == "standing" or not _quotes_much(draft.text)


def _quotes_much(fact: str) -> bool:
    """Whether a fact holds a whole quoted sentence: somebody's words, not a statement."""
    quoted = re.findall(r"\"([^\"]{1,2000})\"|(?<!\w)'([^'\n]{12,400})'(?!\w)|`([^`]*)`", fact)
    return any(len((double or single or code).split()) >= 5 for double, single, code in quoted)


def _ready_facts(content: str) -> list[str]:
    lines = [line.strip().lstrip("-* ").rstrip(". ") for line in content.splitlines() if line.strip()]
    if not lines or not all(_FACT_LINE.match(line) for line in lines):
        return []
    if any(
        re.match(
            r"[Uu]ser (?:story|guide|manual|interface|input|id|name|stor|experience|agent|acceptance|"
            r"research|group|data)\b",
            line,
        )
        for line in lines
    ):
        return []
    return [part.strip() for line in lines for part in re.split(r"\.\s+(?=User\b)", line) if part.strip()]


def _read_text(text: str, raw: str, at: int, talk: Discourse) -> None:
    talk.about_self, talk.asks = filters.speaks_of_self(text), filters.asks(text)
    talk.play = _plays(text, talk)
    kind = kind_of(text, raw)
    if (kind.what_if or kind.fiction) and forget_requests.asks(text):
        _english(text, at, talk)
        return
    if talk.play or kind.what_if or kind.jest:
        return
    if kind.task or kind.fiction:
        talk.task = True
        talk.drafts.extend(presupposed.read_before_task(text, at, talk))
    elif not kind.exercise:
        _english(text, at, talk)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a message is, besides something that its sender tells."""

    what_if: bool
    fiction: bool
    jest: bool
    task: bool
    exercise: bool


@per_text(256)
def kind_of(text: str, raw: str) -> Kind:
    """Return what a message is: `text` is its plain text, `raw` what was typed."""
    return Kind(
        what_if=filters.is_what_if(text),
        fiction=filters.is_fiction(text),
        jest=filters.is_joke(raw[: filters.HEAD]) or filters.is_mockery(raw),
        task=filters.is_task(text) or filters.is_homework(text) or filters.is_role(text) or filters.brings_text(raw),
        exercise=filters.is_sum(text) or filters.is_exercise(text),
    )


def _plays(text: str, talk: Discourse) -> bool:
    """Whether the message belongs to a game: one is on, or the assistant's words lead it, and the user stays in it."""
    on = talk.play or filters.opens_play(text) or filters.leads_play(talk.assistant)
    return on and not filters.leaves_play(text)


def _english(text: str, at: int, talk: Discourse) -> None:
    frames = questions.read(talk.assistant) if talk.assistant else []
    reply = bool(talk.assistant)
    if reply and not talk.task:
        replies.hear(talk)
        talk.own = talk.own or any(re.match(r"(?:I|my)\b", frame.statement) for frame in frames)
    if talk.commanded and not talk.about_self and not frames:
        return
    for number, found in enumerate(unbracketed(sentences.split_sentences(text))):
        sentence = replace(found, text=normal(found.text))
        if _dropped(sentence, talk):
            continue
        rest = read(sentence, at, talk)
        if rest is None:
            frames = []
            continue
        if reply and number < 3 and not rest.question:
            left = replies.read(rest, frames, at, talk, number == 0)
            if left is None:
                continue
            rest = replace(rest, text=left)
        before = len(talk.drafts)
        telling.read(rest, at, talk)
        if len(talk.drafts) == before:
            talk.drafts.extend(fragments.plain_statement(rest, at, talk))
        if corrections.corrects(found.text) or AMENDS.match(found.text):
            for draft in talk.drafts[before:]:
                draft.corrects = True


def _dropped(sentence: sentences.Sentence, talk: Discourse) -> bool:
    """Whether a sentence is fiction, a list's heading, or one more word on a task."""
    if sentence.header and not sentence.question:
        return True
    return talk.task and len(sentence.text) < 80 and not re.search(r"\b(?:I|my|we|our)\b", sentence.text)
