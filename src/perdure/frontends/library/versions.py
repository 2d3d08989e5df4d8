"""Versions: AsyncVersions without `await`."""

from __future__ import annotations

from perdure.domain.event import AddResult
from perdure.domain.file_versions import MergeReport, Version, VersionBranch, VersionDiff
from perdure.frontends.library.async_versions import AsyncVersions
from perdure.frontends.library.portal import PORTAL


class Versions:
    """The versions of a Memory whose store is `markdown`, kept by git."""

    def __init__(self, versions: AsyncVersions) -> None:
        self._versions = versions

    def log(self, point: str | None = None, *, limit: int = 20) -> list[Version]:
        """The last versions as seen from a point (the newest one by default), newest first."""
        return PORTAL.call(self._versions.log(point, limit=limit))

    def diff(self, before: str, after: str | None = None) -> VersionDiff:
        """What differs between two points, or between one and the memory as it stands."""
        return PORTAL.call(self._versions.diff(before, after))

    def revert(self, point: str) -> AddResult:
        """Take back what one version changed, by inverse events that `history` shows and `undo` takes."""
        return PORTAL.call(self._versions.revert(point))

    def branches(self) -> list[VersionBranch]:
        """Every branch, by name."""
        return PORTAL.call(self._versions.branches())

    def branch(self, name: str) -> MergeReport:
        """Work on another branch from now on; one that there is not is made of what stands now."""
        return PORTAL.call(self._versions.branch(name))

    def merge(self, point: str) -> MergeReport:
        """Take in the memories of another branch; what both sides changed is settled, and told."""
        return PORTAL.call(self._versions.merge(point))

    def pull(self) -> MergeReport:
        """Take in what the remote has of this branch; NotFoundError where there is no remote."""
        return PORTAL.call(self._versions.pull())

    def push(self) -> str:
        """Bring this branch to the remote, whose name is answered; ConflictError where it has more."""
        return PORTAL.call(self._versions.push())
