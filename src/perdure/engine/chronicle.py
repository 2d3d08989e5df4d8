"""Chronicle: what a kernel's ledger has on record, for the paths that ask for it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from perdure.backends.ledgers.base import Ledger
from perdure.domain.errors import ConflictError, LedgerError, NotFoundError
from perdure.domain.event import AddResult, Change, Episode, HistoryRecord, MemoryEvent
from perdure.domain.scope import Scope
from perdure.engine.answers import Answers
from perdure.engine.config import MemoryConfig


class Chronicle:
    """Reads the ledger; a kernel is one."""

    config: MemoryConfig
    ledger: Ledger | None
    bare: bool
    _identity: str

    def answers(self, scope: Scope) -> Answers:
        """What a language model has answered in exactly this scope."""
        return Answers(self.ledger, scope)

    def _answer_key(self, key: str) -> str:
        """The key as the ledger keeps it: the answer is about this store's memories, and others may share a ledger."""
        return f"{self._identity}/{self.config.vector_store.collection_name}/{key}"

    async def remembered(self, key: str | None, scope: Scope) -> AddResult | None:
        """The answer that was given to this idempotency key, if one was given."""
        if key is None or self.ledger is None:
            return None
        text = await self.ledger.remembered(self._answer_key(key), scope)
        if text is None:
            return None
        loaded = json.loads(text)
        return AddResult([MemoryEvent(**event) for event in loaded["results"]], loaded["warnings"], self.bare)

    async def recent_episodes(self, scope: Scope, limit: int, before: str) -> list[Episode]:
        """The last messages before a moment in a scope; none without a ledger."""
        return await self.ledger.recent_episodes(scope, limit, before) if self.ledger else []

    async def mark_extracted(self, ids: Sequence[str]) -> None:
        """These messages have been read."""
        if self.ledger and ids:
            await self.ledger.mark_extracted(ids)

    async def history(self, id: str) -> list[HistoryRecord]:
        """The history of a memory; LedgerError where there is no ledger, for emptiness must not look like an answer."""
        return await self._require_ledger().history(id)

    async def event(self, event_id: str) -> tuple[Change, int]:
        """The change behind a history record and its place in the order; an error that says why where there is none."""
        ledger = self._require_ledger()
        record = await ledger.history_record(event_id)
        if record is None:
            raise NotFoundError(f"there is no event with the id {event_id!r}")
        change = None if record.erased else await ledger.event(event_id)
        if change is None:
            why = "its text was erased" if record.erased else "it was imported without its change"
            raise ConflictError(f"event {event_id} cannot be undone: {why}", code="erased" if record.erased else None)
        return change, record.sequence

    async def later_events(self, change: Change, sequence: int) -> list[HistoryRecord]:
        """What happened to the same memory, or its line, after this event and still stands, newest first.

        An event and the one that took it back are both left out; what took back this event or an earlier one is not.
        """
        later = [record for record in await self.history(change.memory_id) if record.sequence > sequence]
        ids = {record.id for record in later}
        standing: list[HistoryRecord] = []
        taken_back: set[str] = set()
        for record in sorted(later, key=lambda record: -record.sequence):  # newest first: an undo may be undone
            if record.id in taken_back:
                continue
            if record.undoes in ids:
                taken_back.add(record.undoes)
            else:
                standing.append(record)
        return standing

    async def events_since(self, scope: Scope, moment: str) -> list[Change]:
        """The changes of a scope after a moment of the clock, newest first."""
        return await self._require_ledger().events_since(scope, moment)

    def _require_ledger(self) -> Ledger:
        if self.ledger is None:
            raise LedgerError("there is no ledger: it could not be opened, so no history is kept (see the log)")
        return self.ledger
