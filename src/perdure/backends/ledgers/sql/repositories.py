"""The ports of jobs, keys, promotions, audit, settings, sessions, chains and agent runtimes, in a relational database.

Each line binds a method of a port to the unit of work that holds its SQL, and says in which transaction it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from perdure.backends.ledgers.repositories.base import (
    Audit,
    Chains,
    Jobs,
    Keys,
    Promotions,
    RuntimeTables,
    Sessions,
    Settings,
)
from perdure.backends.ledgers.sql import units
from perdure.backends.ledgers.sql.context import Transaction
from perdure.backends.ledgers.sql.transactions import ConnectionLostError, Repository, Transactions, reads, writes
from perdure.domain.job import Job
from perdure.domain.runtime import Record, Task
from perdure.domain.scope import Scope
from perdure.domain.session import Session


class SqlJobs(Repository, Jobs):
    """Jobs, in a table."""

    async def add(self, jobs: Sequence[Job]) -> None:
        """Insert jobs; it fails where a lock over one of their scopes was lost."""
        within = [job.scope for job in jobs]
        await self.transactions.run_write(lambda tx: units.jobs.add(tx, jobs), durable=True, within=within)

    async def take(self, kinds: Sequence[str], limit: int, scope: Scope | None = None) -> list[Job]:
        """Take what is due; where nothing is due, this only reads."""
        now = self.transactions.now()
        if not await self.transactions.run_read(lambda tx: units.jobs.is_due(tx, kinds, limit, scope)):
            return []
        taken: list[Job] = []

        def unit(tx: Transaction) -> list[Job]:
            taken[:] = units.jobs.take(tx, kinds, limit, scope)
            return taken

        try:
            return await self.transactions.run_write(unit, durable=False)
        except (asyncio.CancelledError, ConnectionLostError):
            # Taken after all, they would wait for this owner's end: nobody was told of them.
            await self.give_back([job.id for job in taken], not_before=now)
            raise

    done = writes(lambda: units.jobs.done, durable=False)
    failed = writes(lambda: units.jobs.failed, durable=False)
    give_back = writes(lambda: units.jobs.give_back, durable=False)
    revive = writes(lambda: units.jobs.revive)
    status = reads(lambda: units.jobs.status)
    next_due = reads(lambda: units.jobs.next_due)
    remove = writes(lambda: units.jobs.remove)


class SqlKeys(Repository, Keys):
    """API keys, in a table."""

    add = writes(lambda: units.keys.add)
    find = reads(lambda: units.keys.find)
    list = reads(lambda: units.keys.list_keys)
    revoke = writes(lambda: units.keys.revoke)
    any = reads(lambda: units.keys.any_key)


class SqlPromotions(Repository, Promotions):
    """Promotions, in a table, updated by compare-and-set."""

    put = writes(lambda: units.promotions.put)
    get = reads(lambda: units.promotions.get)
    list = reads(lambda: units.promotions.page)


class SqlAudit(Repository, Audit):
    """The audit, in a table."""

    add = writes(lambda: units.audit.add)
    list = reads(lambda: units.audit.page)


class SqlSettings(Repository, Settings):
    """Settings, in a table."""

    get = reads(lambda: units.settings.get)
    merge = writes(lambda: units.settings.merge)


class SqlSessions(Repository, Sessions):
    """Sessions, in tables; after power loss, turns are read again and states are made again."""

    open_turn = writes(lambda: units.sessions.open_turn)
    keep = writes(lambda: units.sessions.keep)
    add_to_turn = writes(lambda: units.sessions.add_to_turn)
    get = reads(lambda: units.sessions.get)
    by_id = reads(lambda: units.sessions.by_id)
    turns = reads(lambda: units.sessions.turns)
    mark_read = writes(lambda: units.sessions.mark_read, durable=False)
    put_state = writes(lambda: units.sessions.put_state, durable=False)

    async def idle(
        self, before: str, limit: int = 100, scope: Scope | None = None, store: str | None = None
    ) -> list[Session]:
        """List silent sessions; this writes only where it claims some for the store."""

        def look(tx: Transaction) -> list[Session]:
            return units.sessions.idle(tx, before, limit, scope, store)

        found = await self.transactions.run_read(look)
        if store and (new := [session.id for session in found if session.store != store]):
            await self.transactions.run_write(lambda tx: units.sessions.claim(tx, new, store), durable=False)
            found = await self.transactions.run_read(look)
        return found

    end = writes(lambda: units.sessions.end, durable=False)
    list = reads(lambda: units.sessions.page)


class SqlChains(Repository, Chains):
    """Responses, in a table."""

    put = writes(lambda: units.chains.put)
    name = writes(lambda: units.chains.name)
    chain = reads(lambda: units.chains.chain)
    get = reads(lambda: units.chains.get)
    delete = writes(lambda: units.chains.remove)


class SqlRuntime(Repository, RuntimeTables):
    """Records of agent runtimes, in a table for each noun."""

    add = writes(lambda: units.records.add)
    put = writes(lambda: units.records.put)
    find = reads(lambda: units.records.find)
    change = writes(lambda: units.records.change)
    remove = writes(lambda: units.records.remove)
    settle = writes(lambda: units.records.settle)

    async def ensure(self, records: Sequence[Record]) -> None:
        """Insert the records that are missing; where none is, this only reads."""
        missing = await self.transactions.run_read(lambda tx: units.records.missing(tx, records))
        if missing:
            await self.add(missing)

    async def take(self, agent_id: str, id: str, due: int) -> Task | None:
        """Take a due task; settle it again where the caller does not hear of it."""
        taken: list[Task] = []

        def unit(tx: Transaction) -> Task | None:
            task = units.records.take(tx, agent_id, id, due)
            taken[:] = [task] if task is not None else []
            return task

        try:
            return await self.transactions.run_write(unit, durable=False)
        except (asyncio.CancelledError, ConnectionLostError):
            if taken:  # it would wait for this owner's end: nobody was told of it
                await self.settle(agent_id, id, {})
            raise


class SqlRepositories(Transactions):
    """The repositories of a ledger, each made where it is asked for."""

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
