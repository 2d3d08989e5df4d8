"""All routes of mem0's dialects: its project, and the parts that perdure answers with 501 instead of 404.

A project has settings in the ledger for every `add` of it; `ping` names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from perdure.domain.errors import InvalidInputError, NotFoundError
from perdure.frontends.faults import UnsupportedError
from perdure.frontends.server.dependencies import CurrentCaller, PersonalMemory, ReadAccess, WriteAccess, need_admin
from perdure.frontends.server.mem0 import entities, exports, memories, open_server
from perdure.frontends.server.routes.operations import project_of, settings_key, settings_of
from perdure.frontends.server.schemas.fields import ORGANIZATION, Form
from perdure.frontends.server.schemas.responses import Message, answers
from perdure.frontends.server.state import CurrentService

_project = APIRouter(tags=["mem0"])
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


# The project.


class _Settings(BaseModel):
    custom_instructions: str | None = Field(None, examples=["Keep only what concerns cooking"])
    agent_custom_instructions: str | None = None
    custom_categories: list[Any] | None = None
    memory_depth: str | None = None
    usecase_setting: Any = None
    decay: bool | None = None
    multilingual: bool | None = None


class ProjectForm(_Settings, Form):
    """The settings to change; null removes one."""


class Project(_Settings):
    """A project's settings, or the requested ones."""

    id: str | None = None
    org_id: str | None = None
    name: str | None = None


class ProjectChanged(Message):
    """The change is done; `warnings` name the settings that have no effect here."""

    warnings: list[str] = Field(default_factory=list)


class Ping(BaseModel):
    """The organization, and the project that a key is bound to."""

    status: Literal["ok"]
    org_id: str
    project_id: str
    user_email: str | None


INSTRUCTIONS = ("custom_instructions", "agent_custom_instructions")
"""Settings that have an effect; the others are stored for the programs that set them."""

_UNSET: Mapping[str, Any] = {**dict.fromkeys(_Settings.model_fields), "decay": False, "multilingual": True}


@_project.get("/v1/ping", summary="Check a key (mem0)", **answers(Ping))
async def ping(personal: ReadAccess) -> dict[str, Any]:
    """Return the only organization, and the project that the key is bound to."""
    return {"status": "ok", "org_id": ORGANIZATION, "project_id": project_of(personal), "user_email": None}


@_project.get(_PROJECT, summary="Get the project (mem0)", **answers(Project))
async def get_project(
    org_id: str, project_id: str, personal: ReadAccess, fields: Annotated[list[str] | None, Query()] = None
) -> dict[str, Any]:
    """Return the project's settings, or the requested ones."""
    _check(org_id, project_id, personal)
    known = {"id": project_id, "org_id": org_id, "name": project_id, **_UNSET}
    found = known | await settings_of(personal)
    return {name: value for name, value in found.items() if not fields or name in fields}


@_project.patch(_PROJECT, summary="Change the project (mem0)", **answers(ProjectChanged))
async def change_project(
    org_id: str, project_id: str, form: ProjectForm, service: CurrentService, personal: WriteAccess
) -> dict[str, Any]:
    """Change the given settings of a project; if keys exist, this needs an admin's."""
    need_admin(service, personal.caller)
    _check(org_id, project_id, personal)
    given = form.model_dump(include=set(_UNSET), exclude_unset=True)
    if not given:
        raise InvalidInputError(f"give one of {', '.join(_UNSET)}", field="custom_instructions")
    await (await service.ledger()).settings.merge(settings_key(personal), given)
    warnings = [f"{name} is kept, and changes nothing here" for name in given if name not in INSTRUCTIONS]
    if personal.engine.kernel.llm is None and len(warnings) < len(given):
        warnings.append("instructions are kept, and there is no language model to follow them")
    return {"message": "Updated the project", **({"warnings": warnings} if warnings else {})}


def _check(org_id: str, project_id: str, personal: PersonalMemory) -> None:
    if (org_id, project_id) != (ORGANIZATION, project_of(personal)):
        raise NotFoundError("Project not found!")


router = APIRouter()
# Unsupported routes come before `entities`, whose names may contain slashes.
for each in (_unsupported, _project, memories.router, entities.router, exports.router, open_server.router):
    router.include_router(each)
