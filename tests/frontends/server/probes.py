"""Routes of the tests' own: what the layers around every route hand in, and what becomes of what it raises."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict

from perdure.domain import errors
from perdure.domain.errors import PerdureError
from perdure.frontends.server.dependencies import CurrentCaller, memory_of_caller, need_admin, user_of
from perdure.frontends.server.state import CurrentService

SECRET_WORDS = "Ana lives in Lisbon"


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    count: int
    text: str = ""


def made(kind: str) -> Exception:
    """An error of a class of perdure's tree, or one of Python's own."""
    if kind == "ValueError":
        return ValueError(SECRET_WORDS)
    cls: type[PerdureError] = getattr(errors, kind)
    if kind == "ScopeError":
        return errors.ScopeError()
    if issubclass(cls, errors.InvalidInputError):
        return cls("limit must be at least 1, not 0", field="limit", value=0)
    return cls("at postgres://user@host: it broke")


def probes() -> APIRouter:
    """A fresh router: an app keeps what it is given."""
    router = APIRouter(include_in_schema=False)

    @router.get("/probe/caller")
    async def caller(asking: CurrentCaller) -> dict[str, Any]:
        return {
            "name": asking.name,
            "role": asking.role,
            "walls": asking.walls.given(),
            "subject": asking.subject,
            "teams": sorted(asking.teams),
            "projects": sorted(asking.projects),
            "known": asking.is_known,
        }

    @router.get("/probe/user")
    async def user(
        request: Request, service: CurrentService, asking: CurrentCaller, user_id: str | None = None
    ) -> dict[str, Any]:
        return {"user": user_of(request, service, asking, user_id)}

    @router.get("/probe/personal")
    async def personal(service: CurrentService, asking: CurrentCaller) -> dict[str, str]:
        memory_of_caller(service, asking)
        return {"status": "ok"}

    @router.post("/probe/reset")
    async def reset(service: CurrentService, asking: CurrentCaller) -> dict[str, str]:
        need_admin(service, asking)
        return {"status": "ok"}

    # One in each dialect's place.
    @router.api_route("/v1/memories/probe/{kind}", methods=["GET", "DELETE"])
    @router.get("/v1/memory/probe/{kind}")
    async def fail(kind: str) -> None:
        raise made(kind)

    @router.post("/v1/memories/probe")
    @router.post("/v1/memory/probe")
    async def take(body: Body) -> dict[str, int]:
        return {"count": body.count}

    @router.post("/probe/slow")
    async def slow(seconds: float) -> dict[str, str]:
        await asyncio.sleep(seconds)
        return {"status": "done"}

    return router
