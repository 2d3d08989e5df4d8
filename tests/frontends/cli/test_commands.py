"""The command line: every command, its status, and what stands on which stream."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.domain.errors import ScopeError
from perdure.engine.core.embedding import Embedded, Embedding
from tests.frontends.cli.runs import HASHED, Folder, folder, perdure

COMMANDS = [
    "init", "add", "search", "why-not", "list", "get", "update", "delete", "forget", "history", "undo",
    "log", "diff", "revert", "branch", "merge", "pull", "push", "trust", "distrust", "chat",
    "demo", "doctor", "bench", "reindex", "copy", "export", "import", "consolidate", "reflect", "feedback",
    "prune", "expire", "quota", "evict", "backup", "restore", "upkeep", "serve", "proxy", "mcp", "hook", "install",
    "memory", "keys",
]  # fmt: skip
NOBODY = "7b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10"


@pytest.fixture
def at(tmp_path: Path) -> Folder:
    return folder(tmp_path / "memory")


# ------------------------------------------------------------------ help


def test_help_lists_the_commands_and_loads_nothing_heavy() -> None:
    ran = perdure("--help")
    assert ran.status == 0
    assert re.findall(r"^  ([a-z-]+)  ", ran.out[ran.out.index("Commands:") :], re.MULTILINE) == COMMANDS
    probe = "import sys; import perdure.frontends.cli.main; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pydantic", "sqlalchemy", "onnxruntime", "rich"} & set(loaded)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    ran = perdure(command, "--help")
    assert ran.status == 0
    assert f"Example: perdure {command}" in " ".join(ran.out.split())
    assert "--path" in ran.out
    assert "--json" in ran.out


def test_no_command_is_usage_and_shows_the_help() -> None:
    ran = perdure()
    assert ran.status == 2
    assert "Commands:" in ran.out


def test_the_version_is_told() -> None:
    assert re.fullmatch(r"perdure \d+\.\d+\.\d+\n", perdure("--version").out)


# ------------------------------------------------------------------ usage errors


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "I live in Lisbon"),
        ("search", "where?"),
        ("list",),
        ("delete", "--all", "--yes"),
        ("forget", "--query", "x", "--yes"),
        ("forget", "--all", "--yes"),
    ],
)
def test_without_a_scope_the_text_of_the_error_and_status_2(at: Folder, arguments: tuple[str, ...]) -> None:
    ran = at(*arguments)
    assert (ran.status, ran.out, ran.err) == (2, "", f"perdure: {ScopeError.TEXT} (--user-id NAME)\n")
    with_json = at(*arguments, "--json")
    assert (with_json.status, with_json.out, json.loads(with_json.err)["error"]) == (
        2,
        "",
        f"{ScopeError.TEXT} (--user-id NAME)",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("frobnicate",), "frobnicate"),
        (("add", "--user-id", "ana"), "TEXT"),
        (("add", "x", "--messages", "y", "--user-id", "ana"), "not both"),
        (("add", "x", "--user-id", "ana", "--metadata", "{"), "not JSON"),
        (("add", "x", "--user-id", "ana", "--metadata", "[1]"), "JSON object"),
        (("add", "x", "--user-id", "ana", "--metadata", '{"hash": 1}'), "metadata may not set"),
        (("add", "x", "--user-id", "ana", "--timestamp", "soon"), "timestamp must be"),
        (("add", "x", "--user-id", ""), "user_id must have"),
        (("add", " ", "--user-id", "ana", "--messages"), "--messages"),
        (("add", "--messages", "/nowhere/at/all", "--user-id", "ana"), "cannot be read"),
        (("search", "x", "--user-id", "ana", "--limit", "0"), "limit must be"),
        (("search", "x", "--user-id", "ana", "--limit", "many"), "--limit"),
        (("search", "x", "--user-id", "ana", "--threshold", "7"), "threshold must be"),
        (("search", "x", "--user-id", "ana", "--order", "age"), "order must be one of score, time"),
        (("search", "x", "--user-id", "ana", "--filter", '{"a": {"like": 1}}'), "like"),
        (("list", "--user-id", "ana", "--cursor", "nonsense"), "cursor"),
        (("list", "--user-id", "ana", "--as-of", "soon"), "as_of must be"),
        (("delete",), "--all"),
        (("delete", NOBODY, "--all"), "--all"),
        (("delete", NOBODY, NOBODY), "--yes"),
        (("delete", "--all", "--user-id", "ana"), "--yes"),
        (("forget",), "--query"),
        (("forget", NOBODY, "--query", "x"), "--query"),
        (("forget", NOBODY, NOBODY), "--yes"),
        (("forget", "--all", "--user-id", "ana", "--threshold", "0.9", "--yes"), "--threshold"),
        (("forget", NOBODY, "--threshold", "0.9"), "--threshold"),
        (("forget", "--all", "--user-id", "ana"), "--yes"),
        (("import", "/nowhere/at/all"), "cannot be read"),
        (("demo", "/nowhere/at/all"), "cannot be read"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(at: Folder, arguments: tuple[str, ...], words: str) -> None:
    ran = at(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("perdure: ")
    assert ran.err.count("\n") == 1
    assert words in ran.err
    assert "Invalid value: " not in ran.err  # what the parser puts before every sentence of ours


@pytest.mark.parametrize(
    "arguments",
    [("get", NOBODY), ("get", "no id"), ("update", NOBODY, "x"), ("delete", NOBODY), ("delete", "no id"),
     ("forget", NOBODY), ("forget", "no id"), ("history", NOBODY), ("history", "no id"), ("undo", NOBODY)],
)  # fmt: skip
def test_what_does_not_exist_is_status_3(at: Folder, arguments: tuple[str, ...]) -> None:
    ran = at(*arguments)
    assert (ran.status, ran.out) == (3, "")
    assert arguments[1] in ran.err
    assert ran.err.startswith("perdure: there is no ")
    with_json = at(*arguments, "--json")
    told = json.loads(with_json.err)
    assert (with_json.status, with_json.out, told["status"], told["code"]) == (3, "", 3, "not_found")
    assert told["error"].startswith("there is no ") and arguments[1] in told["error"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("search", "--json"), {"code": "usage", "status": 2}),
        (("search", "x", "--json", "--bogus"), {"code": "usage", "status": 2}),
        (("search", "x", "--user-id", "ana", "--limit", "0", "--json"), {"code": "invalid_input", "field": "limit"}),
        (("restore", "/nowhere/at/all", "--json"), {"status": 2}),
    ],
)
def test_with_json_an_error_is_an_object_on_standard_error(
    at: Folder, arguments: tuple[str, ...], told: dict[str, object]
) -> None:
    ran = at(*arguments)
    found = json.loads(ran.err)
    assert (ran.out, found["status"]) == ("", ran.status)
    assert found.items() >= told.items() and found["error"] and "\n" not in found["error"]


# ------------------------------------------------------------------ the commands


def test_a_life_in_commands(at: Folder) -> None:
    added = at.ask("add", "I live in Lisbon.", "--user-id", "ana", "--metadata", '{"tag": "home"}')["results"]
    assert [(event["event"], event["memory"], event["metadata"]) for event in added] == [
        ("ADD", "User lives in Lisbon", {"tag": "home"})
    ]
    id = added[0]["id"]
    found = at.ask("search", "lives in Lisbon", "--user", "ana", "--filter", '{"tag": "home"}')
    assert [item["id"] for item in found["results"]] == [id]
    assert set(found) >= {"results", "coverage"}
    assert at.ask("search", "Lisbon", "--user", "ana", "--filter", '{"tag": "work"}')["results"] == []
    assert at.ask("get", id)["memory"] == "User lives in Lisbon"
    assert at.ask("update", id, "User lives in Porto", "--metadata", '{"n": 1}')["metadata"] == {"tag": "home", "n": 1}
    records = at.ask("history", id)["results"]
    assert [record["event"] for record in records] == ["ADD", "UPDATE"]
    undone = at.ask("undo", records[-1]["id"])["results"]
    assert [(event["event"], event["memory"]) for event in undone] == [("UPDATE", "User lives in Lisbon")]
    assert [item["memory"] for item in at.ask("delete", id)["results"]] == ["User lives in Lisbon"]
    assert at.texts() == []
    records = at.ask("history", id)["results"]
    assert [record["event"] for record in records] == ["ADD", "UPDATE", "UPDATE", "DELETE"]
    at.ask("undo", records[-1]["id"])
    assert at.texts() == ["User lives in Lisbon"]
    report = at.ask("forget", id)
    assert {place["place"] for place in report["places"] if place["count"]} >= {"store", "history", "episodes"}
    assert b"Lisbon" not in b"".join(file.read_bytes() for file in at.path.glob("*.db*") if file.is_file())


def test_what_a_conversation_forgot_is_listed_and_comes_back(at: Folder) -> None:
    at.ask("add", "I live in Lisbon.", "--user-id", "ana")
    at.ask("add", "Forget that I live in Lisbon.", "--user-id", "ana")
    at.ask("delete", at.said("User has a kettle"))
    assert at.texts() == []
    ran = at("list", "--user-id", "ana", "--deleted")
    assert "perdure undo EVENT" in ran.err
    rows = [line.split("\t") for line in ran.out.splitlines()]
    assert [row[1:3] for row in rows] == [
        ["User has a kettle", "delete"], ["User lives in Lisbon", "“Forget that I live in Lisbon.”"],
    ]  # fmt: skip
    assert at.ask("list", "--user-id", "ana", "--deleted")["results"][1]["id"] == rows[1][3]
    at.ask("undo", rows[1][4])
    assert at.texts() == ["User lives in Lisbon"]
    at.ask("forget", rows[0][3])
    ran = at("list", "--user-id", "ana", "--deleted")
    assert (ran.out, "erased leaves nothing" in ran.err) == ("", True)
    assert at("list", "--user-id", "ana", "--deleted", "--as-of", "2026-01-01").status == 2


def test_history_shows_when_it_was_said_and_when_it_was_recorded(at: Folder) -> None:
    told_at = ("--timestamp", "2024-03-03T10:12:00Z")
    id = at.ask("add", "I live in Lisbon.", "--user-id", "ana", *told_at)["results"][0]["id"]
    at.ask("update", id, "User lives in Porto")
    records = at.ask("history", id)["results"]
    told, corrected = (line.split("\t")[0] for line in at("history", id).out.splitlines())
    assert told == f"2024-03-03 10:12 (recorded {records[0]['timestamp'][:10]})"
    assert corrected == records[1]["timestamp"][:16].replace("T", " ")
    at.ask("delete", id)
    assert at("list", "--user-id", "ana", "--deleted").out.startswith(corrected[:10])


def test_undoing_what_another_event_built_on_is_status_1(at: Folder) -> None:
    id = at.said("one")
    at.ask("update", id, "two")
    event = at.ask("history", id)["results"][0]["id"]
    ran = at("undo", event)
    assert (ran.status, ran.out) == (1, "")
    assert "undo that one first" in ran.err


def test_undoing_an_event_a_second_time_says_that_it_was_undone(at: Folder) -> None:
    id = at.said("one")
    at.ask("update", id, "two")
    event = at.ask("history", id)["results"][-1]["id"]
    assert len(at.ask("undo", event)["results"]) == 1
    again = at("undo", event, "--json")
    assert (again.status, again.json["results"]) == (0, [])
    assert f"{event} had been undone already" in again.json["warnings"][0]
    assert "had been undone already" in again.err
    assert at.texts() == ["one"]


@pytest.mark.parametrize("infer", [(), ("--no-infer",)])
def test_an_addition_that_has_expired_already_says_so(at: Folder, infer: tuple[str, ...]) -> None:
    asked = ("add", "I live in Lisbon.", "--user-id", "ana", "--json", *infer)
    past = at(*asked, "--expires-at", "2020-01-01")
    assert past.status == 0 and len(past.json["results"]) == 1
    assert "2020-01-01" in past.json["warnings"][0] and "has passed already" in past.err
    assert "warnings" not in at(*asked, "--expires-at", "2999-01-01").json


def test_walls_stand_between_users_and_are_joined_with_and(at: Folder) -> None:
    at.ask("add", "one", "--no-infer", "--user-id", "ana", "--agent-id", "bot", "--run-id", "r")
    at.said("two")
    assert at.texts("ana") == ["one", "two"]
    assert at.texts("ana", "--agent", "bot") == ["one"]
    assert at.texts("ana", "--run", "other") == []
    assert at.texts("ben") == []


def test_lists_go_on_from_a_cursor(at: Folder) -> None:
    for n in range(3):
        at.said(f"note {n}")
    first = at.ask("list", "--user-id", "ana", "--limit", "2")
    second = at.ask("list", "--user-id", "ana", "--limit", "2", "--cursor", first["next_cursor"])
    assert [item["memory"] for item in first["results"] + second["results"]] == ["note 0", "note 1", "note 2"]
    assert second["next_cursor"] is None


def test_results_come_oldest_first_on_request(at: Folder) -> None:
    for text, day in (("the ferry to Hvar", "2026-01-02"), ("the ferry", "2026-01-01")):
        at.ask("add", text, "--user-id", "ana", "--no-infer", "--timestamp", day)
    ask = ("search", "the ferry to Hvar", "--user-id", "ana")
    assert [item["memory"] for item in at.ask(*ask)["results"]] == ["the ferry to Hvar", "the ferry"]
    assert [item["memory"] for item in at.ask(*ask, "--order", "time")["results"]] == ["the ferry", "the ferry to Hvar"]


def test_times_and_types_are_passed_on(at: Folder) -> None:
    at.ask("add", "early", "--user-id", "ana", "--no-infer", "--timestamp", "2025-01-01", "--type", "episodic")
    at.ask("add", "late", "--user-id", "ana", "--no-infer", "--timestamp", "2026-01-01")
    at.ask("add", "over", "--user-id", "ana", "--no-infer", "--expires-at", "2025-01-01")
    assert at.texts("ana", "--as-of", "2025-06-01") == ["early"]
    assert at.texts("ana") == ["early", "late"]
    assert at.texts("ana", "--include-past") == ["early", "late", "over"]
    found = at.ask("search", "early late", "--user-id", "ana", "--type", "episodic", "--explain")["results"]
    assert [item["memory"] for item in found] == ["early"]
    assert found[0]["explanation"]["preset"]


def test_a_repeated_key_changes_nothing(at: Folder) -> None:
    first = at.ask("add", "said once", "--user-id", "ana", "--no-infer", "--idempotency-key", "k")
    assert at.ask("add", "said once", "--user-id", "ana", "--no-infer", "--idempotency-key", "k") == first
    assert at.texts() == ["said once"]


def test_one_is_deleted_without_a_question_and_several_with_yes(at: Folder) -> None:
    one, two, three, four = (at.said(text) for text in ("one", "two", "three", "four"))
    assert at("delete", one).status == 0
    assert at.texts() == ["two", "three", "four"]
    ran = at("delete", two, NOBODY, three, "--yes", "--json")
    assert ran.status == 3
    assert [item["id"] for item in ran.json["results"]] == [two, three]
    assert NOBODY in ran.err
    gone = at.ask("delete", "--all", "--user-id", "ana", "--yes")["results"]
    assert [item["id"] for item in gone] == [four]
    assert at.texts() == []
    assert at.ask("history", four)["results"][-1]["event"] == "DELETE"


def test_delete_can_erase(at: Folder) -> None:
    one, two = at.said("secret one"), at.said("secret two")
    at.ask("delete", one, "--erase")
    at.ask("delete", "--all", "--user-id", "ana", "--erase", "--yes")
    for id in (one, two):
        assert all(record["erased"] for record in at.ask("history", id)["results"])


def test_forgetting_by_query_is_tried_dry_first(at: Folder) -> None:
    at.said("the old address in Lisbon")
    at.said("a cat called Miso")
    report = at.ask("forget", "--query", "the old address in Lisbon", "--user-id", "ana", "--dry-run")
    assert [item["memory"] for item in report["results"]] == ["the old address in Lisbon"]
    assert report["dry_run"] is True
    assert len(at.texts()) == 2
    report = at.ask("forget", "--query", "the old address in Lisbon", "--user-id", "ana", "--yes")
    assert {place["status"] for place in report["places"]} <= {"erased", "none"}
    assert at.texts() == ["a cat called Miso"]
    assert at.ask("forget", "--query", "nothing of this kind", "--user-id", "ana", "--yes")["results"] == []


def test_a_query_that_matches_too_weakly_says_what_can_be_done(at: Folder) -> None:
    at.said("a cat called Miso")
    ran = at("forget", "--query", "the boiling point of helium", "--user-id", "ana", "--dry-run")
    assert (ran.status, ran.out) == (0, "") and "--threshold" in ran.err


def test_forgetting_several_ids_and_a_scope(at: Folder) -> None:
    ids = [at.said(text) for text in ("one", "two", "three")]
    reports = at.ask("forget", ids[0], ids[1], "--yes")["results"]
    assert [report["results"][0]["memory"] for report in reports] == ["one", "two"]
    at.ask("forget", "--all", "--user-id", "ana", "--yes", "--keep-history")
    assert at.texts() == []
    assert [record["erased"] for record in at.ask("history", ids[2])["results"]] == [False, False]


# ------------------------------------------------------------------ standard input, files, text of every kind


def test_text_is_read_from_standard_input(at: Folder) -> None:
    at.ask("add", "-", "--user-id", "ana", "--no-infer", stdin="první řádek\ndruhý 🎻\n")
    id = at.ask("list", "--user-id", "ana")["results"][0]["id"]
    assert at.texts() == ["první řádek\ndruhý 🎻"]
    assert [item["id"] for item in at.ask("search", "-", "--user-id", "ana", stdin="druhý")["results"]] == [id]
    assert at.ask("update", id, "-", stdin="třetí")["memory"] == "třetí"


def test_several_words_are_one_text(at: Folder) -> None:
    at.ask("add", "I", "live", "in", "Lisbon.", "--user-id", "ana")
    assert at.texts() == ["User lives in Lisbon"]


def test_standard_input_that_is_not_utf8_is_refused(at: Folder) -> None:
    ran = at("add", "-", "--user-id", "ana", stdin=b"caf\xe9")
    assert ran.status == 2
    assert "UTF-8" in ran.err


@pytest.mark.parametrize(
    "text",
    [
        '[{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]',
        '{"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]}',
        '{"role": "user", "content": "one"}\n{"role": "assistant", "content": "two"}\n',
    ],
)
def test_messages_come_from_a_file_or_standard_input(at: Folder, tmp_path: Path, text: str) -> None:
    file = tmp_path / "talk.json"
    file.write_text(text, encoding="utf-8")
    from_file = at.ask("add", "--messages", str(file), "--user-id", "ana", "--no-infer")["results"]
    from_stdin = at.ask("add", "--messages", "-", "--user-id", "ben", "--no-infer", stdin=text)["results"]
    for events in (from_file, from_stdin):
        assert [event["memory"] for event in events] == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "words"), [("no json", "no JSON"), ("5", "list of messages"), ('[{"content": "x"}]', "no role")]
)
def test_messages_that_are_none_are_refused(at: Folder, text: str, words: str) -> None:
    ran = at("add", "--messages", "-", "--user-id", "ana", stdin=text)
    assert (ran.status, ran.out) == (2, "")
    assert words in ran.err


def test_ids_of_users_are_taken_as_they_are(at: Folder) -> None:
    at.said("x", user="Zoë 🎻 ")
    assert at.texts("Zoë 🎻 ") == ["x"]
    assert at.texts("zoë 🎻 ") == []


def settle(path: Path, *lines: str) -> Folder:
    at = folder(path)
    (path / "perdure.toml").write_text(HASHED + "\n".join(lines), encoding="utf-8")
    return at


DOWN = [
    "[llm]",
    'provider = "openai"',
    "[llm.config]",
    'base_url = "http://127.0.0.1:9/v1"',
    'api_key = "sk-test"',
    "retries = 0",
]
WAITS = "perdure: 1 message is kept and waits to be read for facts: perdure doctor --repair does it"


def scripted(*answers: str) -> list[str]:
    return ["[llm]", 'provider = "scripted"', "[llm.config]", f"answers = {json.dumps(answers)}"]


@pytest.mark.parametrize("llm", [DOWN, scripted("I would rather not")], ids=["down", "rubbish"])
@pytest.mark.parametrize("as_json", [False, True])
def test_what_a_model_that_fails_did_not_read_is_kept_and_that_is_said_once(
    tmp_path: Path, llm: list[str], as_json: bool
) -> None:
    at = settle(tmp_path / "m", *llm)
    ran = at("add", "I live in Lisbon", "--user-id", "ana", *["--json"] * as_json)
    assert ran.status == 1
    why, what = ran.err.splitlines()
    assert why.startswith("perdure: no facts were extracted, the messages are kept: ") and what.startswith(WAITS)
    assert not as_json or (ran.json["results"], ran.json["waiting"]) == ([], 1)
    settle(tmp_path / "m", *scripted('{"facts": ["User lives in Lisbon", "User has 9 cats"]}'))
    mended = at("doctor", "--repair")
    assert mended.status == 0 and "not mended" not in mended.err
    assert "mended: read 1 messages that had waited: 1 memories changed" in mended.out
    assert mended.err.count("1 fact of the language model is not in the messages") == 1
    assert at.texts() == ["User lives in Lisbon"]


def test_a_repair_says_what_was_added_although_the_rest_goes_on_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = settle(tmp_path / "m", *DOWN)
    assert at("add", "I live in Lisbon. I have a dog.", "--user-id", "ana").status == 1
    settle(tmp_path / "m", *scripted('{"facts": ["User lives in Lisbon", "User has a dog"]}'))
    embed = Embedding.texts

    async def fails(self: Embedding, texts: Sequence[str]) -> Embedded:
        found = await embed(self, texts)
        bad = {place for place, text in enumerate(texts) if "dog" in text}
        return replace(found, failed=bad, warnings=["a fact could not be embedded"] * len(bad))

    monkeypatch.setattr(Embedding, "texts", fails)
    mended = at("doctor", "--repair")
    assert mended.status == 1 and "1 memories changed" in mended.out
    assert "not mended: a fact could not be embedded" in mended.err
    assert at.texts() == ["User lives in Lisbon"]
