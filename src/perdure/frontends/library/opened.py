"""Opened: how an AsyncMemory comes to be, which walls it has, and how it is closed."""

from __future__ import annotations

import os
from copy import copy
from typing import Any, Self

from perdure.backends.embedders.base import Embedder
from perdure.domain.errors import ConfigError
from perdure.domain.scope import Scope
from perdure.engine import requests
from perdure.engine.build import build
from perdure.engine.config import MemoryConfig, read_config, read_file, read_folder
from perdure.engine.engine import Engine
from perdure.engine.walls import OPEN, inside
from perdure.frontends.library.async_graph import AsyncGraph
from perdure.frontends.library.async_versions import AsyncVersions
from perdure.frontends.library.closing import AsyncClosing


class Opened(AsyncClosing):
    """An engine behind a configuration, and the walls that it is asked through."""

    def __init__(self, config: MemoryConfig | dict[str, Any] | None = None) -> None:
        self.config = read_config(config)
        self._engine: Engine = build(self.config)
        self._walls = OPEN
        self._is_view = False

    @classmethod
    def local(cls, path: str | os.PathLike[str] = "~/.memory") -> Self:
        """The embedded set in one folder: no key, no server, no download (DESIGN §4).

        A folder in which memories lie as files, such as a clone of one, is opened as that.
        """
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise ConfigError(f"path must name a folder, not {path!r}", field="path", value=path)
        return cls(read_folder(path))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """The configuration of a TOML file such as `perdure init` writes."""
        return cls(read_file(path))

    def within(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        project_id: str | None = None,
        room_id: str | None = None,
        world_id: str | None = None,
    ) -> Self:
        """This memory behind walls: each call sees and changes what stands inside alone, and writes there.

        What is given here need not be given to a call, and giving something else is ForbiddenError; whatever id a call
        names, a memory outside is one that does not exist. A view of a view has the walls of both. Closing a view
        closes nothing.
        """
        given = Scope(user_id, agent_id, run_id, project_id, room_id=room_id, world_id=world_id)
        view = copy(self)
        view._walls = inside(self._walls, given)
        view._is_view = True
        return view

    def _scope(self, user_id: str | None, agent_id: str | None, run_id: str | None) -> Scope:
        return requests.read_scope(user_id, agent_id, run_id, self._walls)

    @property
    def embedder(self) -> Embedder:
        """The embedder in use: `embed`, `embed_batch`, `dimension` (spec 000 §9.1)."""
        return self._engine.kernel.embedding.embedder

    @property
    def graph(self) -> AsyncGraph:
        """The entities that memories name and the relations between them, where a `graph_store` is configured."""
        return AsyncGraph(self._engine, self._walls)

    @property
    def versions(self) -> AsyncVersions:
        """The versions of a memory whose records are files: log, diff, revert, branches, merges, and a remote."""
        return AsyncVersions(self._engine, self._walls)

    # ------------------------------------------------------------------ life
    async def close(self) -> None:
        """Finish what is under way and let go of every file; closing twice is no error."""
        if not self._is_view:
            await self._engine.close()
