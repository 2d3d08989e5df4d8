"""The commands of upkeep, as a person runs them: prune, expire, quota, evict, feedback, backup, restore, upkeep."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.frontends.cli.runs import HASHED, Folder, folder, perdure


@pytest.fixture
def ana(tmp_path: Path) -> Folder:
    return folder(tmp_path / "memory")


def configured(path: Path, more: str) -> Folder:
    made = folder(path)
    (path / "perdure.toml").write_text(HASHED + more, encoding="utf-8")
    return made


def aged(ana: Folder, days: float, text: str) -> str:
    """A memory that was stored long ago, as an import brings it; its id."""
    at = (datetime.now(UTC) - timedelta(days=days)).isoformat()
    line = f'{{"memory": "{text}", "user_id": "ana", "created_at": "{at}"}}'
    assert ana("import", "-", stdin=line).status == 0
    return next(item["id"] for item in ana.ask("list", "--user-id", "ana")["results"] if item["memory"] == text)


# ------------------------------------------------------------------ what deletes


@pytest.mark.covers("B8")
def test_prune_asks_shows_and_deletes_and_undo_brings_back(ana: Folder) -> None:
    old = aged(ana, 70, "the kettle is blue")
    aged(ana, 20, "the ladder is red")
    refused = ana("prune")
    assert refused.status == 2 and "--yes" in refused.err and "everybody" in refused.err
    dry = ana.ask("prune", "--dry-run")
    assert (dry["task"], dry["dry_run"], [item["id"] for item in dry["results"]]) == ("prune", True, [old])
    assert len(ana.texts()) == 2
    assert ana.ask("prune", "--user-id", "ben", "--yes")["count"] == 0
    done = ana("prune", "--yes")
    assert done.status == 0 and "the kettle is blue" in done.out and "1 memories, of 2" in done.err
    assert ana.texts() == ["the ladder is red"]
    last = ana.ask("history", old)["results"][-1]
    assert (last["actor"], last["reason"]) == ("prune", "decayed")
    ana.ask("undo", last["id"])
    assert len(ana.texts()) == 2


@pytest.mark.covers("V68")
def test_expire_deletes_what_is_past_its_time(ana: Folder) -> None:
    line = '{"memory": "the code is 4711", "user_id": "ana", "expires_at": "2026-01-01"}'
    assert ana("import", "-", stdin=line).status == 0
    ana.said("the kettle is blue")
    assert ana("expire").status == 2
    assert ana.ask("expire", "--dry-run")["count"] == 1
    assert [item["memory"] for item in ana.ask("expire", "--yes")["results"]] == ["the code is 4711"]
    assert ana.texts("ana", "--include-past") == ["the kettle is blue"]


@pytest.mark.covers("V75")
def test_quota_trims_and_a_full_user_is_refused(tmp_path: Path) -> None:
    ana = folder(tmp_path / "memory")
    for number in range(4):
        ana.said(f"fact {number}")
    none = ana("quota", "--yes")
    assert none.status == 2 and "upkeep.max_memories_per_user" in none.err
    full = configured(tmp_path / "memory", '[upkeep]\nmax_memories_per_user = 2\nwhen_full = "refuse"\n')
    assert full.ask("quota", "--dry-run")["count"] == 2 and len(full.texts()) == 4
    assert full.ask("quota", "--user-id", "ana", "--yes")["count"] == 2
    refused = full("add", "one more", "--user-id", "ana", "--no-infer")
    assert refused.status == 1 and "may have 2 memories" in refused.err
    assert len(full.texts()) == 2 and full.said("bens own", user="ben")


@pytest.mark.covers("K54")
@pytest.mark.covers("K54")
def test_evict_keeps_the_newest_of_a_conversation(tmp_path: Path) -> None:
    ana = configured(tmp_path / "memory", "[gateway]\nmax_entries = 3\n")
    talk = ("--user-id", "ana", "--run-id", "talk")
    for number in range(5):
        assert ana("add", f"turn {number}", *talk, "--no-infer").status == 0
    assert ana("evict", "--user-id", "ana", "--yes").status == 2
    assert ana("evict", *talk).status == 2
    assert ana.ask("evict", *talk, "--max", "4", "--dry-run")["count"] == 1
    assert ana.ask("evict", *talk, "--yes")["count"] == 2
    assert ana.texts("ana", "--run-id", "talk") == ["turn 2", "turn 3", "turn 4"]
    assert ana.ask("evict", *talk, "--yes")["count"] == 0


# ------------------------------------------------------------------ feedback


@pytest.mark.covers("V72")
def test_feedback_moves_the_importance_and_none_takes_it_back(ana: Folder) -> None:
    id = ana.said("the kettle is blue")
    assert ana.ask("feedback", id, "good", "--reason", "often used")["importance"] == 0.75
    assert ana.ask("feedback", id, "good")["importance"] == 0.75
    judged = ana.ask("feedback", id, "awful")
    assert judged["importance"] == 0.0 and judged["metadata"]["feedback"] == "VERY_NEGATIVE"
    plain = ana.ask("feedback", id, "none")
    assert plain["importance"] == 0.5 and plain["metadata"] == {}
    assert ana("feedback", id, "meh").status == 2
    assert ana("feedback", "3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55", "good").status == 3
    assert "feedback" in {record["actor"] for record in ana.ask("history", id)["results"]}


# ------------------------------------------------------------------ backup and restore


@pytest.mark.covers("V80")
def test_a_backup_is_restored_into_an_empty_folder(ana: Folder, tmp_path: Path) -> None:
    ids = [ana.said("the kettle is blue"), ana.said("the ladder is red")]
    ana.ask("update", ids[0], "the kettle is white")
    made = ana.ask("backup", str(tmp_path / "one.jsonl.gz"))
    assert made["memories"] == 3 and Path(made["file"]).is_file() and len(made["sha256"]) == 64
    new = folder(tmp_path / "new")
    assert new.ask("restore", made["file"])["refused"] == 0
    for command in (("list", "--user-id", "ana"), ("search", "kettle", "--user-id", "ana"), ("history", ids[0])):
        ours, theirs = ana.ask(*command)["results"], new.ask(*command)["results"]
        assert [each | {"sequence": 0} for each in ours] == [each | {"sequence": 0} for each in theirs] and ours
    again = new("restore", made["file"])
    assert again.status == 1 and "not empty" in again.err
    assert new.ask("restore", made["file"], "--into-existing")["new"] == 0


@pytest.mark.covers("V80")
def test_without_a_place_it_lies_beside_the_memory(ana: Folder) -> None:
    ana.said("the kettle is blue")
    done = ana("backup")
    assert done.status == 0 and done.out == ""
    assert [each.suffixes for each in (ana.path / "backups").iterdir()] == [[".jsonl", ".gz"]]


@pytest.mark.covers("V80")
def test_a_file_that_is_none_says_so(ana: Folder, tmp_path: Path) -> None:
    odd = tmp_path / "odd.txt"
    odd.write_text("hello\n", encoding="utf-8")
    for file, word in ((odd, "no backup of perdure"), (tmp_path / "none", "there is no file")):
        ran = ana("restore", str(file))
        assert ran.status == 2 and word in ran.err
    kept = ana("backup", str(odd))
    assert kept.status == 2 and "is no backup" in kept.err and odd.read_text(encoding="utf-8") == "hello\n"
    ana.said("the kettle is blue")
    own = ana("backup", str(ana.path / "memories.db"))  # the memory itself
    assert own.status == 2 and ana.texts() == ["the kettle is blue"]
    again = [ana("backup", str(tmp_path / "same.jsonl.gz")).status for _ in range(2)]
    assert again == [0, 0]
    unwritable = ana("backup", str(odd / "below.jsonl.gz"))
    assert unwritable.status == 1 and "cannot be written" in unwritable.err


@pytest.mark.covers("U4")
def test_forget_says_what_became_of_the_backups(ana: Folder) -> None:
    id = ana.said("the safe opens with tuberose")
    made = ana.ask("backup")
    places = {place["place"]: place for place in ana.ask("forget", id)["places"]}
    assert places["backups"]["status"] == "erased" and places["backups"]["count"] > 0
    ran = perdure("restore", made["file"], "--reembed", "--path", str(ana.path / "new"))
    assert ran.status == 0 and "tuberose" not in ran.err
    assert Folder(ana.path / "new").texts() == []


# ------------------------------------------------------------------ what is due


@pytest.mark.covers("U20")
def test_upkeep_does_what_is_due(tmp_path: Path) -> None:
    ana = configured(tmp_path / "memory", "[upkeep]\nprune_hours = 24\nbackup_hours = 24\n")
    old = aged(ana, 70, "the kettle is blue")
    dry = [each["task"] for each in ana.ask("upkeep", "--dry-run")["results"]]
    assert dry == ["expire", "prune", "backup"] and ana("get", old).status == 0
    done = {each["task"]: each for each in ana.ask("upkeep")["results"]}
    assert done["prune"]["count"] == 1 and Path(done["backup"]["file"]).is_file()
    assert ana("get", old).status == 3
    assert ana.ask("upkeep")["results"] == []
    assert "nothing is due" in ana("upkeep").err
    assert len(ana.ask("upkeep", "--all")["results"]) == 3
