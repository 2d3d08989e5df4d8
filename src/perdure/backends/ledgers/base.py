"""The port of ledgers: the transactional database beside the vector store.

For each write the engine does this. With `async with ledger.lock(scope, store) as held` there is one writer at a time
where scopes overlap. If `held.stranded`, a writer died, or a call of this one gave up: leave the lock, take
`lock(Scope())`, apply what `pending(store)` returns, batch by batch, call `applied` for each, and start over.

`write(entries, episodes, remember, jobs)` acknowledges the changes, which then survive power loss. The vector store
applies them, and `applied(batch)` makes them history; `abandon(batch)` if the store refuses for good. Now and then the
engine calls `batches = await unsynced(store)`, the store's own sync, and `synced(store, batches)`.

Nothing depends on a timeout alone: an owner is alive as long as its handle is open in a living process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from perdure.domain.clock import read_moment
from perdure.domain.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perdure.backends.ledgers.repositories import base as repositories
    from perdure.backends.ledgers.repositories.base import Ids
    from perdure.domain.event import Change, Episode, HistoryRecord
    from perdure.domain.job import Job
    from perdure.domain.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One complete change on its way into a store, for repair after a crash; the ledger sets the later fields."""

    change: Change
    batch_id: str
    """Changes of one batch are applied together, or not at all."""
    store_identity: str
    """The physical store that it was written for."""
    collection: str
    vector: NDArray[np.float32] | None = field(default=None, compare=False)
    """The vector of `change.after`, if there is one."""
    keep_vector: NDArray[np.float32] | None = field(default=None, compare=False)
    """The vector of `change.keep`, if there is one."""
    sequence: int = 0
    """Place in the order of all changes of this ledger, from 1; also its history record's."""
    owner: str = ""
    boot_id: str = ""
    """Which run of the machine applied it, or wrote it if it has not been applied."""
    state: Literal["written", "applied"] = "written"
    created_at: str = ""

    @property
    def id(self) -> str:
        """Return the change's id."""
        return self.change.id


@dataclass(frozen=True, slots=True)
class Remembered:
    """The answer to a call with an idempotency key, kept for 24 hours for exactly this scope."""

    key: str
    scope: Scope
    result: str
    """JSON, as the engine made it."""


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A position in the ledger: the last numbers given to changes and to episodes."""

    change: int
    episode: int


@dataclass(frozen=True, slots=True)
class Touched:
    """Rows written and rows removed since a mark; a row that is both is listed with its latest."""

    mark: Mark
    written: tuple[str, ...]
    """Ids of memories and of messages; a store may not hold them yet, or not at all."""
    gone: tuple[str, ...]
    reset: bool = False
    """The ledger was cleared meanwhile: nothing is known of what stood before."""


@dataclass(frozen=True, slots=True)
class EpisodePage:
    """Episodes by the time they were told, oldest first; equal times in insertion order."""

    episodes: list[Episode]
    next_cursor: str | None
    """Continues after the last; None at the end."""


@dataclass(frozen=True, slots=True)
class Held:
    """A held lock; `stranded` if journal entries of this store must be applied again first."""

    stranded: bool


def read_cursor(cursor: str) -> tuple[str, int]:
    """Return the time and the number in a cursor, `TIME|NUMBER`; InvalidInputError for anything else."""
    moment, _, sequence = cursor.partition("|")
    if read_moment(moment) is None or not (sequence.isascii() and sequence.isdigit() and len(sequence) < 19):
        raise InvalidInputError(f"cursor is not one that a page gave: {cursor!r}", field="cursor", value=cursor)
    return moment, int(sequence)


class Ledger(ABC):
    """History, journal, episodes, locks, small caches, repositories; each method is one transaction.

    Methods raise LedgerError, with nothing applied, if the database fails or the ledger is not open. Ids are compared
    literally. Times are fixed-width ISO 8601 UTC text. A scope filter matches rows with all of its fields; the empty
    scope matches everything.
    """

    name: ClassVar[str]
    """The provider's name."""
    scrub_note: ClassVar[str] = ""
    """Where erased text may be that `scrub` cannot reach, for the report of an erasure."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """The database's id, without secrets: equal for two ledgers if and only if they share it."""

    @property
    @abstractmethod
    def owner(self) -> str:
        """The id of this opening of the ledger, alive until `close` or the end of the process."""

    @property
    def read_only(self) -> bool:
        """Whether the open ledger can only be read; writing methods then raise ReadOnlyError."""
        return False

    def check_place(self) -> None:
        """Raise LedgerError if the open database was removed or replaced where it lies; blocks for a moment."""

    def holds_settings(self, path: Path, name: str) -> bool:
        """Whether a file is a ledger with settings of this name, as a copy of this one is; reading leaves no trace."""
        return False

    @abstractmethod
    async def open(self) -> None:
        """Connect, create or upgrade the tables, and claim a new owner id; further calls do nothing.

        LedgerError if the database cannot be used; the caller may continue without a ledger.
        """

    @abstractmethod
    async def close(self) -> None:
        """Finish a postponed scrub, release all locks and close the database; it may be opened again."""

    @abstractmethod
    async def write(
        self,
        entries: Sequence[JournalEntry],
        episodes: Sequence[Episode] = (),
        remember: Remembered | None = None,
        jobs: Sequence[Job] = (),
    ) -> None:
        """Acknowledge the changes of one batch and their source messages; on return they survive power loss.

        Jobs can be taken once the batch is applied, or at once without entries. InvalidInputError for entries of two
        batches, or text that no database can store. Known episodes and jobs stay unchanged.
        """

    @abstractmethod
    async def applied(self, batch_id: str, synced: Sequence[str] | None = None) -> None:
        """Mark a batch as applied by the store, add its history, and hide the episodes that a DELETE names.

        With `synced` the store has synced since it got the batch and since `unsynced` named those batches: the entries
        of all of them, this batch's too, are dropped instead of marked. An ADD or UPDATE with episodes in `hides` shows
        them again (an undone "forget that"). Idempotent; LedgerError for a batch that is not in the journal.
        """

    @abstractmethod
    async def abandon(self, batch_id: str) -> None:
        """Drop a batch that the store refused for good: its entries, episodes, idempotency key and jobs."""

    @abstractmethod
    async def may_have_pending(self, store_identity: str) -> bool:
        """Whether `pending` may find something of this store; fast and without a lock."""

    @abstractmethod
    async def pending(self, store_identity: str) -> list[JournalEntry]:
        """Return what must be applied again, in sequence order; call it only while holding `lock(Scope())`.

        These are entries of dead owners, which this owner takes over, and its own: those only written, and those
        applied before the machine restarted, which the store may have lost. Later entries for the same store are
        included, so that nothing newer is undone.
        """

    @abstractmethod
    async def unsynced(self, store_identity: str) -> list[str]:
        """Return the batches that are applied, but may not survive power loss in the store yet."""

    @abstractmethod
    async def synced(self, store_identity: str, batch_ids: Sequence[str]) -> None:
        """Drop the applied entries of these batches, because the store has synced since `unsynced` named them."""

    @abstractmethod
    async def record(
        self,
        changes: Sequence[Change],
        episodes: Sequence[Episode] = (),
        remember: Remembered | None = None,
        jobs: Sequence[Job] = (),
    ) -> None:
        """Add history without a journal, for a store that does not outlive the process; jobs can be taken at once."""

    @abstractmethod
    async def import_history(self, records: Sequence[HistoryRecord]) -> int:
        """Add history from elsewhere with its ids and times, but a new `sequence`; return how many records were new."""

    @abstractmethod
    async def history(self, memory_id: str) -> list[HistoryRecord]:
        """Return every record of a memory and its lineage, by (timestamp, sequence).

        A record is never dated before its memory's last one, even if the clock was set back.
        """

    @abstractmethod
    async def history_record(self, event_id: str) -> HistoryRecord | None:
        """Return one record by its id."""

    @abstractmethod
    async def event(self, event_id: str) -> Change | None:
        """Return the change of a record; None if there is no record, or it was erased or imported."""

    @abstractmethod
    async def events(self, event_ids: Sequence[str]) -> dict[str, Change]:
        """Return the changes by their records' ids, without erased or imported ones."""

    @abstractmethod
    async def later_events(self, memory_id: str, sequence: int) -> list[HistoryRecord]:
        """Return the records of exactly this memory after a sequence number, oldest first."""

    @abstractmethod
    async def events_since(self, scope: Scope, moment: str) -> list[Change]:
        """Return the changes in a scope recorded after a clock time, newest first, without erased ones."""

    @abstractmethod
    async def events_of_scope(self, scope: Scope, limit: int = 500, after: int = 0) -> list[HistoryRecord]:
        """Return one page of a scope's records by sequence; pass the last one's `sequence` as the next `after`."""

    @abstractmethod
    async def deletions(
        self, scope: Scope, limit: int = 500, before: tuple[str, int] | None = None
    ) -> list[HistoryRecord]:
        """Return the records that deleted a scope's memories which are deleted still, newest first, no erased ones.

        Pass the last one's `timestamp` and `sequence` as the next `before`.
        """

    @abstractmethod
    async def touched(self, scope: Scope, since: Mark | None = None) -> Touched:
        """Return which rows may have changed in a scope since a mark; without one only the current mark.

        Unfinished writes are reported again by the next call, so that nothing is missed. Erasures are not reported:
        whoever keeps copies must check the store before showing one.
        """

    def version(self) -> int | None:
        """Return a number that changes with every commit, within microseconds; None if that is impossible."""
        return None

    @abstractmethod
    async def insert_episodes(self, episodes: Sequence[Episode]) -> int:
        """Insert messages; return how many were new, by id."""

    @abstractmethod
    async def get_episodes(self, ids: Sequence[str]) -> list[Episode]:
        """Return the existing episodes of the ids in the given order, hidden ones too."""

    @abstractmethod
    async def list_episodes(
        self, scope: Scope, limit: int = 100, cursor: str | None = None, *, include_hidden: bool = False
    ) -> EpisodePage:
        """Return one page of a scope's episodes, oldest first; InvalidInputError for an unknown cursor."""

    @abstractmethod
    async def recent_episodes(self, scope: Scope, limit: int, before: str | None = None) -> list[Episode]:
        """Return a scope's last `limit` visible episodes before a time, or at all, oldest first."""

    @abstractmethod
    async def pending_episodes(self, scope: Scope, limit: int = 1000) -> list[Episode]:
        """Return visible episodes that wait for extraction, in insertion order."""

    @abstractmethod
    async def mark_extracted(self, ids: Sequence[str]) -> None:
        """Mark episodes as extracted, and drop what was brought for their facts."""

    @abstractmethod
    async def hide_episodes(self, ids: Sequence[str], hidden: bool = True) -> None:
        """Hide episodes from lists, or show them again."""

    @abstractmethod
    async def add_fingerprints(self, scope: Scope, fingerprints: Collection[str]) -> None:
        """Record what perdure itself put into a prompt, so that it is never extracted; kept for 30 days."""

    @abstractmethod
    async def known_fingerprints(self, scope: Scope, fingerprints: Collection[str]) -> set[str]:
        """Return which of these were recorded for an overlapping scope."""

    @property
    @abstractmethod
    def jobs(self) -> repositories.Jobs:
        """Jobs that follow changes."""

    @property
    @abstractmethod
    def keys(self) -> repositories.Keys:
        """API keys."""

    @property
    @abstractmethod
    def promotions(self) -> repositories.Promotions:
        """Requests to move truth levels."""

    @property
    @abstractmethod
    def audit(self) -> repositories.Audit:
        """Actions of team members."""

    @property
    @abstractmethod
    def settings(self) -> repositories.Settings:
        """Settings that people change while a service runs."""

    @property
    @abstractmethod
    def sessions(self) -> repositories.Sessions:
        """Conversations and their turns."""

    @property
    @abstractmethod
    def chains(self) -> repositories.Chains:
        """Model responses, each of which may continue an earlier one."""

    @property
    @abstractmethod
    def runtime(self) -> repositories.RuntimeTables:
        """Records of agent runtimes."""

    @abstractmethod
    async def remembered(self, key: str, scope: Scope) -> str | None:
        """Return the answer stored for an idempotency key and exactly this scope in the last 24 hours."""

    @abstractmethod
    async def cached(self, key: str, scope: Scope) -> str | None:
        """Return the value cached for a key and exactly this scope in the last 30 days."""

    @abstractmethod
    async def cache(self, key: str, scope: Scope, value: str) -> None:
        """Cache a value for a key and exactly this scope, replacing an earlier one; it may be lost."""

    @abstractmethod
    async def erase(
        self, memory_ids: Ids, episode_ids: Ids, scope: Scope | None = None, *, cached_in: Scope | None = None
    ) -> dict[str, int]:
        """Make memories and episodes unreadable here; return counts by kind of what was removed or lost text.

        History rows stay without text, with `erased` set; promotions stay without their votes' words; the audit has no
        text. Jobs and journal entries of the memories are deleted: sync the store first, or power loss could restore
        what it deleted. Stored answers, cached values and fingerprints of an overlapping scope, or with one of the ids,
        are deleted; of `cached_in` all cached values. Sessions with their jobs, and chains, are deleted inside the
        scope; elsewhere their states and responses lose text that names one of the ids. The bytes are gone after
        `scrub`.
        """

    @abstractmethod
    async def count_places(
        self, memory_ids: Ids, episode_ids: Ids, scope: Scope | None = None, *, cached_in: Scope | None = None
    ) -> dict[str, int]:
        """Return what `erase` would count, for a dry run."""

    @abstractmethod
    async def scrub(self) -> bool:
        """Make erased text unreadable in the files; False if another process prevents it, and a later close does it."""

    @abstractmethod
    def lock(self, scope: Scope, store_identity: str | None = None) -> AbstractAsyncContextManager[Held]:
        """Exclude every lock with an overlapping scope, in all processes that share the ledger, in order of arrival.

        Not reentrant. A dead holder holds nothing. With a store's identity the value tells whether journal entries of
        it are stranded: those of dead owners, and this owner's in the scope.
        """

    @abstractmethod
    async def reset(self) -> None:
        """Clear everything except keys (a server stays locked), settings and `runtime`; hold `lock(Scope())`."""

    @abstractmethod
    async def check(self) -> list[str]:
        """Return one sentence for each inconsistency; only reads."""

    @abstractmethod
    async def stats(self) -> dict[str, int]:
        """Return the number of rows by kind: history, erased, episodes, pending, hidden, written, jobs, ..."""
