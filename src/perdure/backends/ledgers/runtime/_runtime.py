"""Records of agent runtimes in a relational database: each method is one unit of work, run in a thread in one hop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.backends.ledgers import _units as units
from perdure.backends.ledgers._database import ConnectionLostError
from perdure.backends.ledgers._transactions import Transactions
from perdure.backends.ledgers.runtime.base import Query, RuntimeTables, Where
from perdure.domain.runtime import R, Record, Task

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from perdure.backends.ledgers._writer import Writer


class SqlRuntime(RuntimeTables):
    """Records, in a table for each noun."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add(self, records: Sequence[Record]) -> list[bool]:
        """Keep."""
        return await self._transactions.alter(
            lambda connection, _: units.records.add(connection, records), durable=True
        )

    async def ensure(self, records: Sequence[Record]) -> None:
        """Look, and keep what is missing."""
        missing = await self._transactions.see(lambda connection, _: units.records.missing(connection, records))
        if missing:
            await self.add(missing)

    async def put(self, record: Record) -> None:
        """Replace."""
        await self._transactions.alter(lambda connection, _: units.records.put(connection, record), durable=True)

    async def find(self, query: Query[R]) -> list[R]:
        """Look."""
        return await self._transactions.see(lambda connection, _: units.records.find(connection, query))

    async def change(self, noun: type[Record], key: Mapping[str, str], changes: Mapping[str, Any]) -> bool:
        """Change."""
        return await self._transactions.alter(
            lambda connection, _: units.records.change(connection, noun, key, changes), durable=True
        )

    async def remove(self, noun: type[Record], where: Where) -> int:
        """Let go."""
        return await self._transactions.alter(
            lambda connection, _: units.records.remove(connection, noun, where), durable=True
        )

    async def take(self, agent_id: str, id: str, due: int) -> Task | None:
        """Take."""
        taken: list[Task] = []

        def unit(connection: Connection, writer: Writer) -> Task | None:
            task = units.records.take(connection, writer, agent_id, id, due)
            taken[:] = [task] if task is not None else []
            return task

        try:
            return await self._transactions.alter(unit, durable=False)
        except (asyncio.CancelledError, ConnectionLostError):
            if taken:  # it would wait for this owner's end: nobody was told of it
                await self.settle(agent_id, id, {})
            raise

    async def settle(self, agent_id: str, id: str, changes: Mapping[str, Any]) -> bool:
        """Let go of a task."""
        return await self._transactions.alter(
            lambda connection, writer: units.records.settle(connection, writer, agent_id, id, changes), durable=True
        )
