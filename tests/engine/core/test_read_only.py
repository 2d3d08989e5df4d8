"""A memory on a disk that may only be read (a mount, since root minds no rights): it is searched, and says so."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory, ReadOnlyError
from perdure.frontends.faults import fault_of
from tests.frontends.cli.runs import HASHED

CONFIG = """
import json, os, sys
from pathlib import Path
from perdure import Memory, PerdureError

folder, provider = Path(sys.argv[1]), sys.argv[2]
place = folder / "memories.db" if provider == "sqlite" else folder
memory = Memory({
    "path": folder,
    "vector_store": {"provider": provider, "config": {"path": place}},
    "embedder": {"provider": "hashed"},
})
"""
READER = f"""{CONFIG}
def refused(call, *arguments, **more):
    try:
        return repr(call(*arguments, **more))
    except PerdureError as error:
        return [type(error).__name__, error.code, str(error)]

found = memory.search("where does Ana live?", user_id="ana")
(item,) = memory.get_all(user_id="ana").results
said = {{
    "found": [each.memory for each in found.results],
    "warnings": found.warnings,
    "context": memory.context("where does Ana live?", user_id="ana"),
    "history": [record.event for record in memory.history(item.id)],
    "then": [each.memory for each in memory.get_all(user_id="ana", as_of="2025-02-01").results],
    "refused": {{
        "add": refused(memory.add, "I play the cello.", user_id="ana"),
        "nothing": refused(memory.add, "Hello!", user_id="ana"),
        "facts": refused(memory.add_facts, ["User plays the cello"], user_id="ana"),
        "update": refused(memory.update, item.id, "User lives in Rome"),
        "delete": refused(memory.delete, item.id),
        "delete_all": refused(memory.delete_all, user_id="ana"),
        "forget": refused(memory.forget, user_id="ana"),
        "undo": refused(memory.undo, memory.history(item.id)[-1].id),
        "reset": refused(memory.reset),
    }},
}}
memory.close()
print(json.dumps(said))
"""
STEPS = """
mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 77
"$3" -W error -c "$4" "$1" "$2"
"""
pytestmark = pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare, as Linux has it")


def read_only(folder: Path, steps: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run steps of a shell in which the folder may only be read."""
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", steps, "sh", str(folder), *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"nothing may be mounted here: {done.stderr}")
    return done


def lived(folder: Path, provider: str) -> Memory:
    place = folder / "memories.db" if provider == "sqlite" else folder
    store: dict[str, Any] = {"provider": provider, "config": {"path": place}}
    memory = Memory({"path": folder, "vector_store": store, "embedder": {"provider": "hashed"}})
    memory.add("I live in Lisbon.", user_id="ana", timestamp="2025-01-01")
    memory.add("I moved to Porto.", user_id="ana", timestamp="2025-03-01")
    return memory


def told(folder: Path, provider: str) -> Any:
    done = read_only(folder, STEPS, provider, sys.executable, READER)
    assert done.returncode == 0, done.stderr
    assert "may only be read" in done.stderr or done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.parametrize("provider", ["sqlite", "markdown"])
def test_it_is_searched_and_every_change_is_refused(tmp_path: Path, provider: str) -> None:
    lived(tmp_path, provider).close()
    files = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    said = told(tmp_path, provider)
    assert said["found"] == ["User moved to Porto"]
    assert said["warnings"] == []
    assert "User moved to Porto" in said["context"]
    assert said["history"] == ["ADD", "UPDATE"]
    assert said["then"] == ["User lives in Lisbon"]
    for what, error in said["refused"].items():
        assert error[:2] == ["ReadOnlyError", "read_only"], what
        assert str(tmp_path) in error[2]
        assert "nothing was changed" in error[2]
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == files


def test_what_another_process_has_just_written_is_read(tmp_path: Path) -> None:
    """It writes through a mount of its own, as a container beside a server does."""
    with lived(tmp_path, "sqlite"):
        assert (tmp_path / "memories.db-wal").stat().st_size
        assert told(tmp_path, "sqlite")["found"] == ["User moved to Porto"]


@pytest.mark.parametrize("index", ["kept", "lost"])
def test_what_a_killed_process_left_in_the_log_is_read(tmp_path: Path, index: str) -> None:
    memory = lived(tmp_path / "live", "sqlite")
    shutil.copytree(tmp_path / "live", tmp_path / "copy")
    memory.close()
    assert (tmp_path / "copy" / "memories.db-wal").stat().st_size
    if index == "lost":
        for file in (tmp_path / "copy").glob("*-shm"):
            file.unlink()
    assert told(tmp_path / "copy", "sqlite")["found"] == ["User moved to Porto"]


def test_the_command_line_searches_and_says_why_it_does_not_write(tmp_path: Path) -> None:
    lived(tmp_path, "sqlite").close()
    (tmp_path / "perdure.toml").write_text(HASHED)
    steps = """
mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 77
"$2" -m perdure.frontends.cli.main search "where does Ana live?" --user-id ana --path "$1" --json || exit 3
"$2" -m perdure.frontends.cli.main add "I play the cello." --user-id ana --path "$1"
"""
    done = read_only(tmp_path, steps, sys.executable)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["results"][0]["memory"] == "User moved to Porto"
    assert f"the memory in {tmp_path} may only be read" in done.stderr


def test_a_server_says_it_as_what_is_not_allowed() -> None:
    fault = fault_of(ReadOnlyError("the memory may only be read"), "facts")
    assert (fault.status, fault.code, fault.message) == (403, "read_only", "the memory may only be read")
