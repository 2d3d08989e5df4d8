"""What a store holds that can be asked for: facts with their earlier texts, the messages behind them, duplicates."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perdure.backends.blocking import run_blocking
from perdure.domain.filter import all_of, eq, matches, scope_filter
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.kernel import Kernel
from perdure.engine.visibility import visible
from perdure.pipeline.duplicates import duplicate_pairs, folded
from perdure.pipeline.rewrite import key_terms

PAGE = 500
"""Rows and messages read at a time."""
COMPARED = 10_000
"""Newest memories of a scope among which duplicates are looked for: every pair of them is compared."""
SHOWN_PAIRS = 20
"""Duplicates whose ids are told: enough to see what they are."""


@dataclass(slots=True)
class Contents:
    """The facts that a search can find now, and what came before them."""

    facts: list[MemoryItem]
    earlier: dict[str, set[str]]
    """Earlier texts that no longer stand, by the id of the memory."""
    sources: dict[str, list[str]]
    """The messages behind the text that a memory now has, by its id; those behind an earlier one alone are not."""


async def read_contents(kernel: Kernel, scope: Scope) -> Contents:
    """The facts inside a scope that a search can find now; the empty scope is the whole store."""
    facts: list[MemoryItem] = []
    versions: dict[str, list[MemoryItem]] = defaultdict(list)
    within = all_of(scope_filter(scope), eq("kind", "facts"))
    now = kernel.ticker.now()
    cursor: str | None = None
    while True:
        page = await kernel.store.list(kernel.collection, within, PAGE, cursor)
        for point in page.points:
            item = MemoryItem.from_payload(point.payload)
            if item.state != LIVE:
                for line in {item.version_of, item.lineage_id} - {None}:
                    versions[str(line)].append(item)
            elif matches(visible(scope, now=now), point.payload):
                facts.append(item)
        cursor = page.next_cursor
        if cursor is None:
            break
    contents = Contents(facts, {}, {})
    for item in facts:
        lines = {item.id, item.lineage_id or item.id}
        before = [
            each for line in lines for each in versions.get(line, ()) if folded(each.memory) != folded(item.memory)
        ]
        old_sources = {source for each in before for source in each.sources}
        contents.earlier[item.id] = {each.memory for each in before}
        contents.sources[item.id] = [source for source in item.sources if source not in old_sources]
    return contents


async def topic_words(kernel: Kernel, contents: Contents) -> dict[str, list[str]]:
    """The topic words of the messages behind the facts, by id, of those that are kept and not hidden."""
    if kernel.ledger is None:
        return {}
    ids = list(dict.fromkeys(source for item in contents.facts for source in contents.sources[item.id]))
    terms: dict[str, list[str]] = {}
    for start in range(0, len(ids), PAGE):
        for episode in await kernel.ledger.get_episodes(ids[start : start + PAGE]):
            if not episode.hidden:
                terms[episode.id] = key_terms(episode.content)
    return terms


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Pairs of memories of one scope that say the same."""

    count: int
    shown: tuple[tuple[str, str], ...]
    """The ids of the first of them."""
    partly: bool
    """Whether some scope was too large to compare all of it."""


async def duplicates(kernel: Kernel, contents: Contents) -> Duplicates:
    """The facts that say what another one of their scope says, among the newest `COMPARED` of each scope."""
    by_scope: dict[Scope, list[MemoryItem]] = defaultdict(list)
    for item in contents.facts:
        by_scope[item.scope].append(item)
    count, shown = 0, list[tuple[str, str]]()
    for items in by_scope.values():
        newest = items[-COMPARED:]
        ids = [item.id for item in newest]
        vectors: dict[str, NDArray[np.float32] | None] = {}
        for start in range(0, len(ids), PAGE):
            points = await kernel.store.get_many(kernel.collection, ids[start : start + PAGE])
            vectors.update((point.id, point.vector) for point in points)
        found, pairs = await run_blocking(
            duplicate_pairs,
            [item.memory for item in newest],
            [vectors.get(id) for id in ids],
            SHOWN_PAIRS - len(shown),
        )
        count += found
        shown += [(ids[one], ids[other]) for one, other in pairs]
    return Duplicates(count, tuple(shown), any(len(items) > COMPARED for items in by_scope.values()))
