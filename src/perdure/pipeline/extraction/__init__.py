"""The extraction half of the rules curator: messages in, small third-person facts out; no model, no network.

Order of work for each message of a user: clean, sentences, drop, standing instructions, procedures, clauses, resolve
references, complete the subject, third person, worthiness; then the whole is deduplicated.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from perdure.domain.fact import Fact
from perdure.domain.message import Message
from perdure.pipeline.extraction import cleaning, flow, foreign, kinds, statements, times
from perdure.pipeline.extraction.discourse import Discourse, Draft

__all__ = ["extract"]

LONGEST_CONTEXT = 24
"""Messages of context that are read: enough to know the people of a life, a millisecond each."""
SESSION_GAP = timedelta(hours=1)
"""A silence after which a conversation is a new one (anchors/recall.md): names stay known, "it" means nothing yet."""


def extract(
    messages: Sequence[Message], *, now: datetime, context: Sequence[Message] = (), max_facts: int | None = None
) -> list[Fact]:
    """The facts that users state in `messages`, in the order of telling; deterministic, linear, and it never raises.

    `context` holds the messages just before, for references and open questions; nothing is extracted from it.
    `Fact.sources` are positions in `messages`. Relative times count from a message's timestamp, else from `now`.
    `max_facts` keeps the first so many.
    """
    talk = Discourse()
    before: datetime | None = None
    placed = [*((-1, message) for message in context[-LONGEST_CONTEXT:]), *enumerate(messages)]
    for at, message in placed:
        moment = message.timestamp or now
        if before is not None and moment - before > SESSION_GAP:
            talk = talk.next_session()
        before = moment
        _read(message, at, talk)
    told = [draft for draft in talk.drafts if any(at >= 0 for at in draft.sources)]
    facts = [_fact(draft, messages, now) for draft in _distinct(told)]
    return facts if max_facts is None else facts[: max(0, max_facts)]


def _read(message: Message, at: int, talk: Discourse) -> None:
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
