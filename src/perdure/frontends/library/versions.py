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

    A point is a commit (also abbreviated), a branch, a tag, or a time in ISO 8601 text, which means the last version by
    then. ConfigError for memories that are not files under git, ForbiddenError on a view limited to a scope,
    NotFoundError for an unknown point, ConflictError if another operation is running, VectorStoreError if git fails.
    """

    def __init__(self, engine: Engine, walls: Scope = UNRESTRICTED) -> None:
        self._engine = engine
        self._walls = walls

    async def log(self, point: str | None = None, *, limit: int = 20) -> list[Version]:
        """Return the last versions before a point (the newest one by default), newest first.

        Each says what was learned, changed, deleted and forgotten, and from which messages.
        """
        at = None if point is None else requests.read_text(point, "point")
        return await self._versions.log(at, requests.read_limit(limit))

    async def diff(self, before: str, after: str | None = None) -> VersionDiff:
        """Return the difference between two points, or between one and the current memory.

        A `before` that is a time before the first version is the empty memory.
        """
        two = None if after is None else requests.read_text(after, "after")
        return await self._versions.diff(requests.read_text(before, "before"), two)

    async def revert(self, point: str) -> AddResult:
        """Revert the changes of one version by inverse events, which `history` shows and `undo` accepts.

        ConflictError if a later version built on it. Messages stay, and erased text stays gone.
        """
        return await self._versions.revert(requests.read_text(point, "point"))

    async def branches(self) -> list[VersionBranch]:
        """Return every branch, by name."""
        return await self._versions.branches()

    async def branch(self, name: str) -> MergeReport:
        """Switch to another branch; a new one is created from the current memory."""
        return await self._versions.branch(requests.read_text(name, "name"))

    async def merge(self, point: str) -> MergeReport:
        """Merge the memories of another branch.

        If both sides changed a memory, the text updated last stays, and the other is kept as a tombstone. Facts of both
        sides about the same attribute are reported, and settled if the rules are sure.
        """
        return await self._versions.merge(requests.read_text(point, "point"))

    async def pull(self) -> MergeReport:
        """Merge the remote's version of this branch; NotFoundError without a remote."""
        return await self._versions.pull()

    async def push(self) -> str:
        """Push this branch to the remote and return its name; ConflictError if the remote has more."""
        return await self._versions.push()

    @property
    def _versions(self) -> FileVersions:
        if self._walls != UNRESTRICTED:
            raise ForbiddenError("versions are of the whole memory, also of what lies outside of these walls")
        return self._engine.versions


class Versions(Synchronous[AsyncVersions]):
    """The versions of a Memory whose store is `markdown`, kept by git: AsyncVersions without `await`."""

    log = blocking(AsyncVersions.log)
    diff = blocking(AsyncVersions.diff)
    revert = blocking(AsyncVersions.revert)
    branches = blocking(AsyncVersions.branches)
    branch = blocking(AsyncVersions.branch)
    merge = blocking(AsyncVersions.merge)
    pull = blocking(AsyncVersions.pull)
    push = blocking(AsyncVersions.push)
