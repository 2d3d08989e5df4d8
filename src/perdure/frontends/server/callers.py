"""Who is asking: what a route needs to know of it, and how it stays inside that caller's walls."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from perdure.domain.access import Caller, Role
from perdure.domain.errors import AuthenticationError, ForbiddenError
from perdure.domain.text import utf8_of
from perdure.frontends.library.async_memory import AsyncMemory
from perdure.frontends.server.service import Service

USER_HEADER = "x-authz-user-id"
"""By which a proxy that has authenticated somebody says who it is (U6)."""


def caller(request: Request) -> Caller:
    """Who is asking, as the door has made sure of (`door.py`); AuthenticationError where nobody let it in."""
    found: Caller | None = getattr(request.state, "caller", None)
    if found is None:
        raise AuthenticationError("this needs a key or a token: send Authorization: Bearer, or X-API-Key")
    return found


Asking = Annotated[Caller, Depends(caller)]
"""The caller, as an argument of a route."""


def walled(service: Service, caller: Caller) -> AsyncMemory:
    """The memory inside of the caller's walls; ForbiddenError for credentials that are a team's alone."""
    walls = caller.walls.given()
    if "team_id" in walls:
        raise ForbiddenError("these credentials are for a team's memory alone, and this is personal memory")
    return service.memory.within(**walls) if walls else service.memory


def need(caller: Caller, *roles: Role) -> None:
    """ForbiddenError unless the caller has one of the roles."""
    if caller.role not in roles:
        raise ForbiddenError(f"this needs the role {' or '.join(roles)}; these credentials have {caller.role}")


def need_writer(caller: Caller) -> None:
    """ForbiddenError for a caller that may only read."""
    need(caller, "member", "admin", "service")


def need_admin(service: Service, caller: Caller) -> None:
    """ForbiddenError unless an admin asks, or anybody at all of a server that no key was ever made for (U26)."""
    if caller.is_known:
        need(caller, "admin")


def user_of(request: Request, service: Service, caller: Caller, given: str | None) -> str | None:
    """The user of a personal request (U6, B20): the header of an authenticating proxy, else what the request names.

    What a request names is believed as `trust_client_user_id` says, inside of the caller's walls; else it is
    AuthenticationError. Where neither names one it is the caller's own user.
    """
    told = request.headers.get(USER_HEADER)
    if told:
        return utf8_of(told, USER_HEADER)
    if given is None:
        return caller.walls.user_id or caller.subject
    if not service.settings.trust_client_user_id:
        raise AuthenticationError(f"a user_id that a client gives is not believed here: {USER_HEADER} names the user")
    return given
