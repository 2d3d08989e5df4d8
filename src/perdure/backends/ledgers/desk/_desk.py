"""The desk of a ledger in a relational database: each method is one unit of work, run in a thread in one hop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.backends.ledgers import _units as units
from perdure.backends.ledgers._database import ConnectionLostError
from perdure.backends.ledgers._transactions import Transactions
from perdure.backends.ledgers.desk.base import Audit, Jobs, Keys, Promotions, Settings
from perdure.domain.access import ApiKey, AuditEntry
from perdure.domain.job import Job, QueueStatus
from perdure.domain.promotion import Promotion
from perdure.domain.scope import Scope

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
