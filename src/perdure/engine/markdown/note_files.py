"""Jotting: memories as a caller words them, for files that are written while no memory is open."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.domain.clock import Clock, MonotonicClock, system_clock
from perdure.domain.memory import MemoryItem, new_id
from perdure.domain.scope import Scope
from perdure.engine.write.explicit import Statement


def jotted(texts: Iterable[tuple[str, Scope]], *, clock: Clock = system_clock) -> list[MemoryItem]:
    """The memory of each text, in this order, dated one after the other.

    Nothing is extracted and nothing is reconciled. What reads like an order to a model is quarantined.
    """
    moments = MonotonicClock(clock)
    items = []
    for text, scope in texts:
        moment, id = moments.tick(), new_id()
        items.append(
            MemoryItem(
                id=id,
                scope=scope,
                created_at=moment,
                updated_at=moment,
                told_at=moment,
                valid_from=moment,
                lineage_id=id,
                **Statement(content=text).given(),
            )
        )
    return items
