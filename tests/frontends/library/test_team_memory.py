"""TeamMemory and AsyncTeamMemory: one surface in two colours."""

from __future__ import annotations

import inspect

import perdure
from perdure import AsyncTeamMemory, TeamMemory


def test_team_memory_and_async_team_memory_have_one_surface() -> None:
    def surface(kind: type) -> dict[str, inspect.Signature]:
        members = inspect.getmembers(kind, inspect.isroutine)
        return {name: inspect.signature(each) for name, each in members if not name.startswith("_")}

    sync, awaited = surface(TeamMemory), surface(AsyncTeamMemory)
    assert set(sync) == set(awaited)
    for name, signature in sync.items():
        assert str(signature) == str(awaited[name]), name
    assert {"TeamMemory", "AsyncTeamMemory"} <= {*dir(perdure)} & {*perdure.__all__}
