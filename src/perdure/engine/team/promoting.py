"""Promotions: the one way in which a truth level moves, one step forward at a time (X39 to X50, X54)."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from perdure.backends.vector_stores.base import Point
from perdure.domain.access import AuditEntry
from perdure.domain.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from perdure.domain.memory import MemoryItem, new_id
from perdure.domain.promotion import Decision, Promotion, PromotionState, Vote
from perdure.domain.scope import Scope
from perdure.domain.tags import TRUTH_LEVELS, level_of
from perdure.domain.text import shown
from perdure.engine.batch import Batch
from perdure.engine.calls import call
from perdure.engine.finish import finish
from perdure.engine.kernel import Kernel
from perdure.engine.requests import read_text
from perdure.engine.team.member import WRITERS, Member
from perdure.engine.team.reading import TeamReading
from perdure.engine.team.records import ledger_of, line, tags_of, with_tags

PAGE = 200
"""Promotions read at a time, of which a member sees some."""


class TeamPromoting:
    """Takes requests and decides them, by the policy of the configuration."""

    def __init__(self, kernel: Kernel, reading: TeamReading) -> None:
        self._kernel = kernel
        self._reading = reading

    # ------------------------------------------------------------------ asking
    @call
    async def request(self, member: Member, item_id: str, target_level: str, justification: str) -> Promotion:
        """Ask for a memory's next level; where the policy wants no approval it moves at once.

        InvalidInputError for any level but the next and where no reason is given, NotFoundError where the member sees
        no such memory.
        """
        kernel = self._kernel
        ledger_of(kernel)
        member.need(*WRITERS, to="ask for a promotion")
        target, why = _read_target(target_level), read_text(justification, "justification")
        async with kernel.lock(Scope(team_id=member.team)):
            item, point = await self._standing(member, item_id)
            tags = tags_of(item)
            _check_step(tags.truth_level, target)
            needed = self._approvers(target)
            if needed and tags.visibility == "private":
                raise InvalidInputError(
                    f"{target} says that others approve, and nobody else sees a private memory: make it visible first",
                    field="item_id",
                    value=item_id,
                )
            moment = kernel.ticker.tick()
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
            await finish(self._carry_out(batch, promotion, None, _line(kernel, member, action, promotion)))
        return promotion

    # ------------------------------------------------------------------ deciding
    @call
    async def decide(self, member: Member, id: str, decision: str, note: str | None) -> Promotion:
        """An admin's word on a promotion; with the last approval that its level takes, the memory has that level.

        ConflictError where it is decided already, and where the memory has moved to another level meanwhile.
        """
        kernel = self._kernel
        ledger = ledger_of(kernel)
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
            vote = Vote(by=member.name, decision=said, at=kernel.ticker.tick(), note=words)
            decided = self._with_vote(promotion, vote)
            batch: Batch | None = None
            # At the target already: approved before, by a call that ended before it was put on record.
            if decided.status == "approved" and tags_of(found[0]).truth_level != decided.target_level:
                _check_level(found[0], decided)
                batch = self._move(*found, decided)
            action = "promotion.vote" if decided.status == "pending" else f"promotion.{decided.status}"
            await finish(self._carry_out(batch, decided, promotion, _line(kernel, member, action, decided)))
        return decided

    def _check_open(self, member: Member, promotion: Promotion, said: Decision) -> None:
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

    # ------------------------------------------------------------------ reading
    @call
    async def list(
        self, member: Member, *, status: str | None, item_id: str | None, limit: int, after: str
    ) -> list[Promotion]:
        """Promotions of memories that the member sees, oldest first, those that come after an id."""
        ledger = ledger_of(self._kernel)
        if status is not None and status not in get_args(PromotionState):
            raise InvalidInputError(
                f"status must be one of {', '.join(get_args(PromotionState))}, not {shown(status)}",
                field="status",
                value=status,
            )
        seen: list[Promotion] = []
        while True:
            page = await ledger.promotions.list(member.team, status=status, item_id=item_id, limit=PAGE, after=after)
            visible = await self._reading.seen_of(member, [promotion.item_id for promotion in page])
            seen += [promotion for promotion in page if promotion.item_id in visible]
            if len(seen) >= limit or len(page) < PAGE:
                return seen[:limit]
            after = page[-1].id

    # ------------------------------------------------------------------ pieces
    def _approvers(self, target: str) -> int:
        needed: int = getattr(self._kernel.config.team.approvers, target)
        return needed

    async def _standing(self, member: Member, id: str) -> tuple[MemoryItem, Point]:
        found = await self._reading.standing(member, id)
        if found is None:
            raise NotFoundError(f"there is no memory with the id {shown(id)} in the team {member.team!r}")
        return found

    def _move(self, item: MemoryItem, point: Point, promotion: Promotion) -> Batch:
        """The memory at its new level: it expires no more, and from VALIDATED on it has been approved (X54)."""
        batch = Batch(self._kernel.ticker)
        approved = level_of(promotion.target_level) >= level_of("VALIDATED")
        tags = with_tags(
            tags_of(item),
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
        """The memory first: what ends in between leaves a promotion that can be decided again, to the same end."""
        ledger = ledger_of(self._kernel)
        if batch is not None:
            await self._kernel.commit(batch.changes, batch.vectors)
        if not await ledger.promotions.put(promotion, was):
            raise ConflictError(f"the promotion {promotion.id} was decided meanwhile")
        await ledger.audit.add([entry])


def _read_target(value: object) -> str:
    if not isinstance(value, str) or value not in TRUTH_LEVELS:
        raise InvalidInputError(
            f"target_level must be one of {', '.join(TRUTH_LEVELS)}, not {shown(value)}",
            field="target_level",
            value=value,
        )
    return value


def _read_decision(value: object) -> Decision:
    known = next((each for each in get_args(Decision) if each == value), None)
    if known is None:
        raise InvalidInputError(
            f"decision must be approved or rejected, not {shown(value)}", field="decision", value=value
        )
    decision: Decision = known
    return decision


def _check_step(present: str, target: str) -> None:
    """Forward only, and one step at a time (X39, X40, X50)."""
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
    present = tags_of(item).truth_level
    if present != promotion.from_level:
        raise ConflictError(
            f"the memory is {present} by now, and the promotion {promotion.id} was to move it from"
            f" {promotion.from_level}"
        )


def _unknown(id: str, member: Member) -> NotFoundError:
    return NotFoundError(f"there is no promotion with the id {shown(id)} in the team {member.team!r}")


def _line(kernel: Kernel, member: Member, action: str, promotion: Promotion) -> AuditEntry:
    return line(
        kernel, member, action, promotion.id,
        item_id=promotion.item_id, from_level=promotion.from_level, target_level=promotion.target_level,
    )  # fmt: skip
