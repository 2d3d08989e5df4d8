"""All routes of mem0's dialects, and the parts of mem0 that perdure answers with 501 instead of 404."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from perdure.frontends.faults import UnsupportedError
from perdure.frontends.server.dependencies import CurrentCaller
from perdure.frontends.server.mem0 import entities, exports, memories, open_server, project

_unsupported = APIRouter(tags=["mem0"])
_ORGANIZATIONS = "/api/v1/orgs/organizations"
_PROJECT = f"{_ORGANIZATIONS}/{{org_id}}/projects/{{project_id}}"
UNSUPPORTED: dict[str, tuple[str, ...]] = {
    "/v2/entities/user/{id}/profile": ("GET",),
    "/v2/profiles/jobs": ("POST",),
    "/v2/profiles/jobs/{id}": ("GET",),
    "/v2/profiles/settings": ("GET", "POST"),
    "/api/v1/webhooks/projects/{project_id}": ("GET", "POST"),
    "/api/v1/webhooks/{id}": ("PUT", "DELETE"),
    _ORGANIZATIONS: ("GET", "POST"),
    f"{_ORGANIZATIONS}/{{org_id}}": ("GET", "DELETE"),
    f"{_ORGANIZATIONS}/{{org_id}}/members": ("GET", "POST", "PUT", "DELETE"),
    f"{_ORGANIZATIONS}/{{org_id}}/projects": ("GET", "POST"),
    _PROJECT: ("DELETE",),
    f"{_PROJECT}/members": ("GET", "POST", "PUT", "DELETE"),
    "/v1/stats": ("GET",),
    "/configure": ("GET", "POST"),
    "/configure/providers": ("GET",),
    "/generate-instructions": ("POST",),
}
"""Paths of mem0's platform and open server, with the methods that perdure does not implement."""


_IN_PATH = re.compile(r"\{(\w+)\}")


def _parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


async def refuse_unsupported(request: Request, caller: CurrentCaller) -> None:
    """Answer that perdure does not implement this route."""
    # The route and not the path, which may contain names of people: errors are logged.
    route = request.scope["route"].path
    raise UnsupportedError(f"{request.method} {route} is a part of mem0 that perdure does not have")


for path, methods in UNSUPPORTED.items():
    for method in methods:
        _unsupported.add_api_route(
            path,
            refuse_unsupported,
            methods=[method],
            status_code=501,
            name=f"refuse_unsupported {method} {path}",
            summary="A part of mem0 that perdure does not implement",
            openapi_extra={"parameters": [_parameter(name) for name in _IN_PATH.findall(path)]},
        )


router = APIRouter()
# Unsupported routes come before `entities`, whose names may contain slashes.
for each in (_unsupported, project.router, memories.router, entities.router, exports.router, open_server.router):
    router.include_router(each)
