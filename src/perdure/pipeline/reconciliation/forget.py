"""Forgetting: which memories a request to forget names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perdure.domain.fact import Neighbour
from perdure.pipeline.reconciliation.pairing import content, generic, uncovered, values_fit
from perdure.pipeline.slots import USER, Reading, read

NEAR = 0.45
"""Cosine from which the nearest memory is meant when the words alone name none."""

_REQUEST = re.compile(
    r"^(?:the )?user (?:has )?(?:asked|asks|wants|wanted|requested|requests|would like|told)(?: the assistant| perdure| me| us)?(?: not)? ?"
    r"(?:to|that)? ?(?:(?:please )?(?:forget|delete|erase|remove|drop|discard|scrub|wipe|stop remembering|not remember|not keep|not store)|"
    r"(?:the )?(?:removal|deletion|erasure) of)\b|"
    r"^(?:the )?user (?:does not|doesn't|did not|no longer) wants? (.+?)(?: to be)? (?:stored|remembered|kept|saved|on file|on record)$|"
    r"^(?:the )?user (?:wants|wanted|asked for|would like|needs) (.+?) (?:to be )?(?:removed|deleted|forgotten|erased|wiped|scrubbed|"
    r"taken out|taken off|cleared|struck|gone|off the record|out of memory)\b.*$|"
    r"^(?:the )?user (?:should not have|shouldn't have|regrets|wishes .{0,20}? had not) (?:mentioned|mentioning|told|telling|shared|sharing|brought up) (.+?)"
    r"(?: and (?:wants|asks|asked|would like).*)?$|"
    r"^(?:please )?(?:forget|delete|erase)\b",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"^(?:everything |anything |all |what )?(?:(?:that )?(?:is|was|has been|they|user|it|he|she) ?(?:said|told|mentioned|stored|saved|known|kept|remembered)?"
    r"(?: about| on)?|what (?:is|was|user) .{0,30}?about|(?:the )?(?:fact|facts|memory|memories|note|notes|entry|thing|part|bit|information|info)(?: that| about| on| of)?|about|that)\s+",
    re.IGNORECASE,
)


def requested(text: str) -> str | None:
    """What a statement asks to forget ("their salary"), or None if it asks nothing of the kind."""
    match = _REQUEST.search(text.strip())
    if match is None:
        return None
    named = next((group for group in match.groups() if group), None)
    matter = named if named is not None else text.strip()[match.end() :]
    matter = matter.strip(" .:!,")
    for _ in range(3):
        shorter = _ABOUT.sub("", matter).strip()
        if shorter == matter or not shorter:
            break
        matter = shorter
    return re.sub(r"\b(?:their|his|her|my)\b", "User's", matter)


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
        return [(memory, sure) for memory, sure in found if sure >= best - 0.1]
    near = [memory for memory in memories if (memory.similarity or 0.0) >= NEAR]
    if len(near) == 1 or (near and (near[0].similarity or 0) - (near[1].similarity or 0) > 0.1):
        shared = content(read(near[0].item.memory)) & wanted[0]
        if shared:
            return [(near[0], 0.6)]
    return []


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
