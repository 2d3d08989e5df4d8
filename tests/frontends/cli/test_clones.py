"""A memory in files on another machine: a clone or a copy of the folder opens as what it is, and is sound."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from perdure import Memory
from perdure.engine.config.config import IN_FILES, read_folder
from perdure.frontends.cli.open_memory import read_settings
from perdure.frontends.library.portal import PORTAL
from tests.backends.git.folders import git
from tests.frontends.cli.runs import Folder, perdure


@pytest.fixture(autouse=True)
def hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedder comes from the environment, as settings do not come with a clone."""
    monkeypatch.setenv("PERDURE_EMBEDDER__PROVIDER", "hashed")


@pytest.fixture
def at(tmp_path: Path) -> Folder:
    """A memory that `init` has set up, with an update in it."""
    memory = Folder(tmp_path / "memory")
    assert memory("init", "--store", "markdown").status == 0
    for text in ("I live in Oslo", "I moved to Bergen", "I have a dog named Rex"):
        assert memory("add", text, "--user-id", "ana").status == 0
    return memory


FACTS = ["User moved to Bergen", "User has a dog named Rex"]


def kinds(at: Folder) -> list[str]:
    return [finding["kind"] for finding in at("doctor", "--json").json["findings"]]


def test_init_writes_what_memories_in_files_are_opened_with(at: Folder) -> None:
    told = tomllib.loads((at.path / "perdure.toml").read_text(encoding="utf-8"))
    assert told["vector_store"]["provider"] == "markdown"
    assert {name: told[name] for name in ("updates", "episodes")} == {"updates": "supersede", "episodes": "search"}
    assert len(list(at.path.glob("entries/*/facts/*.md"))) == 2
    assert len(list(at.path.glob("entries/*/deleted/facts/*.md"))) == 1
    assert not (at.path / "memories.db").exists()


@pytest.mark.parametrize("store", ["redis", "cached", "qdrant"])
def test_init_writes_the_settings_of_any_store(tmp_path: Path, store: str) -> None:
    assert perdure("init", "--path", str(tmp_path), "--store", store).status == 0
    told = tomllib.loads((tmp_path / "perdure.toml").read_text(encoding="utf-8"))
    assert told["vector_store"] == {"provider": store, "config": {}}
    assert "updates" not in told


def test_init_refuses_a_store_that_there_is_not(tmp_path: Path) -> None:
    ran = perdure("init", "--path", str(tmp_path / "new"), "--store", "markdwn")
    assert (ran.status, "'markdown'" in ran.err) == (2, True)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("way", ["clone", "copy"])
def test_another_machine_reads_searches_and_goes_on(at: Folder, tmp_path: Path, way: str) -> None:
    if way == "clone":
        git(tmp_path, "clone", "-q", "memory", "elsewhere")
    else:
        shutil.copytree(at.path / "entries", tmp_path / "elsewhere" / "entries")
    other = Folder(tmp_path / "elsewhere")
    assert not (other.path / "perdure.toml").exists()
    assert other.texts() == FACTS
    assert other.ask("search", "dog Rex", "--user-id", "ana")["results"] != []
    if way == "clone":
        assert other("log").out == at("log").out
    assert other("add", "I moved to Turin", "--user-id", "ana").out.startswith("UPDATE\tUser moved to Turin\tUser mov")
    assert other("log", "-n", "1").out.splitlines()[0].endswith("  User's home: Bergen → Turin")
    assert not (other.path / "memories.db").exists()


def test_a_clone_is_sound_and_mending_it_takes_nothing_away(at: Folder, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "memory", "elsewhere")
    other = Folder(tmp_path / "elsewhere")
    files = {path: path.read_bytes() for path in other.path.glob("entries/**/*.md")}
    assert kinds(other) == ["elsewhere"]
    mended = other("doctor", "--repair")
    assert (mended.status, mended.out.count("\n")) == (0, 1)
    assert {path: path.read_bytes() for path in other.path.glob("entries/**/*.md")} == files
    assert git(other.path, "status", "--short") == ""


def test_doctor_is_content_after_a_pull_on_either_side(at: Folder, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", "memory", "remote.git")
    git(at.path, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(tmp_path, "clone", "-q", "remote.git", "elsewhere")
    other = Folder(tmp_path / "elsewhere")
    assert other("add", "I moved to Turin", "--user-id", "ana").status == 0
    assert other("push").status == 0
    assert kinds(at) == []
    assert at("pull").out.startswith("User's home: Bergen → Turin")
    assert at("doctor").status == other("doctor").status == 0
    assert kinds(at) in ([], ["elsewhere"])
    assert at.texts() == other.texts()


def test_messages_that_stayed_on_the_other_machine_are_no_fault(at: Folder, tmp_path: Path) -> None:
    shutil.copytree(at.path / "entries", tmp_path / "elsewhere" / "entries")
    for turns in (tmp_path / "elsewhere").glob("entries/*/turns"):
        shutil.rmtree(turns)
    other = Folder(tmp_path / "elsewhere")
    found = other.ask("doctor")
    assert found["healthy"]
    (finding,) = found["findings"]
    assert (finding["kind"], finding["notice"], finding["repairable"]) == ("elsewhere", True, False)
    assert finding["sentence"].startswith("3 memories came as files")


def test_what_is_lost_of_a_memory_made_here_is_a_fault(at: Folder) -> None:
    for file in at.path.glob("entries/*/turns/**/*.md"):
        if "Rex" in file.read_text(encoding="utf-8"):
            file.unlink()
    with Memory(read_settings(at.path)) as memory:
        (rex,) = [item for item in memory.get_all(user_id="ana").results if "Rex" in item.memory]
        ledger = memory._memory._engine.kernel.ledger
        assert ledger is not None
        PORTAL.call(ledger.erase([], list(rex.sources)))
    assert kinds(at) == ["source"]


def test_a_folder_is_opened_by_what_lies_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_folder(tmp_path).vector_store.provider == "sqlite"
    (tmp_path / "entries").mkdir()
    config = read_folder(tmp_path)
    assert (config.vector_store.provider, config.updates, config.episodes) == ("markdown", "supersede", "search")
    assert (config.path, config.embedder.provider) == (tmp_path, "hashed")
    with Memory.local(tmp_path) as memory:
        assert memory.config == config
    monkeypatch.setenv("PERDURE_UPDATES", "in_place")
    assert read_folder(tmp_path).updates == "in_place"
    monkeypatch.setenv("PERDURE_VECTOR_STORE__PROVIDER", "memory")
    assert read_folder(tmp_path).vector_store.provider == "memory"
    monkeypatch.delenv("PERDURE_VECTOR_STORE__PROVIDER")
    (tmp_path / "memories.db").touch()
    assert read_folder(tmp_path).vector_store.provider == "sqlite"
    assert IN_FILES["vector_store"] == {"provider": "markdown"}


def test_settings_of_the_folder_go_before_what_lies_there(tmp_path: Path) -> None:
    (tmp_path / "entries").mkdir()
    (tmp_path / "perdure.toml").write_text("", encoding="utf-8")
    assert Folder(tmp_path).said("I live in Oslo")
    assert (tmp_path / "memories.db").exists()


def test_init_in_a_clone_writes_that_it_is_files(at: Folder, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "memory", "elsewhere")
    other = Folder(tmp_path / "elsewhere")
    assert other("init").status == 0
    assert 'provider = "markdown"' in (other.path / "perdure.toml").read_text(encoding="utf-8")
    assert other.texts() == FACTS
    assert git(other.path, "status", "--short") == ""
