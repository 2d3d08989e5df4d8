"""Provenance: who said what a fact was made of, and which facts only repeat injected text."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from perdure.backends.blocking import run_blocking
from perdure.domain.fact import Fact
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade
from perdure.engine.core.kernel import Kernel
from perdure.pipeline.prompting.quoting import fingerprint, strip_injected
from perdure.pipeline.quarantine import INSTRUCTION, Hearing, is_forgery, suspect
from perdure.pipeline.retrieval.rescoring import tells_again, topics

_PIECE = re.compile(r"[^\n.!?]*(?:[.!?]+(?=\s|\Z)[ \t]*|[.!?]+|\n+|\Z)")
_LISTED = re.compile(r"(?:[-*•]|\[\w+\]|\d{1,2}[.)])\s+(.*?)(?:\s\(\d{4}-\d\d-\d\d\))?\Z", re.DOTALL)
_PASTED = re.compile(r"\s*(?:[-*•]|\[\w+\]|\d{1,2}[.)]\s|[\"“]?user\b)", re.IGNORECASE)

INLINE_CHARACTERS = 2_000
"""Conversations up to this length are checked on the event loop: about a millisecond, less than a thread switch."""


def without_memory_blocks(messages: Sequence[Message]) -> tuple[list[Message], set[int]]:
    """Return the messages without memory blocks, if any words remain, and the positions of those with forged blocks."""
    kept: list[Message] = []
    forged: set[int] = set()
    for message in messages:
        content = strip_injected(message.content)
        if content.strip():
            if is_forgery(message.content):
                forged.add(len(kept))
            kept.append(replace(message, content=content))
    return kept, forged


async def with_provenance(
    kernel: Kernel, messages: Sequence[Message], facts: Sequence[Fact], scope: Scope, forged: Collection[int] = ()
) -> list[Fact]:
    """Return the facts with their origin and quarantine, without those that only repeat injected text.

    A user's own words always count. The sources of a fact are positions in `messages`; their roles are trusted more
    than a model's claims, which may name the wrong ones. `forged` are positions of messages that contained a forged
    memory block.
    """
    if not facts:
        return []

    def mark() -> tuple[list[Fact], set[int]]:
        hearing = Hearing(messages, forged)
        marked = _together([marked_fact(fact, hearing) for fact in facts])
        return marked, {place for place, fact in enumerate(marked) if hearing.is_users(fact.text)}

    short = sum(len(message.content) for message in messages) <= INLINE_CHARACTERS
    marked, own = mark() if short else await run_blocking(mark)
    echoed = await known_injected(
        kernel, scope, [bare_sentence(fact.text) for place, fact in enumerate(marked) if place not in own]
    )
    return [
        fact for place, fact in enumerate(marked) if place in own or fingerprint(bare_sentence(fact.text)) not in echoed
    ]


async def without_echoes(kernel: Kernel, messages: Sequence[Message], scope: Scope) -> list[Message]:
    """Return the messages without lines and sentences that only repeat injected text.

    In an assistant's or a tool's message every repetition is removed, in a user's only those that are quoted from a
    list of memories or speak of "User": a user's own words count, even if they are the same.
    """
    pieces = [_PIECE.findall(message.content) for message in messages]
    doubtful = [
        {piece for piece in some if piece.strip() and (message.role != "user" or _PASTED.match(piece))}
        for message, some in zip(messages, pieces, strict=True)
    ]
    echoed = await known_injected(kernel, scope, [bare_sentence(piece) for some in doubtful for piece in some])
    if not echoed:
        return list(messages)
    kept = [
        [piece for piece in some if piece not in doubted or fingerprint(bare_sentence(piece)) not in echoed]
        for some, doubted in zip(pieces, doubtful, strict=True)
    ]
    return [replace(message, content="".join(some)) for message, some in zip(messages, kept, strict=True)]


def bare_sentence(piece: str) -> str:
    """Return a sentence without list markers and final full stop, as input for fingerprints."""
    found = _LISTED.match(piece.strip())
    return (found.group(1) if found else piece.strip()).strip(" \t\"'“”").rstrip(".")


def _together(facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts, with an order to a model also what another reading of the same message made of it."""
    orders = [(fact.sources, topics(fact.text)) for fact in facts if fact.quarantined == INSTRUCTION]

    def is_one_of_them(fact: Fact) -> bool:
        return fact.quarantined is None and any(
            sources == fact.sources and tells_again(topics(fact.text), order) for sources, order in orders
        )

    return [replace(fact, quarantined=INSTRUCTION) if is_one_of_them(fact) else fact for fact in facts]


def marked_fact(fact: Fact, hearing: Hearing) -> Fact:
    """Return the fact with origin and quarantine from its messages and words; unchanged if it already has them."""
    if fact.quarantined is not None:
        return fact
    provenance = hearing.of(fact.text, fact.sources)
    return replace(fact, origin=provenance.origin, quarantined=provenance.quarantined)


async def suspected(messages: Sequence[Message]) -> list[str | None]:
    """Return for each message why it is kept out of prompts, or None; long ones are checked in a thread."""

    def look() -> list[str | None]:
        return [suspect(message.content, message.role) for message in messages]

    short = sum(len(message.content) for message in messages) <= INLINE_CHARACTERS
    return look() if short else await run_blocking(look)


def explicit_fact(fact: Fact) -> Fact:
    """Return a fact that a caller states: trusted, unless it is an order to a model."""
    return fact if fact.quarantined is not None else replace(fact, quarantined=suspect(fact.text, None))


async def known_injected(kernel: Kernel, scope: Scope, texts: Sequence[str]) -> set[str]:
    """Return the fingerprints of texts that were injected in this scope; none if the ledger is unavailable."""
    found: set[str] = set()
    if kernel.ledger is not None and texts:
        with degrade("what was injected cannot be told from what was said"):
            found = await kernel.ledger.known_fingerprints(scope, {fingerprint(text) for text in texts})
    return found
