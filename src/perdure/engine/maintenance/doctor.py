"""The doctor: reports disagreements in sentences; `examine` only reads, `repair` repairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.backends.ledgers.base import Ledger
from perdure.backends.markdown.base import FileStore
from perdure.domain.memory import LIVE, Answer, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.core.access import visible
from perdure.engine.core.embedding import wanting
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import scan
from perdure.engine.engine import Engine
from perdure.engine.maintenance import repair as mending
from perdure.engine.maintenance.consistency import Progress, compare
from perdure.engine.transfer.backup_erasure import waiting_erasures
from perdure.pipeline.curation.rules.reconciliation import contradict

# Pending review: what the rules left for a person to decide; only reads, a page at a time.

PAGE = 500  # rows read at a time


@dataclass(slots=True)
class PendingReview:
    """Ids of memories, oldest first."""

    quarantined: list[str] = field(default_factory=list)  # memories kept out of prompts
    pairs: list[tuple[MemoryItem, MemoryItem]] = field(default_factory=list)
    """A memory, and one that it may have replaced: both are current and valid, and contradict each other."""


async def pending_review(kernel: Kernel) -> PendingReview:
    """Return memories in quarantine, and linked contradictions that were not settled."""
    found = PendingReview()
    linked: list[MemoryItem] = []
    async for item in _standing(kernel):
        if item.quarantined is not None:
            found.quarantined.append(item.id)
        if item.older:
            linked.append(item)
    named = sorted({id for item in linked for id in item.older})
    valid: dict[str, MemoryItem] = {}
    for start in range(0, len(named), PAGE):
        some = await kernel.store.get_many(kernel.collection, named[start : start + PAGE])
        valid.update(
            (point.id, MemoryItem.from_payload(point.payload))
            for point in some
            if point.payload.get("valid_to") is None and point.payload.get("state") == LIVE
        )
    found.pairs = [
        (item, valid[id])
        for item in linked
        for id in item.older
        if id in valid and contradict(item.memory, valid[id].memory)
    ]
    return found


async def _standing(kernel: Kernel) -> AsyncIterator[MemoryItem]:
    within = visible(Scope(), now=kernel.clock.now())
    async for points in scan(kernel, within):
        for point in points:
            yield MemoryItem.from_payload(point.payload)


PENDING = 1000  # maximum number of unread messages and of rows without a vector that are examined


@dataclass(frozen=True, slots=True)
class Finding(Answer):
    """One problem."""

    kind: str
    """store, ledger, gone, absent, journal, file, elsewhere, embedder, unembedded, pending, graph, backup, quarantine,
    contradiction, or a rift of `agreement`."""
    id: str  # the memory, message or part concerned
    sentence: str
    repairable: bool = False
    notice: bool = False  # a note, not a disagreement


@dataclass(frozen=True, slots=True)
class Diagnosis(Answer):
    """The findings of an examination, and how much it checked."""

    findings: list[Finding]
    counted: dict[str, int] = field(default_factory=dict)  # memories, versions, messages (searchable ones), history

    @property
    def healthy(self) -> bool:
        """Whether nothing disagrees; notices do not count."""
        return all(finding.notice for finding in self.findings)

    def kinds(self) -> Counter[str]:
        """Number of findings of each kind."""
        return Counter(finding.kind for finding in self.findings)

    def model_dump(self) -> dict[str, Any]:
        """The diagnosis as plain values."""
        return {
            "healthy": self.healthy,
            "findings": [finding.model_dump() for finding in self.findings],
            "counted": dict(self.counted),
        }


@dataclass(frozen=True, slots=True)
class Repair(Answer):
    """What a repair did, what it could not do, and what is to be known of what it did, in sentences."""

    done: list[str]
    failed: list[str]
    remarks: list[str] = field(default_factory=list)


async def examine(engine: Engine, progress: Progress | None = None) -> Diagnosis:
    """Compare store, ledger, messages and embedder; changes nothing beyond the repairs of every opening."""
    kernel = engine.kernel
    await kernel.ready()
    findings = [
        Finding("store", kernel.collection, sentence, True) for sentence in await kernel.store.check(kernel.collection)
    ]
    findings += await _embedder(kernel)
    findings += await _files(kernel)
    ledger = kernel.ledger
    if ledger is None:
        sentence = "the ledger could not be opened: there is no history, and a crash may lose changes (see the log)"
        findings.append(Finding("ledger", kernel.config.history.provider, sentence))
        return Diagnosis([*findings, *await _graph(engine), *await _marks(kernel)])
    findings += [Finding("ledger", ledger.name, sentence) for sentence in await ledger.check()]
    findings += await _journal(ledger)
    findings += [
        Finding("pending", episode.id, f"message {episode.id} was kept, but no facts have been read in it yet", True)
        for episode in await ledger.pending_episodes(Scope(), PENDING)
    ]
    if kernel.loss_check.warning is not None:
        findings.append(Finding("gone", kernel.collection, kernel.loss_check.warning, True))
    found = await compare(kernel, ledger, progress)
    shared = (
        kernel.loss_check.store_place is not None
        and kernel.loss_check.store_place.shared
        and kernel.loss_check.warning is None
    )
    for disagreement in found.disagreements:
        if disagreement.rift == "lost" and shared:  # another store may have it
            sentence = f"{disagreement.sentence}; other stores share the ledger, and one of them may"
            findings.append(Finding("absent", disagreement.id, sentence, notice=True))
        else:
            findings.append(Finding(disagreement.rift, disagreement.id, disagreement.sentence, True))
    findings += _elsewhere(found.elsewhere)
    findings += await _graph(engine)
    findings += await _backups(kernel, ledger)
    findings += await _marks(kernel)
    counted = {name: getattr(found, name) for name in ("memories", "versions", "messages", "history")}
    return Diagnosis(findings, counted)


async def repair(engine: Engine, diagnosis: Diagnosis) -> Repair:
    """Repair the findings that can be repaired; examine again to see what is left.

    Rows that the store has lost are rebuilt from the ledger, which stores each change in full; nothing is deleted. If
    both have a memory and disagree, the store is the truth: history is completed as an import would. Messages whose
    extraction had failed are read now, memories without a vector are embedded, and what was forgotten is erased from
    the backups that can be reached again.
    """
    kernel = engine.kernel
    await kernel.ready()
    kinds = diagnosis.kinds()
    work = mending.Repairer(engine)
    if "store" in kinds:
        await work.rebuild_store()
    if kernel.ledger is not None:
        lost = _ids(diagnosis, "lost")
        if lost or "gone" in kinds:
            await work.bring_back(lost)
        await work.complete_history(_ids(diagnosis, "unrecorded", "text", "revived", "version"))
        await work.drop_sources(_ids(diagnosis, "source"))
        await work.drop_messages(_ids(diagnosis, "episode"))
        if "pending" in kinds:
            await work.extract_pending()
        if "backup" in kinds:
            await work.erase_from_backups()
    if "graph" in kinds:
        await work.look_again(_ids(diagnosis, "graph"))
    if "unembedded" in kinds:
        await work.embed_missing()
    return Repair(work.done, work.failed, work.remarks)


def _ids(diagnosis: Diagnosis, *kinds: str) -> set[str]:
    return {finding.id for finding in diagnosis.findings if finding.kind in kinds}


async def _embedder(kernel: Kernel) -> list[Finding]:
    embedder = kernel.embedding.embedder
    reason = embedder.unavailable()
    findings = []
    if reason is not None:
        sentence = f"memories are searched by their words alone: {reason}"
        findings.append(Finding("embedder", embedder.name, sentence, notice=True))
    bare = await wanting(kernel.store, kernel.collection, PENDING)
    if bare:
        count = f"{len(bare)} or more" if len(bare) == PENDING else str(len(bare))
        sentence = f"{count} rows have no vector, and are found by their words alone"
        mendable = reason is None
        findings.append(Finding("unembedded", bare[0].id, sentence, mendable, notice=not mendable))
    return findings


async def _files(kernel: Kernel) -> list[Finding]:
    """Return findings for files that are not memories, or only in part, if memories are files."""
    if not isinstance(kernel.store, FileStore):
        return []
    return [
        Finding("file", problem.path, f"{problem.path}: {problem.sentence}", notice=problem.read)
        for problem in await kernel.store.problems()
    ]


def _elsewhere(ids: Sequence[str]) -> list[Finding]:
    """Return findings for memories of a clone or a pull, whose earlier history is on another machine."""
    if not ids:
        return []
    told = "1 memory" if len(ids) == 1 else f"{len(ids)} memories"
    sentence = f"{told} came as files: earlier history, or messages that they name, may be on another machine"
    return [Finding("elsewhere", ids[0], sentence, notice=True)]


async def _graph(engine: Engine) -> list[Finding]:
    """Return findings where the graph differs from the memories; none without a graph."""
    if engine.graph_check is None:
        return []
    found = await engine.graph_check.compare()
    findings = [
        *(
            Finding("graph", id, f"memory {id} states something that the graph does not hold", True)
            for id in found.unsaid
        ),
        *(
            Finding("graph", id, f"the graph holds what memory {id} stated, which does not stand", True)
            for id in found.gone
        ),
    ]
    if found.problem:
        findings.append(Finding("graph", "", f"the graph cannot be asked: {found.problem}"))
    if found.parked:
        sentence = f"{found.parked} jobs of the graph failed too often and are tried no more"
        findings.append(Finding("graph", "", sentence, True))
    if found.waiting:
        findings.append(Finding("graph", "", f"{found.waiting} jobs of the graph are not done yet", notice=True))
    return findings


async def _backups(kernel: Kernel, ledger: Ledger) -> list[Finding]:
    """Return findings for backups from which something that was forgotten is still to be erased."""
    return [
        Finding("backup", str(place), f"{place} still holds what was forgotten: {do}", reached, notice=not reached)
        for place, reached, do in await waiting_erasures(kernel, ledger)
    ]


async def _marks(kernel: Kernel) -> list[Finding]:
    """Return findings for a person to review: quarantined memories, and contradicting pairs."""
    found = await pending_review(kernel)
    findings = []
    if found.quarantined:
        first, count = found.quarantined[0], len(found.quarantined)
        told = "1 memory is" if count == 1 else f"{count} memories are"
        sentence = f"{told} kept out of prompts: see perdure list --quarantined"
        findings.append(Finding("quarantine", first, sentence, notice=True))
    for newer, older in found.pairs:
        sentence = (
            f'"{newer.memory}" ({newer.id}) may have replaced "{older.memory}" ({older.id}), and both stand: '
            "tell which of them holds, and the other is corrected"
        )
        findings.append(Finding("contradiction", newer.id, sentence, notice=True))
    return findings


async def _journal(ledger: Ledger) -> list[Finding]:
    waiting = (await ledger.stats())["written"]
    if not waiting:
        return []
    sentence = f"{waiting} changes in the journal are not applied: they are of a writer at work, or of another store"
    return [Finding("journal", ledger.name, sentence, notice=True)]
