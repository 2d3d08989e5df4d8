"""`perdure memory add`: files first, without a model, a key or a network."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import MemoryClient
from tests.frontends.cli.runs import Ran, perdure
from tests.frontends.library.test_memory_client_files import fields, files, git

pytestmark = pytest.mark.covers("A37")

NOWHERE = "http://127.0.0.1:9/v1"


def add(folder: Path, *arguments: str, stdin: str | None = None) -> Ran:
    return perdure("memory", "add", *arguments, "--memory-path", str(folder), stdin=stdin)


def kept(folder: Path) -> list[tuple[str, str]]:
    """Conversation and text of every file, in the order in which they were written."""
    found = [fields(folder / "entries" / path) for path in files(folder)]
    return [(told["conversation_id"], body) for told, body in sorted(found, key=lambda one: str(one[0]["created_at"]))]


def in_memory(folder: Path, conversation: str = "default") -> list[str]:
    async def run() -> list[str]:
        async with MemoryClient(folder, NOWHERE, embedding_model="hashed") as client:
            found = [hit["content"] for hit in await client.search("What is known?", conversation, top_k=50)]
            assert sorted(found) == sorted(each["content"] for each in client.list_all(conversation))
            return found

    return asyncio.run(run())


@pytest.mark.covers("A37")
def test_each_text_is_a_file_and_a_commit_and_the_next_client_knows_it(tmp_path: Path) -> None:
    ran = add(tmp_path, "User likes hiking", "User is vegetarian and " + "very " * 20 + "strict")
    assert (ran.status, ran.err) == (0, "")
    first, *previews = ran.out.splitlines()
    assert first == f"Added 2 memories to {tmp_path}"
    assert previews[0] == "  - User likes hiking"
    assert previews[1] == "  - User is vegetarian and " + ("very " * 20)[:37] + "..."
    assert [path.rpartition("/")[0] for path in files(tmp_path)] == ["default/facts"] * 2
    assert git(tmp_path, "log", "--format=%s") == ["Add 2 memories directly", "Initial commit"]
    assert git(tmp_path, "status", "--porcelain") == []
    assert "User likes hiking" in in_memory(tmp_path)
    assert add(tmp_path, "User plays chess").status == 0
    assert git(tmp_path, "log", "-1", "--format=%s") == ["Add 1 memories directly"]
    assert len(in_memory(tmp_path)) == 3


@pytest.mark.covers("A37")
def test_what_was_added_is_corrected_as_any_other_memory(tmp_path: Path) -> None:
    add(tmp_path, "User's wife is named Jane")

    async def run() -> list[str]:
        async with MemoryClient(tmp_path, NOWHERE, embedding_model="hashed") as client:
            await client.add("My wife is named Anne.")
            return [each["content"] for each in client.list_all() if each["role"] == "memory"]

    assert asyncio.run(run()) == ["User's wife is named Anne"]
    (tombstone,) = (path for path in files(tmp_path) if "/deleted/" in path)
    assert "Jane" in (tmp_path / "entries" / tombstone).read_text()


@pytest.mark.covers("A37")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('["User likes tea", "User likes rain"]', [("c", "User likes tea"), ("c", "User likes rain")]),
        (
            '[{"content": "User likes tea", "conversation_id": "other"}, {"content": "User likes rain"}]',
            [("other", "User likes tea"), ("c", "User likes rain")],
        ),
        ('{"memories": ["User likes tea", {"content": "one"}]}', [("c", "User likes tea"), ("c", "one")]),
        ("User likes tea\n\n  User likes rain  \n", [("c", "User likes tea"), ("c", "User likes rain")]),
        ("- one\n* two\n+ three\n1. four\n12) five", [("c", word) for word in ("one", "two", "three", "four", "five")]),
        ("[User likes tea", [("c", "[User likes tea")]),
        ("-5 degrees are cold\n1.5 litres a day", [("c", "-5 degrees are cold"), ("c", "1.5 litres a day")]),
    ],
    ids=["list", "objects", "memories", "lines", "prefixes", "no-json", "numbers"],
)  # fmt: skip
def test_a_file_in_every_form(tmp_path: Path, text: str, told: list[tuple[str, str]]) -> None:
    source = tmp_path / "facts"
    source.write_text(text, encoding="utf-8")
    memory = tmp_path / "memory"
    assert add(memory, "--file", str(source), "-c", "c", "--no-git-versioning", "-q").out == ""
    assert kept(memory) == told
    assert not (memory / ".git").exists()


@pytest.mark.covers("A37")
def test_the_file_comes_before_the_arguments_and_may_be_standard_input(tmp_path: Path) -> None:
    assert add(tmp_path, "User likes rain", "-f", "-", stdin="User likes tea\n").status == 0
    assert kept(tmp_path) == [("default", "User likes tea"), ("default", "User likes rain")]
    assert add(tmp_path / "b", "-", stdin="- User likes tea\n").status == 0
    assert kept(tmp_path / "b") == [("default", "User likes tea")]


@pytest.mark.covers("A37")
@pytest.mark.parametrize(
    ("arguments", "stdin"), [((), None), (("-f", "-"), "\n \n"), (("",), None), (("-f", "-"), "[]")]
)
def test_nothing_given_is_status_1_and_makes_nothing(
    tmp_path: Path, arguments: tuple[str, ...], stdin: str | None
) -> None:
    ran = add(tmp_path / "memory", *arguments, stdin=stdin)
    assert (ran.status, ran.out) == (1, "")
    assert "No memories provided" in ran.err
    assert not (tmp_path / "memory").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1]", "file[0]"),
        ('{"memories": "tea"}', "memories"),
        ('["tea", {"content": 3}]', "file[1]"),
        ("{}", "file[0]"),
    ],
)
def test_an_entry_that_is_none_is_refused_and_nothing_is_written(tmp_path: Path, text: str, told: str) -> None:
    ran = add(tmp_path / "memory", "-f", "-", stdin=text)
    assert ran.status == 2 and told in ran.err
    assert not (tmp_path / "memory").exists()


def test_a_conversation_that_cannot_be_is_refused(tmp_path: Path) -> None:
    ran = add(tmp_path / "memory", "User likes tea", "-c", " ")
    assert ran.status == 2 and "conversation_id" in ran.err
    assert not (tmp_path / "memory").exists()


def test_a_folder_of_records_is_refused(tmp_path: Path) -> None:
    (tmp_path / "memories.db").write_bytes(b"")
    ran = add(tmp_path, "User likes tea")
    assert ran.status == 2 and "perdure copy" in ran.err and not (tmp_path / "entries").exists()


def test_json_tells_ids_that_are_the_files(tmp_path: Path) -> None:
    told = json.loads(add(tmp_path, "User likes tea", "--json").out)
    (one,) = told["results"]
    assert told["path"] == str(tmp_path) and one["memory"] == "User likes tea" and one["run_id"] == "default"
    assert files(tmp_path)[0].endswith(f"__{one['id']}.md")


def test_without_git_the_files_are_there_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    ran = add(tmp_path / "memory", "User likes tea")
    assert ran.status == 0 and "not committed" in ran.err
    assert kept(tmp_path / "memory") == [("default", "User likes tea")]


def test_nothing_is_asked_of_any_model_or_network(tmp_path: Path) -> None:
    """In a process in which no socket can be made."""
    code = (
        "import socket, sys\n"
        "def no(*_, **__): raise AssertionError('a connection')\n"
        "socket.socket.connect = socket.create_connection = no\n"
        "from perdure.frontends.cli.main import main\n"
        f"status = main(['memory', 'add', 'User likes tea', '--memory-path', {str(tmp_path)!r}])\n"
        "assert not {'openai', 'onnxruntime', 'aiohttp'} & set(sys.modules)\n"
        "sys.exit(status)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert kept(tmp_path) == [("default", "User likes tea")]
