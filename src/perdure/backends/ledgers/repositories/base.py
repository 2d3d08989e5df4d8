"""The ports of what a ledger keeps for a service: jobs, keys, promotions, audit, settings, sessions, chains.

A method is a transaction.

As everywhere in a ledger, LedgerError where the database fails, with nothing applied, and where it is not open.
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

R = TypeVar("R", bound="Record")
"""A noun of agent runtimes, whose records few processes import."""

# The port of what a ledger keeps for agent runtimes: records of every noun of `domain.runtime`.
#
# A method is a transaction. Who has an agent's id sees that agent's records: callers give it with every question.
#
# As everywhere in a ledger, LedgerError where the database fails, with nothing applied, and where it is not open.

Ids: TypeAlias = Sequence[str]
"""Ids of memories, episodes, jobs."""
Where = Mapping[str, Any]
"""What fields must hold: a value, None for none, a list for any of several, or `Among`."""


@dataclass(frozen=True, slots=True)
class Among:
    """A value that stands in one field of other records."""

    noun: type[Record]
    field: str
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(Generic[R]):
    """A question for records of one noun, oldest first; equal times in the order in which they were kept."""

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

    There is one record of each key (`Record.KEY`), one relationship of two entities in a direction, and one component
    of an entity for its type, world and source, each for one agent.
    """

    @abstractmethod
    async def add(self, records: Sequence[Record]) -> list[bool]:
        """Keep records, and tell of each whether it was new; what is there already is left as it is."""

    @abstractmethod
    async def ensure(self, records: Sequence[Record]) -> None:
        """Keep those records of which there is none; where there are all, as mostly, this only reads."""

    @abstractmethod
    async def put(self, record: Record) -> None:
        """Keep a record, in the place of an earlier one of its key."""

    @abstractmethod
    async def find(self, query: Query[R]) -> list[R]:
        """The records that a question asks for."""

    @abstractmethod
    async def change(self, noun: type[Record], key: Mapping[str, str], changes: Mapping[str, Any]) -> bool:
        """Change fields of the record of a key; whether there is one.

        InvalidInputError, with nothing changed, where a field of `Record.KEY` or `Record.FIXED` is to be another.
        """

    @abstractmethod
    async def remove(self, noun: type[Record], where: Where) -> int:
        """Let go of records and of all that hangs on them; how many of that noun there were.

        A room takes its participants, components, tasks and logs along; a world its rooms, components and tasks; an
        entity what it is in, is made of, is related to, has to do and has in logs; an agent all that it has; a message
        server its channels and who serves it; a channel who is in it. Memories stand elsewhere: callers see to them.
        """

    @abstractmethod
    async def take(self, agent_id: str, id: str, due: int) -> Task | None:
        """Take a task that is due at this millisecond, until `settle`; None where it is not, or somebody has it.

        What a dead owner had can be taken, and what one has who lives is nobody else's, this owner's other calls
        included.
        """

    @abstractmethod
    async def settle(self, agent_id: str, id: str, changes: Mapping[str, Any]) -> bool:
        """Change a task that this owner has taken, and let go of it; False where it does not have it."""


class Jobs(ABC):
    """Work that waits; several processes may take from it, and none takes what a living one has.

    Jobs come in with `Ledger.write` or `Ledger.record`, beside the changes that they follow: they can be taken once
    the batch is applied, and go if it is abandoned. Until then only `remove` and an erasure see them. An owner is one
    opening of the ledger: who takes a job and lives on gives it back in the end, whatever happens. `done`, `failed` and
    `give_back` are of what this owner has; what it lost meanwhile, by an erasure or with its connection, they leave
    alone. Moments are ISO 8601, else InvalidInputError.
    """

    @abstractmethod
    async def add(self, jobs: Sequence[Job]) -> None:
        """Put in jobs that follow no change, such as those of a repair; an id that is known is left as it is."""

    @abstractmethod
    async def take(self, kinds: Sequence[str], limit: int, scope: Scope | None = None) -> list[Job]:
        """Take jobs that are due, oldest first, those of dead owners too, as this owner's until `done` or `failed`.

        With a scope only those whose memories a call of that scope could see (`Scope.holds`). Of one memory and kind
        never more than one is taken at a time: the others wait for it. A limit below 1 is InvalidInputError.
        """

    @abstractmethod
    async def done(self, ids: Sequence[str]) -> None:
        """These are done, and go."""

    @abstractmethod
    async def failed(self, id: str, error: str, *, not_before: str, park: bool) -> None:
        """A try failed: wait until a moment, or be parked; `attempts` grows by one, the error is kept in one line."""

    @abstractmethod
    async def give_back(self, ids: Sequence[str], *, not_before: str) -> None:
        """What they need is down: wait until a moment, without a try being counted."""

    @abstractmethod
    async def revive(self, kinds: Sequence[str]) -> int:
        """Make what is parked, or waits for a moment, due at once, with no tries counted; how many those were."""

    @abstractmethod
    async def status(self, kinds: Sequence[str], scope: Scope | None = None) -> QueueStatus:
        """How much waits, what dead owners had too; with a scope only of what a call of that scope could see."""

    @abstractmethod
    async def next_due(self, kinds: Sequence[str]) -> str | None:
        """When the next job that nobody has is due, those aside that wait for another one's end; None for none."""

    @abstractmethod
    async def remove(self, memory_ids: Sequence[str]) -> int:
        """Let go of the jobs of memories that are erased; how many."""


class Keys(ABC):
    """API keys, by the digest of their secrets."""

    @abstractmethod
    async def add(self, key: ApiKey) -> None:
        """Keep a new key; ConflictError where one of the same name stands, or ever had its id or its secret."""

    @abstractmethod
    async def find(self, digest: str) -> ApiKey | None:
        """The key with this digest that is not revoked."""

    @abstractmethod
    async def list(self) -> list[ApiKey]:
        """Every key, revoked ones too, oldest first."""

    @abstractmethod
    async def revoke(self, name_or_id: str, at: str) -> ApiKey:
        """End the key of this id or name; NotFoundError where none stands."""

    @abstractmethod
    async def any(self) -> bool:
        """Whether a key was ever made, revoked ones included: from then on every address asks for one."""


class Promotions(ABC):
    """Requests to move truth levels."""

    @abstractmethod
    async def put(self, promotion: Promotion, was: Promotion | None = None) -> bool:
        """Keep a new promotion, or the next state of one only if it still stands exactly as it `was`: whether it did.

        False too for a new one whose id is known. A change of id or team is InvalidInputError.
        """

    @abstractmethod
    async def get(self, id: str, team: str) -> Promotion | None:
        """A team's promotion by its id."""

    @abstractmethod
    async def list(
        self, team: str, *, status: str | None = None, item_id: str | None = None, limit: int = 100, after: str = ""
    ) -> list[Promotion]:
        """A team's promotions, oldest first, those that come after an id; InvalidInputError if it has no such one."""


class Audit(ABC):
    """What members did, line by line; nothing is ever changed there."""

    @abstractmethod
    async def add(self, entries: Sequence[AuditEntry]) -> None:
        """Write lines; an id that is known is left as it is."""

    @abstractmethod
    async def list(
        self, team: str, *, subject_id: str | None = None, limit: int = 100, after: str = ""
    ) -> list[AuditEntry]:
        """A team's lines, oldest first, those that come after an id; InvalidInputError if it has no such one."""


class Settings(ABC):
    """Settings that people change while a service runs, under names; `Ledger.reset` leaves them."""

    @abstractmethod
    async def get(self, name: str) -> dict[str, Any]:
        """The values under a name, JSON; an empty object where there are none."""

    @abstractmethod
    async def merge(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Lay values over those under a name, where a None takes one away; what stands then."""


class Sessions(ABC):
    """Sessions, and the turns that are counted in them; no text of a memory is in them but in their states.

    Stores that share a ledger have sessions of their own, by the store's mark. One that has none is of before stores
    were told apart: whichever store goes on with it, or finds it idle, has it from then on.
    Moments are ISO 8601, else InvalidInputError. What an erasure took meanwhile stays gone: calls about it do nothing.
    """

    @abstractmethod
    async def open_turn(
        self, name: str, scope: Scope, episodes: Sequence[str], at: str, store: str = ""
    ) -> SessionTurn:
        """Begin the next turn of a store's session of this name behind exactly these walls; made, or opened again.

        Of several who ask at once, wherever they run, each gets a number of its own.
        """

    @abstractmethod
    async def keep(self, said: Sequence[Said]) -> list[SessionTurn | None]:
        """Keep all that was said, in its order, with its messages, jobs and fingerprints, all of it or none.

        Answers with the turn that each belongs to, None for one that has none, or no more. On return it survives power
        loss. Text that no database can hold is InvalidInputError.
        """

    @abstractmethod
    async def add_to_turn(
        self, session_id: str, number: int, episodes: Sequence[str], at: str, jobs: Sequence[Job] = ()
    ) -> bool:
        """More was said in a turn, and jobs follow it; False, with nothing done, where there is no such turn."""

    @abstractmethod
    async def get(self, name: str, scope: Scope, store: str = "") -> Session | None:
        """The store's session of this name behind exactly these walls."""

    @abstractmethod
    async def by_id(self, id: str) -> Session | None:
        """The session of this id."""

    @abstractmethod
    async def turns(self, session_id: str, first: int = 1, last: int | None = None) -> list[SessionTurn]:
        """The turns from one number to another, both included, or to the end."""

    @abstractmethod
    async def mark_read(self, session_id: str, through: int) -> None:
        """The turns up to a number have been read for facts; never fewer than before, never more than there are."""

    @abstractmethod
    async def put_state(
        self, session_id: str, state: Mapping[str, Any], until: str, *, episodes: Ids = (), memories: Ids = ()
    ) -> bool:
        """Keep what the session has come to until a moment; an empty state takes the earlier one away.

        Messages and memories that it was made of are named: the erasure of one takes the state with it, and while one
        of the messages is hidden no state is shown. False, with nothing kept, where the session, one of these messages
        or one of these memories was erased already.
        """

    @abstractmethod
    async def idle(
        self, before: str, limit: int = 100, scope: Scope | None = None, store: str | None = None
    ) -> list[Session]:
        """Sessions in which nothing was said since a moment, and that have not ended or have turns that nobody read.

        Longest silent first; with a scope only those inside of it, with a store only its own, also those without one,
        which it takes. A limit below 1 is InvalidInputError.
        """

    @abstractmethod
    async def end(self, session_id: str, at: str, *, silent_since: str | None = None) -> bool:
        """End a session; False where it has ended, or where, with `silent_since`, something was said from then on."""

    @abstractmethod
    async def list(self, scope: Scope, limit: int = 100) -> list[Session]:
        """The sessions inside a scope, latest first, of every store; a limit below 1 is InvalidInputError."""


class Chains(ABC):
    """Responses, each of which may go on from an earlier one; a scope as a filter shows what stands inside of it."""

    @abstractmethod
    async def put(self, link: Link) -> None:
        """Keep a response, in the place of an earlier one of its id; ConflictError where that has other walls."""

    @abstractmethod
    async def name(self, id: str, episodes: Sequence[str]) -> bool:
        """More messages were kept of a response, whose erasure is to take its text; whether it has one to lose.

        Where one of them, or of those that it named before, is not there, its text goes now.
        """

    @abstractmethod
    async def chain(self, id: str, scope: Scope) -> list[Link]:
        """A response and all that it goes on from, oldest first; none where there is no such one inside the scope.

        An ancestor that is gone, or outside of the scope, ends the chain, and so does one that is in it already.
        """

    @abstractmethod
    async def get(self, id: str, scope: Scope) -> Link | None:
        """One response."""

    @abstractmethod
    async def delete(self, id: str, scope: Scope) -> bool:
        """Let go of one response; whether there was one. What goes on from it stays."""
