"""Credentials in request headers, and API keys looked up in the ledger; the last results serve while it is down."""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.datastructures import Headers

from perdure.domain.access import Caller
from perdure.domain.errors import AuthenticationError
from perdure.engine import api_keys
from perdure.engine.aio.calls import Deadline
from perdure.engine.api_keys import PREFIX
from perdure.frontends.server.state import Service

TEAM_HEADER = "x-team-scope"  # the header by which a request names the team whose memory it is about
_SCHEMES = ("bearer", "token")
MOST = 4  # headers of one name that are read; each costs a lookup


@dataclass(frozen=True, slots=True)
class Credential:
    """One secret of a request."""

    scheme: str  # `bearer`, `token`, or `key` for X-API-Key
    secret: str = field(repr=False)

    @property
    def is_token(self) -> bool:
        """Whether it has the form of a JWT; only a Bearer can be one."""
        return self.scheme == "bearer" and self.secret.count(".") == 2 and not self.secret.startswith(PREFIX)


def credentials(headers: Headers) -> list[Credential]:
    """Return the credentials of Authorization, then of X-API-Key; a repeated header gives several."""
    found = []
    for value in headers.getlist("authorization")[:MOST]:
        scheme, _, secret = value.strip().partition(" ")
        if scheme.lower() in _SCHEMES and secret.strip():
            found.append(Credential(scheme.lower(), secret.strip()))
    found += [Credential("key", key.strip()) for key in headers.getlist("x-api-key")[:MOST] if key.strip()]
    return found


T = TypeVar("T")
MAX_REMEMBERED_KEYS = 10_000  # valid keys that are remembered; further ones are looked up every time
LOOKUP_SECONDS = 1.0  # how long a request to a model waits for the lookup of its key
MAX_LATE_LOOKUPS = 32  # lookups that may still run after their request stopped waiting


class ApiKeyAuthenticator:
    """Looks up API keys in the ledger; it works while the vector store is down."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._any: bool | None = None
        self._good: set[str] = set()
        self._looking = Deadline(MAX_LATE_LOOKUPS)

    @property
    def may_exist(self) -> bool | None:
        """Whether a key was ever created, by the last lookup; None before the first."""
        return self._any

    async def any(self) -> bool:
        """Return whether a key was ever created; True is cached. LedgerError if the ledger cannot be read."""
        if not self._any:
            self._any = await (await self._service.ledger()).keys.any()
        return self._any

    async def caller(self, secret: str) -> Caller:
        """Return the caller of a key; AuthenticationError for an unknown key, LedgerError if the ledger is down."""
        mark = _mark(secret)
        pepper = self._service.secrets.key_pepper
        ledger = await self._service.ledger()
        key = await api_keys.authenticate(ledger.keys, secret, pepper=pepper.get_secret_value() if pepper else None)
        if key is None:
            self._good.discard(mark)
            raise AuthenticationError("the key is not known here, or was revoked")
        if len(self._good) < MAX_REMEMBERED_KEYS:
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
        """Return whether a key was valid at its last lookup."""
        return _mark(secret) in self._good

    async def in_time(self, look: Coroutine[Any, Any, T]) -> T:
        """Await a lookup for at most LOOKUP_SECONDS; LedgerError after that, while the lookup runs on."""
        return await self._looking(look, LOOKUP_SECONDS)


def _mark(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
