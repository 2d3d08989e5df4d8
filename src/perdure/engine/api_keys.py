"""API keys: made once, shown once, kept as a digest, and known again by it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from uuid import uuid4

from perdure.backends.ledgers.repositories.base import Keys
from perdure.domain.access import ROLES, ApiKey, Role
from perdure.domain.clock import Clock, iso, system_clock
from perdure.domain.errors import InvalidInputError
from perdure.domain.scope import Scope
from perdure.domain.text.readable import check_unicode, shown

PREFIX = "perdure_"  # what every key begins with, so that it is recognised where it does not belong
SECRET_BYTES = 32  # random bytes of a key: so many that its digest needs no salt and no slowness
HINT_LENGTH = len(PREFIX) + 6
MAX_NAME = 200


def digest(secret: str, pepper: str | None = None) -> str:
    """What is kept of a key: SHA-256 in hexadecimal; with a pepper, HMAC-SHA256 by it."""
    data = secret.encode("utf-8", "surrogatepass")
    if pepper:
        return hmac.new(pepper.encode(), data, hashlib.sha256).hexdigest()
    return hashlib.sha256(data).hexdigest()


async def create(
    keys: Keys,
    name: str,
    *,
    role: Role = "member",
    walls: Scope | None = None,
    pepper: str | None = None,
    clock: Clock = system_clock,
) -> tuple[ApiKey, str]:
    """Make a key; it and its secret, which nobody can be told again. ConflictError where the name is taken."""
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidInputError(
            f"name must have 1 to {MAX_NAME} printable characters, not {shown(name)}", field="name", value=name
        )
    check_unicode(name, "name")
    if role not in ROLES:
        raise InvalidInputError(f"role must be one of {', '.join(ROLES)}, not {shown(role)}", field="role", value=role)
    secret = PREFIX + secrets.token_hex(SECRET_BYTES)
    key = ApiKey(
        id=str(uuid4()),
        name=name,
        digest=digest(secret, pepper),
        hint=secret[:HINT_LENGTH],
        role=role,
        walls=walls or Scope(),
        created_at=iso(clock()),
    )
    await keys.add(key)
    return key, secret


async def authenticate(keys: Keys, secret: str, *, pepper: str | None = None) -> ApiKey | None:
    """The key with this secret, unless it was revoked.

    It is looked up by its digest, which nobody can steer by timing: a guess that shares characters with a key shares
    none with its digest.
    """
    wanted = digest(secret, pepper)
    found = await keys.find(wanted)
    return found if found is not None and hmac.compare_digest(found.digest, wanted) else None


async def revoke(keys: Keys, name_or_id: str) -> ApiKey:
    """End a key from now on; NotFoundError where none of this name or id stands."""
    return await keys.revoke(name_or_id, iso(system_clock()))
