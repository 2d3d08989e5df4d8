"""Erasing: what the graph holds of forgotten memories goes at once, or as soon as it can be reached."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from perdure.backends.ledgers.base import Ledger
from perdure.domain.errors import GraphError, LedgerError
from perdure.domain.event import ErasedPlace
from perdure.domain.memory import new_id
from perdure.domain.scope import Scope
from perdure.engine.aio.degrade import degrade
from perdure.engine.graph.sync import GraphSync

PAGE = 500
"""Memories named to the graph at a time, and history records read."""

LATER = "the graph cannot be reached: a job erases it as soon as it can"


class GraphErasure:
    """Takes memories out of the graph of one engine."""

    def __init__(self, keeper: GraphSync) -> None:
        self._keeper = keeper

    async def found(self, memory_ids: Sequence[str]) -> ErasedPlace:
        """How much the graph holds of memories; of a graph that is down nothing is known."""
        count: int | None = None
        with degrade("the graph could not be asked what it holds"):
            store = await self._keeper.store()
            count = sum([await store.count(some) for some in _pages(memory_ids)])
        if count is None:
            return ErasedPlace("graph", 0, "pending", LATER)
        return ErasedPlace("graph", count, "found" if count else "none")

    async def erase(self, memory_ids: Sequence[str], whole: Scope | None = None) -> bool:
        """Remove all that memories, and those of a whole scope, ever stated; whether it is gone.

        If not, call `later` once the ledger has let go of their jobs.
        """
        done = False
        with degrade("the graph is erased later"):
            store = await self._keeper.store()
            for some in _pages(memory_ids):
                await store.erase(some)
            if whole is not None:
                await store.erase_scope(whole)
            done = True
        return done

    async def later(self, memory_ids: Iterable[str], scope: Scope) -> None:
        """Keep jobs that erase memories when the graph is back; they carry ids and no text.

        GraphError without a ledger, or where it fails: then nobody would ever do it.
        """
        queue = self._keeper.queue
        if queue is None:
            raise GraphError("the graph could not be erased, and no ledger keeps that for later: forget it again")
        try:
            await queue.add(self._keeper.kinds.erasing([(id, scope) for id in memory_ids], new_id()))
        except LedgerError as error:
            raise GraphError(f"the graph could not be erased, nor kept for later: {error.message}") from error
        self._keeper.wake()

    async def reset(self) -> bool:
        """Remove everything; whether it is gone."""
        done = False
        with degrade("the graph is cleared later"):
            await (await self._keeper.store()).reset()
            done = True
        return done


def with_status(place: ErasedPlace, status: Literal["erased", "kept", "pending"]) -> ErasedPlace:
    """What became of the graph's share of an erasure."""
    if status == "pending":
        return ErasedPlace(place.place, place.count, "pending", LATER)
    return ErasedPlace(place.place, place.count, status if place.count else "none")


async def all_memory_ids(ledger: Ledger) -> list[str]:
    """The ids of all memories that a ledger ever heard of, erased ones too."""
    ids: dict[str, None] = {}
    after = 0
    while records := await ledger.events_of_scope(Scope(), PAGE, after):
        ids.update(dict.fromkeys(record.memory_id for record in records))
        after = records[-1].sequence
    return list(ids)


def _pages(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + PAGE] for start in range(0, len(ids), PAGE))
