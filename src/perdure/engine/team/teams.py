"""Teams: what one engine offers to the members of teams; front ends hold one and add nothing of their own."""

from __future__ import annotations

from perdure.domain.access import AuditEntry
from perdure.engine.calls import call
from perdure.engine.forget import Forget
from perdure.engine.kernel import Kernel
from perdure.engine.read_path import ReadPath
from perdure.engine.team.expiry import TeamExpiry
from perdure.engine.team.member import Member
from perdure.engine.team.promoting import TeamPromoting
from perdure.engine.team.reading import TeamReading
from perdure.engine.team.records import ledger_of
from perdure.engine.team.writing import TeamWriting


class Teams:
    """Read, write, promote, expire, over the kernel of an engine, whose `forget` reaches every place."""

    def __init__(self, kernel: Kernel, read_path: ReadPath, forget: Forget) -> None:
        self._kernel = kernel
        self.read = TeamReading(kernel, read_path)
        self.write = TeamWriting(kernel, self.read, forget)
        self.promote = TeamPromoting(kernel, self.read)
        self.expiry = TeamExpiry(kernel)

    @call
    async def audit(self, member: Member, *, subject_id: str | None, limit: int, after: str) -> list[AuditEntry]:
        """Who did what in the team, oldest first, those lines that come after an id; for admins."""
        member.need("admin", to="read the audit")
        return await ledger_of(self._kernel).audit.list(member.team, subject_id=subject_id, limit=limit, after=after)
