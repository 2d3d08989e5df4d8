"""The desk of a ledger in a relational database: each method is one unit of work, run in a thread in one hop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.backends.ledgers import _units as units
from perdure.backends.ledgers._database import ConnectionLostError
from perdure.backends.ledgers._transactions import Transactions
from perdure.backends.ledgers.desk.base import Audit, Chains, Jobs, Keys, Promotions, Sessions, Settings
from perdure.backends.ledgers.runtime._runtime import SqlRuntime
from perdure.domain.access import ApiKey, AuditEntry
from perdure.domain.job import Job, QueueStatus
from perdure.domain.promotion import Promotion
from perdure.domain.scope import Scope
from perdure.domain.session import Link, Said, Session, SessionTurn

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from perdure.backends.ledgers._writer import Writer


class SqlJobs(Jobs):
    """Work that waits, in a table."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add(self, jobs: Sequence[Job]) -> None:
        """Put in jobs."""
        now = self._transactions.now()
        await self._transactions.alter(
            lambda connection, _: units.jobs.add_jobs(connection, jobs, None, now=now),
            durable=True,
            within=[job.scope for job in jobs],
        )

    async def take(self, kinds: Sequence[str], limit: int, scope: Scope | None = None) -> list[Job]:
        """Take what is due; where nothing is, only by looking."""
        now = self._transactions.now()
        if not await self._transactions.see(
            lambda connection, writer: units.jobs.is_due(connection, writer, kinds, limit=limit, scope=scope, now=now)
        ):
            return []
        taken: list[Job] = []

        def unit(connection: Connection, writer: Writer) -> list[Job]:
            taken[:] = units.jobs.take(connection, writer, kinds, limit=limit, scope=scope, now=now)
            return taken

        try:
            return await self._transactions.alter(unit, durable=False)
        except (asyncio.CancelledError, ConnectionLostError):
            # Taken after all, they would wait for this owner's end: nobody was told of them.
            await self.give_back([job.id for job in taken], not_before=now)
            raise

    async def done(self, ids: Sequence[str]) -> None:
        """Let go."""
        await self._transactions.alter(
            lambda connection, writer: units.jobs.done(connection, writer, ids), durable=False
        )

    async def failed(self, id: str, error: str, *, not_before: str, park: bool) -> None:
        """Count a try."""
        await self._transactions.alter(
            lambda connection, writer: units.jobs.failed(
                connection, writer, id, error, not_before=not_before, park=park
            ),
            durable=False,
        )

    async def give_back(self, ids: Sequence[str], *, not_before: str) -> None:
        """Put back."""
        await self._transactions.alter(
            lambda connection, writer: units.jobs.give_back(connection, writer, ids, not_before), durable=False
        )

    async def revive(self, kinds: Sequence[str]) -> int:
        """Let be due."""
        now = self._transactions.now()
        return await self._transactions.alter(
            lambda connection, _: units.jobs.revive(connection, kinds, now), durable=True
        )

    async def status(self, kinds: Sequence[str], scope: Scope | None = None) -> QueueStatus:
        """Count."""
        return await self._transactions.see(
            lambda connection, writer: units.jobs.status(connection, writer, kinds, scope)
        )

    async def next_due(self, kinds: Sequence[str]) -> str | None:
        """The earliest moment."""
        return await self._transactions.see(lambda connection, writer: units.jobs.next_due(connection, writer, kinds))

    async def remove(self, memory_ids: Sequence[str]) -> int:
        """Let go for good."""
        return await self._transactions.alter(
            lambda connection, _: units.jobs.remove(connection, memory_ids), durable=True
        )


class SqlKeys(Keys):
    """API keys, in a table."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add(self, key: ApiKey) -> None:
        """Keep one."""
        now = self._transactions.now()
        await self._transactions.alter(lambda connection, _: units.keys.add(connection, key, now), durable=True)

    async def find(self, digest: str) -> ApiKey | None:
        """The one with this digest."""
        return await self._transactions.see(lambda connection, _: units.keys.find(connection, digest))

    async def list(self) -> list[ApiKey]:
        """All."""
        return await self._transactions.see(lambda connection, _: units.keys.list_keys(connection))

    async def revoke(self, name_or_id: str, at: str) -> ApiKey:
        """End one."""
        return await self._transactions.alter(
            lambda connection, _: units.keys.revoke(connection, name_or_id, at), durable=True
        )

    async def any(self) -> bool:
        """Whether there ever was one."""
        return await self._transactions.see(lambda connection, _: units.keys.any_key(connection))


class SqlPromotions(Promotions):
    """Promotions, in a table."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def put(self, promotion: Promotion, was: Promotion | None = None) -> bool:
        """Compare and set."""
        return await self._transactions.alter(
            lambda connection, _: units.promotions.put(connection, promotion, was), durable=True
        )

    async def get(self, id: str, team: str) -> Promotion | None:
        """One of a team."""
        return await self._transactions.see(lambda connection, _: units.promotions.get(connection, id, team))

    async def list(
        self, team: str, *, status: str | None = None, item_id: str | None = None, limit: int = 100, after: str = ""
    ) -> list[Promotion]:
        """One page."""
        return await self._transactions.see(
            lambda connection, _: units.promotions.page(
                connection, team, status=status, item_id=item_id, limit=limit, after=after
            )
        )


class SqlAudit(Audit):
    """The audit, in a table."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add(self, entries: Sequence[AuditEntry]) -> None:
        """Write lines."""
        await self._transactions.alter(lambda connection, _: units.audit.add(connection, entries), durable=True)

    async def list(
        self, team: str, *, subject_id: str | None = None, limit: int = 100, after: str = ""
    ) -> list[AuditEntry]:
        """One page."""
        return await self._transactions.see(
            lambda connection, _: units.audit.page(connection, team, subject_id=subject_id, limit=limit, after=after)
        )


class SqlSettings(Settings):
    """Settings, in a table."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def get(self, name: str) -> dict[str, Any]:
        """Look."""
        return await self._transactions.see(lambda connection, _: units.settings.get(connection, name))

    async def merge(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Lay over."""
        return await self._transactions.alter(
            lambda connection, _: units.settings.merge(connection, name, values), durable=True
        )


class SqlSessions(Sessions):
    """Sessions, in tables."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def open_turn(
        self, name: str, scope: Scope, episodes: Sequence[str], at: str, store: str = ""
    ) -> SessionTurn:
        """Count."""
        return await self._transactions.alter(
            lambda connection, _: units.sessions.open_turn(connection, name, scope, episodes, at, store=store),
            durable=True,
        )

    async def keep(self, said: Sequence[Said]) -> list[SessionTurn | None]:
        """All in one transaction."""
        now = self._transactions.now()
        return await self._transactions.alter(
            lambda connection, _: units.sessions.keep(connection, said, now), durable=True
        )

    async def add_to_turn(
        self, session_id: str, number: int, episodes: Sequence[str], at: str, jobs: Sequence[Job] = ()
    ) -> bool:
        """Add, and put in jobs."""
        now = self._transactions.now()
        return await self._transactions.alter(
            lambda connection, _: units.sessions.add_to_turn(
                connection, session_id, number, episodes, at, jobs=jobs, now=now
            ),
            durable=True,
        )

    async def get(self, name: str, scope: Scope, store: str = "") -> Session | None:
        """One, by what its id is made of."""
        now = self._transactions.now()
        return await self._transactions.see(
            lambda connection, _: units.sessions.get(connection, name, scope, store, now)
        )

    async def by_id(self, id: str) -> Session | None:
        """One."""
        now = self._transactions.now()
        return await self._transactions.see(lambda connection, _: units.sessions.by_id(connection, id, now))

    async def turns(self, session_id: str, first: int = 1, last: int | None = None) -> list[SessionTurn]:
        """Some of its turns."""
        return await self._transactions.see(
            lambda connection, _: units.sessions.turns(connection, session_id, first, last)
        )

    async def mark_read(self, session_id: str, through: int) -> None:
        """Note; after power loss turns are read again."""
        await self._transactions.alter(
            lambda connection, _: units.sessions.mark_read(connection, session_id, through), durable=False
        )

    async def put_state(
        self,
        session_id: str,
        state: Mapping[str, Any],
        until: str,
        *,
        episodes: Sequence[str] = (),
        memories: Sequence[str] = (),
    ) -> bool:
        """Keep; after power loss it is made again."""
        now = self._transactions.now()
        return await self._transactions.alter(
            lambda connection, _: units.sessions.put_state(
                connection, session_id, state, until, episodes=episodes, memories=memories, now=now
            ),
            durable=False,
        )

    async def idle(
        self, before: str, limit: int = 100, scope: Scope | None = None, store: str | None = None
    ) -> list[Session]:
        """Those that are silent; only where some are claimed it writes."""
        now = self._transactions.now()

        def look(connection: Connection, _: Writer) -> list[Session]:
            return units.sessions.idle(connection, before, limit, scope=scope, store=store, now=now)

        found = await self._transactions.see(look)
        if store and (new := [session.id for session in found if session.store != store]):
            await self._transactions.alter(
                lambda connection, _: units.sessions.claim(connection, new, store), durable=False
            )
            found = await self._transactions.see(look)
        return found

    async def end(self, session_id: str, at: str, *, silent_since: str | None = None) -> bool:
        """End one."""
        return await self._transactions.alter(
            lambda connection, _: units.sessions.end(connection, session_id, at, silent_since), durable=False
        )

    async def list(self, scope: Scope, limit: int = 100) -> list[Session]:
        """Some."""
        now = self._transactions.now()
        return await self._transactions.see(lambda connection, _: units.sessions.page(connection, scope, limit, now))


class SqlChains(Chains):
    """Responses, in a table."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def put(self, link: Link) -> None:
        """Keep one."""
        await self._transactions.alter(lambda connection, _: units.chains.put(connection, link), durable=True)

    async def name(self, id: str, episodes: Sequence[str]) -> bool:
        """Name more messages of one."""
        return await self._transactions.alter(
            lambda connection, _: units.chains.name(connection, id, episodes), durable=True
        )

    async def chain(self, id: str, scope: Scope) -> list[Link]:
        """One and its ancestors."""
        return await self._transactions.see(lambda connection, _: units.chains.chain(connection, id, scope))

    async def get(self, id: str, scope: Scope) -> Link | None:
        """One."""
        return await self._transactions.see(lambda connection, _: units.chains.get(connection, id, scope))

    async def delete(self, id: str, scope: Scope) -> bool:
        """Let go."""
        return await self._transactions.alter(
            lambda connection, _: units.chains.remove(connection, id, scope), durable=True
        )


class SqlDesk(Transactions):
    """What a ledger keeps for a service beside the memories."""

    @property
    def jobs(self) -> SqlJobs:
        """Work that follows changes."""
        return SqlJobs(self)

    @property
    def keys(self) -> SqlKeys:
        """API keys."""
        return SqlKeys(self)

    @property
    def promotions(self) -> SqlPromotions:
        """Requests to move truth levels."""
        return SqlPromotions(self)

    @property
    def audit(self) -> SqlAudit:
        """What members of teams did."""
        return SqlAudit(self)

    @property
    def settings(self) -> SqlSettings:
        """What people change while a service runs."""
        return SqlSettings(self)

    @property
    def sessions(self) -> SqlSessions:
        """Sittings of conversations."""
        return SqlSessions(self)

    @property
    def chains(self) -> SqlChains:
        """Responses of models."""
        return SqlChains(self)

    @property
    def runtime(self) -> SqlRuntime:
        """Records of agent runtimes."""
        return SqlRuntime(self)
