"""Promotions: forward, one step at a time, by whom the policy says, and once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from perdure import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, PerdureError
from perdure.domain.access import Promotion, Role
from perdure.domain.memory import TRUTH_LEVELS, Tags, new_id
from tests.conftest import Open
from tests.engine.team.teams import STORES, Join, item, joining, promoted

pytestmark = pytest.mark.covers(
    "X39", "X40", "X41", "X42", "X43", "X44", "X45", "X46", "X47", "X48", "X49", "X50", "X54"
)

QUICK: dict[str, Any] = {"embedder": {"provider": "hashed"}}


def tags(join: Join, id: str) -> Tags:
    found = join("alice").get(id)
    assert found is not None and found.tags is not None
    return found.tags


def level(join: Join, id: str) -> str:
    return tags(join, id).truth_level


@pytest.mark.covers("X41", "X42", "X54")
@STORES
def test_a_member_asks_and_an_admin_approves(open_memory: Open, store: str) -> None:
    join = joining(open_memory(vector_store={"provider": store}, **QUICK))
    alice, merlin = join("alice"), join("merlin", role="admin")
    id = alice.upsert(item())
    asked = alice.request_promotion(f"mem_{id.replace('-', '')}", "VALIDATED", "Confirmed with the client")
    assert (asked.item_id, asked.status, asked.from_level, asked.requested_by) == (id, "pending", "WORKING", "alice")
    assert asked.model_dump()["promotion_id"] == asked.model_dump()["id"] == asked.id
    assert level(join, id) == "WORKING"
    done = merlin.decide(asked.id, "approved", note="Verified against the contract")
    assert done.status == "approved" and done.decided_at is not None
    assert [(vote.by, vote.decision, vote.note) for vote in done.votes] == [
        ("merlin", "approved", "Verified against the contract")
    ]
    assert tags(join, id) == Tags(
        visibility="team", truth_level="VALIDATED", validation_status="approved", written_by="alice"
    )
    assert [(record.event, record.actor) for record in alice.history(id)] == [
        ("ADD", "upsert"),
        ("UPDATE", "promotion"),
    ]
    lines = merlin.audit(subject_id=asked.id)
    assert [(entry.actor, entry.action) for entry in lines] == [
        ("alice", "promotion.requested"), ("merlin", "promotion.approved"),
    ]  # fmt: skip
    assert lines[1].details == {"item_id": id, "from_level": "WORKING", "target_level": "VALIDATED"}
    assert [each.id for each in alice.search("fundraising target", truth_level_min="VALIDATED").results] == [id]


@pytest.mark.covers("X43")
def test_a_rejection_changes_nothing_but_the_promotion(join: Join) -> None:
    alice, merlin = join("alice"), join("merlin", role="admin")
    id = alice.upsert(item())
    asked = alice.request_promotion(id, "VALIDATED", "please")
    assert merlin.decide(asked.id, "rejected").status == "rejected"
    assert tags(join, id).truth_level == "WORKING" and tags(join, id).validation_status == "pending"
    assert len(alice.history(id)) == 1
    assert merlin.audit()[-1].action == "promotion.rejected"
    again = alice.request_promotion(id, "VALIDATED", "please, please")
    assert merlin.decide(again.id, "approved").status == "approved"


@pytest.mark.covers("X44")
@pytest.mark.parametrize("decision", ["maybe", "", "APPROVED", None, True])
def test_any_other_decision_is_an_error(join: Join, decision: Any) -> None:
    id = join("alice").upsert(item())
    asked = join("alice").request_promotion(id, "VALIDATED", "please")
    with pytest.raises(InvalidInputError, match="decision"):
        join("merlin", role="admin").decide(asked.id, decision)
    assert join("alice").promotions(status="pending") == [asked]


@pytest.mark.covers("X45")
@pytest.mark.parametrize("role", ["reader", "member", "service"])
def test_only_an_admin_decides(join: Join, role: Role) -> None:
    id = join("alice").upsert(item())
    asked = join("alice").request_promotion(id, "VALIDATED", "please")
    for decision in ("approved", "rejected"):
        with pytest.raises(ForbiddenError):
            join("alice", role=role).decide(asked.id, decision)
    assert join("alice").promotions() == [asked] and level(join, id) == "WORKING"


@pytest.mark.covers("X33", "X46")
def test_what_is_unknown_or_another_teams_is_not_found(join: Join) -> None:
    alice, mordred = join("alice"), join("mordred", role="admin", team="avalon")
    id = alice.upsert(item())
    private = alice.upsert(item(source="a:1", visibility="private", truth_level="EPHEMERAL"))
    asked = alice.request_promotion(id, "VALIDATED", "please")
    for unknown in (new_id(), "nothing"):
        with pytest.raises(NotFoundError):
            join("merlin", role="admin").decide(unknown, "approved")
        with pytest.raises(NotFoundError):
            alice.request_promotion(unknown, "VALIDATED", "please")
    with pytest.raises(NotFoundError):
        mordred.decide(asked.id, "approved")
    with pytest.raises(NotFoundError):
        mordred.request_promotion(id, "VALIDATED", "please")
    with pytest.raises(NotFoundError):
        join("bob").request_promotion(private, "WORKING", "please")
    assert mordred.promotions() == [] and mordred.promotions(item_id=id) == []
    assert join("bob").promotions() == [asked]


@pytest.mark.covers("X47")
def test_what_is_decided_is_decided(join: Join) -> None:
    alice, merlin = join("alice"), join("merlin", role="admin")
    for number, decision in enumerate(("approved", "rejected")):
        id = alice.upsert(item(source=f"a:{number}"))
        asked = alice.request_promotion(id, "VALIDATED", "please")
        merlin.decide(asked.id, decision)
        for again in ("approved", "rejected"):
            with pytest.raises(ConflictError, match=decision):
                merlin.decide(asked.id, again)
    assert len(merlin.audit()) == 6


@pytest.mark.covers("X48")
def test_one_admin_may_approve_their_own_request_unless_four_eyes(open_memory: Open, join: Join) -> None:
    merlin = join("merlin", role="admin")
    id = merlin.upsert(item())
    assert merlin.decide(merlin.request_promotion(id, "VALIDATED", "sure").id, "approved").status == "approved"

    strict = joining(open_memory(team={"four_eyes": True}, vector_store={"provider": "memory"}, **QUICK))
    merlin = strict("merlin", role="admin")
    id = merlin.upsert(item())
    asked = merlin.request_promotion(id, "VALIDATED", "sure")
    with pytest.raises(ForbiddenError, match="four_eyes"):
        merlin.decide(asked.id, "approved")
    assert level(strict, id) == "WORKING"
    assert strict("nimue", role="admin").decide(asked.id, "approved").status == "approved"
    withdrawn = merlin.request_promotion(id, "CANONICAL", "sure")
    assert merlin.decide(withdrawn.id, "rejected").status == "rejected"


@pytest.mark.covers("X49")
@pytest.mark.parametrize("justification", ["", "  ", None, 7])
def test_a_reason_is_demanded(join: Join, justification: Any) -> None:
    id = join("alice").upsert(item())
    with pytest.raises(InvalidInputError, match="justification"):
        join("alice").request_promotion(id, "VALIDATED", justification)
    assert join("alice").promotions() == []


@pytest.mark.covers("X39", "X40", "X50")
@pytest.mark.parametrize("present", TRUTH_LEVELS)
@pytest.mark.parametrize("target", TRUTH_LEVELS)
def test_only_the_next_level_is_allowed(join: Join, present: str, target: str) -> None:
    id = join("robot", role="service").upsert(item(truth_level="EPHEMERAL"))
    promoted(join, id, *TRUTH_LEVELS[1 : TRUTH_LEVELS.index(present) + 1])
    assert level(join, id) == present
    allowed = TRUTH_LEVELS.index(target) == TRUTH_LEVELS.index(present) + 1
    if allowed:
        promoted(join, id, target)
        assert level(join, id) == target
    else:
        with pytest.raises(InvalidInputError, match=f"{target} for a memory that is {present}; allowed"):
            join("alice").request_promotion(id, target, "please")
        assert level(join, id) == present


@pytest.mark.parametrize("target", ["BEST", "working", "", None, 3])
def test_a_level_that_there_is_not(join: Join, target: Any) -> None:
    id = join("alice").upsert(item())
    with pytest.raises(InvalidInputError, match="target_level"):
        join("alice").request_promotion(id, target, "please")


@pytest.mark.covers("X50")
def test_working_is_given_at_once(join: Join) -> None:
    alice = join("alice")
    id = alice.upsert(item(truth_level="EPHEMERAL"))
    asked = alice.request_promotion(id, "WORKING", "we use it")
    assert (asked.status, asked.votes) == ("approved", ())
    assert asked.decided_at is not None and level(join, id) == "WORKING"
    assert tags(join, id).validation_status == "pending"
    assert join("merlin", role="admin").audit()[-1].action == "promotion.automatic"


@pytest.mark.covers("X50")
def test_the_policy_is_the_configurations(open_memory: Open) -> None:
    approvers = {"WORKING": 1, "VALIDATED": 0, "CANONICAL": 2}
    join = joining(open_memory(team={"approvers": approvers}, **QUICK))
    alice, merlin, nimue = join("alice"), join("merlin", role="admin"), join("nimue", role="admin")
    id = alice.upsert(item(truth_level="EPHEMERAL"))
    asked = alice.request_promotion(id, "WORKING", "we use it")
    assert asked.status == "pending"
    merlin.decide(asked.id, "approved")
    assert alice.request_promotion(id, "VALIDATED", "sure").status == "approved"
    asked = alice.request_promotion(id, "CANONICAL", "sure")
    first = merlin.decide(asked.id, "approved")
    assert first.status == "pending" and level(join, id) == "VALIDATED"
    with pytest.raises(ConflictError, match="merlin"):
        merlin.decide(asked.id, "approved")
    assert level(join, id) == "VALIDATED"
    assert nimue.decide(asked.id, "approved").status == "approved"
    assert level(join, id) == "CANONICAL"
    actions = [entry.action for entry in merlin.audit(subject_id=asked.id)]
    assert actions == ["promotion.requested", "promotion.vote", "promotion.approved"]


def test_one_rejection_ends_what_takes_two_approvals(open_memory: Open) -> None:
    join = joining(open_memory(team={"approvers": {"VALIDATED": 2}}, **QUICK))
    id = join("alice").upsert(item())
    asked = join("alice").request_promotion(id, "VALIDATED", "sure")
    join("merlin", role="admin").decide(asked.id, "approved")
    assert join("merlin", role="admin").decide(asked.id, "rejected").status == "rejected"
    with pytest.raises(ConflictError):
        join("nimue", role="admin").decide(asked.id, "approved")
    assert level(join, id) == "WORKING"


def test_nobody_approves_what_nobody_else_sees(join: Join) -> None:
    alice, merlin = join("alice"), join("merlin", role="admin")
    id = alice.upsert(item(visibility="private", truth_level="EPHEMERAL"))
    assert alice.request_promotion(id, "WORKING", "mine").status == "approved"
    with pytest.raises(InvalidInputError, match="private"):
        alice.request_promotion(id, "VALIDATED", "mine")
    alice.patch(id, {"visibility": "team"})
    asked = alice.request_promotion(id, "VALIDATED", "ours")
    alice.patch(id, {"visibility": "private"})
    assert merlin.promotions() == []
    with pytest.raises(NotFoundError):
        merlin.decide(asked.id, "approved")


def test_a_promotion_that_came_too_late_is_a_conflict(join: Join) -> None:
    alice, merlin = join("alice"), join("merlin", role="admin")
    id = alice.upsert(item())
    late = alice.request_promotion(id, "VALIDATED", "one")
    promoted(join, id, "VALIDATED", "CANONICAL")
    with pytest.raises(ConflictError, match="CANONICAL"):
        merlin.decide(late.id, "approved")
    assert level(join, id) == "CANONICAL"
    assert merlin.decide(late.id, "rejected").status == "rejected"


def test_promotions_of_what_is_gone_are_gone(join: Join) -> None:
    alice, merlin = join("alice"), join("merlin", role="admin")
    id = alice.upsert(item())
    asked = alice.request_promotion(id, "VALIDATED", "Rosebud")
    alice.delete(id, erase=True)
    assert alice.promotions() == []
    with pytest.raises(NotFoundError):
        merlin.decide(asked.id, "approved")


def test_promotions_are_listed_page_by_page(join: Join) -> None:
    alice, merlin = join("alice"), join("merlin", role="admin")
    asked: list[Promotion] = []
    for number in range(5):
        id = alice.upsert(item(source=f"a:{number}"))
        asked.append(alice.request_promotion(id, "VALIDATED", "please"))
    done = merlin.decide(asked[1].id, "approved")
    assert [each.id for each in alice.promotions()] == [each.id for each in asked]
    assert alice.promotions(status="approved") == [done]
    assert alice.promotions(item_id=asked[2].item_id) == [asked[2]]
    assert [each.id for each in alice.promotions(limit=2, after=asked[1].id)] == [asked[2].id, asked[3].id]
    with pytest.raises(InvalidInputError, match="status"):
        alice.promotions(status="open")


@STORES
def test_two_admins_at_once_decide_once(open_memory: Open, store: str) -> None:
    join = joining(open_memory(vector_store={"provider": store}, **QUICK))
    id = join("alice").upsert(item())
    asked = join("alice").request_promotion(id, "VALIDATED", "please")

    def decide(number: int) -> str:
        try:
            return join(f"admin-{number}", role="admin").decide(asked.id, ("approved", "rejected")[number % 2]).status
        except PerdureError as error:
            return error.code

    with ThreadPoolExecutor(8) as pool:
        outcomes = sorted(pool.map(decide, range(8)))
    assert outcomes.count("conflict") == 7
    (decision,) = [outcome for outcome in outcomes if outcome != "conflict"]
    assert level(join, id) == ("VALIDATED" if decision == "approved" else "WORKING")
    (known,) = join("alice").promotions()
    assert known.status == decision and len(known.votes) == 1
    assert len(join("merlin", role="admin").audit()) == 3


def test_two_admins_at_once_where_two_are_needed(open_memory: Open) -> None:
    join = joining(open_memory(team={"approvers": {"VALIDATED": 2}}, **QUICK))
    id = join("alice").upsert(item())
    asked = join("alice").request_promotion(id, "VALIDATED", "please")

    def decide(name: str) -> str:
        return join(name, role="admin").decide(asked.id, "approved").status

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(decide, ["merlin", "nimue"])) == ["approved", "pending"]
    assert level(join, id) == "VALIDATED"
    assert len(join("alice").history(id)) == 2
