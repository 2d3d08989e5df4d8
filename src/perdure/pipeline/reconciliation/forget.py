"""Forgetting: which memories a request to forget names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from perdure.domain.fact import Neighbour
from perdure.pipeline.lexicon import lines
from perdure.pipeline.reconciliation.pairing import content, generic, uncovered, values_fit
from perdure.pipeline.slots import USER, Reading, read
from perdure.pipeline.slots.rewrite import MAX_TEXT

NEAR = 0.45
"""Cosine from which the nearest memory is meant when the words alone name none."""

_STRIPS = 4
"""How many openings are taken off a request's matter ("everything", "that was said about")."""


def requested(text: str) -> str | None:
    """What a statement asks to forget ("their salary"), or None if it asks nothing of the kind."""
    text = text.strip()[:MAX_TEXT]
    for pattern in _patterns("reconcile_requests.txt"):
        match = pattern.search(text)
        if match is not None:
            named = next((group for group in match.groups() if group), None)
            return _matter(named if named is not None else text[match.end() :])
    return None


def _matter(words: str) -> str:
    """The matter of a request without what opens it."""
    matter = re.split(r"[,;:] | because | since ", words.strip(" .:!,"), maxsplit=1)[0]
    for _ in range(_STRIPS):
        for pattern in _patterns("reconcile_request_fillers.txt"):
            shorter = pattern.sub("", matter, count=1).strip()
            matter = shorter or matter
    return re.sub(r"\b(?:their|his|her|my)\b", "User's", matter)


@cache
def _patterns(name: str) -> tuple[re.Pattern[str], ...]:
    closed = name == "reconcile_request_fillers.txt"
    return tuple(re.compile(rf"^{line}\s+" if closed else line, re.IGNORECASE) for line in lines(name))


def holders(matter: str, memories: Sequence[Neighbour]) -> list[tuple[Neighbour, float]]:
    """The memories that hold the matter, each with a confidence; empty if none does."""
    wanted = _words(matter)
    if not wanted[0] and not wanted[1].values:
        return []
    found: list[tuple[Neighbour, float]] = []
    for memory in memories:
        sure = _holds(wanted, read(memory.item.memory))
        if sure:
            found.append((memory, sure))
    best = max((sure for _, sure in found), default=0.0)
    if best:
        meant = [(memory, sure) for memory, sure in found if sure >= best - 0.1]
        return meant + _told_with(wanted[0], [memory for memory, _ in meant], memories)
    near = [memory for memory in memories if (memory.similarity or 0.0) >= NEAR]
    if len(near) == 1 or (near and (near[0].similarity or 0) - (near[1].similarity or 0) > 0.1):
        shared = content(read(near[0].item.memory)) & wanted[0]
        if shared:
            return [(near[0], 0.6), *_told_with(wanted[0], near[:1], memories)]
    return []


_POINTING = re.compile(r"\b(?:it|this|them)$", re.IGNORECASE)


def _told_with(
    words: frozenset[str], meant: Sequence[Neighbour], memories: Sequence[Neighbour]
) -> list[tuple[Neighbour, float]]:
    """The memories of the same message that point back at what is meant by a word of the matter ("is dreading it")."""
    told = {source for memory in meant for source in memory.item.sources}
    ids = {memory.item.id for memory in meant}
    found: list[tuple[Neighbour, float]] = []
    for memory in memories:
        if memory.item.id in ids or not told & set(memory.item.sources):
            continue
        text = memory.item.memory.rstrip(" .!")
        if _POINTING.search(text) and content(read(text)) & words:
            found.append((memory, 0.75))
    return found


def _words(matter: str) -> tuple[frozenset[str], Reading]:
    reading = read(matter)
    own = set(reading.party.name.split()) | ({reading.party.relation} if reading.party.relation else set())
    return frozenset((content(reading) | own) - {USER, ""}), reading


def _holds(wanted: tuple[frozenset[str], Reading], old: Reading) -> float:
    words, matter = wanted
    held = content(old) | set(old.party.name.split()) | ({old.party.relation} if old.party.relation else set())
    telling = {word for word in words if not generic(word)} or set(words)
    if not values_fit(matter.values, old.values):
        return 0.0
    lacking = uncovered(telling, held)
    if not lacking:
        return 0.95
    named = {word for word in telling if word in matter.names or word in matter.party.name.split()}
    return 0.8 if named and not lacking & named and len(lacking) * 2 <= len(telling) else 0.0
