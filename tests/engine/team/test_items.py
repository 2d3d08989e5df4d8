"""What a member may put in: seven tags or nothing, and each thing that is wrong is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure import ForbiddenError, InvalidInputError, MemoryItem, Scope
from perdure.domain.event import Change
from perdure.domain.memory import Tags
from perdure.engine.core.rows import check_tags
from perdure.engine.team.items import TAG_FIELDS, read_item, read_patch
from tests.engine.team.teams import Join, item

pytestmark = pytest.mark.covers(
    "X1", "X2", "X3", "X4", "X5", "X6", "X7", "X8", "X9", "X10", "X11", "X12", "X13", "X14", "X15", "X16", "X17", "X22"
)


@pytest.mark.covers("X1")
def test_an_item_with_all_tags_is_stored_as_it_is(join: Join) -> None:
    alice = join("alice")
    id = alice.upsert(item(metadata={"page": 3}))
    found = alice.get(id)
    assert found is not None
    assert found.memory == "The Q2 fundraising target is 2M€"
    assert found.scope == Scope(team_id="excalibur", project_id="fundraising")
    assert (found.confidence, found.source, found.metadata) == (0.9, "librechat:conv_abc123", {"page": 3})
    assert found.tags == Tags(visibility="team", truth_level="WORKING", validation_status="pending", written_by="alice")
    assert found.expires_at is None
    assert found.created_at == found.updated_at == found.told_at == alice.history(id)[0].timestamp


@pytest.mark.parametrize("missing", TAG_FIELDS, ids=[f"x{number}-{name}" for number, name in enumerate(TAG_FIELDS, 2)])
def test_each_tag_is_demanded_by_name(join: Join, missing: str) -> None:
    alice = join("alice")
    given = item()
    del given[missing]
    with pytest.raises(InvalidInputError, match=f"Missing required field: {missing}") as refused:
        alice.upsert(given)
    assert refused.value.field == missing
    assert alice.get_all().results == []


@pytest.mark.covers("X9")
def test_a_project_of_null_is_the_whole_team_and_x10_an_absent_one_is_an_error(join: Join) -> None:
    alice = join("alice")
    found = alice.get(alice.upsert(item(project_scope=None)))
    assert found is not None and found.scope == Scope(team_id="excalibur")
    given = item(source="librechat:other")
    del given["project_scope"]
    with pytest.raises(InvalidInputError, match="project_scope"):
        alice.upsert(given)
    assert len(alice.get_all().results) == 1


WRONG: list[tuple[str, str, Any]] = [
    ("x11", "visibility", "everyone"),
    ("x11", "visibility", "Team"),
    ("x11", "visibility", None),
    ("x12", "confidence", -0.01),
    ("x12", "confidence", 1.01),
    ("x12", "confidence", "0.5"),
    ("x12", "confidence", True),
    ("x12", "confidence", float("nan")),
    ("x12", "confidence", None),
    ("x13", "truth_level", "TRUE"),
    ("x13", "truth_level", "working"),
    ("x13", "truth_level", ["WORKING"]),
    ("x14", "validation_status", "validated"),
    ("x14", "validation_status", "n/a"),
    ("x15", "source", "conv_abc123"),
    ("x15", "source", ":conv"),
    ("x15", "source", "librechat:"),
    ("x15", "source", "libre chat:conv"),
    ("x15", "source", "librechat:conv 1"),
    ("x15", "source", "librechat:conv\x00"),
    ("x15", "source", 7),
    ("x16", "content", ""),
    ("x16", "content", "   "),
    ("x16", "content", None),
    ("x17", "truth_levle", "WORKING"),
    ("x17", "user_id", "alice"),
    ("scope", "team_scope", ""),
    ("scope", "project_scope", ""),
    ("scope", "project_scope", 5),
    ("metadata", "metadata", "text"),
    ("metadata", "metadata", {"team_id": "avalon"}),
]


@pytest.mark.parametrize(("field", "value"), [wrong[1:] for wrong in WRONG], ids=[str(wrong) for wrong in WRONG])
def test_a_wrong_value_is_refused_by_name_and_changes_nothing(join: Join, field: str, value: Any) -> None:
    alice = join("alice")
    with pytest.raises(InvalidInputError, match=field):
        alice.upsert(item(**{field: value}))
    assert alice.get_all().results == []


GOOD: list[tuple[str, str, Any]] = [
    ("x12", "confidence", 0),
    ("x12", "confidence", 1),
    ("x14", "validation_status", "rejected"),
    ("x15", "source", "agent-runtime:run_xyz789"),
    ("x15", "source", "librechat:conv:msg_7"),
    ("x15", "source", "Drive_2:a/b?c"),
    ("x11", "visibility", "private"),
    ("x11", "visibility", "project"),
    ("x13", "truth_level", "EPHEMERAL"),
]


@pytest.mark.parametrize(("field", "value"), [good[1:] for good in GOOD], ids=[str(good) for good in GOOD])
def test_a_value_at_the_edge_is_taken(join: Join, field: str, value: Any) -> None:
    assert join("alice", projects=["fundraising"]).get(join("alice").upsert(item(**{field: value}))) is not None


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_item({"content": "x", "confidence": 2, "sauce": "a:b"}, "excalibur")
    for name in ("team_scope", "project_scope", "visibility", "truth_level", "source", "confidence", "sauce"):
        assert name in refused.value.message
    with pytest.raises(InvalidInputError, match="must be an object"):
        read_item(["content"], "excalibur")


def test_what_is_for_a_project_names_the_project(join: Join) -> None:
    with pytest.raises(InvalidInputError, match="project_scope"):
        join("alice").upsert(item(visibility="project", project_scope=None))


@pytest.mark.covers("X23")
def test_another_team_is_forbidden_and_only_after_the_schema_was_met(join: Join) -> None:
    with pytest.raises(ForbiddenError, match="avalon"):
        join("alice").upsert(item(team_scope="avalon"))
    given = item(team_scope="avalon")
    del given["source"]
    with pytest.raises(InvalidInputError):
        join("alice").upsert(given)
    assert join("alice", team="avalon").get_all().results == []


@pytest.mark.parametrize("changes", [{}, {"patch": {}}, [], {"patch": []}, {"source": "a:b"}, {"team_scope": "avalon"}])
def test_a_patch_changes_what_may_be_changed(changes: Any) -> None:
    with pytest.raises(InvalidInputError):
        read_patch(changes)


# ------------------------------------------------------------------ the guard
TEAM = MemoryItem(
    id="1", memory="m", hash="h", scope=Scope(team_id="excalibur"), created_at="c", updated_at="u", told_at="t",
    source="agent:1", confidence=0.5,
    tags=Tags(visibility="team", truth_level="WORKING", validation_status="pending", written_by="alice"),
)  # fmt: skip


def change(after: MemoryItem | None) -> Change:
    return Change(id="c", event="UPDATE", memory_id="1", at="a", told_at="t", before=TEAM, after=after)


@pytest.mark.covers("X22")
def test_the_guard_lets_in_what_has_its_tags_and_what_is_nobodys_team() -> None:
    personal = replace(TEAM, scope=Scope(user_id="ana"), tags=None, confidence=None, source="conversation")
    check_tags([change(TEAM), change(None), change(personal)])


@pytest.mark.covers("X22")
@pytest.mark.parametrize(
    "changes",
    [
        {"tags": None},
        {"source": "conversation"},
        {"confidence": None},
        {"confidence": 1.5},
        {"scope": Scope(team_id="excalibur", user_id="alice")},
        {"scope": Scope(user_id="alice")},
        {"scope": Scope()},
    ],
    ids=str,
)
def test_the_guard_refuses_what_would_stand_without_its_tags(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        check_tags([change(TEAM), change(replace(TEAM, **changes))])
