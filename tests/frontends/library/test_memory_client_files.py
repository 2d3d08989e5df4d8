"""MemoryClient on real files: the folder is what spec 002 says, and who changes a file changes memory."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from perdure import AsyncMemory, ConfigError, MemoryClient
from perdure.domain.scope import Scope
from tests.frontends.cli.runs import HASHED, perdure
from tests.frontends.gateway.upstream import Upstream, upstream
from tests.frontends.library.test_memory_client import ANNE, WIFE, learned, said, with_client

pytestmark = pytest.mark.covers("A38")

JANE = "My wife is named Jane"
HAND = """---
id: 7f0c0a3e-43a5-4b56-9c0e-0d6b8f0a1c11
conversation_id: default
role: memory
created_at: 2026-01-05T10:00:00+00:00
---

User's favourite tea is sencha.
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Upstream]:
    with upstream() as found:
        yield found


@pytest.fixture
def model(served: Upstream) -> Upstream:
    served.clear()
    return served


def files(folder: Path, below: str = "") -> list[str]:
    """Every file of memories, below `entries`."""
    entries = folder / "entries"
    return sorted(path.relative_to(entries).as_posix() for path in (entries / below).rglob("*.md"))


def folders(folder: Path) -> list[str]:
    return sorted(path.rpartition("/")[0] for path in files(folder))


def fields(path: Path) -> tuple[dict[str, Any], str]:
    _, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(head), body.strip()


async def until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


def texts(client: MemoryClient, role: str = "memory") -> list[str]:
    return [each["content"] for each in client.list_all() if each["role"] == role]


async def chat(client: MemoryClient, text: str, stream: bool) -> None:
    answer = await client.chat(said(text), stream=stream)
    if stream:
        async for _ in answer:
            pass


# ------------------------------------------------------------------ the folder
@pytest.mark.covers("A38", "K12", "K13")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_turn_is_two_files(model: Upstream, tmp_path: Path, stream: bool) -> None:
    with_client(
        model, tmp_path, lambda client: chat(client, "Hi there", stream), enable_summarization=False
    )  # fmt: skip
    assert folders(tmp_path) == ["default/turns/assistant", "default/turns/user"]
    for path, role in zip(files(tmp_path), ("assistant", "user"), strict=True):
        told, body = fields(tmp_path / "entries" / path)
        assert path == f"default/turns/{role}/{_name(told)}"
        assert (told["role"], told["conversation_id"]) == (role, "default")
        assert body == ("Hi there" if role == "user" else "echo: [user] Hi there")


def _name(told: dict[str, Any]) -> str:
    at = str(told["created_at"])
    return f"{''.join(letter if letter.isalnum() or letter in '-._' else '-' for letter in at)}__{told['id']}.md"


@pytest.mark.covers("K18")
@pytest.mark.covers("A38", "K6", "K15", "K17")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_summarised_turn_is_five_files(model: Upstream, tmp_path: Path, stream: bool) -> None:
    async def work(client: MemoryClient) -> None:
        await chat(client, "My wife is named Anne. I live in Lisbon.", stream)
        await until(lambda: len(files(tmp_path)) == 5)
        listed = client.list_all(include_summary=True)
        names = {path.stem.rpartition("__")[2] for path in (tmp_path / "entries").rglob("*__*.md")}
        assert names == {each["id"] for each in listed if each["role"] != "summary"}, "K18"

    with_client(model, tmp_path, work)
    expected = ["facts", "facts", "summaries", "turns/assistant", "turns/user"]
    assert folders(tmp_path) == [f"default/{each}" for each in expected]
    first = [fields(tmp_path / "entries" / path) for path in files(tmp_path, "default/facts")]
    assert all([*told][:4] == ["id", "conversation_id", "role", "created_at"] for told, _ in first)
    assert all(told["role"] == "memory" and "summary_kind" not in told for told, _ in first)
    assert sorted(body for _, body in first) == ["User lives in Lisbon", "User's wife is named Anne"]
    told, body = fields(tmp_path / "entries/default/summaries/summary.md")
    assert (told["role"], told["summary_kind"]) == ("summary", "summary") and "Anne" in body


@pytest.mark.covers("A38", "K14", "K48")
def test_jane_becomes_anne_and_leaves_a_tombstone(model: Upstream, tmp_path: Path) -> None:
    async def work(client: MemoryClient) -> None:
        await client.add(JANE)
        (before,) = (path for path in files(tmp_path) if "/facts/" in path)
        await client.chat(said(ANNE))
        await learned(client, "Anne")
        (after,) = (path for path in files(tmp_path) if path.startswith("default/facts/"))
        assert after != before
        told, body = fields(tmp_path / "entries" / before.replace("default/", "default/deleted/"))
        assert "Jane" in body
        assert told["replaced_by"] == fields(tmp_path / "entries" / after)[0]["id"]
        assert [hit for hit in await client.search(WIFE) if "Jane" in hit["content"] and hit["role"] == "memory"] == []

    with_client(model, tmp_path, work)


@pytest.mark.covers("A38")
def test_a_question_adds_no_fact(model: Upstream, tmp_path: Path) -> None:
    with_client(model, tmp_path, lambda client: client.chat(said(WIFE)))
    assert folders(tmp_path) == ["default/turns/assistant", "default/turns/user"]


@pytest.mark.covers("K53")
def test_without_summaries_there_is_no_summary(model: Upstream, tmp_path: Path) -> None:
    async def work(client: MemoryClient) -> None:
        await client.chat(said(ANNE))
        await learned(client, "Anne")

    with_client(model, tmp_path, work, enable_summarization=False)
    with_client(model, tmp_path, lambda client: client.chat(said("Hello")), enable_summarization=False)
    assert not list(tmp_path.rglob("summary.md")) and len(files(tmp_path, "default/facts")) == 1


@pytest.mark.covers("A30", "K54")
@pytest.mark.covers("A30", "K54")
def test_what_is_too_many_goes_to_the_tombstones(model: Upstream, tmp_path: Path) -> None:
    async def work(client: MemoryClient) -> None:
        await client.chat(said("My wife is named Anne."))
        await learned(client, "Anne")
        for text in ("Hello", "Which tea is best?"):
            await client.chat(said(text))
        await until(lambda: len(client.list_all()) == 4)
        assert all("Anne" not in each["content"] for each in client.list_all())
        live = [path for path in files(tmp_path) if "/deleted/" not in path and "summaries" not in path]
        assert len(live) == 4 and all("/turns/" in path for path in live)
        gone = [path for path in files(tmp_path, "default/deleted") if "summaries" not in path]
        assert sorted(path.split("/")[2] for path in gone) == ["facts", "turns", "turns"]
        (fact,) = (path for path in gone if "/facts/" in path)
        await client._memory.forget(id=fields(tmp_path / "entries" / fact)[0]["id"])

    with_client(model, tmp_path, work, max_entries=4, enable_git_versioning=False)
    left = {path.split("/")[2] for path in files(tmp_path, "default/deleted") if "turns/assistant" not in path}
    assert left <= {"summaries"}, "an erasure takes the tombstones of the fact and of its message"


@pytest.mark.covers("K66")
@pytest.mark.covers("K66")
def test_each_conversation_has_its_folder(model: Upstream, tmp_path: Path) -> None:
    async def work(client: MemoryClient) -> None:
        for name in ("one", "global", "a/b", "a_b", "..", "deleted"):
            await client.add("I like green tea.", name)

    with_client(model, tmp_path, work)
    found = {path.split("/")[0] for path in files(tmp_path)}
    assert len(found) == 6 and {"one", "global", "a_b"} < found and not found & {"..", "deleted", "a"}


# ------------------------------------------------------------------ files that somebody else changed
def facts_of(client: MemoryClient) -> Callable[[], list[str]]:
    return lambda: texts(client)


def change(folder: Path, way: str) -> list[str]:
    """Change the one fact's file by hand; the facts that are to stand then."""
    path = next((folder / "entries/default/facts").iterdir())
    if way == "add":
        (folder / "entries/default/facts/by hand.md").write_text(HAND, encoding="utf-8")
        return ["User's favourite tea is sencha.", "User's wife is named Anne"]
    if way == "edit":
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("wife is named Anne", "wife is named Anne-Marie"), encoding="utf-8")
        return ["User's wife is named Anne-Marie"]
    path.unlink()
    return []


@pytest.mark.covers("K5", "K60", "K61")
@pytest.mark.parametrize("way", ["add", "edit", "delete"])
def test_what_changed_on_disk_is_memory(model: Upstream, tmp_path: Path, way: str) -> None:
    """While it is watched, and again, from scratch, while nobody has it open."""

    async def watched(client: MemoryClient) -> None:
        await client.add(ANNE)
        now = change(tmp_path / "live", way)
        await until(lambda: sorted(texts(client)) == now)

    with_client(model, tmp_path / "live", watched, enable_git_versioning=False)

    with_client(model, tmp_path / "still", lambda client: client.add(ANNE), enable_git_versioning=False)
    now = change(tmp_path / "still", way)

    async def opened(client: MemoryClient) -> Any:
        assert sorted(texts(client)) == now
        return await client.search("What is said of tea and the wife?")

    hits = with_client(model, tmp_path / "still", opened, enable_git_versioning=False)
    assert sorted(hit["content"] for hit in hits if hit["role"] == "memory") == now


@pytest.mark.covers("K8")
@pytest.mark.covers("K8")
def test_a_client_that_is_not_started_watches_only_where_it_is_told(model: Upstream, tmp_path: Path) -> None:
    async def run(start_watcher: bool, work: Callable[[MemoryClient], Awaitable[None]]) -> None:
        client = MemoryClient(
            tmp_path / str(start_watcher), model.url, embedding_model="hashed", start_watcher=start_watcher
        )
        try:
            await client.add(ANNE)
            await work(client)
        finally:
            await client.stop()

    async def follows(client: MemoryClient) -> None:
        now = change(tmp_path / "True", "edit")
        await until(lambda: texts(client) == now)

    async def does_not(client: MemoryClient) -> None:
        change(tmp_path / "False", "edit")
        vault: Any = client._memory._engine.kernel.file_observer
        assert not vault.watcher.running
        assert texts(client) == ["User's wife is named Anne"]
        await client.start()
        assert vault.watcher.running
        now = change(tmp_path / "False", "add")
        await until(lambda: now[0] in texts(client))

    asyncio.run(run(True, follows))
    asyncio.run(run(False, does_not))


@pytest.mark.covers("A26", "A38")
def test_what_has_no_front_matter_is_no_memory(model: Upstream, tmp_path: Path) -> None:
    notes = tmp_path / "entries/default/facts/notes.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("Only a note of my own.\n", encoding="utf-8")
    assert with_client(model, tmp_path, lambda client: client.search("What is a note?")) == []
    assert notes.read_text(encoding="utf-8") == "Only a note of my own.\n"


@pytest.mark.covers("A38")
def test_a_row_whose_file_is_gone_is_gone_at_the_start(model: Upstream, tmp_path: Path) -> None:
    async def first(client: MemoryClient) -> None:
        await client.add(ANNE)
        await client.add("I like green tea.")

    with_client(model, tmp_path, first)
    (gone,) = [path for path in (tmp_path / "entries/default/facts").iterdir() if "Anne" in path.read_text()]
    gone.unlink()

    async def second(client: MemoryClient) -> None:
        assert texts(client) == ["User likes green tea"]
        assert all("Anne" not in hit["content"] for hit in await client.search(WIFE) if hit["role"] == "memory")

    with_client(model, tmp_path, second)


@pytest.mark.covers("K60")
def test_the_files_alone_are_enough(model: Upstream, tmp_path: Path) -> None:
    async def first(client: MemoryClient) -> list[dict[str, Any]]:
        await client.chat(said(ANNE))
        await learned(client, "Anne")
        return client.list_all()

    before = with_client(model, tmp_path / "one", first, enable_summarization=False)
    shutil.copytree(tmp_path / "one/entries", tmp_path / "two/entries")

    async def second(client: MemoryClient) -> list[dict[str, Any]]:
        assert any("Anne" in hit["content"] for hit in await client.search(WIFE))
        return client.list_all()

    assert with_client(model, tmp_path / "two", second) == before


# ------------------------------------------------------------------ git
def git(folder: Path, *arguments: str) -> list[str]:
    ran = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


@pytest.mark.covers("A38", "K21", "K22", "K55")
def test_each_turn_is_a_commit(model: Upstream, tmp_path: Path) -> None:
    async def work(client: MemoryClient) -> None:
        await client.chat(said(ANNE))
        await learned(client, "Anne")
        await until(lambda: any("Anne" in line for line in git(tmp_path, "log", "--format=%s")))

    with_client(model, tmp_path, work)
    assert git(tmp_path, "status", "--porcelain") == []
    ignored = (tmp_path / ".gitignore").read_text().split()
    assert {"chroma/", "memory_index.json", "index/"} < set(ignored)
    kept = git(tmp_path, "ls-files", "entries")
    assert kept == [f"entries/{path}" for path in files(tmp_path)]
    assert "memory_index.json" not in git(tmp_path, "ls-files")


@pytest.mark.covers("K24")
def test_without_git_there_is_no_repository(model: Upstream, tmp_path: Path) -> None:
    with_client(model, tmp_path, lambda client: client.add(ANNE), enable_git_versioning=False)
    assert not (tmp_path / ".git").exists() and len(files(tmp_path)) >= 1


# ------------------------------------------------------------------ a folder of records
def test_records_are_not_passed_over_and_perdure_copy_makes_files_of_them(model: Upstream, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    (old / "perdure.toml").write_text(HASHED, encoding="utf-8")

    async def earlier() -> None:
        async with AsyncMemory({"path": old, "embedder": {"provider": "hashed"}}) as memory:
            await memory.add(ANNE, run_id="default")

    asyncio.run(earlier())
    with pytest.raises(ConfigError, match="perdure copy") as raised:
        MemoryClient(old, model.url, embedding_model="hashed")
    assert raised.value.field == "memory_path"
    new.mkdir()
    (new / "perdure.toml").write_text(f'{HASHED}\n[vector_store]\nprovider = "markdown"\n', encoding="utf-8")
    assert perdure("copy", str(new), "--path", str(old)).status == 0

    async def work(client: MemoryClient) -> None:
        assert texts(client) == ["User's wife is named Anne"]
        assert any("Anne" in hit["content"] for hit in await client.search(WIFE))

    with_client(model, new, work)
    assert len(files(new, "default/facts")) == 1


def test_what_is_recalled_brings_no_file_back_that_was_changed_by_hand(model: Upstream, tmp_path: Path) -> None:
    """How often a memory was recalled is counted a moment later, when its file may be another, or gone."""

    async def work(client: MemoryClient) -> None:
        await client.add(ANNE)
        await client.add("I like green tea.")
        await client.search(WIFE)
        engine = client._memory._engine
        engine.access_counts.note((await engine.read.get_all(**_everything())).results)
        gone, edited = sorted((tmp_path / "entries/default/facts").iterdir())
        gone.unlink()
        text = edited.read_text(encoding="utf-8").replace("green tea", "white tea")
        edited.write_text(text, encoding="utf-8")
        await engine.access_counts.write()
        assert not gone.exists() and edited.read_text(encoding="utf-8") == text

    async def run() -> None:
        client = MemoryClient(tmp_path, model.url, embedding_model="hashed", enable_git_versioning=False)
        try:
            await work(client)
        finally:
            await client.stop()
        again = MemoryClient(tmp_path, model.url, embedding_model="hashed", enable_git_versioning=False)
        assert texts(again) == ["User likes white tea"]
        await again.stop()

    asyncio.run(run())


def _everything() -> dict[str, Any]:
    scope = Scope(run_id="default")
    return {
        "scope": scope, "limit": 100, "filters": None, "cursor": None, "as_of": None, "include_past": False,
        "kinds": ("facts",),
    }  # fmt: skip
