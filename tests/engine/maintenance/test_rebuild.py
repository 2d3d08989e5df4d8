"""A store that is gone or empty while the ledger knows memories: opening says so, and a repair rebuilds them."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.domain.errors import LedgerError, VectorStoreError
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.engine import Engine
from perdure.engine.maintenance.doctor import examine
from perdure.engine.requests import Addition, ForgetRequest
from tests.engine.maintenance.test_doctor import all_rows, kinds, mend
from tests.engine.transfer.transfers import ANA, export, live_a_little, load, run, say
from tests.frontends.cli.runs import HASHED as CLI_HASHED
from tests.frontends.cli.runs import perdure

HASHED: dict[str, Any] = {"embedder": {"provider": "hashed"}}


def lose(folder: Path) -> None:
    """Somebody deletes the store's file, and its log with it."""
    for file in folder.glob("memories.db*"):
        file.unlink()


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return told


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING, "perdure"):
        yield


# ------------------------------------------------------------------ what is told


def test_opening_says_what_is_gone_and_hinders_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, live_a_little)
    assert warnings_of(caplog) == []
    lose(tmp_path)
    with Memory({"path": tmp_path, **HASHED}) as memory:
        found = memory.search("where does Ana live?", user_id="ana")
        assert found.results == []
        told = warnings_of(caplog)
        assert len(told) == 1
        assert str(tmp_path) in told[0]
        assert f"perdure doctor --repair --path {tmp_path}" in told[0]
        assert found.warnings == told
        memory.add("I play the cello.", user_id="ana")
    with Memory({"path": tmp_path, **HASHED}) as memory:  # it is no longer empty, and goes on being told
        assert [item.memory for item in memory.get_all(user_id="ana").results] == ["User plays the cello"]
        assert len(warnings_of(caplog)) == 1


def test_the_command_line_says_it_and_mends_it(tmp_path: Path) -> None:
    run(tmp_path, live_a_little)
    (tmp_path / "perdure.toml").write_text('episodes = "notes"\n' + CLI_HASHED)
    here = ["--json", "--path", str(tmp_path)]
    before = perdure("search", "where do I live?", "--user-id", "ana", *here)
    lose(tmp_path)
    gone = perdure("search", "where do I live?", "--user-id", "ana", *here)
    assert gone.status == 0
    assert gone.json["results"] == []
    assert f"perdure doctor --repair --path {tmp_path}" in gone.err
    looked = perdure("doctor", *here)
    assert looked.status == 1
    assert "gone" in {finding["kind"] for finding in looked.json["findings"]}
    mended = perdure("doctor", "--repair", *here)
    assert (mended.status, mended.json["findings"]) == (0, [])
    after = perdure("search", "where do I live?", "--user-id", "ana", *here)
    assert after.err == ""
    assert after.json["results"] == before.json["results"] != []


def test_an_empty_store_that_should_be_empty_is_not_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, live_a_little)
    run(tmp_path, lambda engine: engine.forget(ForgetRequest(scope=Scope(user_id="ana"))))
    run(tmp_path, lambda engine: engine.forget(ForgetRequest(scope=Scope(user_id="ben"))))
    assert run(tmp_path, all_rows) == {}
    assert run(tmp_path, examine).healthy
    lose(tmp_path)
    assert run(tmp_path, examine).healthy
    assert warnings_of(caplog) == []


def test_a_folder_that_was_moved_or_copied_is_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path / "a", live_a_little)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "c")
    for name in "bc":
        assert run(tmp_path / name, examine).findings == []
    assert warnings_of(caplog) == []


# ------------------------------------------------------------------ what comes back


@pytest.mark.parametrize("updates", ["in_place", "supersede"])
@pytest.mark.parametrize("episodes", ["keep", "search", "off"])
def test_all_comes_back_as_it_was(tmp_path: Path, updates: str, episodes: str) -> None:
    how: dict[str, Any] = {"updates": updates, "episodes": episodes}

    async def live(engine: Engine) -> None:
        await live_a_little(engine)
        await say(engine, "My sister Nora lives in Rome.")
        await say(engine, "Forget that I am allergic to peanuts.")
        await engine.forget(ForgetRequest(scope=Scope(user_id="ben")))

    run(tmp_path, live, **how)
    rows, past = run(tmp_path, all_rows, **how), export(tmp_path, **how)
    lose(tmp_path)
    before, done, after = run(tmp_path, mend, **how)
    assert kinds(before)["gone"] == 1
    assert done.failed == []
    assert after.findings == []
    assert run(tmp_path, all_rows, **how) == rows
    assert export(tmp_path, **how)[1:] == past[1:]


def test_what_was_forgotten_never_comes_back(tmp_path: Path) -> None:
    secret = "The code of the safe is 4711"

    async def live(engine: Engine) -> None:
        kept = await say(engine, "I live in Lisbon.")
        said = await say(engine, secret, infer=False)
        await engine.revise.update(said[0].id, f"{secret}, still", {})
        await engine.forget(ForgetRequest(scope=Scope(), id=said[0].id))
        gone = await say(engine, "A word that was taken back", infer=False)
        await engine.revise.delete(gone[0].id)
        assert kept

    for updates in ("in_place", "supersede"):
        folder = tmp_path / updates
        run(folder, live, updates=updates)
        rows = run(folder, all_rows, updates=updates)
        lose(folder)
        _, done, after = run(folder, mend, updates=updates)
        assert (done.failed, after.findings) == ([], [])
        assert run(folder, all_rows, updates=updates) == rows
        assert "tuberose" not in json.dumps(export(folder, updates=updates))
        assert b"tuberose" not in (folder / "memories.db").read_bytes()
        with Memory({"path": folder, **HASHED, "updates": updates}) as memory:
            texts = [item.memory for item in memory.get_all(user_id="ana").results]
        assert texts == ["User lives in Lisbon"]


def test_what_was_added_since_stays_beside_what_comes_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, live_a_little)
    rows = run(tmp_path, all_rows)
    lose(tmp_path)
    run(tmp_path, lambda engine: say(engine, "I play the cello."))
    since = run(tmp_path, all_rows)
    _, done, after = run(tmp_path, mend)
    assert (done.failed, after.findings) == ([], [])
    assert run(tmp_path, all_rows) == rows | since
    warnings_of(caplog)
    assert run(tmp_path, examine).healthy
    assert warnings_of(caplog) == []


def test_of_a_restored_memory_the_texts_come_back(tmp_path: Path) -> None:
    run(tmp_path / "a", live_a_little)
    load(tmp_path / "b", export(tmp_path / "a"))
    with Memory({"path": tmp_path / "b", **HASHED}) as memory:
        before = {item.id: (item.memory, item.scope) for item in memory.get_all(user_id="ana").results}
    lose(tmp_path / "b")
    _, done, after = run(tmp_path / "b", mend)
    assert (done.failed, after.findings) == ([], [])
    with Memory({"path": tmp_path / "b", **HASHED}) as memory:
        assert {item.id: (item.memory, item.scope) for item in memory.get_all(user_id="ana").results} == before


def test_repairing_twice_is_repairing_once(tmp_path: Path) -> None:
    run(tmp_path, live_a_little)
    lose(tmp_path)
    run(tmp_path, mend)
    rows = run(tmp_path, all_rows)
    before, done, _ = run(tmp_path, mend)
    assert (before.findings, done.done, done.failed) == ([], [], [])
    assert run(tmp_path, all_rows) == rows


KILLED = """
import os, sys
from perdure import Memory
from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore

memory = Memory({"path": sys.argv[1], "embedder": {"provider": "hashed"}})
memory.add("I live in Lisbon.", user_id="ana")

async def killed(*arguments):
    os._exit(9)

SqliteVectorStore.apply = killed
memory.add("I play the cello.", user_id="ana")
"""


def test_what_was_on_its_way_into_the_store_that_is_gone_comes_too(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == 9
    lose(tmp_path)
    run(tmp_path, mend)
    with Memory({"path": tmp_path, **HASHED}) as memory:
        texts = [item.memory for item in memory.get_all(user_id="ana").results]
    assert texts == ["User lives in Lisbon", "User plays the cello"]


# ------------------------------------------------------------------ a process that has it open


def test_a_store_that_is_deleted_while_it_is_open_takes_no_more(tmp_path: Path) -> None:
    told = {"path": tmp_path, **HASHED}
    memory = Memory(told)
    memory.add("I live in Lisbon.", user_id="ana")
    lose(tmp_path)
    with pytest.raises(VectorStoreError, match=r"removed or replaced .* open it again; nothing was changed"):
        memory.add("I play the cello.", user_id="ana")
    memory.close()
    run(tmp_path, mend)
    with Memory(told) as memory:
        assert [item.memory for item in memory.get_all(user_id="ana").results] == ["User lives in Lisbon"]
        memory.add("I play the cello.", user_id="ana")
        assert len(memory.get_all(user_id="ana").results) == 2


# ------------------------------------------------------------------ a ledger of several stores


def test_what_another_store_holds_is_not_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def store(name: str) -> dict[str, Any]:
        place = {"provider": "sqlite", "config": {"path": tmp_path / name / "memories.db"}}
        return {**HASHED, "vector_store": place, "history": {"db_path": tmp_path / "history.db"}}

    with Memory(store("a")) as memory:
        memory.add("I live in Lisbon.", user_id="ana")
    with Memory(store("b")) as memory:
        assert memory.search("where", user_id="ana").warnings == []
        memory.add("I play the cello.", user_id="ben")
    assert warnings_of(caplog) == []
    before, done, _ = run(tmp_path, mend, **store("b"))
    assert kinds(before) == {"absent": 1}
    assert before.healthy
    assert done.done == []
    lose(tmp_path / "a")
    with Memory(store("a")) as memory:
        memory.get_all(user_id="ana")
    assert len(warnings_of(caplog)) == 1
    run(tmp_path, mend, **store("a"))
    with Memory(store("a")) as memory:
        assert [item.memory for item in memory.get_all(user_id="ana").results] == ["User lives in Lisbon"]


# ------------------------------------------------------------------ memories that are files


@pytest.mark.parametrize("gone", [["entries"], ["entries", "index", "memory_index.json"], ["index"]])
def test_files_that_are_gone_are_written_anew(
    tmp_path: Path, gone: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    told = {**HASHED, "path": tmp_path, "vector_store": {"provider": "markdown", "config": {"path": tmp_path}}}

    def texts() -> list[tuple[str, str]]:
        with Memory(told) as memory:
            assert memory.search("where?", user_id="ana").warnings == []
            return [(item.id, item.memory) for user in ("ana", "ben") for item in memory.get_all(user_id=user).results]

    with Memory(told) as memory:
        for text in "I live in Lisbon.", "I moved to Porto.":
            memory.add(text, user_id="ana")
        memory.add("I have a cat called Miso.", user_id="ben")
    before, files = texts(), {file.name for file in (tmp_path / "entries").rglob("*.md")}
    for name in gone:
        place = tmp_path / name
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    if gone != ["index"]:  # which is made anew from the files, and no loss
        with Memory(told) as memory:
            (warning,) = memory.search("where?", user_id="ana").warnings
        assert f"perdure doctor --repair --path {tmp_path}" in warning
        assert warnings_of(caplog) == [warning]
        before_mending, done, after = run(tmp_path, mend, vector_store=told["vector_store"])
        assert "gone" in kinds(before_mending)
        assert (done.failed, [finding for finding in after.findings if not finding.notice]) == ([], [])
    with Memory(told) as memory:
        memory.add("I play the cello.", user_id="carl")
    assert texts() == before
    assert {file.name for file in (tmp_path / "entries").rglob("*.md")} >= files


def test_nothing_is_forgotten_where_the_ledger_cannot_be_opened(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with Memory({"path": str(folder), **HASHED}) as memory:
        memory.add("My PIN is 4711", user_id="ana")
    (folder / "history.db").rename(tmp_path / "aside.db")
    (folder / "history.db").mkdir()
    with Memory({"path": str(folder), **HASHED}) as memory:
        with pytest.raises(LedgerError):
            memory.forget(user_id="ana")
        assert [item.memory for item in memory.get_all(user_id="ana").results] == ["User's PIN is 4711"]


def test_messages_of_what_was_deleted_are_not_made_searchable(tmp_path: Path) -> None:
    """While messages were not searched, a deletion left them in sight."""

    async def lived(engine: Engine) -> None:
        [code] = await say(engine, "My locker code is 4417.")
        answer = [Message("assistant", "Noted: your locker code is 4417.")]
        await engine.write.add(Addition(messages=answer, scope=ANA))
        [dog] = await say(engine, "My dog is called Rex.")
        await engine.revise.delete(code.id)
        await engine.revise.delete(dog.id)
        await engine.revise.undo((await engine.read.history(dog.id))[-1].id)
        await say(engine, "I have a cat called Miso.")
        await say(engine, "I no longer have a cat called Miso.")

    run(tmp_path, lived, episodes="notes")
    lose(tmp_path)
    run(tmp_path, mend, episodes="words")
    rows = run(tmp_path, all_rows, episodes="words").values()
    assert {row["memory"] for row in rows if row["kind"] == "messages"} == {
        "My dog is called Rex.",
        "I have a cat called Miso.",
        "I no longer have a cat called Miso.",
    }
