"""The parts of a prompt that do not depend on the question: directives on how to answer, and the profile."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import iso
from perdure.domain.fact import Fact
from perdure.domain.filter import Condition, Filter, matches
from perdure.domain.memory import MemoryItem
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.core.access import TRUSTED, visible
from perdure.engine.core.embedding import stamp_of
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import scan
from perdure.engine.read.fused import CachedIndex, ScopeIndexes
from perdure.pipeline.curation.rules.memo import per_text
from perdure.pipeline.lexicon import words
from perdure.pipeline.retrieval.directives import directive, preference
from perdure.pipeline.retrieval.features import DIRECTIVE, PREFERENCE
from perdure.pipeline.retrieval.standing_facts import is_standing

_OF_ANSWERS = re.compile(r"\b(?:you|your|answers?|repl(?:y|ies)|responses?|explanations?)\b", re.IGNORECASE)

MOST = 40  # maximum directives, and lines of the profile, in a prompt, the newest
LOOKED_AT = 2_000  # newest memories that are examined for them
_KNOWN = 2_000  # messages whose reading is cached, and the maximum characters of such a message


def is_directive(item: MemoryItem) -> bool:
    """Whether a memory says how to answer: a fact that says so, or a message of the user that did."""
    if item.role == "memory":
        return is_standing(item.memory)
    return item.role == "user" and _instruction(item.memory) is not None


def unnoted(messages: Sequence[Message], facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts, with one for each of the user's standing instructions that no fact contains; it replaces a fact
    that is nothing but the instruction."""
    kept = list(facts)
    for position, message in enumerate(messages):
        said = _instruction(message.content) if message.role == "user" else None
        if said is None or any(position in fact.sources and is_standing(fact.text) for fact in kept):
            continue
        plain = said.rstrip(" .!").casefold()
        kept = [
            fact
            for fact in kept
            if fact.forget or position not in fact.sources or fact.text.rstrip(" .!").casefold() != plain
        ]
        text = f'{message.name or "User"} told the assistant: "{said}"'
        kept.append(Fact(text=text, type="procedural", sources=(position,), rule="standing"))
    return kept


def _instruction(text: str) -> str | None:
    """Return the sentence of a message that says how to answer; a preference counts only if it is about answers."""
    return _known_instruction(text) if len(text) <= _KNOWN else _read_instruction(text)


@per_text(_KNOWN)
def _known_instruction(text: str) -> str | None:
    return _read_instruction(text)


def _read_instruction(text: str) -> str | None:
    told = directive(text)
    if told is not None:
        return told
    liked = preference(text)
    return liked if liked is not None and _OF_ANSWERS.search(liked) else None


class Profile:
    """Looks up the parts of a prompt that do not depend on the question."""

    def __init__(self, kernel: Kernel, indexes: ScopeIndexes) -> None:
        self._kernel = kernel
        self._indexes = indexes

    async def directives(self, scope: Scope) -> list[MemoryItem]:
        """Return the scope's standing instructions and preferences about answers, oldest first.

        They are for prompts, so quarantined memories are left out, here and in the profile.
        """
        kernel = self._kernel
        # With `words` each instruction of a message is a fact too, which can be changed and deleted.
        kinds = tuple(kind for kind in self._indexes.kinds if kind != "messages" or kernel.config.episodes == "search")
        within = visible(scope, now=kernel.clock.now(), kinds=kinds, filters=TRUSTED)
        held = await self._indexes.of(scope, with_words=False)
        points = await (self._newest(within) if held is None else self._marked(held))
        items = [MemoryItem.from_payload(point.payload) for point in points if matches(within, point.payload)]
        told = [_cut(item) for item in items if is_directive(item)]
        noted = {source for item in told if item.role == "memory" for source in item.sources}
        told = [item for item in told if item.role == "memory" or not noted.intersection(item.sources)]
        return sorted(told, key=lambda item: (item.told_at, item.created_at, item.id))[-MOST:]

    async def _marked(self, held: CachedIndex) -> list[Point]:
        """Return the marked memories; other preferences among them are examined once."""
        kernel, stamps = self._kernel, held.index.stamps
        marked = held.marked(DIRECTIVE | PREFERENCE)[-LOOKED_AT:]
        asked = [id for id in marked if id not in held.plain or held.plain[id] != stamps.get(id)]
        points = await kernel.store.get_many(kernel.collection, asked) if asked else []
        for point in points:
            if not is_directive(MemoryItem.from_payload(point.payload)):
                held.plain[point.id] = stamp_of(point.payload)
        return points

    async def _newest(self, within: Filter) -> list[Point]:
        """Return the newest memories of a scope that has no index."""
        points: list[Point] = []
        async for page in scan(self._kernel, within, page=LOOKED_AT):
            points = [*points, *page][-LOOKED_AT:]
        return points

    async def profile(self, scope: Scope) -> list[MemoryItem]:
        """Return the scope's current facts of single-valued attributes, in an order that only changes with them.

        What begins later ("is moving to York in January") is not what holds.
        """
        kernel = self._kernel
        now = kernel.clock.now()
        attributes = tuple(sorted(words("profile_attributes.txt")))
        wanted = visible(
            scope,
            now=now,
            filters=Condition("attribute", "in", attributes),
        )
        page = await kernel.store.list(kernel.collection, wanted, LOOKED_AT)
        items = [MemoryItem.from_payload(point.payload) for point in page.points if matches(TRUSTED, point.payload)]
        held: dict[tuple[str, str], MemoryItem] = {}
        for item in sorted(items, key=lambda item: (item.told_at, item.created_at)):  # each run may have its own
            has_begun = item.valid_from is None or item.valid_from <= iso(now)
            if item.slots is not None and item.slots.polarity and has_begun and not is_directive(item):
                held[item.slots.subject, item.slots.attribute] = item
        return sorted(held.values(), key=lambda item: (item.created_at, item.id))[-MOST:]


def _cut(item: MemoryItem) -> MemoryItem:
    """Return a message with only the sentences that say how to answer."""
    if item.role == "memory":
        return item
    said = _instruction(item.memory)
    return item if said is None else item.with_(memory=said)
