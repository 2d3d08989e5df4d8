"""The services of one engine for members of teams: read, write, promote, expire."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

from perdure.backends.vector_stores.base import Point
from perdure.domain.access import AuditEntry, Decision, Promotion, PromotionState, Vote
from perdure.domain.clock import iso
from perdure.domain.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    PromotionRequiredError,
)
from perdure.domain.filter import Condition, Filter, Moment, all_of, eq, matches, scope_filter
from perdure.domain.memory import LIVE, TRUTH_LEVELS, MemoryItem, Tags, level_of, new_id
from perdure.domain.scope import Scope
from perdure.domain.text.readable import shown
from perdure.engine.aio.calls import guarded, shielded
from perdure.engine.core.access import visible
from perdure.engine.core.batch import Batch, new_memory
from perdure.engine.core.kernel import Kernel
from perdure.engine.maintenance.deletion import remove_held
from perdure.engine.read.search import ReadPath
from perdure.engine.requests import ForgetRequest, invalid, read_one_of, read_text
from perdure.engine.team import items
from perdure.engine.team.reads import TeamReader
from perdure.engine.write.forget import Forget
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.quarantine import suspect

# Expiry deletes EPHEMERAL memories that nobody promoted in time.

PAGE = 200  # memories deleted at a time, so that no writer waits long


class TeamExpiry:
    """Deletes expired memories."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @guarded
    async def sweep(self, team: str | None = None) -> int:
        """Delete the expired EPHEMERAL memories of a team, or of all; return how many."""
        kernel = self._kernel
        items.ledger_of(kernel)
        count = 0
        while True:
            page = await kernel.store.list(kernel.collection, self._over(team), PAGE)
            by_team: dict[str, list[str]] = {}
            for point in page.points:
                by_team.setdefault(str(point.payload.get("team_id")), []).append(point.id)
            removed = sum([await self._remove(each, ids) for each, ids in by_team.items()])
            count += removed
            if len(page.points) < PAGE or not removed:
                return count

    def _over(self, team: str | None) -> Filter:
        moment = Moment(iso(self._kernel.clock.now()))
        return all_of(
            scope_filter(Scope(team_id=team)),
            eq("state", LIVE),
            eq("truth_level", "EPHEMERAL"),
            Condition("expires_at", "lte", moment),
        )

    async def _remove(self, team: str, ids: list[str]) -> int:
        """Delete those memories that are still expired under the lock."""
        kernel = self._kernel
        async with kernel.lock(Scope(team_id=team)):
            over = self._over(team)
            work = remove_held(
                kernel,
                ids,
                lambda item: matches(over, item.to_payload()),
                actor="expiry",
                reason="expired",
                audited_as="expire",
            )
            return len(await shielded(work))


# Promotions are the only way to move a truth level, one step forward at a time.


class TeamPromotions:
    """Accepts requests and decides them, by the configured policy."""

    def __init__(self, kernel: Kernel, reading: TeamReader) -> None:
        self._kernel = kernel
        self._reading = reading

    @guarded
    async def request(self, member: items.Member, item_id: str, target_level: str, justification: str) -> Promotion:
        """Request a memory's next level; without a required approval it changes at once.

        InvalidInputError for any level but the next and without a reason, NotFoundError if the member sees no such
        memory.
        """
        kernel = self._kernel
        items.ledger_of(kernel)
        member.need(*items.WRITERS, to="ask for a promotion")
        target, why = read_one_of(target_level, TRUTH_LEVELS, "target_level"), read_text(justification, "justification")
        async with kernel.lock(Scope(team_id=member.team)):
            item, point = await self._reading.required(member, item_id)
            tags = items.tags_of(item)
            _check_step(tags.truth_level, target)
            needed = self._approvers(target)
            if needed and tags.visibility == "private":
                raise InvalidInputError(
                    f"{target} says that others approve, and nobody else sees a private memory: make it visible first",
                    field="item_id",
                    value=item_id,
                )
            moment = kernel.clock.tick()
            promotion = Promotion(
                id=new_id(),
                item_id=item.id,
                team=member.team,
                from_level=tags.truth_level,
                target_level=target,
                justification=why,
                requested_by=member.name,
                created_at=moment,
                status="pending" if needed else "approved",
                decided_at=None if needed else moment,
            )
            batch = None if needed else self._move(item, point, promotion)
            action = "promotion.requested" if needed else "promotion.automatic"
            await shielded(self._carry_out(batch, promotion, None, _line(kernel, member, action, promotion)))
        return promotion

    @guarded
    async def decide(self, member: items.Member, id: str, decision: str, note: str | None) -> Promotion:
        """Record an admin's decision, the last of which raises the level; ConflictError if it is already decided."""
        kernel = self._kernel
        ledger = items.ledger_of(kernel)
        said, words = _read_decision(decision), None if note is None else read_text(note, "note")
        member.need("admin", to="decide a promotion")
        async with kernel.lock(Scope(team_id=member.team)):
            promotion = await ledger.promotions.get(read_text(id, "promotion_id"), member.team)
            if promotion is None:
                raise _unknown(id, member)
            found = await self._reading.standing(member, promotion.item_id)
            if found is None:
                raise _unknown(id, member)
            self._check_open(member, promotion, said)
            vote = Vote(by=member.name, decision=said, at=kernel.clock.tick(), note=words)
            decided = self._with_vote(promotion, vote)
            batch: Batch | None = None
            # At the target already: approved by a call that ended before it was recorded.
            if decided.status == "approved" and items.tags_of(found[0]).truth_level != decided.target_level:
                _check_level(found[0], decided)
                batch = self._move(*found, decided)
            action = "promotion.vote" if decided.status == "pending" else f"promotion.{decided.status}"
            await shielded(self._carry_out(batch, decided, promotion, _line(kernel, member, action, decided)))
        return decided

    def _check_open(self, member: items.Member, promotion: Promotion, said: Decision) -> None:
        if promotion.status != "pending":
            raise ConflictError(f"the promotion {promotion.id} was {promotion.status} already")
        if said == "rejected":
            return
        if self._kernel.config.team.four_eyes and promotion.requested_by == member.name:
            raise ForbiddenError("nobody approves what they asked for themselves (team.four_eyes)")
        if any(vote.by == member.name for vote in promotion.votes):
            raise ConflictError(f"{member.name} has approved the promotion {promotion.id} already: it takes another")

    def _with_vote(self, promotion: Promotion, vote: Vote) -> Promotion:
        voted = replace(promotion, votes=(*promotion.votes, vote))
        if vote.decision == "rejected":
            return replace(voted, status="rejected", decided_at=vote.at)
        approvals = {each.by for each in voted.votes if each.decision == "approved"}
        if len(approvals) < self._approvers(promotion.target_level):
            return voted
        return replace(voted, status="approved", decided_at=vote.at)

    @guarded
    async def list(
        self, member: items.Member, *, status: str | None, item_id: str | None, limit: int, after: str
    ) -> list[Promotion]:
        """Return promotions of memories that the member sees, oldest first, after an id."""
        ledger = items.ledger_of(self._kernel)
        if status is not None:
            read_one_of(status, get_args(PromotionState), "status")
        seen: list[Promotion] = []
        while True:
            page = await ledger.promotions.list(member.team, status=status, item_id=item_id, limit=PAGE, after=after)
            visible = await self._reading.seen_of(member, [promotion.item_id for promotion in page])
            seen += [promotion for promotion in page if promotion.item_id in visible]
            if len(seen) >= limit or len(page) < PAGE:
                return seen[:limit]
            after = page[-1].id

    def _approvers(self, target: str) -> int:
        needed: int = getattr(self._kernel.config.team.approvers, target)
        return needed

    def _move(self, item: MemoryItem, point: Point, promotion: Promotion) -> Batch:
        """Return the memory at its new level: it no longer expires, and from VALIDATED on it is approved."""
        batch = Batch(self._kernel.clock)
        approved = level_of(promotion.target_level) >= level_of("VALIDATED")
        tags = items.with_tags(
            items.tags_of(item),
            truth_level=promotion.target_level,
            **({"validation_status": "approved"} if approved else {}),
        )
        after = item.with_(tags=tags, expires_at=None)
        reason = f"promotion {promotion.id}"
        batch.replace(item, after, point.vector, point.vector, actor="promotion", reason=reason)
        return batch

    async def _carry_out(
        self, batch: Batch | None, promotion: Promotion, was: Promotion | None, entry: AuditEntry
    ) -> None:
        """Change the memory first: a crash in between leaves a promotion that can be decided again."""
        ledger = items.ledger_of(self._kernel)
        if batch is not None:
            await self._kernel.commit(batch.changes, batch.vectors)
        if not await ledger.promotions.put(promotion, was):
            raise ConflictError(f"the promotion {promotion.id} was decided meanwhile")
        await ledger.audit.add([entry])


def _read_decision(value: object) -> Decision:
    known = next((each for each in get_args(Decision) if each == value), None)
    if known is None:
        raise invalid("decision", "approved or rejected", value)
    decision: Decision = known
    return decision


def _check_step(present: str, target: str) -> None:
    place = level_of(present)
    if level_of(target) == place + 1:
        return
    allowed = TRUTH_LEVELS[place + 1] if place + 1 < len(TRUTH_LEVELS) else "none: it is the highest"
    raise InvalidInputError(
        f"target_level cannot be {target} for a memory that is {present}; allowed: {allowed}",
        field="target_level",
        value=target,
    )


def _check_level(item: MemoryItem, promotion: Promotion) -> None:
    present = items.tags_of(item).truth_level
    if present != promotion.from_level:
        raise ConflictError(
            f"the memory is {present} by now, and the promotion {promotion.id} was to move it from"
            f" {promotion.from_level}"
        )


def _unknown(id: str, member: items.Member) -> NotFoundError:
    return NotFoundError(f"there is no promotion with the id {shown(id)} in the team {member.team!r}")


def _line(kernel: Kernel, member: items.Member, action: str, promotion: Promotion) -> AuditEntry:
    return items.audit_entry(
        kernel, member, action, promotion.id,
        item_id=promotion.item_id, from_level=promotion.from_level, target_level=promotion.target_level,
    )  # fmt: skip


# Changing a team's memory: upsert in place, patch, delete; each is one history row and one line of the audit.


class TeamWriter:
    """Upserts, patches and deletes."""

    def __init__(self, kernel: Kernel, reading: TeamReader, forget: Forget) -> None:
        self._kernel = kernel
        self._reading = reading
        self._forget = forget

    @guarded
    async def upsert(self, member: items.Member, item: items.TeamItem) -> str:
        """Store an item, replacing the team's item of the same source; return its id.

        PromotionRequiredError if it names another level than the memory has, ForbiddenError if the member may not write
        at that level, or cannot see the memory with that source.
        """
        kernel = self._kernel
        items.ledger_of(kernel)
        member.need(*items.WRITERS, to="write")
        self._check_walls(member, item.project_scope)
        vector = await kernel.embedding.query(item.content)
        async with kernel.lock(Scope(team_id=member.team)):
            batch = Batch(kernel.clock)
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
            entry = items.audit_entry(
                kernel, member, "upsert", change.memory_id,
                event=change.event, event_id=change.id, truth_level=item.truth_level, source=item.source,
            )  # fmt: skip
            await shielded(self._carry_out(batch, entry))
        return change.memory_id

    async def _of_source(self, team: str, source: str) -> Point | None:
        kernel = self._kernel
        same = all_of(scope_filter(Scope(team_id=team)), eq("state", LIVE), eq("kind", "facts"), eq("source", source))
        page = await kernel.store.list(kernel.collection, same, 1, with_vectors=True)
        return page.points[0] if page.points else None

    def _check_level(self, member: items.Member, item: items.TeamItem) -> None:
        if item.truth_level == "PUBLIC":
            raise ForbiddenError("nothing is written as PUBLIC: it is promoted to that from CANONICAL")
        self._check_vouched(member, item.truth_level)

    def _check_vouched(self, member: items.Member, truth_level: str) -> None:
        if not member.may_vouch(truth_level):
            raise ForbiddenError(
                f"what is {truth_level} is written by the roles admin and service: write it as WORKING and ask for a"
                f" promotion"
            )

    def _check_walls(self, member: items.Member, project: str | None) -> None:
        if not member.walls.holds(Scope(team_id=member.team, project_id=project)):
            raise ForbiddenError(f"these credentials are for the project {member.walls.project_id!r} alone")

    def _new(self, member: items.Member, item: items.TeamItem) -> MemoryItem:
        return new_memory(
            self._kernel,
            item.content,
            Scope(team_id=member.team, project_id=item.project_scope),
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
        )

    def _renewed(self, member: items.Member, before: MemoryItem, item: items.TeamItem) -> MemoryItem:
        """Return the memory with the item's values, and its own id, level and author."""
        tags = items.tags_of(before)
        if not self._is_seen(member, before):
            raise ForbiddenError(f"the source {item.source!r} is that of a memory that {member.name} may not change")
        if item.truth_level != tags.truth_level:
            raise PromotionRequiredError(f"the memory of this source is {tags.truth_level}, and {items.BY_PROMOTION}")
        if item.content != before.memory:
            self._check_vouched(member, tags.truth_level)
        self._check_private(member, before, item.visibility)
        return before.with_text(
            item.content,
            slots=read_slots(item.content),
            quarantined=_judged(before, item.content),
            scope=Scope(team_id=member.team, project_id=item.project_scope),
            metadata=before.metadata if item.metadata is None else dict(item.metadata),
            confidence=item.confidence,
            tags=items.with_tags(tags, visibility=item.visibility, validation_status=item.validation_status),
            expires_at=self._expiry(item.truth_level),
        )

    def _expiry(self, truth_level: str) -> str | None:
        """Return when a memory of this level that is written now expires, if ever."""
        days = self._kernel.config.team.ephemeral_days
        if truth_level != "EPHEMERAL" or not days:
            return None
        return iso(self._kernel.clock.now() + timedelta(days=days))

    @guarded
    async def patch(self, member: items.Member, id: str, changes: dict[str, Any]) -> MemoryItem:
        """Change some fields of a memory; NotFoundError if the member sees none with this id."""
        kernel = self._kernel
        items.ledger_of(kernel)
        member.need(*items.WRITERS, to="write")
        content = changes.get("content")
        vector = None if content is None else await kernel.embedding.query(content)
        async with kernel.lock(Scope(team_id=member.team)):
            before, point = await self._reading.required(member, id)
            after = self._patched(member, before, changes)
            batch = Batch(kernel.clock)
            new_vector = point.vector if content is None else vector
            batch.replace(before, after, point.vector, new_vector, actor="patch", reason="patch")
            change = batch.changes[0]
            entry = items.audit_entry(kernel, member, "patch", before.id, event_id=change.id, fields=sorted(changes))
            await shielded(self._carry_out(batch, entry))
        return change.item

    def _patched(self, member: items.Member, before: MemoryItem, changes: dict[str, Any]) -> MemoryItem:
        tags = items.tags_of(before)
        content = changes.get("content", before.memory)
        if content != before.memory:
            self._check_vouched(member, tags.truth_level)
        project = changes.get("project_scope", before.scope.project_id)
        visibility = changes.get("visibility", tags.visibility)
        items.check_placed(visibility, project)
        self._check_walls(member, project)
        self._check_private(member, before, visibility)
        return before.with_text(
            content,
            slots=before.slots if content == before.memory else read_slots(content),
            quarantined=_judged(before, content),
            scope=Scope(team_id=member.team, project_id=project),
            metadata={**before.metadata, **(changes.get("metadata") or {})},
            confidence=changes.get("confidence", before.confidence),
            tags=items.with_tags(
                tags, visibility=visibility, validation_status=changes.get("validation_status", tags.validation_status)
            ),
        )

    def _check_private(self, member: items.Member, before: MemoryItem, visibility: str) -> None:
        """Check that only the author makes a memory private, because that takes it from the team."""
        author = items.tags_of(before).written_by
        if visibility == "private" and author != member.name:
            raise ForbiddenError(f"only {author}, who wrote this memory, can make it private")

    @guarded
    async def delete(self, member: items.Member, id: str) -> None:
        """Delete a memory from all current reads; NotFoundError if the member sees none with this id."""
        kernel = self._kernel
        items.ledger_of(kernel)
        member.need(*items.WRITERS, to="delete")
        async with kernel.lock(Scope(team_id=member.team)):
            before, point = await self._reading.required(member, id)
            batch = Batch(kernel.clock)
            batch.remove(before, point.vector, actor="delete", reason="explicit")
            entry = items.audit_entry(kernel, member, "delete", before.id, event_id=batch.changes[0].id)
            await shielded(self._carry_out(batch, entry))

    async def erase(self, member: items.Member, id: str) -> None:
        """Delete a memory, and erase its text from history and versions as well."""
        memory_id = await self._erasable(member, id)
        await self._forget(ForgetRequest(scope=member.walls, id=memory_id))
        await self._note_erasure(member, memory_id)

    @guarded
    async def _erasable(self, member: items.Member, id: str) -> str:
        items.ledger_of(self._kernel)
        member.need(*items.WRITERS, to="delete")
        return (await self._reading.required(member, id))[0].id

    @guarded
    async def _note_erasure(self, member: items.Member, id: str) -> None:
        entry = items.audit_entry(self._kernel, member, "erase", id)
        await shielded(items.ledger_of(self._kernel).audit.add([entry]))

    def _is_seen(self, member: items.Member, item: MemoryItem) -> bool:
        now = self._kernel.clock.now()
        return matches(visible(member.walls, now=now, filters=member.sees()), item.to_payload())

    def _has_expired(self, item: MemoryItem) -> bool:
        return item.expires_at is not None and item.expires_at <= iso(self._kernel.clock.now())

    async def _carry_out(self, batch: Batch, entry: AuditEntry) -> None:
        await self._kernel.commit(batch.changes, batch.vectors)
        await items.ledger_of(self._kernel).audit.add([entry])


def _judged(before: MemoryItem, content: str) -> str | None:
    """Return why a memory with this content is quarantined; unchanged content was judged already, or released."""
    return before.quarantined if content == before.memory else suspect(content, None)


class Teams:
    """Reads, writes, promotes and expires, over the kernel of an engine, whose `forget` reaches every place."""

    def __init__(self, kernel: Kernel, read_path: ReadPath, forget: Forget) -> None:
        self._kernel = kernel
        self.read = TeamReader(kernel, read_path)
        self.write = TeamWriter(kernel, self.read, forget)
        self.promote = TeamPromotions(kernel, self.read)
        self.expiry = TeamExpiry(kernel)

    @guarded
    async def audit(self, member: items.Member, *, subject_id: str | None, limit: int, after: str) -> list[AuditEntry]:
        """Return who did what in the team, oldest first, after an id; for admins."""
        member.need("admin", to="read the audit")
        return await items.ledger_of(self._kernel).audit.list(
            member.team, subject_id=subject_id, limit=limit, after=after
        )
