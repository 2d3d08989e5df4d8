"""Names of files and folders: never outside, never shared by two conversations."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.backends.markdown.layout import (
    folder_of,
    generation,
    in_deleted,
    kind_in,
    numbered,
    place_of,
    root_of,
    scope_of,
    slug,
    unnumbered,
)

pytestmark = pytest.mark.covers("A23", "A24", "A25", "A26", "A27", "A28", "K12", "K13", "K14")

ID = "0b8f3f0c-8d64-4f0e-9b1a-0a2b3c4d5e6f"
DAY = "2025-11-20T14:06:01.123456+00:00"
HOSTILE = [
    *("..", ".", "...", "../..", "/", "a/b", "a_b", "a b", "deleted", "Deleted", "", " ", ".git", ".hidden", "a."),
    *(
        "con",
        "NUL",
        "com1.txt",
        "x" * 300,
        "x" * 301,
        "\u00e9",
        "e\u0301",
        "用户",
        "\u202e",
        "a\\b",
        "a:b",
        "a@b",
        "@",
        "@user-b",
    ),
    *("a_b-c14cddc0", "work-12345678", "entries", "-", "--", "~", "$(rm)", "\n", "a\x7fb", "turns", "facts"),
]


def payload(**fields: Any) -> dict[str, Any]:
    return {"id": ID, "kind": "facts", "role": "memory", "created_at": DAY, "run_id": "work", **fields}


@pytest.mark.covers("K12")
@pytest.mark.parametrize(
    ("fields", "place"),
    [
        pytest.param(
            {}, f"work/facts/2025-11-20T14-06-01.123456-00-00__{ID}.md", marks=pytest.mark.covers("A23", "K13")
        ),
        ({"kind": "messages", "role": "user"}, f"work/turns/user/2025-11-20T14-06-01.123456-00-00__{ID}.md"),
        ({"kind": "messages", "role": "assistant"}, f"work/turns/assistant/2025-11-20T14-06-01.123456-00-00__{ID}.md"),
        pytest.param(
            {"kind": "summaries", "role": "summary"}, "work/summaries/summary.md", marks=pytest.mark.covers("K17")
        ),
        ({"kind": "insights"}, f"work/insights/2025-11-20T14-06-01.123456-00-00__{ID}.md"),
        ({"user_id": "alice"}, f"work@user-alice/facts/2025-11-20T14-06-01.123456-00-00__{ID}.md"),
        ({"run_id": None, "user_id": "alice"}, f"@user-alice/facts/2025-11-20T14-06-01.123456-00-00__{ID}.md"),
        pytest.param(
            {"id": "v", "state": "version", "version_of": ID},
            f"work/deleted/facts/2025-11-20T14-06-01.123456-00-00__{ID}.md",
            marks=pytest.mark.covers("A25", "K14"),
        ),
    ],
)
def test_places(fields: dict[str, Any], place: str) -> None:
    row = payload(**fields)
    assert place_of(row["id"], row) == place


@pytest.mark.covers("A28")
@given(
    st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20)), min_size=2, max_size=8, unique=True),
    st.sampled_from(["run_id", "user_id", "team_id"]),
)
@example(HOSTILE, "run_id")
@example(HOSTILE, "user_id")
def test_no_name_leaves_the_folder_and_none_is_shared(values: list[str], axis: str) -> None:
    values = [value for value in values if value]
    folders = [folder_of({axis: value}) for value in values]
    assert len(set(folders)) == len(values)
    for folder in folders:
        assert folder
        assert "/" not in folder
        assert "\\" not in folder
        assert "\x00" not in folder
        assert not folder.startswith(".")
        assert folder.lower() != "deleted"
        assert len(folder.encode()) <= 255
        assert folder.isascii()


@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), min_size=2, max_size=6, unique=True))
@example([("", "a"), ("a", ""), ("@user-a", ""), ("", "@user-a"), ("a@user-b", ""), ("a", "b")])
def test_no_two_walls_share_a_folder(walls: list[tuple[str, str]]) -> None:
    rows = [{"run_id": run, "user_id": user} for run, user in walls]
    assert len({folder_of(row) for row in rows}) == len(rows)


def test_many_long_walls_still_make_a_name() -> None:
    names = ("user_id", "agent_id", "run_id", "project_id", "team_id", "room_id", "world_id")
    one = folder_of({name: f"{name}{'x' * 200}" for name in names})
    other = folder_of({name: f"{name}{'x' * 201}" for name in names})
    assert one != other
    assert max(len(one), len(other)) <= 255


@given(st.text(), st.dictionaries(st.sampled_from(["created_at", "kind", "role", "run_id", "state"]), st.text()))
def test_any_row_has_a_place_inside(id: str, fields: dict[str, str]) -> None:
    place = place_of(id, fields)
    parts = PurePosixPath(place).parts
    assert ".." not in parts
    assert not place.startswith("/")
    assert place == place_of(id, fields)
    assert all(len(part) <= 250 and not part.startswith(".") for part in parts)
    assert not in_deleted(place)


@pytest.mark.covers("A26")
def test_only_a_folder_right_below_a_conversation_holds_tombstones() -> None:
    assert in_deleted("work/deleted/facts/x.md")
    assert not in_deleted("deleted/facts/x.md")
    assert not in_deleted("work/facts/deleted/x.md")


@pytest.mark.covers("K14")
def test_names_have_numbers_that_can_be_taken_off() -> None:
    assert numbered("a/summary.md", 1) == "a/summary.md"
    assert numbered("a/summary.md", 3) == "a/summary.3.md"
    assert unnumbered("a/summary.3.md") == "a/summary.md"
    assert unnumbered("a/summary.md") == "a/summary.md"


@pytest.mark.parametrize(
    ("folder", "walls"),
    [
        ("work", {"run_id": "work"}),
        ("work@user-alice", {"run_id": "work", "user_id": "alice"}),
        ("@user-alice@team-core", {"user_id": "alice", "team_id": "core"}),
        ("@user-a_b-c14cddc0", {}),
        ("@planet-mars", {}),
        ("@", {}),
    ],
)
def test_a_folder_tells_walls_where_it_can(folder: str, walls: dict[str, str]) -> None:
    assert scope_of(folder) == walls


def test_kinds_are_told_by_folders() -> None:
    assert kind_in("work/facts/x.md") == ("facts", "memory")
    assert kind_in("work/turns/assistant/x.md") == ("messages", "assistant")
    assert kind_in("work/deleted/summaries/summary.md") == ("summaries", "summary")
    assert kind_in("work/x.md") == ("facts", "memory")


def test_generations_share_their_files_and_other_collections_lie_apart() -> None:
    assert generation("memories--2") == ("memories", 2)
    assert generation("memories") == ("memories", 1)
    assert generation("a--b") == ("a--b", 1)
    assert generation("memories--02") == ("memories--02", 1)
    assert root_of("memories", "memories") == "entries"
    assert root_of("../x", "memories") == f"collections/{slug('../x')}/entries"
