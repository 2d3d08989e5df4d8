"""mem0's project: settings that hold for every `add` of one project, kept in the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query

from perdure.domain.errors import InvalidInputError, NotFoundError
from perdure.frontends.server.dependencies import PersonalMemory, ReadAccess, WriteAccess, need_admin
from perdure.frontends.server.mem0.bodies import ProjectForm
from perdure.frontends.server.routes.extraction_prompt import project_of, settings_key, settings_of
from perdure.frontends.server.schemas.responses import Project, ProjectChanged, described
from perdure.frontends.server.schemas.scope_fields import ORGANIZATION
from perdure.frontends.server.state import CurrentService

router = APIRouter(tags=["mem0"])

INSTRUCTIONS = ("custom_instructions", "agent_custom_instructions")
"""Settings that change what is remembered; the others are kept for the programs that set them."""

_PATH = "/api/v1/orgs/organizations/{org_id}/projects/{project_id}"
_UNSET: Mapping[str, Any] = {
    "custom_instructions": None,
    "agent_custom_instructions": None,
    "custom_categories": None,
    "memory_depth": None,
    "usecase_setting": None,
    "decay": False,
    "multilingual": True,
}


@router.get(_PATH, response_model=described(Project), summary="Get the project (mem0)")
async def get(
    org_id: str, project_id: str, personal: ReadAccess, fields: Annotated[list[str] | None, Query()] = None
) -> dict[str, Any]:
    """The project's settings, or those of them that are asked for."""
    _check(org_id, project_id, personal)
    known = {"id": project_id, "org_id": org_id, "name": project_id, **_UNSET}
    found = known | await settings_of(personal)
    return {name: value for name, value in found.items() if not fields or name in fields}


@router.patch(_PATH, response_model=described(ProjectChanged), summary="Change the project (mem0)")
async def change(
    org_id: str, project_id: str, form: ProjectForm, service: CurrentService, personal: WriteAccess
) -> dict[str, Any]:
    """Set what is given, for all of the project; where keys exist it needs an admin's."""
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
