"""Personal requests (000, mem0): the memory that one may read or write, inside of the walls of who asks (U6, U22)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from perdure.domain.access import Caller
from perdure.domain.errors import NotFoundError
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import OWNER_FIELDS, Scope
from perdure.engine.engine import Engine
from perdure.engine.overview import Overview
from perdure.engine.walls import inside
from perdure.frontends.library.async_memory import AsyncMemory
from perdure.frontends.server.callers import USER_HEADER, Asking, need_writer, user_of, walled
from perdure.frontends.server.service import Service, Serving

MISSING = "Memory not found!"
"""What is said of an id that no memory has here; mem0's words, which programs look for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Personal:
    """What a personal request may touch, and who makes it."""

    memory: AsyncMemory
    """Inside of `walls`."""
    walls: Scope
    """The caller's, and the user's whom an authenticating proxy names."""
    engine: Engine
    caller: Caller

    @property
    def overview(self) -> Overview:
        """What is asked of everything inside of the walls; give it `walls`, or a scope that `inside` has checked."""
        return Overview(self.engine.kernel)

    def inside(self, scope: Scope) -> Scope:
        """A scope inside of the walls; ForbiddenError where it lies outside."""
        return inside(self.walls, scope)

    def at(self, scope: Scope) -> tuple[AsyncMemory, dict[str, Any]]:
        """The memory, and the keywords by which each of its calls names this scope; `world_id` is part of the walls."""
        view = self.memory if scope.world_id is None else self.memory.within(world_id=scope.world_id)
        return view, {axis: getattr(scope, axis) for axis in OWNER_FIELDS}

    async def standing(self, id: str) -> MemoryItem:
        """The memory with this id; NotFoundError where none stands inside of the walls."""
        item = await self.memory.get(id)
        if item is None:
            raise NotFoundError(MISSING)
        return item


def reading(request: Request, service: Serving, caller: Asking) -> Personal:
    """What the caller may read."""
    walls = caller.walls
    memory = walled(service, caller)
    if (user := _user(request, service, caller)) is not None:
        walls = inside(walls, Scope(user_id=user))
        memory = memory.within(user_id=user)
    return Personal(memory=memory, walls=walls, engine=service.engine, caller=caller)


def writing(request: Request, service: Serving, caller: Asking) -> Personal:
    """What the caller may change; ForbiddenError for one who may only read."""
    need_writer(caller)
    return reading(request, service, caller)


def _user(request: Request, service: Service, caller: Caller) -> str | None:
    """The one user whom a proxy speaks for; without such a proxy whom the request names, if that is believed."""
    if request.headers.get(USER_HEADER):
        return user_of(request, service, caller, None)
    user_of(request, service, caller, "anybody")  # AuthenticationError where nobody is believed
    return None


Reading = Annotated[Personal, Depends(reading)]
"""For routes that only read."""
Writing = Annotated[Personal, Depends(writing)]
"""For routes that change something."""
