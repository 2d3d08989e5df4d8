"""The keys of a server: they stand in its ledger, and what was seen there is known while that is down."""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from perdure.domain.access import Caller
from perdure.domain.errors import AuthenticationError
from perdure.engine import keys
from perdure.engine.in_time import InTime
from perdure.frontends.server.service import Service

T = TypeVar("T")

REMEMBERED = 10_000
"""Keys whose last look is known; further ones are looked up every time."""
LOOK_SECONDS = 1.0
"""For which a request to a model waits for its key to be looked up."""
AT_ONCE = 32
"""Looks that may be under way after nobody waits for them any more."""


class Keyring:
    """Looks keys up, in the ledger alone: a vector store that is down keeps nobody out."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._any: bool | None = None
        self._good: set[str] = set()
        self._looking = InTime(AT_ONCE)

    @property
    def may_exist(self) -> bool | None:
        """Whether a key was ever made, by the last look; None where there was none yet."""
        return self._any

    async def any(self) -> bool:
        """Whether a key was ever made; once one was, that stays so. LedgerError where that cannot be known."""
        if not self._any:
            self._any = await (await self._service.ledger()).keys.any()
        return self._any

    async def caller(self, secret: str) -> Caller:
        """Whose key it is; AuthenticationError for one that is not known, LedgerError where that cannot be told."""
        mark = _mark(secret)
        pepper = self._service.secrets.key_pepper
        ledger = await self._service.ledger()
        key = await keys.authenticate(ledger.keys, secret, pepper=pepper.get_secret_value() if pepper else None)
        if key is None:
            self._good.discard(mark)
            raise AuthenticationError("the key is not known here, or was revoked")
        if len(self._good) < REMEMBERED:
            self._good.add(mark)
        walls = key.walls
        return Caller(
            name=key.name,
            role=key.role,
            walls=walls,
            subject=walls.user_id or f"key:{key.name}",
            teams=frozenset(filter(None, [walls.team_id])),
            projects=frozenset(filter(None, [walls.project_id])),
        )

    def was_good(self, secret: str) -> bool:
        """Whether a key was good when it was last looked up."""
        return _mark(secret) in self._good

    async def in_time(self, look: Coroutine[Any, Any, T]) -> T:
        """What a look comes to; LedgerError where that takes too long, and then nobody waits for it any more."""
        return await self._looking(look, LOOK_SECONDS)


def _mark(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
