"""AsyncVersions and Versions: the versions of a memory in files."""

from __future__ import annotations

from perdure.domain.errors import ForbiddenError
from perdure.domain.event import AddResult
from perdure.domain.file_versions import MergeReport, Version, VersionBranch, VersionDiff
from perdure.domain.scope import Scope
from perdure.engine import requests
from perdure.engine.core.access import UNRESTRICTED
from perdure.engine.engine import Engine
from perdure.engine.markdown.versions_api import FileVersions
from perdure.frontends.library.portal import Synchronous, blocking


class AsyncVersions:
    """The versions of an AsyncMemory whose store is `markdown`, kept by git.

    A point is a commit (also abbreviated), a branch, a tag, or a time in ISO 8601 text, whose version is the last one
    by then. ConfigError for memories that are not files under git, ForbiddenError behind walls, NotFoundError for a
    point that there is not, ConflictError where something else is under way, VectorStoreError where git fails.
    """

    def __init__(self, engine: Engine, walls: Scope = UNRESTRICTED) -> None:
        self._engine = engine
        self._walls = walls

    async def log(self, point: str | None = None, *, limit: int = 20) -> list[Version]:
        """The last versions as seen from a point (the newest one by default), newest first.

        Each tells what was learned, changed, deleted and forgotten, and from which messages.
        """
        at = None if point is None else requests.read_text(point, "point")
        return await self._versions.log(at, requests.read_limit(limit))

    async def diff(self, before: str, after: str | None = None) -> VersionDiff:
        """What differs between two points, or between one and the memory as it stands."""
        two = None if after is None else requests.read_text(after, "after")
        return await self._versions.diff(requests.read_text(before, "before"), two)

    async def revert(self, point: str) -> AddResult:
        """Take back what one version changed, by inverse events that `history` shows and `undo` takes.

        ConflictError where a later version built on it. What was said stays said, what was erased stays gone.
        """
        return await self._versions.revert(requests.read_text(point, "point"))

    async def branches(self) -> list[VersionBranch]:
        """Every branch, by name."""
        return await self._versions.branches()

    async def branch(self, name: str) -> MergeReport:
        """Work on another branch from now on; one that there is not is made of what stands now."""
        return await self._versions.branch(requests.read_text(name, "name"))

    async def merge(self, point: str) -> MergeReport:
        """Take in the memories of another branch.

        Of a memory that both sides changed the text updated last stands, the other is kept as a tombstone. Facts of
        both sides about one matter are told, and settled where the rules would be sure.
        """
        return await self._versions.merge(requests.read_text(point, "point"))

    async def pull(self) -> MergeReport:
        """Take in what the remote has of this branch; NotFoundError where there is no remote."""
        return await self._versions.pull()

    async def push(self) -> str:
        """Bring this branch to the remote, whose name is answered; ConflictError where it has more."""
        return await self._versions.push()

    @property
    def _versions(self) -> FileVersions:
        if self._walls != UNRESTRICTED:
            raise ForbiddenError("versions are of the whole memory, also of what lies outside of these walls")
        return self._engine.versions


class Versions(Synchronous[AsyncVersions]):
    """The versions of a Memory whose store is `markdown`, kept by git: AsyncVersions without `await`.

    A point is a commit (also abbreviated), a branch, a tag, or a time in ISO 8601 text, whose version is the last one
    by then. ConfigError for memories that are not files under git, ForbiddenError behind walls, NotFoundError for a
    point that there is not, ConflictError where something else is under way, VectorStoreError where git fails.
    """

    log = blocking(AsyncVersions.log)
    diff = blocking(AsyncVersions.diff)
    revert = blocking(AsyncVersions.revert)
    branches = blocking(AsyncVersions.branches)
    branch = blocking(AsyncVersions.branch)
    merge = blocking(AsyncVersions.merge)
    pull = blocking(AsyncVersions.pull)
    push = blocking(AsyncVersions.push)
