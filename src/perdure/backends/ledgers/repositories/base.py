"""The ports of a ledger's repositories: jobs, keys, promotions, audit, settings, sessions, chains.

A method is a transaction. LedgerError, with nothing applied, if the database fails or the ledger is not open.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from perdure.domain.access import ApiKey, AuditEntry, Promotion
    from perdure.domain.job import Job, QueueStatus
    from perdure.domain.runtime import Record, Task
    from perdure.domain.scope import Scope
    from perdure.domain.session import Link, Said, Session, SessionTurn

R = TypeVar("R", bound="Record")  # a noun of agent runtimes, whose records few processes import

# The port of what a ledger keeps for agent runtimes: records of every noun of `domain.runtime`.
#
# A method is a transaction. Who has an agent's id sees that agent's records: callers give it with every question.
#
# As everywhere in a ledger, LedgerError where the database fails, with nothing applied, and where it is not open.

Ids: TypeAlias = Sequence[str]  # ids of memories, episodes, jobs
Where = Mapping[str, Any]  # what fields must hold: a value, None for none, a list for any of several, or `Among`


@dataclass(frozen=True, slots=True)
class Among:
    """A value in one field of other records."""

    noun: type[Record]
    field: str
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(Generic[R]):
    """A query for records of one noun, oldest first; equal times in insertion order."""

    noun: type[R]
    where: Where = field(default_factory=dict)
    all_tags: Sequence[str] = ()
    """Only what has each of these tags; an entity's tags are its names."""
    any_tag: Sequence[str] = ()
    """Only what has one of these tags, where some are given."""
    since: int | None = None
    """Only what was made at this millisecond or later."""
    until: int | None = None
    """Only what was made at this millisecond or earlier."""
    due: int | None = None
    """Only tasks that are due at this millisecond, and not completed; soonest first."""
    newest_first: bool = False
    limit: int | None = None
    offset: int = 0


class RuntimeTables(ABC):
    """Records of agent runtimes; several processes may write them at once.

    For each agent there is one record of each key (`Record.KEY`), one relationship of two entities in a direction, and
    one component of an entity for its type, world and source.
    """

    @abstractmethod
    async def add(self, records: Sequence[Record]) -> list[bool]:
        """Insert records; return for each whether it was new. Existing ones stay unchanged."""

    @abstractmethod
    async def ensure(self, records: Sequence[Record]) -> None:
        """Insert missing records; only reads if all exist, as is usual."""

    @abstractmethod
    async def put(self, record: Record) -> None:
        """Insert a record, replacing an earlier one of its key."""

    @abstractmethod
    async def find(self, query: Query[R]) -> list[R]:
        """Return the records of a query."""

    @abstractmethod
    async def change(self, noun: type[Record], key: Mapping[str, str], changes: Mapping[str, Any]) -> bool:
        """Change fields of the record of a key; return whether it exists.

        InvalidInputError, with nothing changed, for a new value of a field in `Record.KEY` or `Record.FIXED`.
        """

    @abstractmethod
    async def remove(self, noun: type[Record], where: Where) -> int:
        """Delete records and everything that depends on them; return the number of the given noun.

        A room includes its participants, components, tasks and logs; a world its rooms, components and tasks; an entity
        its participations, components, relationships, tasks and logs; an agent everything; a message server its
        channels and agents; a channel its participants. Callers delete memories.
        """

    @abstractmethod
    async def take(self, agent_id: str, id: str, due: int) -> Task | None:
        """Take a task that is due at this millisecond, until `settle`; None if it is not due, or is taken.

        A dead owner's task can be taken again; a living owner's task cannot, even by the same owner's other calls.
        """

    @abstractmethod
    async def settle(self, agent_id: str, id: str, changes: Mapping[str, Any]) -> bool:
        """Change a task taken by this owner, and release it; False if it does not hold it."""


class Jobs(ABC):
    """Waiting work; several processes may take it, and nobody takes what a living owner has.

    Jobs are added by `Ledger.write` or `Ledger.record` with the changes that they follow: they can be taken once the
    batch is applied, and are dropped if it is abandoned. Until then only `remove` and an erasure see them. An owner is
    one opening of the ledger, and returns what it took as long as it lives. `done`, `failed` and `give_back` ignore
    jobs that the owner lost meanwhile. Times are ISO 8601, else InvalidInputError.
    """

    @abstractmethod
    async def add(self, jobs: Sequence[Job]) -> None:
        """Add jobs that follow no change, as for a repair; known ids stay unchanged."""

    @abstractmethod
    async def take(self, kinds: Sequence[str], limit: int, scope: Scope | None = None) -> list[Job]:
        """Take due jobs for this owner until `done` or `failed`, oldest first, those of dead owners too.

        With a scope only those of memories that a call of that scope could see (`Scope.holds`). At most one job of a
        memory and kind is taken at a time. InvalidInputError for a limit below 1.
        """

    @abstractmethod
    async def done(self, ids: Sequence[str]) -> None:
        """Remove finished jobs."""

    @abstractmethod
    async def failed(self, id: str, error: str, *, not_before: str, park: bool) -> None:
        """Record a failed attempt and its error: wait until a time, or be parked; `attempts` grows by one."""

    @abstractmethod
    async def give_back(self, ids: Sequence[str], *, not_before: str) -> None:
        """Return jobs until a time without counting an attempt, because what they need is down."""

    @abstractmethod
    async def revive(self, kinds: Sequence[str]) -> int:
        """Make parked and waiting jobs due at once, with no attempts counted; return how many."""

    @abstractmethod
    async def status(self, kinds: Sequence[str], scope: Scope | None = None) -> QueueStatus:
        """Return the number of waiting jobs, those of dead owners too; with a scope only of what it could see."""

    @abstractmethod
    async def next_due(self, kinds: Sequence[str]) -> str | None:
        """Return when the next untaken job is due, except those that wait for another one's end; None for none."""

    @abstractmethod
    async def remove(self, memory_ids: Sequence[str]) -> int:
        """Remove the jobs of erased memories; return how many."""


class Keys(ABC):
    """API keys, by the digest of their secrets."""

    @abstractmethod
    async def add(self, key: ApiKey) -> None:
        """Insert a key; ConflictError if the name is in use, or the id or secret ever was."""

    @abstractmethod
    async def find(self, digest: str) -> ApiKey | None:
        """Return the valid key with this digest."""

    @abstractmethod
    async def list(self) -> list[ApiKey]:
        """Return every key, also revoked ones, oldest first."""

    @abstractmethod
    async def revoke(self, name_or_id: str, at: str) -> ApiKey:
        """Revoke the key with this id or name; NotFoundError if none is valid."""

    @abstractmethod
    async def any(self) -> bool:
        """Whether a key was ever made, also a revoked one: from then on every address needs one."""


class Promotions(ABC):
    """Requests to move truth levels."""

    @abstractmethod
    async def put(self, promotion: Promotion, was: Promotion | None = None) -> bool:
        """Insert a promotion, or update one only if it still equals `was`; return whether that was done.

        False too for a new one with a known id. InvalidInputError for a change of id or team.
        """

    @abstractmethod
    async def get(self, id: str, team: str) -> Promotion | None:
        """Return a team's promotion by its id."""

    @abstractmethod
    async def list(
        self, team: str, *, status: str | None = None, item_id: str | None = None, limit: int = 100, after: str = ""
    ) -> list[Promotion]:
        """Return a team's promotions after an id, oldest first; InvalidInputError for an unknown id."""


class Audit(ABC):
    """Actions of members; entries are never changed."""

    @abstractmethod
    async def add(self, entries: Sequence[AuditEntry]) -> None:
        """Insert entries; known ids stay unchanged."""

    @abstractmethod
    async def list(
        self, team: str, *, subject_id: str | None = None, limit: int = 100, after: str = ""
    ) -> list[AuditEntry]:
        """Return a team's entries after an id, oldest first; InvalidInputError for an unknown id."""


class Settings(ABC):
    """Named settings that people change while a service runs; `Ledger.reset` keeps them."""

    @abstractmethod
    async def get(self, name: str) -> dict[str, Any]:
        """Return the values of a name as JSON; an empty object if there are none."""

    @abstractmethod
    async def merge(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Merge values into those of a name, where None removes one; return the result."""


class Sessions(ABC):
    """Sessions and their numbered turns; only their states contain text of memories.

    Sessions belong to the vector store that created them, even when stores share a ledger. Old sessions without a store
    get the first store that continues them or finds them idle. Times are ISO 8601, else InvalidInputError. Calls about
    something erased meanwhile do nothing.
    """

    @abstractmethod
    async def open_turn(
        self, name: str, scope: Scope, episodes: Sequence[str], at: str, store: str = ""
    ) -> SessionTurn:
        """Begin the next turn of a store's session of this name and exactly this scope, created or reopened if needed.

        Concurrent callers, in any process, get different numbers.
        """

    @abstractmethod
    async def keep(self, said: Sequence[Said]) -> list[SessionTurn | None]:
        """Store everything that was said in order, with its messages, jobs and fingerprints, or nothing.

        Returns the turn of each, None for one without a turn. On return it survives power loss. InvalidInputError for
        text that no database can store.
        """

    @abstractmethod
    async def add_to_turn(
        self, session_id: str, number: int, episodes: Sequence[str], at: str, jobs: Sequence[Job] = ()
    ) -> bool:
        """Add messages to a turn, with jobs that follow; False, with nothing done, if there is no such turn."""

    @abstractmethod
    async def get(self, name: str, scope: Scope, store: str = "") -> Session | None:
        """Return the store's session of this name and exactly this scope."""

    @abstractmethod
    async def by_id(self, id: str) -> Session | None:
        """Return the session with this id."""

    @abstractmethod
    async def turns(self, session_id: str, first: int = 1, last: int | None = None) -> list[SessionTurn]:
        """Return the turns from one number to another, inclusive, or to the end."""

    @abstractmethod
    async def mark_read(self, session_id: str, through: int) -> None:
        """Mark the turns up to a number as read; the mark never moves back, nor beyond the last turn."""

    @abstractmethod
    async def put_state(
        self, session_id: str, state: Mapping[str, Any], until: str, *, episodes: Ids = (), memories: Ids = ()
    ) -> bool:
        """Store a session's state until a time; an empty state removes the earlier one.

        The state's source messages and memories are given: erasing one removes the state, and it is not shown while one
        of the messages is hidden. False, with nothing stored, if the session or a source was erased already.
        """

    @abstractmethod
    async def idle(
        self, before: str, limit: int = 100, scope: Scope | None = None, store: str | None = None
    ) -> list[Session]:
        """Return silent sessions since a time that have not ended, or have unread turns, longest silent first.

        With a scope only those inside it, with a store only its own and those without one, which it takes over.
        InvalidInputError for a limit below 1.
        """

    @abstractmethod
    async def end(self, session_id: str, at: str, *, silent_since: str | None = None) -> bool:
        """End a session; False if it has ended, or if something was said since `silent_since`."""

    @abstractmethod
    async def list(self, scope: Scope, limit: int = 100) -> list[Session]:
        """Return the sessions in a scope of every store, latest first; InvalidInputError for a limit below 1."""


class Chains(ABC):
    """Responses, each of which may continue an earlier one; a scope filter shows those inside it."""

    @abstractmethod
    async def put(self, link: Link) -> None:
        """Store a response, replacing an earlier one of its id; ConflictError if that has another scope."""

    @abstractmethod
    async def name(self, id: str, episodes: Sequence[str]) -> bool:
        """Name further messages of a response, whose erasure removes its text; return whether it has text to lose.

        If one of its messages is already gone, the text is removed now.
        """

    @abstractmethod
    async def chain(self, id: str, scope: Scope) -> list[Link]:
        """Return a response and its ancestors, oldest first; empty if there is none in the scope.

        The chain ends at an ancestor that is gone, outside of the scope, or already in it.
        """

    @abstractmethod
    async def get(self, id: str, scope: Scope) -> Link | None:
        """Return one response."""

    @abstractmethod
    async def delete(self, id: str, scope: Scope) -> bool:
        """Delete one response; return whether it existed. Responses that continue it stay."""
