"""The tables of an agent's runtime, beside its memories."""

from __future__ import annotations

from perdure.frontends.library.runtime.tables_people import People
from perdure.frontends.library.runtime.tables_places import Places
from perdure.frontends.library.runtime.tables_servers import Servers
from perdure.frontends.library.runtime.tables_work import Work


class RuntimeTables(People, Places, Work, Servers):
    """Everything that a runtime keeps in tables: part of `AgentRuntime`."""
