"""export and import by the program: there and back, broken off and taken up again, and bad lines."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.frontends.cli.runs import PROGRAM, Folder, Ran, folder, perdure


@pytest.fixture
def at(tmp_path: Path) -> Folder:
    """A memory with corrections, a deletion, several users and text of every kind."""
    at = folder(tmp_path / "memory")
    at.ask("add", "I live in Lisbon. I have a cat called Miso.", "--user-id", "ana")
    at.ask("add", "Actually I moved to Porto.", "--user-id", "ana", "--timestamp", "2027-01-01")
    id = at.said("Zoë 🎻 我喜欢喝茶 \u2028 \x07", user="zoë")
    at.ask("update", id, "Zoë 🎻 我喜欢喝茶\ttwice")
    at.ask("delete", at.said("gone"))
    return at


def body(ran: Ran) -> str:
    """All lines but the header."""
    assert (ran.status, ran.err) == (0, "")
    head, _, rest = ran.out.partition("\n")
    assert json.loads(head)["perdure"] == 1
    return rest


def test_export_import_export_is_the_same_to_the_byte(at: Folder, tmp_path: Path) -> None:
    file = tmp_path / "out" / "backup.jsonl"
    report = at.ask("export", "--output", str(file))
    assert report["memories"] > report["history"] - 4 > 0
    copy = folder(tmp_path / "copy")
    told = copy.ask("import", str(file))
    assert (told["new"], told["skipped"], told["refused"]) == (told["lines"] - 1, 0, 0)
    assert told["kinds"]["memories"]["new"] == report["memories"]
    assert body(copy("export")) == body(at("export")) == file.read_text(encoding="utf-8").partition("\n")[2]
    assert copy("doctor").status == 0
    assert [path.name for path in file.parent.iterdir()] == ["backup.jsonl"]


def test_an_export_is_read_from_standard_input(at: Folder, tmp_path: Path) -> None:
    copy = folder(tmp_path / "copy")
    told = copy.ask("import", "-", stdin=at("export").out)
    assert told["refused"] == 0
    assert copy.texts("zoë") == at.texts("zoë") == ["Zoë 🎻 我喜欢喝茶\ttwice"]
    assert copy.ask("import", "-", stdin=at("export").out)["new"] == 0


def test_a_scope_is_exported_alone(at: Folder) -> None:
    lines = body(at("export", "--user", "zoë")).splitlines()
    assert {json.loads(line)["user_id"] for line in lines} == {"zoë"}
    assert body(at("export", "--user-id", "nobody")) == ""


@pytest.mark.parametrize("command", [("export", "--output"), ("backup",)])
def test_a_mistyped_place_is_no_new_tree_of_folders(at: Folder, tmp_path: Path, command: tuple[str, ...]) -> None:
    ran = at(*command, str(tmp_path / "mistyped" / "one" / "file"))
    assert ran.status == 1 and f"there is no folder {tmp_path / 'mistyped'}" in ran.err
    assert not (tmp_path / "mistyped").exists()
    assert at(*command, str(tmp_path / "fresh" / "file")).status == 0
    assert (tmp_path / "fresh" / "file").is_file()


def test_an_output_that_cannot_be_written_is_status_1_and_leaves_nothing(at: Folder, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    ran = at("export", "--output", str(tmp_path / "file" / "below"))
    assert ran.status == 1
    assert "cannot be written" in ran.err
    ran = at("export", "--output", str(tmp_path / "file"))
    assert ran.status == 0
    assert (tmp_path / "file").read_text(encoding="utf-8").startswith('{"perdure":1')


def test_bad_lines_are_told_by_number_and_do_not_stop_the_others(at: Folder, tmp_path: Path) -> None:
    lines = [
        b'{"memory": "one", "user_id": "eva"}',
        b"nonsense",
        b"",
        b'{"memory": "no scope"}',
        b'{"memory": "caf\xe9", "user_id": "eva"}',
        b'{"memory": "two", "user_id": "eva", "colour": 1}',
    ]
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b"\n".join(lines))
    ran = at("import", str(file), "--json")
    assert ran.status == 1
    assert [refusal["line"] for refusal in ran.json["refusals"]] == [2, 4, 5]
    assert ran.json["ignored"] == ["colour"]
    assert at.texts("eva") == ["one", "two"]
    for number in (2, 4, 5):
        assert f"perdure: line {number}: " in ran.err
    assert "colour" in ran.err
    again = at("import", str(file))
    assert (again.status, again.out) == (1, "")
    assert "facts 0 new and 2 known; 3 refused" in again.err


def test_options_fill_in_the_scope(at: Folder) -> None:
    at.ask("import", "-", "--user-id", "eva", stdin='{"memory": "one"}\n{"role": "user", "content": "I live in Rome."}')
    assert at.texts("eva") == ["one", "User lives in Rome"]


def test_an_export_keeps_its_own_users_and_says_so(at: Folder) -> None:
    ran = at("import", "-", "--user-id", "bob", stdin=at("export").out)
    assert ran.status == 0 and "stay with the users" in ran.err
    assert at.texts("bob") == []


def test_conversations_are_told_by_what_they_did(at: Folder) -> None:
    lines = [
        {"messages": [{"role": "user", "content": "I live in Rome."}], "user_id": "eva", "timestamp": "2025-01-01"},
        {
            "messages": [{"role": "user", "content": "I live in Turin now."}],
            "user_id": "eva",
            "timestamp": "2025-02-01",
        },
    ]
    text = "\n".join(map(json.dumps, lines))
    told = at.ask("import", "-", stdin=text)
    assert told["events"] == {"ADD": 1, "UPDATE": 1}
    assert at.ask("import", "-", stdin=text)["kinds"] == {"conversations": {"new": 0, "skipped": 2}}


def test_a_newer_archive_is_status_2(at: Folder) -> None:
    ran = at("import", "-", stdin='{"perdure": 99}\n{"memory": "x", "user_id": "ana"}')
    assert (ran.status, ran.out) == (2, "")
    assert "upgrade perdure" in ran.err


@pytest.mark.parametrize("wait", [0.0, 0.4])
def test_an_import_that_was_killed_is_finished_by_the_next(tmp_path: Path, wait: float) -> None:
    many = folder(tmp_path / "many")
    facts = "".join(json.dumps({"memory": f"fact number {n}", "user_id": f"user {n % 7}"}) + "\n" for n in range(3000))
    assert many.ask("import", "-", stdin=facts)["new"] == 3000
    file = tmp_path / "archive.jsonl"
    many.ask("export", "--output", str(file))

    copy = folder(tmp_path / "copy")
    process = subprocess.Popen(
        [*PROGRAM, "import", str(file), "--path", str(copy.path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline and _rows(copy) < 500:
        time.sleep(0.01)
    time.sleep(wait)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "the import was over before it could be killed"

    told = copy.ask("import", str(file))
    assert told["refused"] == 0
    assert told["skipped"] >= 256
    assert told["new"] + told["skipped"] == told["lines"] - 1
    assert copy("doctor").status == 0
    assert body(copy("export")) == body(many("export"))


def _rows(at: Folder) -> int:
    import sqlite3

    if not (at.path / "memories.db").exists():
        return 0
    connection = sqlite3.connect(f"file:{at.path / 'memories.db'}?mode=ro", uri=True)
    try:
        return int(connection.execute("SELECT count(*) FROM rows_1").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


def test_facts_killed_half_way_are_whole_or_absent(tmp_path: Path) -> None:
    at = folder(tmp_path / "m")
    file = tmp_path / "facts.jsonl"
    file.write_text(
        "".join(json.dumps({"memory": f"fact number {n}", "user_id": "ana"}) + "\n" for n in range(4000)), "utf-8"
    )
    process = subprocess.Popen([*PROGRAM, "import", str(file), "--path", str(at.path)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline and _rows(at) < 300:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL, "the import was over before it could be killed"
    assert at("doctor").status == 0
    told = at.ask("import", str(file))
    assert told["new"] + told["skipped"] == 4000
    assert told["skipped"] >= 256
    assert len(at.texts("ana", "--limit", "10000")) == 4000


def test_with_minilm_what_is_imported_is_found_by_its_meaning(tmp_path: Path) -> None:
    at = Folder(tmp_path)
    facts = ["Ana is a veterinarian", "Ana plays chess", "Ana drives a red van"]
    lines = "\n".join(json.dumps({"memory": fact, "user_id": "ana"}) for fact in facts)
    at.ask("import", "-", stdin=lines)
    copy = Folder(tmp_path / "copy")
    copy.ask("import", "-", stdin=at("export").out)
    for memory in (at, copy):
        found = memory.ask("search", "which animals does the doctor treat?", "--user-id", "ana", "--limit", "1")
        assert found["results"][0]["memory"] == facts[0]
        assert found["results"][0]["similarity"] > 0.3


def test_doctor_tells_and_mends(at: Folder) -> None:
    healthy = at.ask("doctor")
    assert healthy["healthy"] is True
    assert healthy["counted"]["memories"] == 3
    for file in at.path.glob("history.db*"):
        if file.is_file():
            file.unlink()
    ran = at("doctor", "--json")
    assert ran.status == 1
    assert {finding["kind"] for finding in ran.json["findings"]} >= {"unrecorded", "source"}
    ran = at("doctor")
    assert ran.status == 1
    assert "unrecorded\tmemory " in ran.out
    assert "--repair" in ran.err
    mended = at.ask("doctor", "--repair")
    assert mended["healthy"] is True
    assert mended["repair"]["done"]
    assert at("doctor").status == 0
    assert "all of it agrees" in at("doctor").err


def test_nothing_there_is_an_empty_export(tmp_path: Path) -> None:
    assert body(perdure("export", "--path", str(tmp_path))) == ""
