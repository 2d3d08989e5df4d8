"""Changing a team's memory: upsert, levels, patch, delete, the audit, and many at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import (
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    PromotionRequiredError,
)
from perdure.domain.access import Role
from perdure.domain.memory import new_id
from tests.conftest import Open
from tests.engine.team.teams import STORES, Join, item, joining

pytestmark = pytest.mark.covers("X18", "X19", "X20", "X21", "X22", "X51", "X52", "X53")


# ------------------------------------------------------------------ upsert
@pytest.mark.covers("X18")
@STORES
def test_the_same_source_is_updated_in_place(open_memory: Open, store: str) -> None:
    join = joining(open_memory(vector_store={"provider": store}, embedder={"provider": "hashed"}))
    alice = join("alice")
    id = alice.upsert(item(metadata={"page": 1}))
    first = alice.get(id)
    assert alice.upsert(item("The Q2 fundraising target is 3M€", confidence=0.7, project_scope=None)) == id
    found = alice.get(id)
    assert first is not None and found is not None
    assert (found.memory, found.confidence) == ("The Q2 fundraising target is 3M€", 0.7)
    assert found.scope.project_id is None and found.metadata == {"page": 1}
    assert found.created_at == first.created_at and found.updated_at > first.updated_at
    assert [each.id for each in alice.get_all().results] == [id]
    assert [each.memory for each in alice.search("fundraising target 3M€").results] == [found.memory]
    alice.upsert(item(metadata={}))
    emptied = alice.get(id)
    assert emptied is not None and emptied.metadata == {}


@pytest.mark.covers("X19")
def test_the_same_source_in_another_team_is_another_item(join: Join) -> None:
    ours = join("alice").upsert(item())
    theirs = join("alice", team="avalon").upsert(item("Theirs", team_scope="avalon"))
    assert ours != theirs
    assert [each.memory for each in join("bob").get_all().results] == ["The Q2 fundraising target is 2M€"]
    assert [each.memory for each in join("bob", team="avalon").get_all().results] == ["Theirs"]


@pytest.mark.covers("X20")
def test_each_change_is_one_history_row_and_one_line_of_the_audit(join: Join) -> None:
    alice, admin = join("alice"), join("merlin", role="admin")
    id = alice.upsert(item())
    join("bob").upsert(item("Now 3M€"))
    alice.patch(id, {"confidence": 0.5, "content": "Now 4M€"})
    alice.delete(id)
    history = admin.history(id)
    assert [(record.event, record.actor) for record in history] == [
        ("ADD", "upsert"), ("UPDATE", "upsert"), ("UPDATE", "patch"), ("DELETE", "delete"),
    ]  # fmt: skip
    assert [record.new_value for record in history] == [
        "The Q2 fundraising target is 2M€", "Now 3M€", "Now 4M€", None,
    ]  # fmt: skip
    assert {record.team_id for record in history} == {"excalibur"}
    audit = admin.audit()
    assert [(entry.actor, entry.action, entry.subject_id) for entry in audit] == [
        ("alice", "upsert", id), ("bob", "upsert", id), ("alice", "patch", id), ("alice", "delete", id),
    ]  # fmt: skip
    assert audit[2].details["fields"] == ["confidence", "content"]
    assert [entry.details["event_id"] for entry in audit] == [record.id for record in history]
    assert "M€" not in str([entry.model_dump() for entry in audit])
    assert [entry.id for entry in admin.audit(limit=2, after=audit[0].id)] == [entry.id for entry in audit[1:3]]
    assert admin.audit(subject_id=new_id()) == []


def test_the_audit_is_for_admins_and_for_their_own_team(join: Join) -> None:
    join("alice").upsert(item())
    roles: tuple[Role, ...] = ("reader", "member", "service")
    for role in roles:
        with pytest.raises(ForbiddenError):
            join("alice", role=role).audit()
    assert join("mordred", role="admin", team="avalon").audit() == []


@pytest.mark.covers("X21")
def test_an_upsert_does_not_move_a_level(join: Join) -> None:
    alice = join("alice")
    id = alice.upsert(item())
    for level in ("EPHEMERAL", "VALIDATED", "CANONICAL", "PUBLIC"):
        for role in ("member", "admin"):
            with pytest.raises(PromotionRequiredError, match="WORKING"):
                join("alice", role=role).upsert(item("Changed", truth_level=level))
    found = alice.get(id)
    assert found is not None and found.memory == "The Q2 fundraising target is 2M€"
    assert len(alice.history(id)) == 1
    assert alice.upsert(item("Changed")) == id


LEVELS: list[tuple[str, Role, bool]] = [
    ("EPHEMERAL", "member", True), ("WORKING", "member", True),
    ("VALIDATED", "member", False), ("CANONICAL", "member", False), ("PUBLIC", "member", False),
    ("VALIDATED", "admin", True), ("CANONICAL", "admin", True), ("PUBLIC", "admin", False),
    ("VALIDATED", "service", True), ("CANONICAL", "service", True), ("PUBLIC", "service", False),
    ("EPHEMERAL", "reader", False), ("CANONICAL", "reader", False),
]  # fmt: skip


@pytest.mark.covers("U23")
@pytest.mark.covers("U23")
@pytest.mark.parametrize(("level", "role", "may"), LEVELS)
def test_who_may_write_at_which_level(join: Join, level: str, role: Role, may: bool) -> None:
    writer = join("alice", role=role)
    if may:
        found = writer.get(writer.upsert(item(truth_level=level)))
        assert found is not None and found.tags is not None and found.tags.truth_level == level
    else:
        with pytest.raises(ForbiddenError):
            writer.upsert(item(truth_level=level))
        assert join("alice").get_all().results == []


@pytest.mark.covers("U23")
@pytest.mark.covers("U23")
def test_a_member_does_not_rewrite_what_others_have_approved(join: Join) -> None:
    alice, service = join("alice"), join("robot", role="service")
    id = service.upsert(item(truth_level="CANONICAL"))
    with pytest.raises(ForbiddenError):
        alice.upsert(item("Pay Mordred", truth_level="CANONICAL"))
    with pytest.raises(ForbiddenError):
        alice.patch(id, {"content": "Pay Mordred"})
    assert alice.upsert(item(truth_level="CANONICAL", confidence=1)) == id  # X21: an equal level is fine
    alice.patch(id, {"metadata": {"seen": True}})
    assert service.patch(id, {"content": "Now 3M€"}).memory == "Now 3M€"


def test_a_source_does_not_lead_to_a_memory_that_the_writer_does_not_see(join: Join) -> None:
    alice = join("alice")
    id = alice.upsert(item("Alice's own", visibility="private"))
    with pytest.raises(ForbiddenError) as refused:
        join("bob").upsert(item("Bob's"))
    assert "own" not in refused.value.message
    found = alice.get(id)
    assert found is not None and found.memory == "Alice's own"


def test_only_the_author_takes_a_memory_away_from_the_team(join: Join) -> None:
    alice, bob = join("alice"), join("bob")
    id = alice.upsert(item())
    with pytest.raises(ForbiddenError):
        bob.upsert(item(visibility="private"))
    with pytest.raises(ForbiddenError):
        bob.patch(id, {"visibility": "private"})
    bob.upsert(item("Bob's words"))
    tags = alice.patch(id, {"visibility": "private"}).tags
    assert tags is not None and (tags.visibility, tags.written_by) == ("private", "alice")
    assert bob.get(id) is None


# ------------------------------------------------------------------ patch, delete
@pytest.mark.covers("X51")
def test_a_level_is_not_patched(join: Join) -> None:
    alice = join("alice", role="admin")
    id = alice.upsert(item())
    for changes in ({"truth_level": "VALIDATED"}, {"patch": {"truth_level": "WORKING", "content": "x"}}):
        with pytest.raises(PromotionRequiredError, match="promotion"):
            alice.patch(id, changes)
    found = alice.get(id)
    assert found is not None and found.memory == "The Q2 fundraising target is 2M€" and len(alice.history(id)) == 1


PATCHES: list[tuple[dict[str, Any], str, Any]] = [
    ({"content": "Now 3M€"}, "memory", "Now 3M€"),
    ({"project_scope": None}, "project", None),
    ({"project_scope": "legal"}, "project", "legal"),
    ({"visibility": "project"}, "visibility", "project"),
    ({"confidence": 0}, "confidence", 0.0),
    ({"validation_status": "rejected"}, "validation_status", "rejected"),
    ({"metadata": {"b": 3, "c": 4}}, "metadata", {"a": 1, "b": 3, "c": 4}),
    ({"patch": {"confidence": 1}}, "confidence", 1.0),
]


@pytest.mark.covers("X52")
@pytest.mark.parametrize(("changes", "field", "value"), PATCHES, ids=str)
def test_every_other_field_is_patched_alone(join: Join, changes: dict[str, Any], field: str, value: Any) -> None:
    alice = join("alice", projects=["fundraising", "legal"])
    id = alice.upsert(item(metadata={"a": 1, "b": 2}))

    def view() -> dict[str, Any]:
        found = alice.get(id)
        assert found is not None and found.tags is not None
        tags = found.tags
        return {
            "memory": found.memory, "project": found.scope.project_id, "confidence": found.confidence,
            "metadata": found.metadata, "visibility": tags.visibility, "truth_level": tags.truth_level,
            "validation_status": tags.validation_status, "source": found.source, "by": tags.written_by,
        }  # fmt: skip

    before = view()
    alice.patch(id, changes)
    assert view() == {**before, field: value}
    assert before[field] != value


@pytest.mark.covers("X53")
def test_what_is_not_there_is_neither_patched_nor_deleted(join: Join) -> None:
    alice = join("alice")
    private = alice.upsert(item(visibility="private"))
    for id in (new_id(), "mem_abc123", private):
        with pytest.raises(NotFoundError):
            join("bob").patch(id, {"confidence": 1})
        with pytest.raises(NotFoundError):
            join("bob").delete(id)
        with pytest.raises(NotFoundError):
            join("bob").delete(id, erase=True)
    with pytest.raises(NotFoundError):
        join("alice", team="avalon").delete(private)
    assert alice.get(private) is not None


def test_a_reader_changes_nothing(join: Join) -> None:
    id = join("alice").upsert(item())
    reader = join("rea", role="reader")
    for change in (
        lambda: reader.patch(id, {"confidence": 1}),
        lambda: reader.delete(id),
        lambda: reader.delete(id, erase=True),
        lambda: reader.request_promotion(id, "VALIDATED", "please"),
    ):
        with pytest.raises(ForbiddenError):
            change()
    assert reader.get(id) is not None and len(reader.history(id)) == 1


def test_a_patch_to_the_members_of_no_project_is_refused(join: Join) -> None:
    alice = join("alice", projects=["fundraising"])
    id = alice.upsert(item(visibility="project"))
    with pytest.raises(InvalidInputError, match="project_scope"):
        alice.patch(id, {"project_scope": None})


@pytest.mark.covers("X68")
@STORES
def test_delete_hides_and_erase_leaves_nothing(open_memory: Open, store: str, tmp_path: Path) -> None:
    join = joining(open_memory(vector_store={"provider": store}, embedder={"provider": "hashed"}))
    alice = join("alice")
    gone, erased = alice.upsert(item()), alice.upsert(item("Rosebud", source="a:2"))
    alice.patch(erased, {"content": "Rosebud it was"})
    alice.delete(gone)
    alice.delete(erased, erase=True)
    for id in (gone, erased):
        assert alice.get(id) is None
    assert [record.event for record in alice.history(gone)] == ["ADD", "DELETE"]
    assert alice.history(erased) == []
    assert [entry.action for entry in join("merlin", role="admin").audit(subject_id=erased)][-1] == "erase"
    for file in (tmp_path / "memory").rglob("*"):
        assert not file.is_file() or b"Rosebud" not in file.read_bytes()
