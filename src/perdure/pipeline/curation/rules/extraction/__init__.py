"""Extract small third-person facts from messages by rules: no model, no network.

Each message of a user is unwrapped, cleaned and split into sentences. Of these, instructions, procedures and clauses
become statements: references are resolved, the subject is completed and put into the third person, and statements that
say too little are dropped. The facts are then deduplicated. The first message imports the modules that do this, so a
program that only searches never loads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from perdure.domain.fact import Fact
from perdure.domain.memory import NOTES
from perdure.domain.message import Message
from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft

if TYPE_CHECKING:
    from perdure.pipeline.curation.rules.extraction.worth import Judge

# Cutting a long conversation to the characters that are read, at the end of a sentence.

LONGEST_ANSWER = 4000
"""Characters read at the end of an assistant's message, which the user's next words may answer."""

CONTEXT_CHARACTERS = 24_000
"""Characters read of the messages of a context, the last ones: two calls as long as one may be (`reading_limit`)."""

_END = Pattern(r"[.!?\u2026]+[\"')\]\u201d\u2019\u00bb]*(?=\s|\Z)|[\u3002\uff01\uff1f]|\n\s*(?=\n)")
_SPACE = Pattern(r"\s+")
_LAST_WORD = Pattern(r"([\w.]+)\.$")


def beginning(messages: Sequence[Message], limit: int) -> tuple[list[Message], int]:
    """The messages as far as `limit` characters go, and how many characters are left out; places stay as they are.

    A message that comes too late is empty, and of the one in which the limit is reached the last sentence is whole.
    What nobody reads does not count: all but the end of an assistant's message.
    """
    left, missing = limit, 0
    kept: list[Message] = []
    for message in messages:
        size = len(message.content) if message.role == "user" else min(len(message.content), LONGEST_ANSWER)
        if size <= left:
            kept.append(message)
            left -= size
            continue
        content = head(message.content, left) if message.role == "user" else ""
        kept.append(replace(message, content=content))
        missing += size - len(content)
        left = 0
    return kept, missing


def head(text: str, limit: int) -> str:
    """The first `limit` characters at most, up to the end of a sentence.

    Where none ends in the second half of them, up to the last line's end there, else the last space: nobody says a
    sentence of thousands of characters.
    """
    if len(text) <= limit:
        return text
    least = limit // 2
    for match in reversed(list(_END.finditer(text, least, limit))):
        ends = match.end() < limit or text[limit : limit + 1].isspace()
        if ends and not _is_shortened(text[max(0, match.start() - 20) : match.end()]):
            return text[: match.end()]
    line = text.rfind("\n", least, limit)
    if line >= 0:
        return text[:line]
    spaces = list(_SPACE.finditer(text, least, limit))
    return text[: spaces[-1].start()] if spaces else text[:least]


def recent(context: Sequence[Message]) -> list[Message]:
    """The last messages of a context as far back as CONTEXT_CHARACTERS go; those before are empty.

    The one in which that is reached begins with a sentence. What nobody reads does not count, as in `beginning`.
    """
    left = CONTEXT_CHARACTERS
    kept: list[Message] = []
    for message in reversed(context[-LONGEST_CONTEXT:]):
        size = len(message.content) if message.role == "user" else min(len(message.content), LONGEST_ANSWER)
        kept.append(message if size <= left else replace(message, content=_tail(message.content, left)))
        left = max(0, left - size)
    return kept[::-1]


def _tail(text: str, limit: int) -> str:
    """The last `limit` characters at most, from the beginning of a sentence, else of a word."""
    start = len(text) - limit
    begins = _END.search(text, start) or _SPACE.search(text, start)
    return text[begins.end() :].lstrip() if begins else ""


def _is_shortened(end: str) -> bool:
    """Whether a text ends in an abbreviation, whose point ends no sentence: "Dr.", "J."."""
    word = _LAST_WORD.search(end)
    if word is None:
        return False
    last = word.group(1)
    return (len(last) == 1 and last.isupper()) or last.lower() in lexicon.pairs("wrapping.tsv")["shortened"].split()


__all__ = ["beginning", "extract", "read_messages", "recent"]

LONGEST_CONTEXT = 9
"""Last messages of context that are read. Of unread dialogues 24 find nothing more, and "it" is then oftener wrong."""
SESSION_GAP = timedelta(hours=1)
"""A silence after which a new conversation begins: names stay known, "it" refers to nothing yet."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """The facts of messages, and as notes the user's own sentences that no fact says."""

    facts: list[Fact]
    notes: list[Fact]


def extract(
    messages: Sequence[Message],
    *,
    now: datetime,
    context: Sequence[Message] = (),
    max_facts: int | None = None,
) -> list[Fact]:
    """Return what the rules alone read in `messages`, before it is weighed; see `read_messages`.

    `max_facts` limits the result to the first so many.
    """
    facts = read_messages(messages, now=now, context=context, judge=rules_alone).facts
    return facts if max_facts is None else facts[: max(0, max_facts)]


def rules_alone(model: str, text: str, beside: str, features: Mapping[str, float]) -> float:
    """Judge that every fact of a rule is worth keeping, and nothing else."""
    return float(model == "fact")


def read_messages(
    messages: Sequence[Message],
    *,
    now: datetime,
    context: Sequence[Message] = (),
    judge: Judge | None = None,
) -> Extracted:
    """Extract facts and notes from `messages`, in order; deterministic, linear in time, and never raises.

    `context` holds the messages just before, for references and open questions; nothing is extracted from it.
    `Fact.sources` are positions in `messages`. Relative times count from a message's timestamp, else from `now`.
    `judge` says what is worth keeping, `worth.odds` if there is none.
    """
    talk, before = Discourse(), None
    noted: list[Draft] = []
    for at, message in [*((-1, message) for message in recent(context)), *enumerate(messages)]:
        moment = message.timestamp or now
        if before is not None and moment - before > SESSION_GAP:
            talk = talk.next_session()
        before = moment
        answered, earlier = talk.assistant, list(talk.drafts)
        _read(message, at, talk)
        if at >= 0 and message.role == "user" and message.content.strip():
            known = set(map(id, earlier))
            own = [draft for draft in talk.drafts if id(draft) not in known and draft.sources == (at,)]
            noted += _choose(message.content, own, talk, at=at, answered=answered, judge=judge)
    told = [draft for draft in talk.drafts if any(at >= 0 for at in draft.sources)]
    facts = [_fact(draft, messages, now) for draft in _distinct(told)]
    return Extracted(facts, [_note(draft, messages) for draft in _distinct(noted)])


def _choose(
    content: str, own: list[Draft], talk: Discourse, *, at: int, answered: str, judge: Judge | None
) -> list[Draft]:
    """Keep of a message's own facts what is worth it, and return its notes."""
    from perdure.pipeline.curation.rules.extraction import choice, cleaning, sentences, worth

    if talk.play:
        return []
    content = sentences.unwrapped(sentences.without_quotations(content))
    language = cleaning.language_of(content, talk.language)
    asked = [draft for draft in own if draft.forget]
    mine = set(map(id, own))
    if asked:
        own = [draft for draft in own if not draft.forget]
        content = choice.beside_requests(content, language, asked, talk, at=at)
    told = choice.Utterance(
        content=content,
        at=at,
        answers=answered.rstrip().endswith("?"),
        before=" ".join(answered.split()[-worth.LONGEST_BESIDE :]),
        language=language,
        is_hidden=bool(asked),
    )
    chosen = choice.choose(told, own, talk, judge or worth.odds)
    talk.drafts[:] = [*(draft for draft in talk.drafts if id(draft) not in mine), *asked, *chosen.drafts]
    return [Draft(text, (at,), "note", 0.5) for text in chosen.notes]


def _note(draft: Draft, messages: Sequence[Message]) -> Fact:
    from perdure.pipeline.curation.rules.extraction import notes

    name = (messages[draft.sources[0]].name or "").strip()
    return Fact(
        text=f"{name}: {draft.text}" if name else draft.text,
        kind=NOTES,
        sources=draft.sources,
        rule=draft.rule,
        confidence=draft.confidence,
        passage=notes.passage_of(draft.text, messages[draft.sources[0]].content),
    )


def _read(message: Message, at: int, talk: Discourse) -> None:
    from perdure.pipeline.curation.rules.extraction import cleaning, conversation_reader, sentences
    from perdure.pipeline.curation.rules.extraction.dialogue import corrections

    if message.role == "assistant":
        answer = sentences.unwrapped(message.content[-LONGEST_ANSWER:])
        language = cleaning.language_of(answer, talk.language)
        said = cleaning.clean(answer, english=not language).text
        talk.assistant = cleaning.gloss(said, language) if language else said
        talk.language = language
        talk.assistant_at = at
        return
    if message.role != "user" or not message.content.strip():
        return
    talk.who = (message.name or "").strip() or "User"
    is_answer = talk.assistant.rstrip().endswith("?")
    talk.begin_message(goes_on=is_answer or corrections.is_cued(message.content.lstrip()))
    conversation_reader.user_message(message.content, at, talk)
    talk.assistant, talk.assistant_at = "", -1


def _distinct(drafts: list[Draft]) -> list[Draft]:
    """Drop repeats that differ only in case and white space."""
    kept: dict[str, Draft] = {}
    for draft in drafts:
        key = " ".join(draft.text.lower().split())
        if key not in kept:
            kept[key] = draft
    return list(kept.values())


def _fact(draft: Draft, messages: Sequence[Message], now: datetime) -> Fact:
    from perdure.pipeline.curation.rules.extraction import filters, notes, statements, times

    told = next((messages[at].timestamp for at in draft.sources if at >= 0 and messages[at].timestamp), None) or now
    start, end = (None, None) if draft.forget else times.validity(draft.text, told)
    ahead = not draft.forget and times.is_ahead(draft.text, told, start)
    sources = tuple(at for at in draft.sources if at >= 0)
    return Fact(
        text=draft.text,
        sources=sources,
        type="semantic" if draft.forget else filters.memory_type_of(draft.text, draft.procedural, draft.episodic),
        valid_from=start,
        valid_to=end,
        forget=draft.forget,
        language=draft.language,
        hedged=draft.hedged or statements.hedged(draft.text),
        ahead=ahead,
        corrects=draft.corrects,
        rule=draft.rule,
        confidence=draft.confidence,
        passage=notes.passage_of(draft.text, messages[sources[-1]].content) if sources and not draft.forget else "",
    )
