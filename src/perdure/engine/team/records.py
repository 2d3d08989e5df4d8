"""What a team has on record beside its memories: promotions, and who did what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perdure.backends.ledgers.base import Ledger
from perdure.domain.access import AuditEntry
from perdure.domain.errors import LedgerError
from perdure.domain.memory import MemoryItem, Tags, new_id
from perdure.engine.core.kernel import Kernel
from perdure.engine.team.member import Member


def ledger_of(kernel: Kernel) -> Ledger:
    """The ledger that keeps promotions and the audit; LedgerError where there is none."""
    if kernel.ledger is None:
        raise LedgerError(
            "there is no ledger: it could not be opened (see the log), and a team changes nothing that is not on record"
        )
    return kernel.ledger


def audit_entry(kernel: Kernel, member: Member, action: str, subject_id: str, **details: Any) -> AuditEntry:
    """A line of the audit, dated now; the details hold ids, levels and names of fields, and no text."""
    return AuditEntry(
        id=new_id(), at=kernel.clock.tick(), team=member.team, actor=member.name, action=action,
        subject_id=subject_id, details=details,
    )  # fmt: skip


def tags_of(item: MemoryItem) -> Tags:
    """The tags of a team's memory, which the guard lets in with them alone."""
    assert item.tags is not None, "see guard.check_tags"
    return item.tags


def with_tags(tags: Tags, **changes: str) -> Tags:
    """A copy of tags with some of them changed."""
    return replace(tags, **changes)
