"""Changing a team's memory: upsert in place, patch, delete; each is one history row and one line of the audit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from perdure.backends.vector_stores.base import Point
from perdure.domain.access import AuditEntry
from perdure.domain.clock import iso
from perdure.domain.errors import ForbiddenError, NotFoundError, PromotionRequiredError
from perdure.domain.filter import all_of, eq, matches, scope_filter
from perdure.domain.memory import LIVE, MemoryItem, new_id, text_hash
from perdure.domain.scope import Scope
from perdure.domain.tags import Tags
from perdure.engine.batch import Batch
from perdure.engine.calls import call
from perdure.engine.finish import finish
from perdure.engine.forget import Forget, Request
from perdure.engine.kernel import Kernel
from perdure.engine.team.items import BY_PROMOTION, TeamItem, check_placed
from perdure.engine.team.member import WRITERS, Member
from perdure.engine.team.reading import TeamReading
from perdure.engine.team.records import ledger_of, line, tags_of, with_tags
from perdure.engine.visibility import visible
from perdure.pipeline.firewall import suspect
from perdure.pipeline.slots import read_slots


class TeamWriting:
    """Upserts, patches and deletes."""

    def __init__(self, kernel: Kernel, reading: TeamReading, forget: Forget) -> None:
        self._kernel = kernel
        self._reading = reading
        self._forget = forget

    # ------------------------------------------------------------------ upsert
    @call
    async def upsert(self, member: Member, item: TeamItem) -> str:
        """Store an item, in the place of the team's item of the same source if there is one (X18); answers its id.

        PromotionRequiredError where it names another level than the memory has, ForbiddenError where the member may
        not write at that level, or the source is that of a memory that they do not see.
        """
        kernel = self._kernel
        ledger_of(kernel)
        member.need(*WRITERS, to="write")
        self._check_walls(member, item.project_scope)
        vector = await kernel.embedding.query(item.content)
        async with kernel.lock(Scope(team_id=member.team)):
            batch = Batch(kernel.ticker)
            point = await self._of_source(member.team, item.source)
            before = None if point is None else MemoryItem.from_payload(point.payload)
            if point is not None and before is not None and self._has_expired(before):
                batch.remove(before, point.vector, actor="expiry", reason="expired")
                before = None
            if point is None or before is None:
                self._check_level(member, item)
                batch.add(self._new(member, item), vector, actor="upsert", reason="upsert")
            else:
                after = self._renewed(member, before, item)
                batch.replace(before, after, point.vector, vector, actor="upsert", reason="upsert")
            change = batch.changes[-1]
            entry = line(
                kernel, member, "upsert", change.memory_id,
                event=change.event, event_id=change.id, truth_level=item.truth_level, source=item.source,
            )  # fmt: skip
            await finish(self._carry_out(batch, entry))
        return change.memory_id

    async def _of_source(self, team: str, source: str) -> Point | None:
        kernel = self._kernel
        same = all_of(scope_filter(Scope(team_id=team)), eq("state", LIVE), eq("kind", "facts"), eq("source", source))
        page = await kernel.store.list(kernel.collection, same, 1, with_vectors=True)
        return page.points[0] if page.points else None

    def _check_level(self, member: Member, item: TeamItem) -> None:
        if item.truth_level == "PUBLIC":
            raise ForbiddenError("nothing is written as PUBLIC: it is promoted to that from CANONICAL")
        self._check_vouched(member, item.truth_level)

    def _check_vouched(self, member: Member, truth_level: str) -> None:
        if not member.may_vouch(truth_level):
            raise ForbiddenError(
                f"what is {truth_level} is written by the roles admin and service: write it as WORKING and ask for a"
                f" promotion"
            )

    def _check_walls(self, member: Member, project: str | None) -> None:
        if not member.walls.holds(Scope(team_id=member.team, project_id=project)):
            raise ForbiddenError(f"these credentials are for the project {member.walls.project_id!r} alone")

    def _new(self, member: Member, item: TeamItem) -> MemoryItem:
        kernel = self._kernel
        moment = kernel.ticker.tick()
        id = new_id()
        return MemoryItem(
            id=id,
            memory=item.content,
            hash=text_hash(item.content),
            scope=Scope(team_id=member.team, project_id=item.project_scope),
            created_at=moment,
            updated_at=moment,
            told_at=moment,
            valid_from=moment,
            metadata=dict(item.metadata or {}),
            source=item.source,
            confidence=item.confidence,
            slots=read_slots(item.content),
            tags=Tags(
                visibility=item.visibility,
                truth_level=item.truth_level,
                validation_status=item.validation_status,
                written_by=member.name,
            ),
            expires_at=self._expiry(item.truth_level),
            quarantined=suspect(item.content, None),
            lineage_id=id if kernel.config.updates == "supersede" else None,
        )

    def _renewed(self, member: Member, before: MemoryItem, item: TeamItem) -> MemoryItem:
        """The memory as the item says, with its id, its level and its author."""
        tags = tags_of(before)
        if not self._is_seen(member, before):
            raise ForbiddenError(f"the source {item.source!r} is that of a memory that {member.name} may not change")
        if item.truth_level != tags.truth_level:
            raise PromotionRequiredError(f"the memory of this source is {tags.truth_level}, and {BY_PROMOTION}")
        if item.content != before.memory:
            self._check_vouched(member, tags.truth_level)
        self._check_private(member, before, item.visibility)
        return before.with_(
            memory=item.content,
            hash=text_hash(item.content),
            slots=read_slots(item.content),
            quarantined=_judged(before, item.content),
            scope=Scope(team_id=member.team, project_id=item.project_scope),
            metadata=before.metadata if item.metadata is None else dict(item.metadata),
            confidence=item.confidence,
            tags=with_tags(tags, visibility=item.visibility, validation_status=item.validation_status),
            expires_at=self._expiry(item.truth_level),
        )

    def _expiry(self, truth_level: str) -> str | None:
        """When a memory of this level that was written now expires, if ever (X38)."""
        days = self._kernel.config.team.ephemeral_days
        if truth_level != "EPHEMERAL" or not days:
            return None
        return iso(self._kernel.ticker.now() + timedelta(days=days))

    # ------------------------------------------------------------------ patch and delete
    @call
    async def patch(self, member: Member, id: str, changes: dict[str, Any]) -> MemoryItem:
        """Change some fields of a memory (X52); NotFoundError where the member sees none with this id."""
        kernel = self._kernel
        ledger_of(kernel)
        member.need(*WRITERS, to="write")
        content = changes.get("content")
        vector = None if content is None else await kernel.embedding.query(content)
        async with kernel.lock(Scope(team_id=member.team)):
            before, point = await self._standing(member, id)
            after = self._patched(member, before, changes)
            batch = Batch(kernel.ticker)
            new_vector = point.vector if content is None else vector
            batch.replace(before, after, point.vector, new_vector, actor="patch", reason="patch")
            change = batch.changes[0]
            entry = line(kernel, member, "patch", before.id, event_id=change.id, fields=sorted(changes))
            await finish(self._carry_out(batch, entry))
        return change.item

    def _patched(self, member: Member, before: MemoryItem, changes: dict[str, Any]) -> MemoryItem:
        tags = tags_of(before)
        content = changes.get("content", before.memory)
        if content != before.memory:
            self._check_vouched(member, tags.truth_level)
        project = changes.get("project_scope", before.scope.project_id)
        visibility = changes.get("visibility", tags.visibility)
        check_placed(visibility, project)
        self._check_walls(member, project)
        self._check_private(member, before, visibility)
        return before.with_(
            memory=content,
            hash=text_hash(content),
            slots=before.slots if content == before.memory else read_slots(content),
            quarantined=_judged(before, content),
            scope=Scope(team_id=member.team, project_id=project),
            metadata={**before.metadata, **(changes.get("metadata") or {})},
            confidence=changes.get("confidence", before.confidence),
            tags=with_tags(
                tags,
                visibility=visibility,
                validation_status=changes.get("validation_status", tags.validation_status),
            ),
        )

    def _check_private(self, member: Member, before: MemoryItem, visibility: str) -> None:
        """What is private is its author's: nobody else may take a memory away from the team by making it so."""
        author = tags_of(before).written_by
        if visibility == "private" and author != member.name:
            raise ForbiddenError(f"only {author}, who wrote this memory, can make it private")

    @call
    async def delete(self, member: Member, id: str) -> None:
        """Remove a memory from every read of the present; NotFoundError where the member sees none with this id."""
        kernel = self._kernel
        ledger_of(kernel)
        member.need(*WRITERS, to="delete")
        async with kernel.lock(Scope(team_id=member.team)):
            before, point = await self._standing(member, id)
            batch = Batch(kernel.ticker)
            batch.remove(before, point.vector, actor="delete", reason="explicit")
            entry = line(kernel, member, "delete", before.id, event_id=batch.changes[0].id)
            await finish(self._carry_out(batch, entry))

    async def erase(self, member: Member, id: str) -> None:
        """Delete a memory, and take its text out of history and versions as well."""
        memory_id = await self._erasable(member, id)
        await self._forget(Request(scope=member.walls, id=memory_id))
        await self._note_erasure(member, memory_id)

    @call
    async def _erasable(self, member: Member, id: str) -> str:
        ledger_of(self._kernel)
        member.need(*WRITERS, to="delete")
        return (await self._standing(member, id))[0].id

    @call
    async def _note_erasure(self, member: Member, id: str) -> None:
        entry = line(self._kernel, member, "erase", id)
        await finish(ledger_of(self._kernel).audit.add([entry]))

    # ------------------------------------------------------------------ pieces
    async def _standing(self, member: Member, id: str) -> tuple[MemoryItem, Point]:
        found = await self._reading.standing(member, id)
        if found is None:
            raise NotFoundError(f"there is no memory with the id {id!r} in the team {member.team!r}")
        return found

    def _is_seen(self, member: Member, item: MemoryItem) -> bool:
        now = self._kernel.ticker.now()
        return matches(visible(member.walls, now=now, filters=member.sees()), item.to_payload())

    def _has_expired(self, item: MemoryItem) -> bool:
        return item.expires_at is not None and item.expires_at <= iso(self._kernel.ticker.now())

    async def _carry_out(self, batch: Batch, entry: AuditEntry) -> None:
        await self._kernel.commit(batch.changes, batch.vectors)
        await ledger_of(self._kernel).audit.add([entry])


def _judged(before: MemoryItem, content: str) -> str | None:
    """Why a memory of this content is kept out of prompts; a content that stays is judged already, or was released."""
    return before.quarantined if content == before.memory else suspect(content, None)
