"""Whose a session is: stores may share a ledger, and what was said to one of them another one does not learn."""

from __future__ import annotations

from perdure.backends.ledgers.base import Ledger
from perdure.domain.scope import Scope
from perdure.domain.session import Session
from perdure.engine.graph.jobs import Kinds
from perdure.engine.kernel import Kernel


def store_mark(kernel: Kernel) -> str:
    """What the ledger knows this store's sessions by; to be called on a kernel that is open."""
    return Kinds(kernel.identity, kernel.config.vector_store.collection_name).store


async def own_session(kernel: Kernel, ledger: Ledger, name: str, scope: Scope) -> Session | None:
    """This store's session of this name behind exactly these walls."""
    return await ledger.sessions.get(name, scope, store_mark(kernel))


async def own_session_of(kernel: Kernel, ledger: Ledger, id: str) -> Session | None:
    """The session of this id, where it is not another store's."""
    session = await ledger.sessions.by_id(id)
    return session if session is not None and session.store in ("", store_mark(kernel)) else None
