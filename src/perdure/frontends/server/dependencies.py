"""FastAPI dependencies for the caller and their memory; coroutines, because FastAPI runs others in threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Depends, Request

from perdure.domain.access import Caller, Role
from perdure.domain.errors import AuthenticationError, ForbiddenError, NotFoundError
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import OWNER_FIELDS, Scope
from perdure.domain.text.readable import utf8_of
from perdure.engine.core.access import scoped
from perdure.engine.engine import Engine
from perdure.engine.read.overview import Overview
from perdure.frontends.gateway.request_context import USER_HEADER, caller_of
from perdure.frontends.library.memory import AsyncMemory
from perdure.frontends.server.schemas.fields import project_wall
from perdure.frontends.server.state import CurrentService, Service


async def current_caller(request: Request) -> Caller:
    """Return the authenticated caller of a request; AuthenticationError if there is none."""
    return caller_of(request)


CurrentCaller = Annotated[Caller, Depends(current_caller)]  # the caller, as an argument of a route


def memory_of_caller(service: Service, caller: Caller) -> AsyncMemory:
    """Return the memory restricted to the caller's scope; ForbiddenError for credentials of a team."""
    walls = caller.walls.given()
    if "team_id" in walls:
        raise ForbiddenError("these credentials are for a team's memory alone, and this is personal memory")
    return service.memory.within(**walls) if walls else service.memory


def need(caller: Caller, *roles: Role) -> None:
    """Raise ForbiddenError unless the caller has one of the roles."""
    if caller.role not in roles:
        raise ForbiddenError(f"this needs the role {' or '.join(roles)}; these credentials have {caller.role}")


def need_writer(caller: Caller) -> None:
    """Raise ForbiddenError for a caller that may only read."""
    need(caller, "member", "admin", "service")


def need_admin(service: Service, caller: Caller) -> None:
    """Raise ForbiddenError unless the caller is an admin, or the server never had an API key."""
    if caller.is_known:
        need(caller, "admin")


def user_of(request: Request, service: Service, caller: Caller, given: str | None) -> str | None:
    """Return the user of a personal request: the proxy's header, else the request's, else the caller's own.

    A user that the request names is accepted inside the caller's scope; AuthenticationError if `trust_client_user_id`
    is off.
    """
    told = request.headers.get(USER_HEADER)
    if told:
        return utf8_of(told, USER_HEADER)
    if given is None:
        return caller.walls.user_id or caller.subject
    if not service.settings.trust_client_user_id:
        raise AuthenticationError(f"a user_id that a client gives is not believed here: {USER_HEADER} names the user")
    return given


# Personal requests: the memory that the caller may read or write.

MISSING = "Memory not found!"  # the error message for an unknown id, in mem0's words, which programs look for


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalMemory:
    """The memory that a personal request may access, and its caller."""

    memory: AsyncMemory  # restricted to `walls`
    walls: Scope  # the caller's scope, and the user that an authenticating proxy names
    engine: Engine
    caller: Caller

    @property
    def overview(self) -> Overview:
        """Queries over all that the caller may see; pass it `walls`, or a scope that `inside` has checked."""
        return Overview(self.engine.kernel)

    def inside(self, scope: Scope) -> Scope:
        """Combine a scope with the caller's; ForbiddenError if it lies outside."""
        return scoped(self.walls, scope)

    def at(self, scope: Scope) -> tuple[AsyncMemory, dict[str, Any]]:
        """Return the memory, restricted by the scope's other fields, and the owner keywords for its calls."""
        walls = {axis: value for axis, value in scope.given().items() if axis not in OWNER_FIELDS}
        view = self.memory.within(**walls) if walls else self.memory
        return view, {axis: getattr(scope, axis) for axis in OWNER_FIELDS}

    def narrowed(self, **walls: str) -> PersonalMemory:
        """Restrict it further; ForbiddenError outside of the caller's scope."""
        return replace(self, walls=scoped(self.walls, Scope(**walls)), memory=self.memory.within(**walls))

    def of_project(self, org_id: str | None, project_id: str | None) -> PersonalMemory:
        """Restrict it to the project that a request names, if it names one."""
        project = project_wall(org_id, project_id)
        return self if project is None else self.narrowed(project_id=project)

    async def existing(self, id: str) -> MemoryItem:
        """Return the memory with this id; NotFoundError if the caller can see none."""
        item = await self.memory.get(id)
        if item is None:
            raise NotFoundError(MISSING)
        return item


def read_access(request: Request, service: Service, caller: Caller) -> PersonalMemory:
    """Return what the caller may read; a project in the query string restricts it."""
    walls = caller.walls
    memory = memory_of_caller(service, caller)
    if (user := _user(request, service, caller)) is not None:
        walls = scoped(walls, Scope(user_id=user))
        memory = memory.within(user_id=user)
    personal = PersonalMemory(memory=memory, walls=walls, engine=service.engine, caller=caller)
    return personal.of_project(request.query_params.get("org_id"), request.query_params.get("project_id"))


def write_access(request: Request, service: Service, caller: Caller) -> PersonalMemory:
    """Return what the caller may change; ForbiddenError for a caller that may only read."""
    need_writer(caller)
    return read_access(request, service, caller)


def _user(request: Request, service: Service, caller: Caller) -> str | None:
    """Return the user that a proxy names; without one, check that clients may name users, and return None."""
    if request.headers.get(USER_HEADER):
        return user_of(request, service, caller, None)
    user_of(request, service, caller, "anybody")  # AuthenticationError if clients may not name users
    return None


async def current_read_access(request: Request, service: CurrentService, caller: CurrentCaller) -> PersonalMemory:
    """Return what the caller may read."""
    return read_access(request, service, caller)


async def current_write_access(request: Request, service: CurrentService, caller: CurrentCaller) -> PersonalMemory:
    """Return what the caller may change."""
    return write_access(request, service, caller)


ReadAccess = Annotated[PersonalMemory, Depends(current_read_access)]  # for routes that only read
WriteAccess = Annotated[PersonalMemory, Depends(current_write_access)]  # for routes that change something
