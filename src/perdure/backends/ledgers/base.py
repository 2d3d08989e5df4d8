"""The port of ledgers: the one transactional database beside the vector store.

How the engine uses it, for each write:

1. `async with ledger.lock(scope, store) as held`: one writer at a time where scopes can see a common item. Where
   `held.stranded` says so, a writer died on the way (or a call of this one gave up): leave the lock, take
   `lock(Scope())`, apply again what `pending(store)` returns, batch by batch, call `applied` for each, and start over.
2. `write(entries, episodes, remember, jobs)`: the changes are acknowledged, and survive power loss.
3. The vector store applies them; `applied(batch)` makes them history. If the store refuses for good: `abandon(batch)`.
4. Now and then: `batches = await unsynced(store)`, then the store's own sync, then `synced(store, batches)`.

Nothing here goes by a timeout alone: an owner is alive as long as its handle is open in a living process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from perdure.backends.ledgers.repositories import base as repositories
    from perdure.backends.ledgers.repositories.base import Ids
    from perdure.domain.event import Change, Episode, HistoryRecord
    from perdure.domain.job import Job
    from perdure.domain.scope import Scope

Vector = NDArray[np.float32]
"""One float32 vector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One change on its way into a store, whole: what a crash left over is applied again from this alone.

    The writer gives the first six fields; the ledger gives the rest.
    """

    change: Change
    batch_id: str
    """Changes of one batch are applied together, or not at all."""
    store_identity: str
    """The physical store that it was written for."""
    collection: str
    vector: Vector | None = field(default=None, compare=False)
    """The vector of `change.after`, if there is one."""
    keep_vector: Vector | None = field(default=None, compare=False)
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
        """The change's id."""
        return self.change.id


@dataclass(frozen=True, slots=True)
class Remembered:
    """The answer to a call that carried an idempotency key, kept for 24 hours within exactly this scope."""

    key: str
    scope: Scope
    result: str
    """JSON, as the engine made it."""


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A moment of the ledger: the last numbers that were taken for changes and for episodes."""

    change: int
    episode: int


@dataclass(frozen=True, slots=True)
class Touched:
    """Rows that were written, and rows that were removed, since a mark; a row that is both is where it was last."""

    mark: Mark
    written: tuple[str, ...]
    """Ids of memories and of messages; a store may not hold them yet, or not at all."""
    gone: tuple[str, ...]
    reset: bool = False
    """The ledger was cleared meanwhile: nothing is known of what stood before."""


@dataclass(frozen=True, slots=True)
class EpisodePage:
    """Episodes by the time at which they were told, oldest first, equal times in the order in which they were kept."""

    episodes: list[Episode]
    next_cursor: str | None
    """Continues after the last; None at the end."""


@dataclass(frozen=True, slots=True)
class Held:
    """A lock that is held; `stranded` says that journal entries of this store wait to be applied again first."""

    stranded: bool


class Ledger(ABC):
    """History, journal, episodes, locks, small caches, repositories; each method is one transaction, all or nothing.

    Every method raises LedgerError where the database fails, with nothing applied, and where the ledger is not open.
    Ids are compared as they are. Times are fixed-width ISO 8601 UTC text. A scope as a filter means that all fields
    that it gives are equal; the empty scope is everything.
    """

    name: ClassVar[str]
    """The provider's name."""
    scrub_note: ClassVar[str] = ""
    """Where erased text may be that `scrub` cannot reach, for the report of an erasure."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Which database this is: equal for two ledgers if and only if they share it. Holds no secrets."""

    @property
    @abstractmethod
    def owner(self) -> str:
        """The id of this opening of the ledger, which is alive until `close` or the end of the process."""

    @property
    def read_only(self) -> bool:
        """Whether it can only be read where it lies, once it is open: then all that writes is a ReadOnlyError."""
        return False

    @abstractmethod
    async def open(self) -> None:
        """Connect, make or upgrade the tables, and claim a fresh owner id; further calls do nothing.

        LedgerError if the database cannot be used; the caller may go on without a ledger.
        """

    @abstractmethod
    async def close(self) -> None:
        """Finish a scrub that was put off, give up every lock and let go of the database; it may be opened again."""

    @abstractmethod
    async def write(
        self,
        entries: Sequence[JournalEntry],
        episodes: Sequence[Episode] = (),
        remember: Remembered | None = None,
        jobs: Sequence[Job] = (),
    ) -> None:
        """Acknowledge the changes of one batch and the messages they came from; on return they survive power loss.

        Jobs can be taken once the batch is applied; without entries at once. Entries of two batches, or text that no
        database can hold, is InvalidInputError. An episode or a job whose id is known already is left as it is.
        """

    @abstractmethod
    async def applied(self, batch_id: str) -> None:
        """The store has the batch: mark it, add its history records, and hide the episodes that a DELETE names.

        An ADD or UPDATE that names episodes in `hides` shows them again (an undone "forget that"). Doing it twice
        changes nothing. A batch that is not in the journal is a LedgerError.
        """

    @abstractmethod
    async def abandon(self, batch_id: str) -> None:
        """The store refused the batch for good: forget its entries, episodes, idempotency key and jobs."""

    @abstractmethod
    async def may_have_pending(self, store_identity: str) -> bool:
        """Whether `pending` may find something of this store: a fast look, for which no lock is needed."""

    @abstractmethod
    async def pending(self, store_identity: str) -> list[JournalEntry]:
        """What must be applied again, in sequence order; only to be called while `lock(Scope())` is held.

        These are the entries of dead owners, which this owner takes over, and this owner's own: all that are only
        written, and those applied in an earlier run of the machine, whose store may have lost them with the power. What
        anybody applied to the same store after such an entry comes with it, so that nothing newer is undone.
        """

    @abstractmethod
    async def unsynced(self, store_identity: str) -> list[str]:
        """The batches that are applied and not yet known to survive power loss in the store."""

    @abstractmethod
    async def synced(self, store_identity: str, batch_ids: Sequence[str]) -> None:
        """Drop the applied entries of these batches: the store has synced since `unsynced` named them."""

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
        """Add history from elsewhere as it is, ids and times kept; how many were new. `sequence` is given anew."""

    @abstractmethod
    async def history(self, memory_id: str) -> list[HistoryRecord]:
        """Every record of a memory and of all that share a lineage with it, by (timestamp, sequence).

        A clock that was set back does not reorder it: a record is never dated before its memory's last one.
        """

    @abstractmethod
    async def history_record(self, event_id: str) -> HistoryRecord | None:
        """One record by its id."""

    @abstractmethod
    async def event(self, event_id: str) -> Change | None:
        """The change behind a record; None if there is no such record, or it was erased or imported."""

    @abstractmethod
    async def events(self, event_ids: Sequence[str]) -> dict[str, Change]:
        """The changes behind records, by the records' ids; of those that were erased or imported there is none."""

    @abstractmethod
    async def later_events(self, memory_id: str, sequence: int) -> list[HistoryRecord]:
        """The records of exactly this memory that came after a sequence number, oldest first."""

    @abstractmethod
    async def events_since(self, scope: Scope, moment: str) -> list[Change]:
        """The changes inside a scope recorded after a moment by the clock, newest first; erased ones are left out."""

    @abstractmethod
    async def events_of_scope(self, scope: Scope, limit: int = 500, after: int = 0) -> list[HistoryRecord]:
        """One page of a scope's records by sequence; the last one's `sequence` is the next call's `after`."""

    @abstractmethod
    async def touched(self, scope: Scope, since: Mark | None = None) -> Touched:
        """Which rows of stores may have changed inside a scope since a mark; without one only the mark of now.

        What a writer has under way is told again by the next call, so that nothing is missed however calls cross.
        Erasures are not told: whoever keeps copies looks at the store before showing one.
        """

    def version(self) -> int | None:
        """A number that is another one whenever anything was committed here, by whomever, told in microseconds.

        None where that cannot be told so fast: then `touched` has to be asked.
        """
        return None

    @abstractmethod
    async def insert_episodes(self, episodes: Sequence[Episode]) -> int:
        """Keep messages as they are; how many were new, by id."""

    @abstractmethod
    async def get_episodes(self, ids: Sequence[str]) -> list[Episode]:
        """The episodes of the ids that exist, hidden ones too, in the order asked."""

    @abstractmethod
    async def list_episodes(
        self, scope: Scope, limit: int = 100, cursor: str | None = None, *, include_hidden: bool = False
    ) -> EpisodePage:
        """One page of a scope's episodes, oldest told first; a cursor that no page gave is InvalidInputError."""

    @abstractmethod
    async def recent_episodes(self, scope: Scope, limit: int, before: str | None = None) -> list[Episode]:
        """The last `limit` visible episodes of a scope told before a moment, or at all, oldest first."""

    @abstractmethod
    async def pending_episodes(self, scope: Scope, limit: int = 1000) -> list[Episode]:
        """Episodes that still wait to be extracted, in the order in which they were kept; hidden ones are left out."""

    @abstractmethod
    async def mark_extracted(self, ids: Sequence[str]) -> None:
        """These episodes no longer wait to be extracted."""

    @abstractmethod
    async def hide_episodes(self, ids: Sequence[str], hidden: bool = True) -> None:
        """Hide episodes from lists, or show them again."""

    @abstractmethod
    async def add_fingerprints(self, scope: Scope, fingerprints: Collection[str]) -> None:
        """Remember what perdure itself put into a prompt, so that it is never extracted; kept for 30 days."""

    @abstractmethod
    async def known_fingerprints(self, scope: Scope, fingerprints: Collection[str]) -> set[str]:
        """Which of these were remembered by a scope that overlaps this one."""

    @property
    @abstractmethod
    def jobs(self) -> repositories.Jobs:
        """Work that follows changes."""

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
        """What members of teams did."""

    @property
    @abstractmethod
    def settings(self) -> repositories.Settings:
        """What people change while a service runs."""

    @property
    @abstractmethod
    def sessions(self) -> repositories.Sessions:
        """Conversations, counted in turns."""

    @property
    @abstractmethod
    def chains(self) -> repositories.Chains:
        """Responses of models, each of which may go on from an earlier one."""

    @property
    @abstractmethod
    def runtime(self) -> repositories.RuntimeTables:
        """Records of agent runtimes."""

    @abstractmethod
    async def remembered(self, key: str, scope: Scope) -> str | None:
        """The answer kept under an idempotency key in exactly this scope in the last 24 hours."""

    @abstractmethod
    async def cached(self, key: str, scope: Scope) -> str | None:
        """The value cached under a key in exactly this scope in the last 30 days."""

    @abstractmethod
    async def cache(self, key: str, scope: Scope, value: str) -> None:
        """Cache a value under a key in exactly this scope; an earlier one is replaced. Losing it is no harm."""

    @abstractmethod
    async def erase(
        self, memory_ids: Ids, episode_ids: Ids, scope: Scope | None = None, *, cached_in: Scope | None = None
    ) -> dict[str, int]:
        """Make memories and episodes unreadable here; counts for each kind of thing that went or lost text.

        History rows stay, without text and with `erased` set; so do promotions, without what was said for and against
        them; the audit holds no text. Jobs of the memories go, and so do their journal entries: sync the store first,
        or power loss could bring back what it deleted. Remembered answers, cached values and fingerprints go if they
        belong to a scope that overlaps the given one, or name one of the ids; of `cached_in` every cached value goes.
        Sessions, with their jobs, and chains inside the scope go; elsewhere states and responses lose their text that
        name one of the ids. Bytes are gone after `scrub`.
        """

    @abstractmethod
    async def count_places(
        self, memory_ids: Ids, episode_ids: Ids, scope: Scope | None = None, *, cached_in: Scope | None = None
    ) -> dict[str, int]:
        """What `erase` would count, for a dry run; only reads."""

    @abstractmethod
    async def scrub(self) -> bool:
        """Make erased text unreadable in the files; False if another process prevents it: a later close does it."""

    @abstractmethod
    def lock(self, scope: Scope, store_identity: str | None = None) -> AbstractAsyncContextManager[Held]:
        """Hold off every other lock whose scope overlaps, in all processes that share the ledger, first come first.

        Not reentrant. A holder that dies, however it dies, holds nothing. With a store's identity the value says
        whether journal entries of it were left stranded: those of dead owners, and this owner's inside the scope.
        """

    @abstractmethod
    async def reset(self) -> None:
        """Clear all but keys (a server stays shut), settings and `runtime`, to be called under `lock(Scope())`."""

    @abstractmethod
    async def check(self) -> list[str]:
        """What disagrees inside the ledger, a sentence each; only reads."""

    @abstractmethod
    async def stats(self) -> dict[str, int]:
        """How many rows of each kind there are: history, erased, episodes, pending, hidden, written, jobs, ..."""
