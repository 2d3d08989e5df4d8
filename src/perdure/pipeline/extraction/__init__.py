"""The extraction half of the rules curator: messages in, small third-person facts out; no model, no network.

Order of work for each message of a user: clean, sentences, drop, standing instructions, procedures, clauses, resolve
references, complete the subject, third person, worthiness; then the whole is deduplicated. The modules of that work are
imported by the first message: a program that only searches never loads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from perdure.domain.fact import Fact
from perdure.domain.message import Message
from perdure.pipeline.extraction.contexts import Contexts
from perdure.pipeline.extraction.discourse import Discourse, Draft

__all__ = ["Contexts", "extract"]

LONGEST_CONTEXT = 48
"""Messages of context that are read, a millisecond each: callers show fewer, as many as tell the people of a life."""
SESSION_GAP = timedelta(hours=1)
"""A silence after which a conversation is a new one (anchors/recall.md): names stay known, "it" means nothing yet."""


def extract(
    messages: Sequence[Message],
    *,
    now: datetime,
    context: Sequence[Message] = (),
    max_facts: int | None = None,
    contexts: Contexts | None = None,
) -> list[Fact]:
    """The facts that users state in `messages`, in the order of telling; deterministic, linear, and it never raises.

    `context` holds the messages just before, for references and open questions; nothing is extracted from it.
    `Fact.sources` are positions in `messages`. Relative times count from a message's timestamp, else from `now`.
    `max_facts` keeps the first so many. `contexts` know what earlier calls read of the context, and of this one's too
    afterwards.
    """
    context = context[-LONGEST_CONTEXT:]
    done, talk = (0, Discourse()) if contexts is None else contexts.begun(context)
    before = (context[done - 1].timestamp or now) if done else None
    placed = [*((-1, message) for message in context), *enumerate(messages)]
    for place, (at, message) in enumerate(placed[done:], done):
        if place == len(context) and contexts is not None:
            contexts.keep(context, done, talk)
        moment = message.timestamp or now
        if before is not None and moment - before > SESSION_GAP:
            talk = talk.next_session()
        before = moment
        _read(message, at, talk)
    told = [draft for draft in talk.drafts if any(at >= 0 for at in draft.sources)]
    facts = [_fact(draft, messages, now) for draft in _distinct(told)]
    return facts if max_facts is None else facts[: max(0, max_facts)]


def _read(message: Message, at: int, talk: Discourse) -> None:
    from perdure.pipeline.extraction import cleaning, flow, foreign

    if message.role == "assistant":
        language = foreign.language_of(message.content[-4000:], talk.language)
        said = cleaning.clean(message.content[-4000:], english=not language).text
        talk.assistant = foreign.gloss(said, language) if language else said
        talk.language = language
        talk.assistant_at = at
        return
    if message.role != "user" or not message.content.strip():
        return
    talk.who = (message.name or "").strip() or "User"
    flow.user_message(message.content, at, talk)
    talk.assistant, talk.assistant_at = "", -1


def _distinct(drafts: list[Draft]) -> list[Draft]:
    """Without repeats, and without a statement that a longer one holds word for word."""
    kept: dict[str, Draft] = {}
    for draft in drafts:
        key = " ".join(draft.text.lower().split())
        if key not in kept:
            kept[key] = draft
    return list(kept.values())


def _fact(draft: Draft, messages: Sequence[Message], now: datetime) -> Fact:
    from perdure.pipeline.extraction import kinds, statements, times

    told = next((messages[at].timestamp for at in draft.sources if at >= 0 and messages[at].timestamp), None) or now
    start, end = (None, None) if draft.forget else times.validity(draft.text, told)
    return Fact(
        text=draft.text,
        sources=tuple(at for at in draft.sources if at >= 0),
        type="semantic" if draft.forget else kinds.kind_of(draft.text, draft.procedural, draft.episodic),
        valid_from=start,
        valid_to=end,
        forget=draft.forget,
        hedged=draft.hedged or statements.hedged(draft.text),
        rule=draft.rule,
        confidence=draft.confidence,
    )
