"""import of other tools' exports by the program: zips, folders, gzip, pipes, a kill, and what people are told."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import sqlite3
import subprocess
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.cli.runs import PROGRAM, Folder, folder
from tests.pipeline.curation.importers.samples import (
    CLAUDE_MEMORY,
    EXPIRING,
    ITEM,
    OPEN,
    PROJECT,
    ROW,
    T0,
    chatgpt_conversation,
    claude_conversation,
    plain_chatgpt,
)


@pytest.fixture
def at(tmp_path: Path) -> Folder:
    return folder(tmp_path / "memory")


def zipped(path: Path, files: dict[str, Any]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content if isinstance(content, (bytes, str)) else json.dumps(content))
    return str(path)


CHATGPT = {
    "conversations-000.json": [chatgpt_conversation()],
    "conversations-001.json": [plain_chatgpt(2, ["I live in Braga now.", "Nice."], T0 + 10**6)],
    "user.json": {"id": "user-1", "email": "ana@example.com"},
    "chat.html": "<html></html>",
    "export_manifest.json": {"files": ["chat.html"]},
}  # fmt: skip


def test_a_chatgpt_zip_is_read_and_told_and_read_only_once(at: Folder, tmp_path: Path) -> None:
    file = zipped(tmp_path / "chatgpt.zip", CHATGPT)
    before = sorted(path.name for path in tmp_path.iterdir())
    dry = at("import", file, "--user-id", "ana", "--dry-run", "--json")
    assert dry.status == 0
    assert dry.json["dry_run"] is True
    assert "nothing was written; would read 2 items (2 of chatgpt): facts 3, messages 6; 0 refused" in dry.err
    assert not (at.path / "memories.db").exists()
    told = at.ask("import", file, "--user-id", "ana")
    assert (told["formats"], told["refused"]) == ({"chatgpt": 2}, 0)
    assert told["kinds"] == {"facts": {"new": 3, "skipped": 0}, "messages": {"new": 6, "skipped": 0}}
    assert told["kinds"] == {**dry.json["kinds"]}
    assert told["left_out"]["a file that is no JSON"] == {"count": 1, "examples": ["chat.html"]}
    unknown = told["left_out"]["a file of no known format, or of another than the one asked for"]
    assert sorted(unknown["examples"]) == ["export_manifest.json", "user.json"]
    assert told["left_out"]["a tool's message"]["examples"] == [
        "conversations-000.json: item 1 (Moving to Lisbon), message 9",
        "conversations-000.json: item 1 (Moving to Lisbon), message 14",
    ]
    texts = at.texts("ana")
    assert any("Braga" in text for text in texts)
    assert "User plays the cello." in texts
    again = at("import", file, "--user-id", "ana")
    assert (again.status, again.out) == (0, "")
    assert "facts 0 new and 3 known" in again.err
    assert "messages 0 new and 6 known" in again.err
    assert "left out 2: a tool's message, such as conversations-000.json: item 1" in again.err
    assert at.texts("ana") == texts
    assert sorted(path.name for path in tmp_path.iterdir()) == before  # nothing was unpacked


def test_a_folder_of_claude_s_zips(at: Folder, tmp_path: Path) -> None:
    inner = tmp_path / "claude"
    inner.mkdir()
    zipped(inner / "conversations-000.zip", {"conversations.json": [claude_conversation()]})
    zipped(inner / "memories-000.zip", {"memories/0000.json": CLAUDE_MEMORY})
    zipped(inner / "projects-000.zip", {"projects/0198.json": PROJECT})
    (inner / ".hidden.json").write_text("[")
    (inner / "picture.png").write_bytes(b"\x89PNG")
    told = at.ask("import", str(inner), "--user-id", "alex")
    assert (told["formats"], told["refused"]) == ({"claude": 3}, 0)
    assert told["kinds"] == {"facts": {"new": 5, "skipped": 0}, "messages": {"new": 3, "skipped": 0}}
    assert told["left_out"]["a file that is no JSON"]["examples"] == ["picture.png"]
    assert "Has two cats, Miso and Tofu" in at.texts("alex")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_mem0_from_a_pipe(at: Folder, tmp_path: Path, packed: bool, named: bool) -> None:
    data = json.dumps({"results": [OPEN, EXPIRING]}).encode()
    data = gzip.compress(data) if packed else data
    if named:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(data,))
        writer.start()
        told = at.ask("import", str(pipe))
        writer.join()
    else:
        told = at.ask("import", "-", stdin=data)
    assert told["kinds"] == {"facts": {"new": 2, "skipped": 0}}
    item = at.ask("get", OPEN["id"])
    assert (item["memory"], item["agent_id"], item["metadata"]["tag"]) == (OPEN["memory"], "travel", "work")


def test_a_langgraph_store_in_a_gzip_file(at: Folder, tmp_path: Path) -> None:
    file = tmp_path / "store.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, [ITEM, ROW])).encode()))
    ran = at("import", str(file), "--json")
    assert (ran.status, ran.json["refused"]) == (1, 2)
    assert """line 1 (memories/ana/k1): At least one of""" in ran.err
    assert 'give --namespace "memories,{user_id}" or --user-id' in ran.err
    told = at.ask("import", str(file), "--namespace", "{agent_id}", "--namespace", "memories,{user_id}")
    assert told["kinds"] == {"facts": {"new": 2, "skipped": 0}}
    assert at.texts("ben") == ["Ben swims"]
    ran = at("import", str(file), "--namespace", "{person}")
    assert (ran.status, "namespace pattern" in ran.err) == (2, True)


def test_as_messages(at: Folder, tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([plain_chatgpt(1, ["hello there", "hi"], T0)]))
    at.ask("import", str(file), "--user-id", "ana", "--as-messages")
    assert at.texts("ana") == ["hello there", "hi"]


def test_usage_errors_are_status_2_and_write_nothing(at: Folder, tmp_path: Path) -> None:
    chat = zipped(tmp_path / "chatgpt.zip", CHATGPT)
    odd = tmp_path / "odd.json"
    odd.write_text('[{"a": 1}]')
    empty = tmp_path / "empty"
    empty.mkdir()
    database = tmp_path / "store.db"
    connection = sqlite3.connect(database)
    connection.execute("create table store (prefix, key, value)")
    connection.close()
    torn = tmp_path / "torn.zip"
    torn.write_bytes(Path(chat).read_bytes()[:200])
    for arguments, message in [
        ((chat,), "an export of chatgpt does not say whose it is, so give --user-id"),
        ((str(odd),), "odd.json: nothing that import knows is in there. It looked for"),
        ((str(empty),), "holds no file that ends in"),
        ((str(database),), "sqlite3 -json store.db"),
        ((str(torn),), "torn.zip is a damaged zip"),
        ((chat, "--format", "letta"), "format must be one of perdure, mem0, chatgpt, claude, langgraph"),
        ((str(tmp_path / "nothing"),), "cannot be read"),
    ]:
        ran = at("import", *arguments)
        assert (ran.status, ran.out) == (2, ""), ran.err
        assert message in " ".join(ran.err.split())
    ran = at("import", "-", stdin=Path(chat).read_bytes())
    assert (ran.status, "name the file" in ran.err) == (2, True)
    assert at.texts("ana") == []


def test_a_trap_is_not_read_on_and_names_are_only_names(at: Folder, tmp_path: Path) -> None:
    sound = [OPEN]
    file = zipped(
        tmp_path / "trap.zip",
        {"../../../evil.json": sound, "/etc/evil.json": [EXPIRING], "bomb.json": b"[" + b" " * (1 << 27) + b"]"},
    )
    ran = at("import", file, "--json")
    assert ran.status == 1
    assert ran.json["kinds"] == {"facts": {"new": 2, "skipped": 0}}
    assert [refusal["where"] for refusal in ran.json["refusals"]] == ["bomb.json"]
    assert "unpacks to more than 200 times its size" in ran.err
    assert not list(tmp_path.rglob("evil*"))


def test_a_damaged_member_costs_itself_alone(at: Folder, tmp_path: Path) -> None:
    file = Path(zipped(tmp_path / "export.zip", {"a.json": [OPEN], "b.json": [EXPIRING]}))
    with zipfile.ZipFile(file) as archive:
        offset = archive.getinfo("a.json").header_offset
    data = bytearray(file.read_bytes())
    data[offset + 60 : offset + 90] = bytes(30)
    file.write_bytes(data)
    ran = at("import", str(file), "--json")
    assert ran.status == 1
    assert ran.json["kinds"] == {"facts": {"new": 1, "skipped": 0}}
    assert any("the zip is damaged here" in refusal["reason"] for refusal in ran.json["refusals"])
    assert "Traceback" not in ran.err


def test_a_truncated_gzip_keeps_what_is_whole(at: Folder, tmp_path: Path) -> None:
    many = [{**OPEN, "id": f"4cb4267f-da95-4dc0-9f60-{n:012d}", "memory": f"fact {n}"} for n in range(500)]
    file = tmp_path / "many.json.gz"
    file.write_bytes(gzip.compress(json.dumps(many).encode())[:-900])
    ran = at("import", str(file), "--json")
    assert ran.status == 1
    assert 0 < ran.json["new"] < 500
    assert "the gzip file is damaged here" in ran.err


def test_errors_do_not_repeat_what_is_in_the_export(at: Folder, tmp_path: Path) -> None:
    secret = "sk-very-secret"
    bad = [OPEN, {**OPEN, "memory": {"x": secret}}, {**OPEN, "id": "2", "created_at": secret * 50, "metadata": secret}]
    talk = plain_chatgpt(1, [secret, f"{secret} \ud800"], T0)
    talk["mapping"]["m1-0"]["message"]["author"] = {"role": "user", "name": secret}
    files = {
        "mem0.json": bad,
        "chat.json": [talk, {"mapping": {"x": secret}}],
        "broken.json": f'[{{"memory": "{secret}',
    }
    ran = at("import", zipped(tmp_path / "export.zip", files), "--user-id", "ana")
    assert ran.status == 1
    assert secret not in ran.err


@pytest.mark.parametrize("wait", [0.0, 0.5])
def test_a_kill_in_the_middle_of_chats_is_made_good(tmp_path: Path, wait: float) -> None:
    talks = [plain_chatgpt(n, [f"message {m} of talk {n}" for m in range(20)], T0 + 86_400 * n) for n in range(200)]
    file = zipped(tmp_path / "chatgpt.zip", {"conversations.json": talks})
    at = folder(tmp_path / "memory")
    arguments = ["import", file, "--user-id", "ana", "--as-messages", "--path", str(at.path)]
    process = subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline and _rows(at) < 200:
        time.sleep(0.01)
    time.sleep(wait)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "the import was over before it could be killed"
    told = at.ask(*arguments[:-2])
    assert (told["refused"], told["left_out"]) == (0, {})
    assert told["kinds"]["messages"]["skipped"] >= 200
    assert told["kinds"]["messages"]["new"] + told["kinds"]["messages"]["skipped"] == 4000
    texts = at.texts("ana", "--limit", "10000")
    assert len(texts) == len(set(texts)) == 4000
    assert at("doctor").status == 0


def _rows(at: Folder) -> int:
    if not (at.path / "memories.db").exists():
        return 0
    connection = sqlite3.connect(f"file:{at.path / 'memories.db'}?mode=ro", uri=True)
    try:
        return int(connection.execute("SELECT count(*) FROM rows_1").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


def test_a_zip_inside_a_zip_is_left_out_by_name(at: Folder, tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("mem0.json", json.dumps([EXPIRING]))
    file = zipped(tmp_path / "outer.zip", {"inner.zip": inner.getvalue(), "mem0.json": [OPEN]})
    told = at.ask("import", file)
    assert told["new"] == 1
    assert told["left_out"]["a file that is no JSON"]["examples"] == ["inner.zip"]
