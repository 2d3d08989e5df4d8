"""Fields that bodies and queries share: whose memories a request is about, times, and lists of names."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from perdure.domain.scope import Scope

ORGANIZATION = "perdure"
"""The only one, as the first answer to a client tells it."""
DEFAULT_PROJECT = "default"
"""What that answer calls the project of a caller that is bound to none."""

Time = float | str
"""Seconds since 1970, or ISO 8601 text."""


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed)]
"""Some words, or one."""


def project_wall(org_id: str | None, project_id: str | None) -> str | None:
    """The project that a request names; None too where it only repeats what this server told the client at first."""
    return None if (org_id, project_id) == (ORGANIZATION, DEFAULT_PROJECT) else project_id


class Form(BaseModel):
    """A request of one of mem0's clients."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, protected_namespaces=())


class ScopeFields(Form):
    """Who a request is about, named beside its filters, as clients before v3 do."""

    user_id: str | None = Field(None, examples=["alice"])
    agent_id: str | None = None
    app_id: str | None = Field(None, description="Perdure's `world_id`; beside a user, an agent or a run")
    run_id: str | None = None
    session_id: str | None = Field(None, description="Another name of `run_id`")
    project_id: str | None = Field(None, description="The project that it is of; beside a user, an agent or a run")
    org_id: str | None = Field(None, description="What mem0's clients send with a project; there is one alone")

    def scope(self) -> Scope:
        """The scope that they name."""
        run = self.run_id if self.run_id is not None else self.session_id
        project = project_wall(self.org_id, self.project_id)
        return Scope(user_id=self.user_id, agent_id=self.agent_id, run_id=run, world_id=self.app_id, project_id=project)
