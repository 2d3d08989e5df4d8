"""What the tests of the ledger's desk share: makers of jobs and looks at them."""

from __future__ import annotations

from perdure.backends.ledgers.base import Ledger
from perdure.domain.job import Job
from perdure.domain.memory import new_id
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_worker import USER

KINDS = ("entities", "temporal")


def job(memory: str = "m1", kind: str = "entities", scope: Scope = USER, **fields: object) -> Job:
    return Job(**{"id": new_id(), "kind": kind, "memory_id": memory, "scope": scope, **fields})


async def ids_taken(ledger: Ledger, limit: int = 100, scope: Scope | None = None) -> list[str]:
    return [taken.id for taken in await ledger.jobs.take(KINDS, limit, scope)]


async def numbers(ledger: Ledger, scope: Scope | None = None) -> tuple[int, int, int]:
    """How many jobs are pending, processing and failed."""
    found = await ledger.jobs.status(KINDS, scope)
    assert sum(found.by_kind.values()) == found.pending + found.processing + found.failed
    return found.pending, found.processing, found.failed
